"""The values that travel through the pipeline; all frozen, none knows how it was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict

from pruner.errors import Reason

__all__ = [
    "By",
    "Candidate",
    "Chunk",
    "Counter",
    "Decision",
    "Grade",
    "Grading",
    "GradingRequest",
    "ProbeRequest",
    "PruneResult",
    "RawGrading",
    "StageTrace",
    "Status",
    "Token",
    "Trace",
    "Usage",
]


class Grade(IntEnum):
    """The role a chunk plays in the answer that the whole list allows."""

    UNRELATED = 1
    TANGENTIAL = 2
    SUPPORTING = 3
    CONTRIBUTING = 4
    ESSENTIAL = 5


class Status(StrEnum):
    """How much of a result rests on grades: all, some, none (it failed), none (not asked)."""

    OK = "ok"
    PARTIAL = "partial"
    FALLBACK = "fallback"
    SKIPPED = "skipped"


class By(StrEnum):
    """What decided about a chunk. The first five keep it, the others drop it."""

    GRADE = "grade"
    KEEP_TOP_K = "keep_top_k"
    UNGRADED = "ungraded"
    FALLBACK = "fallback"
    SKIPPED = "skipped"
    BELOW_THRESHOLD = "below_threshold"
    MIN_SCORE = "min_score"
    MAX_CHUNKS = "max_chunks"
    TOKEN_CAP = "token_cap"
    FALLBACK_TOP_N = "fallback_top_n"


def _plain_id(given: Any) -> Any:
    return given if given is None or isinstance(given, str | int) else str(given)


class Chunk(BaseModel):
    """A retrieved passage. Only `text` is needed; what else is given, the prompt shows or a stage uses."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    text: Annotated[str, Strict()]
    id: Annotated[str | int | None, BeforeValidator(_plain_id)] = None
    score: float | None = None
    title: str | None = None
    date: str | None = None
    heading_path: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk on its way through the stages.

    Attributes:
        index: place in the caller's list, the key everywhere (ids may repeat).
        chunk: the caller's chunk in our form.
        text: what is shown and counted; stages may replace it, the chunk stays.
        grade: the level read from the reply; None when ungraded.
        expected: mean level in [1, 5] from token probabilities; None where the model gave none.
        by: what decided that it is kept, once something has.
    """

    index: int
    chunk: Chunk
    text: str
    grade: Grade | None = None
    expected: float | None = None
    by: By | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the grading consumed. Tokens as the provider counted them; `cost` in US dollars, None where unpriced."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    cost: float | None = None


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
    """

    system: str
    user: str
    n: int
    schema: Mapping[str, Any] | None = None
    max_output_tokens: int = 1024
    logprobs: bool = False
    probe: ProbeRequest | None = None


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
    """Kept or dropped, and by what. `grade` is None where nothing valid was said about the chunk."""

    index: int
    id: str | int | None
    grade: Grade | None
    expected: float | None
    kept: bool
    by: str
    note: str | None = None


class StageTrace(BaseModel):
    """What one stage did: indices that went on, and index → reason of those that did not."""

    model_config = ConfigDict(frozen=True)

    stage: str
    kept: tuple[int, ...]
    dropped: dict[int, str]


class Trace(BaseModel):
    """How a result came about, without any text of query or chunks; round-trips through JSON."""

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


class Counter(Protocol):
    """Counts tokens."""

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""


T = TypeVar("T")


@dataclass(frozen=True)
class PruneResult(Generic[T]):
    """What is left of the chunks, and why.

    Attributes:
        chunks: the kept chunks: the caller's own objects, in reranker order.
        texts: their texts.
        decisions: one per input chunk, in input order.
        status: ok, partial, fallback or skipped.
        reason: a stable code when the status is not ok.
        usage: what the grading consumed.
        latency: seconds from call to result.
        trace: the stages' record; holds no text.
        arm: `pruner` or `baseline` where a rollout decided which list this is; see `pruner.rollout`.
    """

    chunks: list[T]
    texts: list[str]
    decisions: tuple[Decision, ...]
    status: Status
    reason: Reason | None
    usage: Usage
    latency: float
    trace: Trace
    _all_texts: Sequence[str] = field(repr=False, compare=False)
    _counter: Counter = field(repr=False, compare=False)
    arm: str | None = field(default=None, kw_only=True)

    @property
    def given_texts(self) -> list[str]:
        """The texts of all chunks as given, in input order."""
        return list(self._all_texts)

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of each chunk as given; counted when first asked for."""
        return tuple(map(self._counter.count, self._all_texts))

    @property
    def tokens_before(self) -> int:
        """Tokens in the chunks as given; counted when first asked for."""
        return sum(self.tokens)

    @cached_property
    def tokens_after(self) -> int:
        """Tokens in the kept texts; counted when first asked for."""
        return sum(map(self._counter.count, self.texts))
