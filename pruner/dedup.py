"""Copies of one chunk: of one id, of one place in the source, of nearly one text. What contradicts is no copy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pruner.candidates import By, Candidate, Conflict, Span, by_rank
from pruner.conflicts import Difference, Reading, agree, differences, read
from pruner.similarity import jaccards, known_cosines
from pruner.skeletons import plain
from pruner.stages import StageResult

__all__ = ["DuplicateIds", "NearDuplicates", "SpanDuplicates", "is_official"]

_NEAR = 0.8  # As shingles are shared by texts that say nearly the same.
_MOST_COMPARED = 50
_MOST_FACTS = 200_000
_IsCopy = Callable[[Candidate, Candidate, bool, bool], bool]
_OFFICIAL = frozenset({"official", "primary", "authoritative", "canonical"})


def is_official(candidate: Candidate) -> bool:
    """Whether the chunk's source speaks with authority, by its own `authority`."""
    return (candidate.chunk.authority or "").strip().casefold() in _OFFICIAL


@dataclass(frozen=True, slots=True)
class DuplicateIds:
    """Keep the best ranked chunk of each id, as of lists that were fused; and what contradicts it.

    Attributes:
        jaccard: from which likeness on two texts of one id are held to contradict each other.
    """

    jaccard: float = 0.8

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by id."""
        groups = _groups(candidates, lambda c: c.chunk.id)
        of: dict[int, int] = {}
        conflicts: list[Conflict] = []
        for group in groups:
            every = np.ones((len(group), len(group)), np.bool_)
            copies, found = _compare(group, self.jaccard, every, lambda _a, _b, differ, near: not (differ and near))
            of |= copies
            conflicts += found
        unknown = sum(c.chunk.id is None for c in candidates)
        return _without(candidates, of, By.DUPLICATE_ID, conflicts, _lacking(unknown, candidates, "an id"))


@dataclass(frozen=True, slots=True)
class SpanDuplicates:
    """Of chunks that show nearly the same span of one revision of a source, keep the best ranked.

    Those that say something else at the same place are of different revisions, whatever is known of them: no copies.
    Each is held against at most 50 at its place, those with its text first; what is not compared stays.

    Attributes:
        overlap: from which overlap on, as a share of the shorter span, in (0, 1].
    """

    overlap: float = 0.8

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by span."""
        placed = [c for c in candidates if _span(c) is not None]
        of: dict[int, int] = {}
        for group in _groups(placed, lambda c: (c.chunk.source_id, c.chunk.revision_id)):
            of |= self._copies(group)
        note = _lacking(len(candidates) - len(placed), candidates, "a source and a span")
        return _without(candidates, of, By.SPAN_DUPLICATE, (), note)

    def _copies(self, group: Sequence[Candidate]) -> dict[int, int]:
        of: dict[int, int] = {}
        places = _Places(group)
        leaders: list[int] = []
        for n, candidate in enumerate(group):
            near = [place for place in leaders if places.overlap(place, n) >= self.overlap]
            if len(near) > _MOST_COMPARED:
                near = sorted(near, key=lambda place: group[place].text != candidate.text)[:_MOST_COMPARED]
            same = next((place for place in near if places.agree(place, n)), None)
            if same is None:
                leaders.append(n)
            else:
                of[candidate.index] = group[same].index
        return of


class _Places:
    """What the chunks of one source say where they overlap."""

    def __init__(self, group: Sequence[Candidate]) -> None:
        self._texts = [c.text for c in group]
        self._spans = [_span(c) or (0, 0) for c in group]

    def overlap(self, a: int, b: int) -> float:
        """Return the overlap as a share of the shorter span."""
        (start, end), (other_start, other_end) = self._spans[a], self._spans[b]
        return (min(end, other_end) - max(start, other_start)) / min(end - start, other_end - other_start)

    def agree(self, a: int, b: int) -> bool:
        """Whether two read the same where their spans overlap; as far as offsets are of the text, else in facts."""
        if self._is_exact(a) and self._is_exact(b):
            start, end = (pick(self._spans[a][n], self._spans[b][n]) for n, pick in enumerate((max, min)))
            return self._between(a, start, end) == self._between(b, start, end)
        return not self._near[a, b] or agree(self._readings[a], self._readings[b])

    def _is_exact(self, n: int) -> bool:
        start, end = self._spans[n]
        return end - start == len(self._texts[n])

    def _between(self, n: int, start: int, end: int) -> str:
        own = self._spans[n][0]
        return plain(self._texts[n][start - own : end - own])

    @cached_property
    def _readings(self) -> list[Reading]:
        return read(self._texts)

    @cached_property
    def _near(self) -> NDArray[np.bool_]:
        return jaccards([reading.skeleton for reading in self._readings]) >= _NEAR


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Of chunks with nearly the same text, keep the best ranked; those that differ in facts are kept, as a conflict.

    Attributes:
        jaccard: from which share of common shingles on texts are nearly the same, in (0, 1].
        cosine: from which cosine of embeddings on, where two have one of the same length, in (0, 1].
        across_sources: whether chunks of different sources are copies too; if not, they corroborate each other.
        canonical: keep the official one rather than the best ranked.
    """

    jaccard: float = 0.8
    cosine: float = 0.98
    across_sources: bool = True
    canonical: bool = False

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by text."""
        ranked = by_rank(candidates)
        if self.canonical:
            ranked.sort(key=lambda c: not is_official(c))
        cosines = known_cosines(ranked)
        of, conflicts = _compare(ranked, self.jaccard, cosines >= self.cosine, self._is_copy)
        note = _lacking(int(np.isnan(cosines.diagonal()).sum()), candidates, "an embedding")
        return _without(candidates, of, By.NEAR_DUPLICATE, conflicts, note)

    def _is_copy(self, kept: Candidate, other: Candidate, differ: bool, _near: bool) -> bool:
        sources = {kept.chunk.source_id, other.chunk.source_id} - {None}
        return not differ and (self.across_sources or len(sources) < 2)


