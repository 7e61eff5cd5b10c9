"""What travels through the stages: a chunk, and what is known of it so far."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, Strict

__all__ = ["By", "Candidate", "Chunk", "Conflict", "Grade", "Span", "by_rank"]

Span = tuple[int, int]


class Grade(IntEnum):
    """The role a chunk plays in the answer that the whole list allows."""

    UNRELATED = 1
    TANGENTIAL = 2
    SUPPORTING = 3
    CONTRIBUTING = 4
    ESSENTIAL = 5


class By(StrEnum):
    """What decided about a chunk. The first six keep it, the others drop it."""

    GRADE = "grade"
    KEEP_TOP_K = "keep_top_k"
    COVERAGE = "coverage"
    UNGRADED = "ungraded"
    FALLBACK = "fallback"
    SKIPPED = "skipped"
    ACCESS = "access"
    STALE_REVISION = "stale_revision"
    DUPLICATE_ID = "duplicate_id"
    SPAN_DUPLICATE = "span_duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    MIN_SCORE = "min_score"
    BELOW_THRESHOLD = "below_threshold"
    FALLBACK_TOP_N = "fallback_top_n"
    PARENT_CAP = "parent_cap"
    SOURCE_CAP = "source_cap"
    MAX_CHUNKS = "max_chunks"
    MERGED = "merged"
    TOKEN_CAP = "token_cap"
    TOKEN_BUDGET = "token_budget"


def _plain_id(given: Any) -> Any:
    return given if given is None or isinstance(given, str | int) else str(given)


def _names(given: Any) -> Any:
    """Take one name as a list of one, not of its letters, and numbers as names."""
    if isinstance(given, str | int):
        return (str(given),)
    if isinstance(given, set | frozenset):
        return tuple(sorted(map(str, given)))
    return given


def _vector(given: Any) -> Any:
    """Take any one-dimensional sequence of numbers as it is: it may be long, and is looked at only when it is used."""
    if given is None:
        return None
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__") or not hasattr(given, "__getitem__"):
        raise ValueError("must be a sequence of numbers")
    if getattr(given, "ndim", 1) != 1 or (len(given) and not hasattr(given[0], "__float__")):
        raise ValueError("must be one sequence of numbers")
    return given if len(given) else None


def _floats(vector: Any) -> list[float] | None:
    return None if vector is None else [float(x) for x in vector]


_Id = Annotated[str | int | None, BeforeValidator(_plain_id)]
_Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
_Offset = Annotated[int, Field(ge=0)]
_Vector = Annotated[Any, BeforeValidator(_vector), PlainSerializer(_floats), Field(repr=False)]


class Chunk(BaseModel):
    """A retrieved passage. Only `text` is needed; what else is given, the prompt shows or a stage uses.

    Attributes:
        text: the passage.
        id: the caller's name of it; may repeat.
        score: the reranker's; never compared with anything but `min_score`.
        title: shown to the model.
        token_count: of `text`, by the caller's own tokenizer; informs the trace, never the budget.
        parent_id: the section, page or document it was cut from.
        source_id: the document; copies of one document share it.
        revision_id: which edition of the source.
        status: of the revision, such as `active` or `superseded`.
        authority: of the source; `official` is heeded by the source policy.
        date: ISO 8601, as far as it is known.
        query_ids: which of the sub-queries found it.
        page: where in the source.
        start_char: where `text` begins in the source's text; counts characters.
        end_char: where it ends there.
        heading_path: of its place in the source, outermost first.
        acl: who may see it; None: anyone, empty: no one.
        embedding: one vector, of any length; taken as it is, without a copy.
        metadata: whatever else the caller keeps with it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    text: Annotated[str, Strict()]
    id: _Id = None
    score: float | None = None
    title: str | None = None
    token_count: _Offset | None = None
    parent_id: _Id = None
    source_id: _Id = None
    revision_id: _Id = None
    status: str | None = None
    authority: str | None = None
    date: str | None = None
    query_ids: _Names = ()
    page: _Id = None
    start_char: _Offset | None = None
    end_char: _Offset | None = None
    heading_path: tuple[str, ...] = ()
    acl: _Names | None = None
    embedding: _Vector = None
    metadata: Mapping[str, Any] = Field(default_factory=dict)  # A literal would be deep-copied for every chunk.


@dataclass(frozen=True)
class Candidate:
    """A chunk on its way through the stages.

    Attributes:
        index: place in the caller's list, the key everywhere (ids may repeat).
        chunk: the caller's chunk in our form.
        text: what is shown and counted; stages may replace it, the chunk stays.
        grade: the level read from the reply; None when ungraded.
        expected: mean level in [1, 5] from token probabilities; None where the model gave none.
        by: what decided that it is kept, once something has.
        query_ids: of the sub-queries it serves: its own, and those of the copies and parts it stands for.
        relevance: in [0, 1], by grade or else by rank; None before the selection.
        mmr: what made the selection take it when it did; None before, and where the selection was not asked.
        order: when the selection took it, from 0; None before.
        parent: the chunk that `text` is taken from, where that is not `chunk`.
        spans: which parts of the source's text are shown verbatim, in characters of the source; () means all of it.
        merged: indices of other candidates that this one stands for as well.
        tokens: of `text` with all that is shown around it; None where nobody counted.
        conflicts: with other candidates, as far as near-equal texts were looked for.
    """

    index: int
    chunk: Chunk
    text: str
    grade: Grade | None = None
    expected: float | None = None
    by: By | None = None
    query_ids: tuple[str, ...] = ()
    relevance: float | None = None
    mmr: float | None = None
    order: int | None = None
    parent: Chunk | None = None
    spans: tuple[Span, ...] = ()
    merged: tuple[int, ...] = ()
    tokens: int | None = None
    conflicts: tuple["Conflict", ...] = ()

    @classmethod
    def given(cls, index: int, chunk: Chunk) -> "Candidate":
        """Make the candidate that a chunk sets out as."""
        return _made({"index": index, "chunk": chunk, "text": chunk.text, "query_ids": chunk.query_ids})

    def changed(self, **values: Any) -> "Candidate":
        """Return a copy with other values.

        Raises:
            TypeError: there is no such field.
        """
        if not _FIELDS.issuperset(values):
            raise TypeError(f"a candidate has no {min(values.keys() - _FIELDS)!r}")
        return _made(self.__dict__ | values)

    @property
    def source(self) -> Chunk:
        """The chunk that `text` is taken from: its text from s - start to e - start is the span (s, e)."""
        return self.parent or self.chunk

    @property
    def start(self) -> int:
        """Where the text of `source` begins in the source: its `start_char`, or 0 where that is not known."""
        return self.source.start_char or 0


_FIELDS = frozenset(field.name for field in fields(Candidate))


def _made(values: dict[str, Any]) -> Candidate:
    """Make a candidate whose other fields have their defaults.

    Every stage copies every candidate, and `__init__` and `replace` of a frozen class take four times as long.
    """
    made = object.__new__(Candidate)
    object.__setattr__(made, "__dict__", values)
    return made


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two near-equal texts that say different things.

    Attributes:
        indices: of the two chunks, the better ranked first.
        kind: what they differ in: `number`, `date`, `unit` or `negation`.
        tokens: what only the first says, and what only the second says.
    """

    indices: tuple[int, int]
    kind: str
    tokens: tuple[tuple[str, ...], tuple[str, ...]]


def by_rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort into the reranker's order."""
    return sorted(candidates, key=lambda c: c.index)
