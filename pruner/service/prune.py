"""`POST /v1/prune` and `POST /v1/assemble`."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from pruner.candidates import Conflict
from pruner.evidence import evidence_rules, render_evidence
from pruner.schema import Chunk, Decision, PruneResult
from pruner.service.dials import open_dials
from pruner.service.errors import RESPONSES, Code, Refusal
from pruner.service.front import NOTE, Note
from pruner.service.limits import StrictRoute, while_connected
from pruner.service.logs import request_id
from pruner.service.models import AssembleRequest, Evidence, PruneRequest, PruneResponse, Timings, Tokens
from pruner.service.parts import Parts, parts_of

__all__ = ["prune_list", "router", "write_note"]

# How many times `max_body` the parents of all chunks may come to.
_PARENTS = 5

router = APIRouter(route_class=StrictRoute, responses=RESPONSES)


@router.post("/v1/prune", response_model=PruneResponse, summary="Prune one list, by one call of the model")
async def _prune(body: PruneRequest, request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    return _json(await while_connected(request, prune_list(body, parts, request.scope[NOTE])))


@router.post("/v1/assemble", response_model=PruneResponse, summary="Select anew by recorded grades, for free")
async def _assemble(body: AssembleRequest, request: Request, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    started = time.perf_counter()
    chunks, places = body.listed()
    dials = open_dials(body.dials, parts.settings.dials)
    result = parts.gateway.assemble(body.query, chunks, body.grading, dials, **_asked(body, chunks, parts))
    write_note(request.scope[NOTE], parts, body.query, result)
    return _json(_answer(body, chunks, places, result, started))


async def prune_list(body: PruneRequest, parts: Parts, note: Note) -> PruneResponse:
    """Prune the list of a request, whatever way it came.

    Args:
        body: the request.
        parts: of the service.
        note: gets what the log says about it.

    Raises:
        Refusal: the list, or a dial, cannot be used.
    """
    started = time.perf_counter()
    chunks, places = body.listed()
    dials = open_dials(body.dials, parts.settings.dials)
    about = {"history": body.history, "key": body.key, **_asked(body, chunks, parts)}
    result = await parts.gateway.prune(body.query, chunks, dials=dials, **about)
    write_note(note, parts, body.query, result)
    return _answer(body, chunks, places, result, started)


def _asked(body: PruneRequest | AssembleRequest, chunks: Sequence[Chunk], parts: Parts) -> dict[str, Any]:
    """Return whom and what a list is for.

    Raises:
        Refusal: the parents are more than the operator allows.
    """
    of = {chunk.parent_id: parent for chunk in chunks if (parent := body.parent_of(chunk))}
    # Each child is shown in a copy of its parent's text, before those of one parent merge.
    shown = sum(len(of[chunk.parent_id].text) for chunk in chunks if chunk.parent_id in of)
    most = _PARENTS * parts.settings.max_body
    if shown > most:
        message = f"come to {shown} characters, counted for each of their chunks, and at most {most} are taken"
        raise Refusal(Code.INVALID_REQUEST, message, "parents")
    return {"principals": body.principals, "required_query_ids": body.required_query_ids, "parents": of}


def write_note(note: Note, parts: Parts, query: str, result: PruneResult[Chunk]) -> None:
    """Say what came of a request in its log line and span."""
    note.update(status=result.status, reason=result.reason, arm=result.arm)
    note.update(chunks=len(result.decisions), kept=len(result.chunks))
    usage, seconds = result.usage, round(result.latency, 4)
    note.update(calls=usage.calls, cost=usage.cost, grading_seconds=seconds)
    if parts.settings.log_content:
        note.update(query=query, texts=result.given_texts)


def _answer(
    body: PruneRequest | AssembleRequest,
    chunks: Sequence[Chunk],
    places: Sequence[int],
    result: PruneResult[Chunk],
    started: float,
) -> PruneResponse:
    # The chunks of a result are the very objects that were given, in whatever order.
    place_of = {id(chunk): place for chunk, place in zip(chunks, places, strict=True)}
    return PruneResponse(
        request_id=request_id.get(),
        kept=[place_of[id(chunk)] for chunk in result.chunks],
        ids=[chunk.id for chunk in result.chunks],
        decisions=_placed(result.decisions, places),
        status=result.status,
        reason=result.reason,
        usage=result.usage,
        timings=Timings(grading=round(result.latency, 4), total=round(time.perf_counter() - started, 4)),
        arm=result.arm,
        conflicts=[_renamed(conflict, places) for conflict in result.conflicts],
        uncovered_query_ids=list(result.uncovered_query_ids),
        evidence=_evidence(result) if body.evidence else None,
        texts=result.texts if body.texts else None,
        tokens=_tokens(result) if body.tokens else None,
        trace=result.trace if body.trace else None,
    )


def _placed(decisions: Sequence[Decision], places: Sequence[int]) -> list[Decision]:
    """Return the decisions by the caller's places; they are the ranks already where the list came as `chunks`."""
    if all(rank == place for rank, place in enumerate(places)):
        return list(decisions)
    return [replace(decision, index=places[decision.index]) for decision in decisions]


def _renamed(conflict: Conflict, places: Sequence[int]) -> Conflict:
    first, second = conflict.indices
    return replace(conflict, indices=(places[first], places[second]))


def _evidence(result: PruneResult[Chunk]) -> Evidence:
    return Evidence(blocks=render_evidence(result), rules=evidence_rules(result))


def _json(answer: PruneResponse) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


def _tokens(result: PruneResult[Chunk]) -> Tokens:
    return Tokens(before=result.tokens_before, after=result.tokens_after, chunks=list(result.tokens))
