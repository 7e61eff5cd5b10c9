"""Puts the embedded model's raw readings on the scale of the levels, with fixed constants."""

import math
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["levels_of"]


def levels_of(readings: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return the probabilities of the levels 1..5, shape (n, 5), for the log odds that each chunk is needed."""
    return tuple(map(_levels, readings))


def _levels(score: float) -> tuple[float, ...]:
    above = [1.0, *(1 / (1 + math.exp(-(score - cut))) for cut in (-2.0, -0.7, 0.7, 2.0)), 0.0]
    return tuple(a - b for a, b in pairwise(above))
