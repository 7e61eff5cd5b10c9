"""The pruner: prepare, grade, select, pack."""

import asyncio
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from pruner.arguments import to_asked, to_candidates, to_parents
from pruner.assembly import Asked, Prepared, Selected, decide, load, pack, prepare, select
from pruner.backends import Backend, ClosableBackend, check_backend, make_backend
from pruner.config import PrunerConfig
from pruner.errors import ConfigError, Reason, RequestError
from pruner.fetching import FetchParent, fetch_parents
from pruner.fitting import Fit, fit
from pruner.grading import Answer, Room, ask
from pruner.prices import context_window, make_pricer, unpriced
from pruner.prompting import build_request, load_prompt
from pruner.replies import GradeSheet
from pruner.running import run_sync
from pruner.schema import Candidate, Chunk, Counter, Grading, PruneResult, Status, Usage
from pruner.sentences import Splitter, load_splitter
from pruner.texts import without_surrogates
from pruner.tokens import TokenCounter, check_counter
from pruner.tracing import TraceMaker

__all__ = ["Pruner"]

_log = logging.getLogger("pruner")
# Of a context window, left for the answer.
_ROOM_FOR_REPLY = 8_192
_NO_ROOM: Answer[GradeSheet] = Answer(
    Status.FALLBACK, Reason.CONTEXT_OVERFLOW, "not one chunk fits into the prompt", None, None, Usage()
)

T = TypeVar("T")


