"""What happens to the chunks before anyone is asked about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from pruner.errors import RequestError
from pruner.schema import By, Candidate, Chunk
from pruner.stages import StageResult

__all__ = ["MinScore", "to_chunks"]

_FIELDS = Chunk.model_fields.keys()


def to_chunks(given: Sequence[object]) -> list[Chunk]:
    """Bring the caller's chunks into our form. Unknown keys of a mapping become metadata.

    Raises:
        RequestError: the list is none, or an entry holds no text; the message names the entry.
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
    known = {key: value for key, value in given.items() if key in _FIELDS}
    extra = {str(key): value for key, value in given.items() if key not in _FIELDS}
    try:
        return Chunk(**{**known, "metadata": {**extra, **(known.get("metadata") or {})}})
    except (ValidationError, TypeError) as error:
        raise RequestError(f"chunk {index}: {_first(error)}") from None


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    return str(error)


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
