"""What happens to the chunks before anyone is asked about them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import ValidationError

from pruner.errors import RequestError
from pruner.schema import By, Candidate, Chunk
from pruner.stages import StageResult

__all__ = ["MinScore", "to_chunks"]

_FIELDS = Chunk.model_fields.keys()


def to_chunks(given: Sequence[object]) -> list[Chunk]:
    """Bring the caller's chunks into our form.

    Of a mapping, None counts as not given (but for the text), unknown keys become metadata, and keys of metadata str.

    Raises:
        RequestError: the list is none, or an entry holds no text or a field of the wrong type; the message names it.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise RequestError(f"chunks must be a list of str, Chunk or mapping, not {type(given).__name__}")
    return [_to_chunk(index, entry) for index, entry in enumerate(given)]


def _to_chunk(index: int, given: object) -> Chunk:
    if isinstance(given, Chunk):
        return given
    if isinstance(given, str):
        return Chunk(text=given)
    if not isinstance(given, Mapping):
        raise RequestError(f"chunk {index} is a {type(given).__name__}; give a str, a Chunk or a mapping with a 'text'")
    try:
        return Chunk(**_fields(given))
    except ValidationError as error:
        raise RequestError(f"chunk {index}: {_first(error)}") from None
    except Exception as error:
        # The caller's objects are asked for their keys, values and str(), and may raise whatever they like.
        raise RequestError(f"chunk {index} cannot be read: {type(error).__name__}") from error


def _fields(given: Mapping[Any, Any]) -> dict[str, Any]:
    known = {key: value for key, value in given.items() if key in _FIELDS and (value is not None or key == "text")}
    extra = {str(key): value for key, value in given.items() if key not in _FIELDS}
    metadata = known.get("metadata", {})
    if isinstance(metadata, Mapping) and (extra or metadata):
        known["metadata"] = {**extra, **{str(key): value for key, value in metadata.items()}}
    if isinstance(known.get("date"), date):
        known["date"] = known["date"].isoformat()
    if "heading_path" in known and isinstance(known["heading_path"], str | Iterator):
        # A str is one heading, not its letters. An iterator is refused as one: reading it would use it up.
        known["heading_path"] = [known["heading_path"]]
    return known


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


@dataclass(frozen=True, slots=True)
class MinScore:
    """Drop chunks whose score is below an absolute cut, except the first `keep_top_k`.

    A chunk without a score, or with NaN, stays: nothing is known against it.
    """

    min_score: float
    keep_top_k: int

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by score."""
        low = [c for c in candidates[self.keep_top_k :] if c.chunk.score is not None and c.chunk.score < self.min_score]
        dropped = {c.index: By.MIN_SCORE for c in low}
        return StageResult([c for c in candidates if c.index not in dropped], dropped)