class Pruner:
    """Prunes retrieved chunks by one listwise grading each time. Made once, used concurrently and from any event loop.

    Everything slow is loaded here: the provider's SDK or model, the token table, the prompt.

    Args:
        config: the dials; defaults to `PrunerConfig()`.
        backend: whom to ask, instead of the one `config.model` names; its owner closes it. Traces name it by
            its class, unless the config was given a model.
        counter: counts tokens as the generator does, for budgets; by default tiktoken, or an estimate.

    Attributes:
        config: the dials.
        model: what traces name: `config.model`, or the class of the caller's own backend.

    Raises:
        ConfigError: a key, an extra, a prompt or a model is missing, or what was given is no backend or counter.
    """

    def __init__(
        self, config: PrunerConfig | None = None, *, backend: Backend | None = None, counter: Counter | None = None
    ) -> None:
        self.config = config or PrunerConfig()
        self._prompt = load_prompt(self.config.prompt)
        if self._prompt.readout != self.config.readout:
            raise ConfigError(f"prompt {self.config.prompt!r} is for readout {self._prompt.readout!r}")
        self._system = build_request(self._prompt, self.config, "warm up", [Candidate(0, Chunk(text="x"), "x")]).system
        self._counter = TokenCounter() if counter is None else check_counter(counter)
        self._split: Splitter | None = None
        self._splitter(self.config)
        load()
        self._owned = backend is None
        # A backend of the caller's asks the model that the config names only where somebody wrote it there.
        named = self._owned or "model" in self.config.model_fields_set
        self.model = self.config.model if named else type(backend).__name__
        # A server of one's own has its own prices, whatever its model is called.
        priced = named and not self.config.base_url
        self._price = make_pricer(self.config.prefix, self.config.model_name) if priced else unpriced
        self._backend = make_backend(self.config) if backend is None else check_backend(backend)
        self._budget = _input_budget(self.config, self._backend)
        self._room = Room()

    async def prune(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        principals: Collection[str] = (),
        required_query_ids: Sequence[str] = (),
        fetch_parent: FetchParent | None = None,
        **dials: Any,
    ) -> PruneResult[T]:
        """Return what the answer to `query` needs of `chunks`.

        Args:
            query: the question.
            chunks: in reranker order, best first; str, `Chunk`, or mappings with a `text`.
            history: earlier turns of the conversation, oldest first.
            principals: users, groups and roles that the caller speaks for; a chunk with an `acl` that names none of
                them is neither shown to anyone nor returned.
            required_query_ids: sub-queries that each get their best chunk before anything else.
            fetch_parent: returns the parent of a `parent_id`, or None; sync or async. Asked when `expand` is on, for
                what was selected. When it fails or is late, the chunk stays as it is.
            dials: other selection dials, or another `timeout`, for this once, such as `threshold=4`.

        Raises:
            RequestError: the arguments are unusable. Faults of provider, network or model never raise.
            ConfigError: a dial is wrong, or none that a call may set.
        """
        asked = to_asked(query, history, principals, required_query_ids)
        config = self.config.for_call(**dials)
        self._splitter(config)  # What is lacking is told, and loaded, before anything is paid for.
        prepared = prepare(to_candidates(chunks), config, asked)
        grading = await self._grade(prepared, config, asked, history)
        selected = select(prepared, grading, config, asked, self._counter)
        parents = await self._fetch(selected, fetch_parent, config)
        return self._packed(chunks, prepared, grading, selected, config, asked, parents)

    def prune_sync(self, query: str, chunks: Sequence[T], **options: Any) -> PruneResult[T]:
        """Prune from synchronous code, with or without an event loop running in this thread; options as `prune`."""
        return run_sync(lambda: self.prune(query, chunks, **options))

    async def grade(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        principals: Collection[str] = (),
        **dials: Any,
    ) -> Grading:
        """Ask for the grades: the half that costs money. Its result can be stored and assembled any number of times.

        Args:
            query: the question.
            chunks: as for `prune`.
            history: as for `prune`.
            principals: as for `prune`.
            dials: as for `prune`; the selection dials say which chunks need no grade, such as copies.

        Raises:
            RequestError: the arguments are unusable.
            ConfigError: a dial is wrong, or no selection dial.
        """
        asked = to_asked(query, history, principals, ())
        config = self.config.for_call(**dials)
        return await self._grade(prepare(to_candidates(chunks), config, asked), config, asked, history)

    async def _grade(self, prepared: Prepared, config: PrunerConfig, asked: Asked, history: Sequence[str]) -> Grading:
        loop = asyncio.get_running_loop()
        started = loop.time()
        query, candidates, n = asked.query, prepared.left, len(prepared.given)
        if reason := self._not_asked(query, candidates, config.keep_top_k):
            return self._grading(n, Status.SKIPPED, reason)
        readable = [c for c in candidates if c.text.strip()]
        fitted = fit(readable, self._budget, [self._system, query, query, *history], self._counter)
        shown = self._ordered(fitted.shown)
        answer = _NO_ROOM
        if shown:
            request = build_request(self._prompt, self.config, query, shown, history)
            answer = await ask(self._backend, request, started + config.timeout, self._room)
        latency = loop.time() - started
        if answer.status is Status.FALLBACK:
            self._warn(answer, len(shown), latency)
        return self._graded(n, Fit(shown, fitted.left_out), answer, latency)

    async def _fetch(
        self, selected: Selected, fetch: FetchParent | None, config: PrunerConfig
    ) -> dict[str | int, Chunk]:
        if fetch is None or config.expand in ("off", "heading"):
            return {}
        names = [c.chunk.parent_id for c in selected.left if c.chunk.parent_id is not None]
        return await fetch_parents(fetch, names, config.parent_timeout)

    def assemble(
        self,
        query: str,
        chunks: Sequence[T],
        grading: Grading | None = None,
        *,
        principals: Collection[str] = (),
        required_query_ids: Sequence[str] = (),
        parents: Mapping[Any, object] | None = None,
        **dials: Any,
    ) -> PruneResult[T]:
        """Select by a grading: the half that is free and deterministic.

        Args:
            query: the question.
            chunks: the same chunks, in the same order, as were graded.
            grading: from `grade()`; None selects by the reranker's order alone.
            principals: as for `prune`.
            required_query_ids: as for `prune`.
            parents: parent_id → parent (a str, `Chunk`, mapping, or None), in place of `fetch_parent`.
            dials: other selection dials for this once, such as `threshold=4`.

        Raises:
            RequestError: the grading is of another list, or chunks or parents are unusable.
            ConfigError: a dial is wrong, or no selection dial.
        """
        asked = to_asked(query, (), principals, required_query_ids)
        candidates = to_candidates(chunks)
        grading = grading or self._grading(len(chunks), Status.FALLBACK, None)
        if len(chunks) != len(grading.grades):
            raise RequestError(f"the grading is of {len(grading.grades)} chunks, not of these {len(chunks)}")
        config = self.config.with_dials(**dials)
        prepared = prepare(candidates, config, asked)
        selected = select(prepared, grading, config, asked, self._counter)
        return self._packed(chunks, prepared, grading, selected, config, asked, to_parents(parents or {}))

    def _packed(
        self,
        chunks: Sequence[T],
        prepared: Prepared,
        grading: Grading,
        selected: Selected,
        config: PrunerConfig,
        asked: Asked,
        parents: Mapping[str | int, Chunk],
    ) -> PruneResult[T]:
        done = pack(selected, config, asked, self._counter, parents, self._splitter(config))
        decisions = decide(prepared, done, grading)
        return PruneResult(
            chunks=[chunks[c.index] for c in done.kept],
            texts=[c.text for c in done.kept],
            decisions=decisions,
            status=grading.status,
            reason=grading.reason,
            usage=grading.usage,
            latency=grading.latency,
            evidence=done.kept,
            conflicts=done.conflicts,
            uncovered_query_ids=done.uncovered,
            _all_texts=[c.text for c in prepared.given],
            _counter=self._counter,
            _make_trace=TraceMaker(done, decisions, grading, config, self._counter),
        )

    def _splitter(self, config: PrunerConfig) -> Splitter | None:
        if self._split is None and (config.extract or config.expand == "sentences"):
            self._split = load_splitter()
        return self._split

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

    def __copy__(self) -> Self:
        """Return itself: nothing in it changes, and connections are there to be shared."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself, as for a copy."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the dials without the key, which comes from the environment where the pickle is read."""
        if not self._owned:
            raise TypeError("a Pruner with a backend of its own cannot be pickled; make it anew where it is needed")
        return _remade, (self.config.model_dump(exclude={"api_key"}), self._counter)

    def _not_asked(self, query: str, candidates: Sequence[Candidate], keep_top_k: int) -> Reason | None:
        """Say why a call cannot matter, or is not worth its price."""
        if len(candidates) <= keep_top_k:
            return Reason.TOO_FEW_CHUNKS
        nothing_to_read = not query.strip() or not any(c.text.strip() for c in candidates)
        if nothing_to_read or len(candidates) < self.config.min_chunks:
            return Reason.NOT_WORTH_IT
        if self.config.min_tokens and sum(self._counter.count(c.text) for c in candidates) < self.config.min_tokens:
            return Reason.NOT_WORTH_IT
        return None

    def _ordered(self, candidates: list[Candidate]) -> list[Candidate]:
        if self.config.chunk_order == "shuffle":
            return random.Random(self.config.seed).sample(candidates, len(candidates))
        return candidates

    def _warn(self, answer: Answer[GradeSheet], n: int, latency: float) -> None:
        _log.warning(
            "fell back to the reranker's order: %s (%s; %s, %d chunks, %.2f s)",
            *(answer.reason, answer.detail, self.model, n, latency),
        )

    def _grading(self, n: int, status: Status, reason: Reason | None, **known: Any) -> Grading:
        nothing = (None,) * n
        given = {"grades": nothing, "expected": nothing, "notes": nothing, **known}
        shuffled = self.config.chunk_order == "shuffle"
        return Grading(
            **given,
            status=status,
            reason=reason,
            model=self.model,
            prompt=self._prompt.name,
            prompt_sha256=self._prompt.sha256,
            readout=self.config.readout,
            chunk_order=f"shuffle {self.config.seed}" if shuffled else "reranker",
        )

    def _graded(self, n: int, fitted: Fit, answer: Answer[GradeSheet], latency: float) -> Grading:
        usage = answer.usage
        if usage.input_tokens or usage.output_tokens:
            usage = replace(usage, cost=self._price(usage))
        known: dict[str, Any] = {"usage": usage, "latency": latency, "reply": _reply(answer)}
        status, reason = answer.status, answer.reason
        if answer.sheet:
            indices = [c.index for c in fitted.shown]
            for name in ("grades", "expected", "notes"):
                known[name] = _spread_out(n, indices, getattr(answer.sheet, name))
            if fitted.left_out:
                status, reason = Status.PARTIAL, Reason.MISSING_GRADES
        return self._grading(n, status, reason, left_out=fitted.left_out, **known)


def _remade(dials: dict[str, Any], counter: Counter) -> Pruner:
    return Pruner(PrunerConfig.load(**dials), counter=counter)


def _input_budget(config: PrunerConfig, backend: Backend) -> int | None:
    """Return how many tokens a prompt may have: as configured, as the backend says, or as is known of the model."""
    if config.max_input_tokens is not None:
        return config.max_input_tokens
    own = getattr(backend, "input_tokens", None)
    if isinstance(own, int):
        return own
    window = None if config.base_url else context_window(config.prefix, config.model_name)
    return window and max(window - _ROOM_FOR_REPLY, window // 2)


def _reply(answer: Answer[GradeSheet]) -> str | None:
    return without_surrogates(answer.raw.text) if answer.raw and answer.raw.text else None


def _spread_out(n: int, indices: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """Put the values of labels 1.. at their places in the caller's list."""
    at = dict(zip(indices, values, strict=True))
    return tuple(at.get(index) for index in range(n))
