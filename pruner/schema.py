"""The values that travel through the pipeline; all frozen, none knows how it was made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from pruner.candidates import By, Candidate, Chunk, Conflict, Grade, Span
from pruner.errors import Reason

__all__ = [
    "THOUGHTS",
    "By",
    "Candidate",
    "Chunk",
    "Conflict",
    "Counter",
    "Decision",
    "Disagreement",
    "Grade",
    "Grading",
    "GradingRequest",
    "ProbeRequest",
    "PruneResult",
    "RawGrading",
    "Rejected",
    "Selected",
    "Span",
    "StageTrace",
    "Status",
    "Token",
    "Trace",
    "Usage",
]


THOUGHTS = 4_096
"""Tokens of room for the thoughts of a model that thinks, beside those for its reply."""


class Status(StrEnum):
    """How much of a result rests on grades: all, some, none (it failed), none (not asked)."""

    OK = "ok"
    PARTIAL = "partial"
    FALLBACK = "fallback"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Usage:
    """What the grading consumed. Tokens as the provider counted them; `cost` in US dollars, None where unpriced.

    Of the input tokens, `cached_tokens` were read from the provider's cache, and `written_tokens` written to it.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    cost: float | None = None
    written_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Token:
    """One output token with its alternatives: `(text, logprob)`, most probable first."""

    text: str
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """The parts of a probe: read the shared opening and the chunks once, ask about each chunk.

    Attributes:
        opening: text before the first chunk.
        chunks: one rendered envelope per chunk.
        questions: one question per chunk, each asked right after all chunks.
    """

    opening: str
    chunks: tuple[str, ...]
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GradingRequest:
    """What a backend is asked.

    Attributes:
        system: the fixed instructions; never holds chunk text.
        user: chunks and query.
        n: number of chunks, labelled 1..n.
        schema: JSON schema of the reply, or None for free text.
        max_output_tokens: cap on the reply.
        logprobs: whether token alternatives are wanted.
        probe: the parts of a probe; set if and only if the readout is `probe`.
        notes: what backends note for the next attempt, each under itself; shared by the copies of one request.
    """

    system: str
    user: str
    n: int
    schema: Mapping[str, Any] | None = None
    max_output_tokens: int = 1024
    logprobs: bool = False
    probe: ProbeRequest | None = None
    notes: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RawGrading:
    """What a backend answers: a reply text, or for probes one distribution over the levels 1..5 per label.

    Attributes:
        text: the reply; tool arguments count as the reply.
        reasoning: text of a separate reasoning channel.
        finish: why it ended.
        tokens: the reply's tokens with alternatives, where the vendor gives them; their texts joined hold `text`.
        levels: shape (n, 5), each row sums to 1.
        usage: of this one call.
    """

    text: str | None = None
    reasoning: str | None = None
    finish: Literal["stop", "length", "refused"] = "stop"
    tokens: tuple[Token, ...] = ()
    levels: tuple[tuple[float, ...], ...] | None = None
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Grading:
    """The paid half of a result: grades by input index, and how they came about. Can be stored and used again.

    Attributes:
        grades: one entry per input chunk, None where ungraded.
        expected: mean level per input chunk, None where the model gave none.
        status: ok, partial, fallback or skipped.
        reason: why it is not ok.
        notes: a few words per chunk, when `reasons` was set.
        usage: over all attempts.
        latency: seconds.
        model: `prefix:name` that was asked.
        prompt: name of the prompt, and `sha256` of its source.
        readout: `json` or `probe`.
        chunk_order: of the prompt: `reranker`, or `shuffle` with its seed.
        left_out: input indices that were not shown, as the prompt was full.
        reply: the raw reply text; may quote chunks.
    """

    grades: tuple[Grade | None, ...]
    expected: tuple[float | None, ...]
    status: Status
    reason: Reason | None = None
    notes: tuple[str | None, ...] = ()
    usage: Usage = Usage()
    latency: float = 0.0
    model: str = ""
    prompt: str = ""
    prompt_sha256: str = ""
    readout: str = ""
    chunk_order: str = ""
    left_out: tuple[int, ...] = ()
    reply: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Kept or dropped, and by what.

    `grade` is None where nothing valid was said about the chunk; `of` is the index of the chunk that stands for a
    dropped copy or part.
    """

    index: int
    id: str | int | None
    grade: Grade | None
    expected: float | None
    kept: bool
    by: str
    note: str | None = None
    of: int | None = None


class StageTrace(BaseModel):
    """What one stage did.

    Attributes:
        stage: its name.
        kept: indices that went on.
        dropped: index → reason of those that did not.
        of: index → index of the candidate it was dropped in favour of.
        costs: index → tokens, where the stage counted.
        note: what it had to leave out of account, such as chunks without a source.
    """

    model_config = ConfigDict(frozen=True)

    stage: str
    kept: tuple[int, ...]
    dropped: dict[int, str]
    of: dict[int, int] = {}
    costs: dict[int, int] = {}
    note: str = ""


class Selected(BaseModel):
    """One kept chunk in a trace, its three scores apart: the reranker's, the grade, and MMR's when it was taken."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    evidence_id: str
    index: int
    chunk_id: str | int | None
    parent_id: str | int | None
    query_ids: tuple[str, ...]
    tokens: int
    by: str
    reranker_score: float | None
    grade: Grade | None
    expected: float | None
    relevance: float | None
    mmr_score: float | None
    selection_order: int | None


