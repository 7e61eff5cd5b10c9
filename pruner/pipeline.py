"""The pruner: prepare, grade, select, pack."""

import asyncio
import contextvars
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any, Self, TypeVar

from pruner.assembly import assemble, prepare
from pruner.backends import Backend, ClosableBackend, make_backend
from pruner.config import PrunerConfig
from pruner.errors import ConfigError, Reason, RequestError
from pruner.fitting import Fit, fit
from pruner.grading import Answer, ask
from pruner.preparation import to_chunks
from pruner.prices import context_window, make_pricer, unpriced
from pruner.prompting import build_request, load_prompt
from pruner.schema import Candidate, Chunk, Grading, PruneResult, Status, Usage
from pruner.tokens import TokenCounter

__all__ = ["Pruner", "check_texts", "prune", "prune_sync"]

_log = logging.getLogger("pruner")
# Of a context window, left for the answer.
_ROOM_FOR_REPLY = 8_192
_NO_ROOM = Answer(Status.FALLBACK, Reason.CONTEXT_OVERFLOW, "not one chunk fits into the prompt", None, None, Usage())

T = TypeVar("T")
R = TypeVar("R")


class Pruner:
    """Prunes retrieved chunks by one listwise grading each time. Made once, used concurrently and from any event loop.

    Everything slow is loaded here: the provider's SDK or model, the token table, the prompt.

    Args:
        config: the dials; defaults to `PrunerConfig()`.
        backend: whom to ask, instead of the one `config.model` names; its owner closes it.

    Raises:
        ConfigError: a key, an extra, a prompt or a model is missing.
    """

    def __init__(self, config: PrunerConfig | None = None, *, backend: Backend | None = None) -> None:
        self.config = config or PrunerConfig()
        self._prompt = load_prompt(self.config.prompt)
        if self._prompt.readout != self.config.readout:
            raise ConfigError(f"prompt {self.config.prompt!r} is for readout {self._prompt.readout!r}")
        self._system = build_request(self._prompt, self.config, "warm up", [Candidate(0, Chunk(text="x"), "x")]).system
        self._counter = TokenCounter()
        # A server of one's own has its own prices, whatever its model is called.
        self._price = unpriced if self.config.base_url else make_pricer(self.config.prefix, self.config.model_name)
        self._owned = backend is None
        self._backend = make_backend(self.config) if backend is None else backend
        self._budget = _input_budget(self.config, self._backend)

    async def prune(self, query: str, chunks: Sequence[T], *, history: Sequence[str] = ()) -> PruneResult[T]:
        """Return what the answer to `query` needs of `chunks`.

        Args:
            query: the question.
            chunks: in reranker order, best first; str, `Chunk`, or mappings with a `text`.
            history: earlier turns of the conversation, oldest first.

        Raises:
            RequestError: the arguments are unusable. Faults of provider, network or model never raise.
        """
        return self.assemble(query, chunks, await self.grade(query, chunks, history=history))

    def prune_sync(self, query: str, chunks: Sequence[T], *, history: Sequence[str] = ()) -> PruneResult[T]:
        """Prune from synchronous code, with or without an event loop running in this thread."""
        return _run_sync(lambda: self.prune(query, chunks, history=history))

    async def grade(self, query: str, chunks: Sequence[T], *, history: Sequence[str] = ()) -> Grading:
        """Ask for the grades: the half that costs money. Its result can be stored and assembled any number of times."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        check_texts(query, history)
        candidates, _ = prepare(_candidates(chunks), self.config)
        if reason := self._not_asked(query, candidates):
            return self._grading(len(chunks), Status.SKIPPED, reason)
        fitted = fit(candidates, self._budget, [self._system, query, query, *history], self._counter)
        shown = self._ordered(fitted.shown)
        answer = _NO_ROOM
        if shown:
            request = build_request(self._prompt, self.config, query, shown, history)
            answer = await ask(self._backend, request, started + self.config.timeout, self._counter)
        latency = loop.time() - started
        if answer.status is Status.FALLBACK:
            self._warn(answer, len(shown), latency)
        return self._graded(len(chunks), Fit(shown, fitted.left_out), answer, latency)

    def assemble(self, query: str, chunks: Sequence[T], grading: Grading | None = None, **dials: Any) -> PruneResult[T]:
        """Select by a grading: the half that is free and deterministic.

        Args:
            query: the question.
            chunks: the same chunks, in the same order, as were graded.
            grading: from `grade()`; None selects by the reranker's order alone.
            dials: other selection dials for this once, such as `threshold=4`.

        Raises:
            RequestError: the grading is of another list.
            ConfigError: a dial is wrong, or no selection dial.
        """
        check_texts(query, ())
        grading = grading or self._grading(len(chunks), Status.FALLBACK, None)
        candidates = _with_grades(_candidates(chunks), grading)
        done = assemble(candidates, grading, self.config.with_dials(**dials), self._counter)
        return PruneResult(
            chunks=[chunks[c.index] for c in done.kept],
            texts=[c.text for c in done.kept],
            decisions=done.decisions,
            status=grading.status,
            reason=grading.reason,
            usage=grading.usage,
            latency=grading.latency,
            trace=done.trace,
            _all_texts=[c.text for c in candidates],
            _counter=self._counter,
        )

    async def aclose(self) -> None:
        """Give back connections and model; can be called again."""
        if self._owned and isinstance(self._backend, ClosableBackend):
            await self._backend.aclose()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()

    def _not_asked(self, query: str, candidates: Sequence[Candidate]) -> Reason | None:
        """Say why a call cannot matter, or is not worth its price."""
        if len(candidates) <= self.config.keep_top_k:
            return Reason.TOO_FEW_CHUNKS
        if not query.strip() or len(candidates) < self.config.min_chunks:
            return Reason.NOT_WORTH_IT
        if self.config.min_tokens and sum(self._counter.count(c.text) for c in candidates) < self.config.min_tokens:
            return Reason.NOT_WORTH_IT
        return None

    def _ordered(self, candidates: list[Candidate]) -> list[Candidate]:
        if self.config.chunk_order == "shuffle":
            return random.Random(self.config.seed).sample(candidates, len(candidates))
        return candidates

    def _warn(self, answer: Answer, n: int, latency: float) -> None:
        _log.warning(
            "fell back to the reranker's order: %s (%s; %s, %d chunks, %.2f s)",
            *(answer.reason, answer.detail, self.config.model, n, latency),
        )

    def _grading(self, n: int, status: Status, reason: Reason | None, **known: Any) -> Grading:
        nothing = (None,) * n
        given = {"grades": nothing, "expected": nothing, "notes": nothing, **known}
        shuffled = self.config.chunk_order == "shuffle"
        return Grading(
            **given,
            status=status,
            reason=reason,
            model=self.config.model,
            prompt=self._prompt.name,
            prompt_sha256=self._prompt.sha256,
            readout=self.config.readout,
            chunk_order=f"shuffle {self.config.seed}" if shuffled else "reranker",
        )

    def _graded(self, n: int, fitted: Fit, answer: Answer, latency: float) -> Grading:
        usage = answer.usage
        if usage.input_tokens or usage.output_tokens:
            usage = replace(usage, cost=self._price(usage))
        known: dict[str, Any] = {"usage": usage, "latency": latency, "reply": answer.raw.text if answer.raw else None}
        status, reason = answer.status, answer.reason
        if answer.sheet:
            indices = [c.index for c in fitted.shown]
            for name in ("grades", "expected", "notes"):
                known[name] = _spread_out(n, indices, getattr(answer.sheet, name))
            if fitted.left_out:
                status, reason = Status.PARTIAL, Reason.MISSING_GRADES
        return self._grading(n, status, reason, left_out=fitted.left_out, **known)


async def prune(query: str, chunks: Sequence[T], *, history: Sequence[str] = (), **dials: Any) -> PruneResult[T]:
    """Prune with the dials from arguments, environment and file (`PrunerConfig.load`); see `Pruner.prune`.

    The pruner of a configuration is made at its first use and kept.
    """
    return await _shared(PrunerConfig.load(**dials)).prune(query, chunks, history=history)


def prune_sync(query: str, chunks: Sequence[T], *, history: Sequence[str] = (), **dials: Any) -> PruneResult[T]:
    """`prune` for synchronous code, with or without an event loop running in this thread."""
    return _run_sync(lambda: prune(query, chunks, history=history, **dials))


_shared = lru_cache(maxsize=8)(Pruner)


def _run_sync(make: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run to its end what `make` returns, in a thread of its own where this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(make())
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: context.run(lambda: _run(make()))).result()


def _run(work: Coroutine[Any, Any, R]) -> R:
    """Do as `asyncio.run()`, but do not wait for the loop's threads: one may hang for minutes in looking up a name."""
    with asyncio.Runner() as runner:
        try:
            return runner.run(work)
        finally:
            loop = runner.get_loop()
            if executor := getattr(loop, "_default_executor", None):
                executor.shutdown(wait=False)
                loop._default_executor = None  # type: ignore[attr-defined]


