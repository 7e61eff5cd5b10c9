"""What `/v1/prune` and `/v1/assemble` take and answer; the OpenAPI document is made of these."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pruner.errors import Reason
from pruner.schema import Chunk, Decision, Grade, Status, Trace, Usage
from pruner.service.errors import Code, Refusal

__all__ = ["AssembleRequest", "Dials", "PruneRequest", "PruneResponse", "RecordedGrading", "Strict", "TextOr"]


class Strict(BaseModel):
    """A body without unknown fields, NaN, or numbers written as text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TextOr(BaseModel):
    """An object with a `text`, for which a string may stand."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Say that a string will do."""
        return {"anyOf": [{"type": "string"}, handler(schema)]}


class GivenChunk(TextOr, Chunk):
    """A chunk: a string, or an object with a `text`. Ids are answered; the model never sees them."""

    model_config = ConfigDict(coerce_numbers_to_str=False, strict=True, allow_inf_nan=False)

    id: str | int | None = None
    heading_path: Annotated[tuple[str, ...], Field(strict=False)] = ()


class RankedDocument(TextOr, Strict):
    """A document of a reranker's answer; what else it holds is ignored."""

    model_config = ConfigDict(extra="ignore")

    text: str


class Ranked(Strict):
    """One result of a reranker's answer."""

    index: int = Field(ge=0, description="place in `documents`")
    relevance_score: float
    document: RankedDocument | None = Field(default=None, description="stands in for `documents`")


def _level(given: Any) -> Any:
    return float(Grade[given]) if isinstance(given, str) and given in Grade.__members__ else given


_Level = Annotated[
    float,
    BeforeValidator(_level),
    Field(ge=1, le=5),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": 5}, {"enum": [*Grade.__members__]}]}),
]
_Cap = Annotated[int, Field(ge=1)]


class Dials(Strict):
    """Selection dials for this one request, within the operator's limits; what is not given is the operator's."""

    threshold: _Level | None = Field(default=None, description="lowest level kept, 1..5 or its name")
    keep_top_k: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="the reranker's best few stay whatever their grade"
    )
    min_score: float | None = Field(default=None, description="drop chunks the reranker scored lower")
    max_chunks: _Cap | None = Field(default=None, description="keep at most this many")
    token_cap: _Cap | None = Field(default=None, description="keep at most this many tokens of text")
    fallback_top_n: _Cap | None = Field(default=None, description="on fallback keep this many")
    scoring: Annotated[str, Field(pattern="^(grade|expected)$")] | None = Field(
        default=None, description="judge by the written grade, or by the expected one"
    )

    def given(self) -> dict[str, Any]:
        """Return those that were set."""
        return self.model_dump(exclude_none=True)


_EXAMPLE: dict[str, Any] = {
    "query": "How long are backups kept?",
    "chunks": [
        "Backups are kept for 14 days.",
        {"id": "faq-7", "text": "Rice is boiled.", "score": 0.42, "title": "Cooking"},
        "The choir meets on Tuesday.",
    ],
}
_RANKED_EXAMPLE: dict[str, Any] = {
    "query": "How long are backups kept?",
    "documents": ["Rice is boiled.", "Backups are kept for 14 days.", "The choir meets on Tuesday."],
    "results": [
        {"index": 1, "relevance_score": 0.97},
        {"index": 0, "relevance_score": 0.11},
        {"index": 2, "relevance_score": 0.02},
    ],
    "dials": {"keep_top_k": 1, "threshold": "SUPPORTING"},
}


