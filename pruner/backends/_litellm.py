"""litellm, kept from what it does on the side: fetch, print, call back, and leave things open."""

import asyncio
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from inspect import isawaitable
from typing import Any, NamedTuple, TypeVar

import openai

from pruner.backends._loops import PerLoop
from pruner.errors import ConfigError

__all__ = ["ANSWERS", "BEGUN", "Answered", "Library", "module", "noting_answers"]

# Without these it fetches prices and lists, some within a call, and takes a .env file into the environment.
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",
}
_NO_SWITCH = ContextVar("_NO_SWITCH", default=False)
# To be set when a call begins to speak.
BEGUN: ContextVar["asyncio.Future[None] | None"] = ContextVar("BEGUN", default=None)

T = TypeVar("T")


class Answered(NamedTuple):
    """What a server answered, as it came: litellm changes statuses, and cannot read every answer."""

    status: int
    content: bytes
    headers: Mapping[str, str]


# What the servers answered in a call, to be added to.
ANSWERS: ContextVar[list[Answered] | None] = ContextVar("ANSWERS", default=None)


class Library:
    """The package, imported.

    Attributes:
        litellm: the module.
        faults: what a call may raise.

    Raises:
        ConfigError: the extra `litellm` is not installed.
    """

    def __init__(self) -> None:
        self.litellm = _load()
        self.faults = _fault_classes(self.litellm)
        self._unlogged = _callback_switch()
        self._calls: set[asyncio.Task[dict[str, Any]]] = set()

    async def complete(self, *, client: object, **arguments: Any) -> dict[str, Any]:
        """Ask once, and return the answer in the format of chat completions.

        Args:
            client: one that speaks through connections that set `BEGUN`; None is litellm's own.
            arguments: of `acompletion`.

        Raises:
            Exception: one of the `faults`.
        """
        await _LOOPS.get()
        begun = asyncio.get_running_loop().create_future()
        with _set(self._unlogged, True), _set(BEGUN, begun):
            call = asyncio.create_task(self._call(client=client, **arguments))
        self._calls.add(call)
        call.add_done_callback(self._ended)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            # Before it begins to speak, litellm works in a thread, and what comes of that must be awaited.
            if client:
                begun.add_done_callback(lambda _: call.cancel())
            else:
                call.cancel()
            raise

    async def _call(self, **arguments: Any) -> dict[str, Any]:
        answer = await self.litellm.acompletion(**arguments, num_retries=0, max_retries=0, drop_params=False)
        body: dict[str, Any] = answer.model_dump(warnings=False)
        return body

    def _ended(self, call: "asyncio.Task[dict[str, Any]]") -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()

    async def settle(self) -> None:
        """Wait for what is left of the running loop's calls that were given up."""
        if left := [call for call in self._calls if call.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(left)
        # litellm leaves a task behind each call, which ends in the loop's next round.
        await asyncio.sleep(0)

    def missing_keys(self, model: str) -> list[str]:
        """Return the variables of which one is surely missing: only a key is, and no other looks like the vendor's."""
        missing: list[str] = self.litellm.validate_environment(model)["missing_keys"]
        vendor = model.partition("/")[0].partition("_")[0].upper()
        like = [name for name in os.environ if name.startswith(vendor) and ("KEY" in name or "TOKEN" in name)]
        return missing if not like and all(name.endswith("_API_KEY") for name in missing) else []


def module(name: str) -> Any:
    """Import a part of it."""
    return import_module(name)


def _load() -> Any:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            litellm = module("litellm")
    except ImportError as error:
        raise ConfigError("a litellm: model needs an extra: pip install 'listwise-pruner[litellm]'") from error
    litellm.suppress_debug_info = True
    return litellm


def _fault_classes(litellm: Any) -> tuple[type[Exception], ...]:
    import httpx

    base = module("litellm.llms.base_llm.chat.transformation").BaseLLMException
    named = [c for c in vars(litellm.exceptions).values() if isinstance(c, type) and issubclass(c, Exception)]
    own = [c for c in named if c.__module__.startswith("litellm")]
    return (openai.OpenAIError, httpx.HTTPError, httpx.StreamError, base, *own)


def _callback_switch() -> ContextVar[bool]:
    """Return what keeps litellm's callbacks from a call: their queue outlives the event loop, and says so on stderr."""
    with suppress(ImportError):
        switch: ContextVar[bool] = getattr(module("litellm._internal_context"), "is_internal_call", _NO_SWITCH)
        return switch
    return _NO_SWITCH


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def noting_answers() -> Iterator[list[Answered]]:
    """Note what servers answer within, over connections of ours."""
    answers: list[Answered] = []
    with _set(ANSWERS, answers):
        yield answers


async def _close_clients(litellm: Any) -> None:
    """Close the clients that litellm made for the running loop, which ends; it would leave them open."""
    cache = litellm.in_memory_llm_clients_cache
    mine = cache.update_cache_key_with_event_loop("")
    for key in [key for key in cache.cache_dict if key.endswith(mine)]:
        closing = cache.cache_dict.pop(key).close()
        if isawaitable(closing):
            await closing


_LOOPS = PerLoop(lambda: module("litellm"), _close_clients)
