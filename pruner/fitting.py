"""What of a list fits into the model's input: long chunks are cut, then the tail of the ranking stays out."""

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.schema import Candidate, Counter

__all__ = ["Fit", "fit"]

CUT_MARK = " […]"
# The envelope of a chunk and its place in the reply; and the part of a budget that is used, as no counter of
# ours is the model's own.
_ENVELOPE = 40
_MARGIN = 0.9
# A chunk is not cut shorter than this: a few words say nothing of what the rest holds.
_FLOOR = 150
_LONGEST_LINE = 1_200


@dataclass(frozen=True, slots=True)
class Fit:
    """The candidates that are shown, with the text that is shown, and the indices of those left out."""

    shown: list[Candidate]
    left_out: tuple[int, ...] = ()


def fit(candidates: Sequence[Candidate], budget: int | None, fixed: Sequence[str], counter: Counter) -> Fit:
    """Make a list fit.

    Args:
        candidates: in reranker order.
        budget: tokens of the whole prompt; None when it is not limited.
        fixed: texts that are in the prompt whatever is shown: instructions, query, history.
        counter: counts tokens; not called when the number of bytes, which no number of tokens exceeds, settles it.

    Returns:
        All candidates where they fit. Else the longest are cut to one length, not below 150 tokens; and when that is
        not enough, the last of the ranking are left out.
    """
    if budget is None or _bytes([*fixed, *(c.text for c in candidates)]) + sum(map(_around, candidates)) <= budget:
        return Fit(list(candidates))
    room = int(budget * _MARGIN) - sum(map(counter.count, fixed))
    sizes = [counter.count(c.text) for c in candidates]
    n = _how_many(sizes, [_around(c) for c in candidates], room)
    limit = _level(sizes[:n], room - sum(map(_around, candidates[:n])))
    shown = [_cut(c, size, limit) for c, size in zip(candidates[:n], sizes[:n], strict=True)]
    return Fit(shown, tuple(c.index for c in candidates[n:]))


def _bytes(texts: Sequence[str]) -> int:
    return sum(len(text) if text.isascii() else 4 * len(text) for text in texts)


def _around(candidate: Candidate) -> int:
    """Estimate the tokens of what is shown beside the text; a line of it is cut in the prompt as well."""
    chunk = candidate.chunk
    lines = (chunk.title or "", chunk.date or "", " > ".join(chunk.heading_path))
    return _ENVELOPE + sum(min(_bytes([line]), _LONGEST_LINE) for line in lines if line) // 2


def _how_many(sizes: Sequence[int], around: Sequence[int], room: int) -> int:
    """Count the first chunks that fit when each is as short as it may be cut."""
    for n, size in enumerate(sizes):
        room -= min(size, _FLOOR) + around[n]
        if room < 0:
            return n
    return len(sizes)


def _level(sizes: Sequence[int], room: int) -> int:
    """Return the highest length to which all can be cut so that together they fill the room."""
    left = sorted(sizes)
    for place, size in enumerate(left):
        share = room // (len(left) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _cut(candidate: Candidate, size: int, limit: int) -> Candidate:
    if size <= limit:
        return candidate
    length = int(len(candidate.text) * limit / size)
    return candidate.changed(text=candidate.text[:length].rstrip() + CUT_MARK)
