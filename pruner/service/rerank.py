"""`POST /v1/rerank`, in the form that Cohere's and Jina's clients speak."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from pruner.errors import Reason
from pruner.schema import Chunk, PruneResult, Status, Usage
from pruner.service.chunks import invalid_list
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
    """A document: a string, or an object with a `text` or the `rank_fields`; other fields are only given back."""

    model_config = ConfigDict(extra="allow")

    text: str | None = None

    def read(self, fields: Sequence[str], place: int) -> str:
        """Return what is to be read of it: the one field, or of several a line for each that it has.

        Raises:
            Refusal: it has none of them, or one is no text.
        """
        whole = {"text": self.text, **(self.model_extra or {})}
        wanted = fields if self.model_extra else ["text"]
        given = {name: whole[name] for name in wanted if whole.get(name) is not None}
        if not given:
            raise invalid_list("needs the text that is to be read", f"documents[{place}].{wanted[0]}")
        for name, value in given.items():
            if not isinstance(value, str):
                raise invalid_list("must be text, as it is to be read", f"documents[{place}].{name}")
        if len(wanted) == 1:
            return str(given[wanted[0]])
        return "\n".join(f"{name}: {value}" for name, value in given.items())


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
    rank_fields: list[str] | None = Field(
        default=None,
        max_length=100,
        description="what is read of documents that are objects, of several a line `name: text` each (default: `text`)",
    )
    max_tokens_per_doc: int | None = Field(default=None, description="taken, and not needed; so are the next two")
    max_chunks_per_doc: int | None = None
    priority: int | None = None

    def texts(self) -> list[str]:
        """Return what is to be read of each document.

        Raises:
            Refusal: there is nothing in one.
        """
        fields = self.rank_fields or ["text"]
        return [document.read(fields, place) for place, document in enumerate(self.documents)]


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
    texts = body.texts()
    ranking = await _ranking(body.query, texts, parts)
    chunks = [Chunk(text=texts[place], score=score) for place, score in ranking]
    dials = _at_most(body.top_n, parts)
    result = await parts.gateway.prune(body.query, chunks, key=key, dials=dials)
    write_note(request.scope[NOTE], parts, body.query, result)
    return _answer(body, chunks, ranking, result)


async def _ranking(query: str, texts: Sequence[str], parts: Parts) -> Sequence[tuple[int, float]]:
    """Return places and scores in reranker order: the upstream's, or the order the documents came in."""
    if parts.upstream and texts:
        return await parts.upstream.rank(query, texts)
    n = len(texts)
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
        document = body.documents[place].model_dump(exclude_unset=True) if body.return_documents else None
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
