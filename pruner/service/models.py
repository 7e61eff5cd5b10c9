"""What `/v1/prune` and `/v1/assemble` take and answer; the OpenAPI document is made of these."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from pruner.candidates import Conflict
from pruner.errors import Reason
from pruner.schema import Chunk, Decision, Status, Trace, Usage
from pruner.service.chunks import GivenChunk, Ranked, RankedDocument, check_differ, invalid_list, ranked_chunks
from pruner.service.dials import Dials
from pruner.service.strict import ListOf, Strict

__all__ = ["AssembleRequest", "Evidence", "PruneRequest", "PruneResponse", "RecordedGrading", "Timings", "Tokens"]


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
_EVIDENCE_EXAMPLE: dict[str, Any] = {
    "query": "How long do Basic and Pro keep backups?",
    "chunks": [
        {"text": "Basic keeps them for 14 days.", "query_ids": ["basic"], "parent_id": "terms", "source_id": "terms"},
        {"text": "Pro keeps them for 90 days.", "query_ids": ["pro"], "acl": ["staff"], "source_id": "prices"},
        "The choir meets on Tuesday.",
    ],
    "principals": ["staff"],
    "required_query_ids": ["basic", "pro"],
    "parents": {"terms": "Backups run every night.\n\nBasic keeps them for 14 days. Restoring is free."},
    "dials": {"expand": "paragraph", "dedup": "texts", "token_budget": 2000},
    "evidence": True,
}


class _List(Strict):
    """A list to prune, in one of two forms."""

    chunks: ListOf[GivenChunk] | None = Field(default=None, description="in reranker order, best first")
    documents: ListOf[RankedDocument] | None = Field(default=None, description="as they were given to a reranker")
    results: ListOf[Ranked] | None = Field(default=None, description="the reranker's answer about `documents`")
    principals: list[str] = Field(
        default=[], max_length=1000, description="users, groups and roles to prune for, where chunks have an `acl`"
    )
    required_query_ids: list[str] = Field(
        default=[], max_length=100, description="sub-queries that each get their best chunk before anything else"
    )
    parents: dict[str, GivenChunk] = Field(
        default={}, description="`parent_id` → the parent, of which the dial `expand` shows more"
    )
    dials: Dials = Dials()
    texts: bool = Field(default=False, description="answer the kept texts too")
    evidence: bool = Field(default=False, description="answer the kept texts as blocks for a prompt too")
    tokens: bool = Field(default=False, description="answer the tokens of each chunk too")
    trace: bool = Field(default=False, description="answer what each stage did too")

    def listed(self) -> tuple[list[Chunk], list[int]]:
        """Return the chunks in reranker order, and what the caller calls their places.

        Raises:
            Refusal: there is no list or there are two, an id is there twice, or the results do not fit the documents.
        """
        if (self.chunks is None) == (self.results is None) or (self.chunks is not None and self.documents is not None):
            raise invalid_list("give `chunks`, or `results` with `documents`", None)
        if self.chunks is not None:
            check_differ([c.id for c in self.chunks], "chunks[{}].id")
            return list(self.chunks), list(range(len(self.chunks)))
        results = self.results or []
        return ranked_chunks(results, self.documents), [r.index for r in results]

    def parent_of(self, chunk: Chunk) -> Chunk | None:
        """Return the parent of a chunk, if it was given; names of an object are text, and ids may be numbers."""
        return None if chunk.parent_id is None else self.parents.get(str(chunk.parent_id))


class PruneRequest(_List):
    """A query, and a list in reranker order: `chunks`, or a reranker's own `results` with the `documents`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE, _RANKED_EXAMPLE, _EVIDENCE_EXAMPLE]})

    query: str
    history: list[str] = Field(
        default=[], max_length=1000, description="earlier turns of the conversation, oldest first"
    )
    key: str | None = Field(
        default=None, max_length=1000, description="whose list it is: equal keys get the same arm, in mode `ab`"
    )


class RecordedGrading(Strict):
    """Grades of an earlier answer, by place in the list."""

    grades: ListOf[Annotated[int, Field(ge=1, le=5)] | None] = Field(description="null where ungraded")
    expected: ListOf[Annotated[float, Field(ge=1, le=5)] | None] | None = None
    status: Annotated[Status, Field(strict=False)] | None = Field(
        default=None, description="of the earlier answer (default: `ok`, or `partial` with ungraded chunks)"
    )
    reason: Annotated[Reason, Field(strict=False)] | None = None
    left_out: ListOf[Annotated[int, Field(ge=0)]] = Field(
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

    query: str = Field(default="", description="the same query; only the dial `extract` reads it")
    grading: RecordedGrading


class Tokens(BaseModel):
    """Tokens of the texts."""

    before: int
    after: int
    chunks: list[int] = Field(description="of each chunk, in the order of `decisions`")


class Evidence(BaseModel):
    """The kept texts as a generator reads them."""

    blocks: str = Field(description='for the user turn: `<evidence id="E1" …>` for each of `kept`, in its order')
    rules: str = Field(description="for the system turn: how to cite blocks, and which contradict each other")


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
    conflicts: list[Conflict] = Field(
        description="near-equal chunks that differ in a number, date, unit or negation; with the dial `dedup` only"
    )
    uncovered_query_ids: list[str] = Field(description="required sub-queries that no kept chunk serves")
    texts: list[str] | None = Field(
        default=None, description="what is to be shown of the kept chunks, on request; `expand` and `extract` change it"
    )
    evidence: Evidence | None = Field(default=None, description="on request")
    tokens: Tokens | None = Field(default=None, description="on request")
    trace: Trace | None = Field(default=None, description="on request; its indices are places in reranker order")
