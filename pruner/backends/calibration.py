"""Puts the embedded model's raw readings on the scale of the levels, with fixed constants.

The constants are fitted by `python -m eval.embedded fit` on the `tune` half of its records. They belong to
Qwen2.5-Coder-1.5B-Instruct and the prompt `probe.v1`; for another model they are a guess.
"""

from bisect import bisect
from collections.abc import Sequence

__all__ = ["levels_of"]

# A list that seems needed throughout makes each of its chunks a little less so.
_WEIGHT_OF_MEAN = -0.51
# Scores half-way between two levels: of the needed chunks, 2, 7, 35 and 75% lie below them.
_CUTS = (0.07, 0.33, 0.85, 1.24)
_SCORES = (_CUTS[0] - 0.25, *_CUTS, _CUTS[-1] + 0.5)
_MEANS = (1.0, 1.5, 2.5, 3.5, 4.5, 5.0)


def levels_of(readings: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return the probabilities of the levels 1..5, shape (n, 5), for the log odds that each chunk is needed."""
    shift = _WEIGHT_OF_MEAN * sum(readings) / max(len(readings), 1)
    return tuple(_between(_mean_level(reading + shift)) for reading in readings)


def _mean_level(score: float) -> float:
    """Interpolate between the cuts."""
    right = bisect(_SCORES, score)
    if right in (0, len(_SCORES)):
        return _MEANS[min(right, len(_MEANS) - 1)]
    low, high = _SCORES[right - 1 : right + 1]
    below, above = _MEANS[right - 1 : right + 1]
    return below + (above - below) * (score - low) / (high - low)


def _between(mean: float) -> tuple[float, ...]:
    """Return the distribution over two neighbouring levels that has this mean."""
    lower = min(int(mean), 4)
    return tuple(max(0.0, 1 - abs(mean - level)) if level in (lower, lower + 1) else 0.0 for level in range(1, 6))
