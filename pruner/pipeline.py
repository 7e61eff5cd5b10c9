"""The pruner: prepare, grade, select, pack."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any, Self, TypeVar

from pruner.backends import Backend, ClosableBackend, make_backend
from pruner.config import PrunerConfig
from pruner.errors import ConfigError, Reason, RequestError
from pruner.grading import Answer, ask
from pruner.packing import MaxChunks, TokenCap
from pruner.preparation import MinScore, to_chunks
from pruner.prices import make_pricer
from pruner.prompting import build_request, load_prompt
from pruner.schema import (
    Candidate,
    Chunk,
    Decision,
    Grading,
    PruneResult,
    StageTrace,
    Status,
    Trace,
)
from pruner.selection import FallbackTopN, KeepAll, Threshold
from pruner.stages import Stage, run_stages
from pruner.tokens import TokenCounter

__all__ = ["Pruner", "prune", "prune_sync"]

_log = logging.getLogger("pruner")

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
        build_request(self._prompt, self.config, "warm up", [Candidate(0, Chunk(text="x"), "x")])
        self._counter = TokenCounter()
        self._price = make_pricer(self.config.prefix, self.config.model_name)
        self._owned = backend is None
        self._backend = make_backend(self.config) if backend is None else backend

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
        _check_texts(query, history)
        candidates, _ = run_stages(_candidates(chunks), self._preparation(self.config))
        if reason := self._not_asked(query, candidates):
            return self._grading(len(chunks), Status.SKIPPED, reason)
        request = build_request(self._prompt, self.config, query, candidates, history)
        answer = await ask(self._backend, request, started + self.config.timeout)
        latency = loop.time() - started
        if answer.status is Status.FALLBACK:
            _log.warning(
                "fell back to the reranker's order: %s (%s; %s, %d chunks, %.2f s)",
                answer.reason, answer.detail, self.config.model, len(candidates), latency,
            )  # fmt: skip
        return self._graded(len(chunks), candidates, answer, latency)

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
        _check_texts(query, ())
        config = self.config.with_dials(**dials)
        grading = grading or self._grading(len(chunks), Status.FALLBACK, None)
        candidates = _with_grades(_candidates(chunks), grading)
        prepared, before = run_stages(candidates, self._preparation(config))
        kept, after = run_stages(prepared, self._selection(config, grading.status))
        return self._result(chunks, candidates, kept, (*before, *after), grading, config)

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

    def _preparation(self, config: PrunerConfig) -> list[Stage]:
        return [] if config.min_score is None else [MinScore(config.min_score, config.keep_top_k)]

    def _selection(self, config: PrunerConfig, status: Status) -> list[Stage]:
        stages: list[Stage]
        if status is Status.SKIPPED:
            stages = [KeepAll()]
        elif status is Status.FALLBACK:
            stages = [FallbackTopN(config.fallback_top_n)]
        else:
            stages = [Threshold(config.threshold, config.keep_top_k, use_expected=config.scoring == "expected")]
        if config.max_chunks is not None:
            stages.append(MaxChunks(config.max_chunks, config.keep_top_k))
        if config.token_cap is not None:
            stages.append(TokenCap(config.token_cap, config.keep_top_k, self._counter))
        return stages

    def _not_asked(self, query: str, candidates: Sequence[Candidate]) -> Reason | None:
        """Say why a call cannot matter, or is not worth its price."""
        if len(candidates) <= self.config.keep_top_k:
            return Reason.TOO_FEW_CHUNKS
        if not query.strip() or len(candidates) < self.config.min_chunks:
            return Reason.NOT_WORTH_IT
        if self.config.min_tokens and sum(self._counter.count(c.text) for c in candidates) < self.config.min_tokens:
            return Reason.NOT_WORTH_IT
        return None

    def _grading(self, n: int, status: Status, reason: Reason | None, **known: Any) -> Grading:
        nothing = (None,) * n
        given = {"grades": nothing, "expected": nothing, "notes": nothing, **known}
        return Grading(
            **given,
            status=status,
            reason=reason,
            model=self.config.model,
            prompt=self._prompt.name,
            prompt_sha256=self._prompt.sha256,
            readout=self.config.readout,
        )

    def _graded(self, n: int, candidates: Sequence[Candidate], answer: Answer, latency: float) -> Grading:
        usage = replace(answer.usage, cost=self._price(answer.usage))
        known: dict[str, Any] = {"usage": usage, "latency": latency, "reply": answer.raw.text if answer.raw else None}
        if answer.sheet:
            indices = [c.index for c in candidates]
            known["grades"] = _spread_out(n, indices, answer.sheet.grades)
            known["expected"] = _spread_out(n, indices, answer.sheet.expected)
            known["notes"] = _spread_out(n, indices, answer.sheet.notes)
        return self._grading(n, answer.status, answer.reason, **known)

    def _result(
        self,
        chunks: Sequence[T],
        candidates: Sequence[Candidate],
        kept: Sequence[Candidate],
        stages: tuple[StageTrace, ...],
        grading: Grading,
        config: PrunerConfig,
    ) -> PruneResult[T]:
        in_order = sorted(kept, key=lambda c: c.index)
        return PruneResult(
            chunks=[chunks[c.index] for c in in_order],
            texts=[c.text for c in in_order],
            decisions=_decisions(candidates, kept, stages, grading),
            status=grading.status,
            reason=grading.reason,
            usage=grading.usage,
            latency=grading.latency,
            trace=_trace(grading, config, stages),
            _all_texts=[c.text for c in candidates],
            _counter=self._counter,
        )


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
        return asyncio.run(make())
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: context.run(lambda: asyncio.run(make()))).result()


def _check_texts(query: object, history: object) -> None:
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


def _decisions(
    candidates: Sequence[Candidate], kept: Sequence[Candidate], stages: Sequence[StageTrace], grading: Grading
) -> tuple[Decision, ...]:
    keepers = {c.index: str(c.by) for c in kept}
    droppers = {index: reason for stage in stages for index, reason in stage.dropped.items()}
    notes = grading.notes or (None,) * len(candidates)
    return tuple(
        Decision(c.index, c.chunk.id, c.grade, c.expected, c.index in keepers, by, note)
        for c, note in zip(candidates, notes, strict=True)
        for by in [keepers.get(c.index) or droppers[c.index]]
    )


def _trace(grading: Grading, config: PrunerConfig, stages: tuple[StageTrace, ...]) -> Trace:
    return Trace(
        model=grading.model,
        prompt=grading.prompt,
        prompt_sha256=grading.prompt_sha256,
        readout=grading.readout,
        status=grading.status,
        reason=grading.reason,
        dials=config.selection_dials(),
        stages=stages,
    )