class Rejected(BaseModel):
    """One dropped chunk in a trace: why, of whom it was a copy or part, and its tokens where they were counted."""

    model_config = ConfigDict(frozen=True)

    index: int
    chunk_id: str | int | None
    reason: str
    of: int | None = None
    tokens: int | None = None


class Disagreement(BaseModel):
    """A conflict in a trace: which two, and in what; the words are in the result."""

    model_config = ConfigDict(frozen=True)

    indices: tuple[int, int]
    kind: str


class Trace(BaseModel):
    """How a result came about, without any text of query or chunks; round-trips through JSON.

    Every index of the input is in `selected` or in `rejected`, once. `dials` are those that the selection goes by,
    `policy` their name and `policy_sha256` their hash: equal hashes, equal rules.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    prompt: str
    prompt_sha256: str
    readout: str
    chunk_order: str
    left_out: tuple[int, ...]
    status: Status
    reason: Reason | None
    dials: dict[str, Any]
    stages: tuple[StageTrace, ...]
    policy: str = ""
    policy_sha256: str = ""
    mmr_lambda: float | None = None
    budget: int | None = None
    used_tokens: int | None = None
    selected: tuple[Selected, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    conflicts: tuple[Disagreement, ...] = ()
    uncovered_query_ids: tuple[str, ...] = ()


class Counter(Protocol):
    """Counts tokens."""

    def count(self, text: str, /) -> int:
        """Return the number of tokens in `text`."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Stands where a stored result had its counter and its dials: what they say of this result, and no key."""

    counts: Mapping[str, int]
    trace: Trace

    def count(self, text: str, /) -> int:
        return self.counts[text]

    def __call__(self) -> Trace:
        return self.trace


T = TypeVar("T")


@dataclass(frozen=True)
class PruneResult(Generic[T]):
    """What is left of the chunks, and why. A pickle or a deep copy holds its trace and its counts, made by then.

    Attributes:
        chunks: the kept chunks: the caller's own objects, in reranker order unless another one was asked for.
        texts: what is to be shown of them.
        decisions: one per input chunk, in input order.
        status: ok, partial, fallback or skipped.
        reason: a stable code when the status is not ok.
        usage: what the grading consumed.
        latency: seconds from call to result.
        evidence: the kept chunks as the stages left them, in the order of `chunks`.
        conflicts: near-equal chunks that say different things, at least one of each pair kept.
        uncovered_query_ids: required sub-queries that no kept chunk serves.
        arm: `pruner` or `baseline` where a rollout decided which list this is; see `pruner.rollout`.
    """

    chunks: list[T]
    texts: list[str]
    decisions: tuple[Decision, ...]
    status: Status
    reason: Reason | None
    usage: Usage
    latency: float
    evidence: tuple[Candidate, ...] = field(repr=False)
    conflicts: tuple[Conflict, ...]
    uncovered_query_ids: tuple[str, ...]
    _all_texts: Sequence[str] = field(repr=False, compare=False)
    _counter: Counter = field(repr=False, compare=False)
    _make_trace: Callable[[], Trace] = field(repr=False, compare=False)
    arm: str | None = field(default=None, kw_only=True)

    @cached_property
    def trace(self) -> Trace:
        """The record of the stages, written when first asked for; holds no text."""
        return self._make_trace()

    @property
    def given_texts(self) -> list[str]:
        """The texts of all chunks as given, in input order; empty for what the caller may not see."""
        return list(self._all_texts)

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of each chunk as given, 0 for what the caller may not see; counted when first asked for."""
        if ahead := getattr(self._counter, "count_ahead", None):  # Of ours; a caller's own need not have it.
            ahead(self._all_texts)
        return tuple(map(self._counter.count, self._all_texts))

    @property
    def tokens_before(self) -> int:
        """Tokens in the chunks as given; counted when first asked for."""
        return sum(self.tokens)

    @cached_property
    def tokens_after(self) -> int:
        """Tokens in the kept texts; counted when first asked for."""
        return sum(map(self._counter.count, self.texts))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the counter, with all that it remembers, and the dials, of which one is the key."""
        counts = {text: self._counter.count(text) for text in self.texts}
        stored = _Stored(dict(zip(self._all_texts, self.tokens, strict=True)) | counts, self.trace)
        return {**vars(self), "_counter": stored, "_make_trace": stored}