def _compare(
    group: Sequence[Candidate], jaccard: float, alike: NDArray[np.bool_], is_copy: _IsCopy
) -> tuple[dict[int, int], list[Conflict]]:
    """Compare each with those kept before it.

    Args:
        group: the first of several copies is kept.
        jaccard: from which likeness on texts are near-equal, so that different facts are a conflict.
        alike: which others are to be compared.
        is_copy: decides on the kept one and the other, told whether their facts differ and whether they are near-equal.

    Returns:
        Index of each copy → index of the kept one, and the conflicts among the kept: of each with at most 50 before
        it, and fewer where they hold very many facts, so that a thousand texts that all contradict each other take
        seconds. What is not compared stays.
    """
    readings = read([c.text for c in group])
    known: dict[str, int] = {}
    # Blanks matter only where there is nothing else to compare.
    keys = [r.text if len(r.skeleton) else " ".join(r.text.split()) for r in readings]
    same = np.array([known.setdefault(key, len(known)) for key in keys])
    near = (jaccards([reading.skeleton for reading in readings]) >= jaccard) | (same[:, None] == same[None, :])
    compared = near | alike
    before: dict[int, list[int]] = {}
    for place, other in np.argwhere(np.tril(compared, -1)).tolist():
        before.setdefault(place, []).append(other)
    facts = sum(readings[place].left_out for place in before)
    most = min(_MOST_COMPARED, 1 + _MOST_FACTS // (1 + facts))
    of: dict[int, int] = {}
    conflicts: list[Conflict] = []
    for place, candidate in enumerate(group):
        against: list[Conflict] = []
        left = [other for other in before.get(place, ()) if group[other].index not in of]
        if len(left) > most:
            left = sorted(left, key=lambda other: same[other] != same[place])[:most]
        for other in left:
            kept = group[other]
            found = differences(readings[other], readings[place])
            if is_copy(kept, candidate, found is not None, bool(near[place, other])):
                of[candidate.index] = kept.index
                break
            if found and near[place, other]:
                against.append(_conflict(kept, candidate, found))
        else:
            conflicts += against
    return of, conflicts


def _conflict(a: Candidate, b: Candidate, found: Difference) -> Conflict:
    kind, of_a, of_b = found
    if a.index < b.index:
        return Conflict((a.index, b.index), kind, (of_a, of_b))
    return Conflict((b.index, a.index), kind, (of_b, of_a))


def _groups(candidates: Iterable[Candidate], key: Callable[[Candidate], object]) -> list[list[Candidate]]:
    """Gather those with the same key, not None, in order of rank; groups of one are left out."""
    groups: dict[object, list[Candidate]] = {}
    for candidate in by_rank(candidates):
        if (name := key(candidate)) is not None:
            groups.setdefault(name, []).append(candidate)
    return [group for group in groups.values() if len(group) > 1]


def _span(candidate: Candidate) -> Span | None:
    """Say where a chunk stands in its source; None where that is not known."""
    chunk = candidate.chunk
    if chunk.source_id is None or chunk.start_char is None:
        return None
    end = chunk.start_char + len(chunk.text) if chunk.end_char is None else chunk.end_char
    return (chunk.start_char, end) if end > chunk.start_char else None


def _without(
    candidates: Sequence[Candidate], of: Mapping[int, int], reason: By, conflicts: Sequence[Conflict], note: str
) -> StageResult:
    """Drop the copies, and give what they know to those that stand for them."""
    joined: dict[int, list[str]] = {}
    for copy in candidates:
        if copy.index in of:
            joined.setdefault(of[copy.index], []).extend(copy.query_ids)
    against: dict[int, list[Conflict]] = {}
    for conflict in conflicts:
        for index in conflict.indices:
            against.setdefault(index, []).append(conflict)
    kept = [_with(c, joined.get(c.index), against.get(c.index)) for c in candidates if c.index not in of]
    return StageResult(kept, dict.fromkeys(of, reason), of=of, note=note)


def _with(candidate: Candidate, names: Sequence[str] | None, conflicts: Sequence[Conflict] | None) -> Candidate:
    if not names and not conflicts:
        return candidate
    return candidate.changed(
        query_ids=tuple(dict.fromkeys([*candidate.query_ids, *(names or ())])),
        conflicts=tuple(dict.fromkeys([*candidate.conflicts, *(conflicts or ())])),
    )


def _lacking(number: int, candidates: Sequence[Candidate], what: str) -> str:
    return f"{number} of {len(candidates)} without {what}" if number else ""
