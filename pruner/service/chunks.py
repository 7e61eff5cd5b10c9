"""The chunks of a body: given as such, or as a reranker's answer about documents."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pruner.schema import Chunk
from pruner.service.errors import Code, Refusal
from pruner.service.strict import ListOf, Strict, TextOr

__all__ = ["GivenChunk", "Ranked", "RankedDocument", "check_differ", "invalid_list", "ranked_chunks"]

_Id = str | int | None
_Names = Annotated[tuple[str, ...], Field(strict=False, max_length=1000, fail_fast=True)]


class GivenChunk(TextOr, Chunk):
    """A chunk: a string, or an object with a `text`. Ids are answered; the model never sees them."""

    model_config = ConfigDict(coerce_numbers_to_str=False, strict=True, allow_inf_nan=False)

    id: _Id = None
    parent_id: _Id = None
    source_id: _Id = None
    revision_id: _Id = None
    page: _Id = None
    query_ids: Annotated[tuple[str, ...], Field(strict=False, max_length=100, fail_fast=True)] = ()
    acl: _Names | None = None
    heading_path: _Names = ()
    embedding: ListOf[float] | None = Field(default=None, repr=False)


class RankedDocument(GivenChunk):
    """A document of a reranker's answer: its fields are those of a chunk, and what else it holds is ignored."""

    model_config = ConfigDict(extra="ignore")


class Ranked(Strict):
    """One result of a reranker's answer."""

    index: int = Field(ge=0, description="place in `documents`")
    relevance_score: float
    document: RankedDocument | None = Field(default=None, description="stands in for `documents`")


def ranked_chunks(results: Sequence[Ranked], documents: Sequence[RankedDocument] | None) -> list[Chunk]:
    """Return the documents in the reranker's order, with its scores.

    Args:
        results: best first.
        documents: those that the results name; None where each result holds its own.

    Raises:
        Refusal: a place or an id is there twice, or the results do not fit the documents.
    """
    check_differ([r.index for r in results], "results[{}].index")
    found = [_document(place, result, documents) for place, result in enumerate(results)]
    check_differ([document.id for document in found], "results[{}].document.id")
    scores = [result.relevance_score for result in results]
    return [document.model_copy(update={"score": score}) for document, score in zip(found, scores, strict=True)]


def _document(place: int, result: Ranked, documents: Sequence[RankedDocument] | None) -> Chunk:
    if documents is not None:
        if result.index < len(documents):
            return documents[result.index]
        raise invalid_list(f"there are {len(documents)} documents", f"results[{place}].index")
    if result.document is None:
        raise invalid_list("give `documents`, or the document of every result", f"results[{place}].document")
    return result.document


def check_differ(names: Sequence[Any], field: str) -> None:
    """Refuse a list in which two have one name; None names nobody.

    Raises:
        Refusal: two have; `field`, with the place filled in, says which.
    """
    seen: dict[Any, int] = {}
    for place, name in enumerate(names):
        if name is not None and seen.setdefault(name, place) != place:
            raise invalid_list(f"the same as {field.format(seen[name])}; each needs its own", field.format(place))


def invalid_list(message: str, field: str | None) -> Refusal:
    """Make the refusal of a list that cannot be used."""
    return Refusal(Code.INVALID_REQUEST, message, field)
