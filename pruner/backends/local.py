"""A small model inside the process, by llama.cpp (`xllamacpp`). A model for demos and CI, not a judge of the method."""

import asyncio
import ctypes
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx2

from pruner.backends._loops import PerLoop
from pruner.backends.calibration import levels_of
from pruner.backends.faults import from_status
from pruner.backends.modelstore import model_path
from pruner.config import PrunerConfig
from pruner.errors import BackendError, ConfigError, Reason
from pruner.schema import GradingRequest, RawGrading, Usage

__all__ = ["LocalBackend", "Progress", "start_server"]

Progress = Callable[[int, int], None]
Tokens = list[int]
T = TypeVar("T")

_CONTEXT = 16_384
_MEMORY_MIB = 512
_ALTERNATIVES = 40
_SYSTEM, _USER = "<<system>>", "<<user>>"
_FLOOR = 1e-6


class LocalBackend:
    """Reads the list once, then asks a yes/no question about each chunk and weighs the two words' probabilities.

    All backends of one file share the model, which is in memory once, and goes with the last of them.

    Args:
        model: a GGUF file.
        progress: called with (steps done, steps in all) while a list is graded.

    Attributes:
        input_tokens: how long a list it can read.

    Raises:
        ConfigError: the extra `local` is not installed, or the model cannot be loaded.
    """

    input_tokens = 16_000

    def __init__(self, model: Path, *, progress: Progress | None = None) -> None:
        self._progress = progress or (lambda done, total: None)
        self._model = loaded = _load(model.resolve())
        self._slots = PerLoop(lambda: _Slot(loaded.url), _Slot.aclose)

    @classmethod
    def from_config(cls, config: PrunerConfig, *, progress: Progress | None = None) -> "LocalBackend":
        """Load the model that `local:NAME` or `local:/path/to.gguf` names."""
        if config.readout != "probe":
            raise ConfigError("a local: model is read by readout='probe'")
        return cls(model_path(config.model_name), progress=progress)

    async def grade(self, request: GradingRequest) -> RawGrading:
        """Ask once; see `Backend.grade`. Lists are taken one at a time: they share one memory of what was read."""
        readings, usage = await self.read(request)
        return RawGrading(levels=levels_of(readings), usage=usage)

    async def read(self, request: GradingRequest) -> tuple[list[float], Usage]:
        """Return the log odds that each chunk is needed, before they are put on the scale of the levels."""
        if request.probe is None:
            raise ConfigError("a local: model is read by readout='probe'")
        self._model.check_alive()
        slot = await self._slots.get()
        async with self._model.turn():
            return await _Session(slot, self._model.frame, request, self._progress).read()

    async def aclose(self) -> None:
        """Close the connections of the running loop; the model goes with the last backend that has it."""
        await self._slots.aclose()


class _Model:
    """A model in memory, behind a server in threads of this process."""

    def __init__(self, file: Path) -> None:
        self.server = start_server(file)
        self.url = self.server.listening_address
        self.frame = _chat_frame(self.url)
        self._pid = os.getpid()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def turn(self) -> asyncio.Lock:
        """Return what the lists of the running loop wait for: they share one memory of what was read."""
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    def check_alive(self) -> None:
        """A forked process asks its parent's server; refuse to wait for one whose process has ended.

        Raises:
            BackendError: it has.
        """
        if self._pid not in (os.getpid(), os.getppid()):
            raise BackendError(Reason.PROVIDER_ERROR, "the process that loaded the model, and forked this one, is gone")


_loaded: WeakValueDictionary[Path, _Model] = WeakValueDictionary()
_loading = Lock()
# The process that first loaded one.
_loader: int | None = None


def _load(file: Path) -> _Model:
    with _loading:
        model = _loaded.get(file)
        if model is None:
            model = _loaded[file] = _Model(file)
        return model


