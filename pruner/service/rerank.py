"""`POST /v1/rerank`, in the form that Cohere's and Jina's clients speak."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pruner.errors import Reason
from pruner.schema import Chunk, PruneResult, Status, Usage
from pruner.service.errors import RESPONSES, Problem
from pruner.service.front import NOTE
from pruner.service.limits import StrictRoute, while_connected
from pruner.service.logs import request_id
from pruner.service.parts import Parts, parts_of
from pruner.service.prune import write_note
from pruner.service.strict import ListOf, Strict, TextOr

__all__ = ["router"]

router = APIRouter(route_class=StrictRoute, responses={**RESPONSES, 502: {"model": Problem}})


class Document(TextOr, Strict):
    """A document: a string, or an object with a `text`, whose other fields are only given back."""

    model_config = ConfigDict(extra="allow")

    text: str


class RerankRequest(Strict):
    """Documents to prune: in any order where an upstream is configured, else in reranker order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "any",
                    "query": "How long are backups kept?",
                    "documents": ["Backups are kept for 14 days.", "Rice is boiled.", "The choir meets on Tuesday."],
                    "top_n": 2,
                }
            ]
        }
    )

    model: str | None = Field(default=None, description="given back; which model is asked is the operator's choice")
    query: str
    documents: ListOf[Document]
    top_n: Annotated[int, Field(ge=1)] | None = Field(default=None, description="answer at most this many")
    return_documents: bool | None = None
    max_tokens_per_doc: int | None = Field(default=None, description="taken, and not needed; so are the next three")
    max_chunks_per_doc: int | None = None
    rank_fields: list[str] | None = None
    priority: int | None = None


class RerankResult(BaseModel):
    """A kept document."""

    index: int = Field(description="place in `documents`")
    relevance_score: float = Field(
        description="the upstream's own; without an upstream it falls evenly with the rank, and measures nothing"
    )
    document: dict[str, Any] | None = Field(default=None, description="with `return_documents`")


class Pruned(BaseModel):
    """What came of the pruning; see `/v1/prune`."""

    status: Status
    reason: Reason | None = None
    arm: str | None
    documents: int
    kept: int
    usage: Usage


class Meta(BaseModel):
    """About the answer."""

    api_version: dict[str, str] = {"version": "2"}
    pruner: Pruned


class JinaUsage(BaseModel):
    """Tokens of the grading."""

    total_tokens: int
    prompt_tokens: int


class RerankResponse(BaseModel):
    """The kept documents, in reranker order."""

    id: str
    object: str = "list"
    model: str | None = None
    results: list[RerankResult]
    meta: Meta
    usage: JinaUsage


# The fields of a body are the reranker's; any client of one can add a header.
_Key = Annotated[
    str | None, Header(max_length=1000, description="whose list it is: equal keys get the same arm, in mode `ab`")
]


@router.post(
    "/v1/rerank", response_model=RerankResponse, summary="Prune as a reranker that leaves out what is not needed"
)
@router.post("/v2/rerank", response_model=RerankResponse, include_in_schema=False)
@router.post("/rerank", response_model=RerankResponse, include_in_schema=False)
async def _rerank(
    body: RerankRequest, request: Request, parts: Annotated[Parts, Depends(parts_of)], x_prune_key: _Key = None
) -> Response:
    answer = await while_connected(request, _pruned(body, request, parts, x_prune_key))
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")


async def _pruned(body: RerankRequest, request: Request, parts: Parts, key: str | None) -> RerankResponse:
    ranking = await _ranking(body, parts)
    chunks = [Chunk(text=body.documents[place].text, score=score) for place, score in ranking]
    dials = _at_most(body.top_n, parts)
    result = await parts.gateway.prune(body.query, chunks, key=key, dials=dials)
    write_note(request.scope[NOTE], parts, body.query, result)
    return _answer(body, chunks, ranking, result)


async def _ranking(body: RerankRequest, parts: Parts) -> Sequence[tuple[int, float]]:
    """Return places and scores in reranker order: the upstream's, or the order the documents came in."""
    if parts.upstream and body.documents:
        return await parts.upstream.rank(body.query, [document.text for document in body.documents])
    n = len(body.documents)
    return [(place, round(1 - place / n, 6)) for place in range(n)]


def _at_most(top_n: int | None, parts: Parts) -> dict[str, Any]:
    """Say `top_n` in our dials: a cap that keeps the reranker's first few, then the best graded."""
    if top_n is None:
        return {}
    config = parts.config
    return {
        "max_chunks": min(top_n, config.max_chunks or top_n),
        "keep_top_k": min(top_n, config.keep_top_k),
    }


def _answer(
    body: RerankRequest, chunks: Sequence[Chunk], ranking: Sequence[tuple[int, float]], result: PruneResult[Chunk]
) -> RerankResponse:
    rank_of = {id(chunk): rank for rank, chunk in enumerate(chunks)}
    usage = result.usage
    results = []
    for rank in sorted(rank_of[id(chunk)] for chunk in result.chunks):
        place, score = ranking[rank]
        document = body.documents[place].model_dump() if body.return_documents else None
        results.append(RerankResult(index=place, relevance_score=score, document=document))
    how: dict[str, Any] = {"status": result.status, "reason": result.reason, "arm": result.arm}
    pruned = Pruned(**how, documents=len(body.documents), kept=len(results), usage=usage)
    return RerankResponse(
        id=request_id.get(),
        model=body.model,
        results=results,
        meta=Meta(pruner=pruned),
        usage=JinaUsage(total_tokens=usage.input_tokens + usage.output_tokens, prompt_tokens=usage.input_tokens),
    )