class _List(Strict):
    """A list to prune, in one of two forms."""

    chunks: list[GivenChunk] | None = Field(default=None, description="in reranker order, best first")
    documents: list[RankedDocument] | None = Field(default=None, description="as they were given to a reranker")
    results: list[Ranked] | None = Field(default=None, description="the reranker's answer about `documents`")
    dials: Dials = Dials()
    texts: bool = Field(default=False, description="answer the kept texts too")
    tokens: bool = Field(default=False, description="answer the tokens of each chunk too")
    trace: bool = Field(default=False, description="answer what each stage did too")

    def listed(self) -> tuple[list[Chunk], list[int]]:
        """Return the chunks in reranker order, and what the caller calls their places.

        Raises:
            Refusal: there is no list or there are two, an id is there twice, or the results do not fit the documents.
        """
        if (self.chunks is None) == (self.results is None) or (self.chunks is not None and self.documents is not None):
            raise _invalid("give `chunks`, or `results` with `documents`", None)
        if self.chunks is not None:
            _check_differ([c.id for c in self.chunks], "chunks[{}].id")
            return list(self.chunks), list(range(len(self.chunks)))
        results = self.results or []
        _check_differ([r.index for r in results], "results[{}].index")
        texts = [self._text(place, r) for place, r in enumerate(results)]
        chunks = [Chunk(text=text, score=r.relevance_score) for text, r in zip(texts, results, strict=True)]
        return chunks, [r.index for r in results]

    def _text(self, place: int, result: Ranked) -> str:
        if self.documents is not None:
            if result.index < len(self.documents):
                return self.documents[result.index].text
            raise _invalid(f"there are {len(self.documents)} documents", f"results[{place}].index")
        if result.document is None:
            raise _invalid("give `documents`, or the document of every result", f"results[{place}].document")
        return result.document.text


def _check_differ(names: Sequence[str | int | None], field: str) -> None:
    seen: dict[str | int, int] = {}
    for place, name in enumerate(names):
        if name is not None and seen.setdefault(name, place) != place:
            raise _invalid(f"the same as {field.format(seen[name])}; each needs its own", field.format(place))


def _invalid(message: str, field: str | None) -> Refusal:
    return Refusal(Code.INVALID_REQUEST, message, field)


class PruneRequest(_List):
    """A query, and a list in reranker order: `chunks`, or a reranker's own `results` with the `documents`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE, _RANKED_EXAMPLE]})

    query: str
    history: list[str] = Field(default=[], description="earlier turns of the conversation, oldest first")
    key: str | None = Field(
        default=None, max_length=1000, description="whose list it is: equal keys get the same arm, in mode `ab`"
    )


class RecordedGrading(Strict):
    """Grades of an earlier answer, by place in the list."""

    grades: list[Annotated[int, Field(ge=1, le=5)] | None] = Field(description="null where ungraded")
    expected: list[Annotated[float, Field(ge=1, le=5)] | None] | None = None
    status: Annotated[Status, Field(strict=False)] | None = Field(
        default=None, description="of the earlier answer (default: `ok`, or `partial` with ungraded chunks)"
    )
    reason: Annotated[Reason, Field(strict=False)] | None = None
    left_out: list[Annotated[int, Field(ge=0)]] = Field(
        default=[], description="places that were not shown to the model, as its prompt was full; see the `trace`"
    )


_ASSEMBLE_EXAMPLE: dict[str, Any] = {
    "chunks": ["Backups are kept for 14 days.", "Rice is boiled.", "The choir meets on Tuesday."],
    "grading": {"grades": [5, 1, 1]},
    "dials": {"threshold": 2, "keep_top_k": 2},
}


class AssembleRequest(_List):
    """The same list with its grades: selects anew, asks no model, costs nothing."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ASSEMBLE_EXAMPLE]})

    grading: RecordedGrading


class Tokens(BaseModel):
    """Tokens of the texts."""

    before: int
    after: int
    chunks: list[int] = Field(description="of each chunk, in the order of `decisions`")


class Timings(BaseModel):
    """Seconds."""

    grading: float = Field(description="the model's part, retries included")
    total: float = Field(description="from the request's last byte to the answer")


class PruneResponse(BaseModel):
    """What is left of the list, and why. An `index` is the place in `chunks`, or in `documents`."""

    request_id: str
    kept: list[int] = Field(description="indices of the kept chunks, in order")
    ids: list[str | int | None] = Field(description="their ids")
    decisions: list[Decision] = Field(description="one for each chunk, in reranker order")
    status: Status = Field(description="how much rests on grades: all, some, none (it failed), none (not asked)")
    reason: Reason | None = Field(description="why the status is not `ok`")
    usage: Usage = Field(description="tokens as the provider counted them; cost in US dollars, null where unpriced")
    timings: Timings
    arm: str | None = Field(description="whose list this is, `pruner` or `baseline`; null from `/v1/assemble`")
    texts: list[str] | None = Field(default=None, description="of the kept chunks, on request")
    tokens: Tokens | None = Field(default=None, description="on request")
    trace: Trace | None = Field(default=None, description="on request; its indices are places in reranker order")
