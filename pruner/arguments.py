"""What a caller gave, checked and brought into our form."""

from collections.abc import Collection, Mapping, Sequence

from pruner.assembly import Asked
from pruner.candidates import Candidate, Chunk
from pruner.errors import RequestError
from pruner.preparation import to_chunks

__all__ = ["check_request", "to_asked", "to_candidates", "to_parents"]


def check_request(query: str, history: object, principals: object, required_query_ids: object, parents: object) -> None:
    """Refuse what `Pruner.prune` and `Pruner.assemble` would, before anything is paid for.

    Raises:
        RequestError: an argument is unusable.
    """
    to_asked(query, history, principals, required_query_ids)
    to_parents(parents)


def to_asked(query: str, history: object, principals: object, required: object) -> Asked:
    """Bring into our form what belongs to one request.

    Raises:
        RequestError: an argument is unusable.
    """
    if not isinstance(query, str):
        raise RequestError(f"query must be a str, not {type(query).__name__}")
    if not isinstance(history, Sequence):
        raise RequestError("history must be a list of str")
    _names("history", history)
    return Asked(query, frozenset(_names("principals", principals)), _names("required_query_ids", required))


def _names(what: str, given: object) -> tuple[str, ...]:
    if not isinstance(given, Collection) or isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise RequestError(f"{what} must be a list of str")
    return tuple(given)


def to_candidates(chunks: Sequence[object]) -> list[Candidate]:
    """Bring the caller's chunks into our form, each under its place.

    Raises:
        RequestError: one is unusable.
    """
    return [Candidate.given(index, chunk) for index, chunk in enumerate(to_chunks(chunks))]


def to_parents(given: object) -> dict[str | int, Chunk]:
    """Bring the caller's parents into our form, without those that are None.

    Raises:
        RequestError: one is unusable.
    """
    if not isinstance(given, Mapping):
        raise RequestError(f"parents must be a mapping of parent_id to parent, not {type(given).__name__}")
    known = {name: parent for name, parent in given.items() if parent is not None}
    try:
        return dict(zip(known, to_chunks(list(known.values())), strict=True))
    except RequestError as error:
        raise RequestError(f"of the parents, {error}") from None