def _input_budget(config: PrunerConfig, backend: Backend) -> int | None:
    """Return how many tokens a prompt may have: as configured, as the backend says, or as is known of the model."""
    if config.max_input_tokens is not None:
        return config.max_input_tokens
    own = getattr(backend, "input_tokens", None)
    if isinstance(own, int):
        return own
    window = None if config.base_url else context_window(config.prefix, config.model_name)
    return window and max(window - _ROOM_FOR_REPLY, window // 2)


def check_texts(query: object, history: object) -> None:
    """Refuse a query or a history that is no text.

    Raises:
        RequestError: one is not.
    """
    if not isinstance(query, str):
        raise RequestError(f"query must be a str, not {type(query).__name__}")
    if not isinstance(history, Sequence) or isinstance(history, str) or not all(isinstance(h, str) for h in history):
        raise RequestError("history must be a list of str")


def _candidates(chunks: Sequence[T]) -> list[Candidate]:
    return [Candidate(index, chunk, chunk.text) for index, chunk in enumerate(to_chunks(chunks))]


def _with_grades(candidates: Sequence[Candidate], grading: Grading) -> list[Candidate]:
    if len(candidates) != len(grading.grades):
        raise RequestError(f"the grading is of {len(grading.grades)} chunks, not of these {len(candidates)}")
    graded = zip(candidates, grading.grades, grading.expected, strict=True)
    return [replace(c, grade=grade, expected=expected) for c, grade, expected in graded]


def _spread_out(n: int, indices: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Put the values of labels 1.. at their places in the caller's list."""
    at = dict(zip(indices, values, strict=True))
    return tuple(at.get(index) for index in range(n))
