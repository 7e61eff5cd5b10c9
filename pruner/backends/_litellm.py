"""litellm, kept from what it does on the side: fetch, print, call back, and leave connections open."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from inspect import isawaitable
from typing import Any

import openai

from pruner.backends._loops import PerLoop
from pruner.errors import ConfigError

__all__ = ["Library", "module"]

# Without these it fetches prices and lists, some within a call, and takes a .env file into the environment.
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_OFFLINE_MODE": "true",
    "LITELLM_MODE": "PRODUCTION",
}
_NO_SWITCH = ContextVar("_NO_SWITCH", default=False)


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

    async def complete(self, **arguments: Any) -> dict[str, Any]:
        """Ask once, and return the answer in the format of chat completions.

        Raises:
            Exception: one of the `faults`.
        """
        await _LOOPS.get()
        with _on(self._unlogged):
            answer = await self.litellm.acompletion(**arguments, num_retries=0, max_retries=0, drop_params=False)
        body: dict[str, Any] = answer.model_dump(warnings=False)
        return body

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
def _on(switch: ContextVar[bool]) -> Iterator[None]:
    token = switch.set(True)
    try:
        yield
    finally:
        switch.reset(token)


async def _close_clients(litellm: Any) -> None:
    """Close the clients that litellm made for the running loop, which ends; it would leave them open."""
    cache = litellm.in_memory_llm_clients_cache
    mine = cache.update_cache_key_with_event_loop("")
    for key in [key for key in cache.cache_dict if key.endswith(mine)]:
        closing = cache.cache_dict.pop(key).close()
        if isawaitable(closing):
            await closing


_LOOPS = PerLoop(lambda: module("litellm"), _close_clients)