def _leave_to_parent() -> None:
    """In a forked process, take no server down: destructors would wait for ever for threads that are not there."""
    global _loading
    _loading = Lock()
    for model in _loaded.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(model.server))
    libc = ctypes.CDLL(None)
    if _loader is not None and hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)  # Before the destructors of the library's own.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class _Session:
    """The grading of one list."""

    def __init__(self, slot: "_Slot", frame: Sequence[str], request: GradingRequest, progress: Progress) -> None:
        assert request.probe is not None
        self._slot, self._frame, self._progress = slot, frame, progress
        self._system, self._probe = request.system, request.probe
        self._steps = len(self._probe.chunks) + len(self._probe.questions)
        self._done = 0
        self._usage = Usage(calls=1)

    async def read(self) -> tuple[list[float], Usage]:
        before, between, self._answer = [await self._slot.tokens(part, special=True) for part in self._frame]
        head = [*before, *await self._slot.tokens(self._system), *between]
        list_read = [*head, *await self._slot.tokens(self._probe.opening)]
        for chunk in self._probe.chunks:
            list_read += await self._slot.tokens(chunk)
            await self._step(list_read)
        return [await self._ask(list_read, question) for question in self._probe.questions], self._usage

    async def _ask(self, context: Tokens, question: str) -> float:
        """Return the log odds of yes."""
        return _log_odds(await self._step([*context, *await self._slot.tokens(question), *self._answer]))

    async def _step(self, prompt: Tokens) -> Mapping[str, float]:
        word, read, cached = await self._slot.next_token(prompt)
        total = self._usage
        self._usage = Usage(total.input_tokens + read, total.output_tokens + 1, total.cached_tokens + cached, calls=1)
        self._done += 1
        self._progress(self._done, self._steps)
        return word


class _Slot:
    """One event loop's connection to the model."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.AsyncClient(base_url=url, timeout=None, trust_env=False)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def tokens(self, text: str, *, special: bool = False) -> Tokens:
        """Turn text into tokens; only the frame of the chat may hold control tokens, so that no chunk can forge one."""
        return await self._post(
            "/tokenize", lambda body: list(body["tokens"]), content=text, add_special=False, parse_special=special
        )

    async def next_token(self, prompt: Tokens) -> tuple[Mapping[str, float], int, int]:
        """Read a prompt; what was read before is remembered.

        Returns:
            The probabilities of the token that comes next, how many tokens the prompt has, how many were remembered.
        """
        word, cached = await self._post(
            "/completion", _word, prompt=prompt, n_predict=1, n_probs=_ALTERNATIVES, cache_prompt=True, temperature=0
        )
        return word, len(prompt), cached

    async def _post(self, path: str, take: Callable[[Any], T], **body: Any) -> T:
        try:
            response = await self._client.post(path, json=body)
            content = response.json()
            if response.is_success:
                return take(content)
        except (httpx2.HTTPError, LookupError, TypeError, ValueError) as error:
            raise BackendError(Reason.PROVIDER_ERROR, type(error).__name__) from error
        raise from_status(response.status_code, content)


def _word(body: Any) -> tuple[Mapping[str, float], int]:
    """Take the probabilities of the next token and the number of tokens remembered."""
    alternatives = body["completion_probabilities"][0]["top_logprobs"]
    return {a["token"]: math.exp(a["logprob"]) for a in alternatives}, body["timings"]["cache_n"]


def start_server(model: Path, port: int = 0) -> Any:
    """Load a model behind a server on this machine; port 0 is a free one."""
    global _loader
    if _loader not in (None, os.getpid()):
        raise ConfigError(
            "a process forked from one that has loaded a local: model cannot load another; load it before the fork, "
            "or start processes by spawn"
        )
    # Its threads would spin while they wait, and slow down every other process tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import xllamacpp
    except ModuleNotFoundError:
        raise ConfigError('local: models need another package: pip install "listwise-pruner[local]"') from None
    except ImportError as error:  # It is there, and a library of the system is not.
        hint = "; on Debian: apt install libgomp1" if "libgomp" in str(error) else ""
        raise ConfigError(f"local: models cannot be run here: {error}{hint}") from None
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel, params.n_batch = _CONTEXT, 1, 512
    params.cache_ram_mib = _MEMORY_MIB
    params.cpuparams.n_threads = os.cpu_count() or 1
    params.hostnames, params.port = ["127.0.0.1"], port
    params.verbosity = -1
    _loader = os.getpid()
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise ConfigError(
            f"cannot load the model {model}: {error}; if it is one of ours, `pruner model pull` checks it and mends it"
        ) from None


def _chat_frame(url: str) -> tuple[str, str, str]:
    """Ask the model's own chat template what stands before the system text, between it and the user's, and after."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
    with httpx2.Client(base_url=url, timeout=60, trust_env=False) as client:
        prompt = client.post("/apply-template", json={"messages": messages}).raise_for_status().json()["prompt"]
    before, _, rest = prompt.partition(_SYSTEM)
    between, _, after = rest.partition(_USER)
    return before, between, after


def _log_odds(words: Mapping[str, float]) -> float:
    yes, no = (sum(p for word, p in words.items() if word.strip().lower() == wanted) for wanted in ("yes", "no"))
    return math.log((yes + _FLOOR) / (no + _FLOOR))
