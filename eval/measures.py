"""The measures, over a boolean table of what is kept: rows are questions, columns are places in the list, from 0.

Shapes: `kept` and the tables it is held against are (questions, places), padded with False; the results are
(questions,), NaN where a measure is not defined. A configuration's figure is the mean over the questions that are
defined.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NDCG_AT",
    "Floats",
    "Table",
    "answer_survives",
    "auc",
    "chunk_recall",
    "compression",
    "ndcg",
    "precision",
    "whole",
]

Table: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]

NDCG_AT = 10


def whole(kept: Table, needed: Table) -> Floats:
    """Recall preserved: 1 where every needed chunk of the list is kept, else 0; NaN where none is in the list."""
    return _where(needed.any(axis=1), ~(needed & ~kept).any(axis=1))


def chunk_recall(kept: Table, needed: Table) -> Floats:
    """Share of the list's needed chunks that are kept; NaN where there are none."""
    return _ratio((kept & needed).sum(axis=1), needed.sum(axis=1))


def precision(kept: Table, needed: Table) -> Floats:
    """Share of the kept chunks that are needed; NaN where nothing is kept or nothing in the list is needed."""
    return _where(needed.any(axis=1), _ratio((kept & needed).sum(axis=1), kept.sum(axis=1)))


def ndcg(kept: Table, gains: Floats, at: int = NDCG_AT) -> Floats:
    """nDCG@k of what is sent, in the order in which it is sent; NaN where no chunk of the list has a gain.

    Jarvelin and Kekalainen (2002): gain / log2(place + 1) over places from 1, by the best order of the whole list.
    """
    places = np.cumsum(kept, axis=1)
    counted = kept & (places <= at)
    discounts = np.where(counted, 1 / np.log2(np.maximum(places, 1) + 1), 0.0)
    best = -np.sort(-gains, axis=1)[:, :at]
    ideal = (best / np.log2(np.arange(best.shape[1]) + 2)).sum(axis=1)
    return _ratio((gains * discounts).sum(axis=1), ideal)


def compression(kept: Table, weights: Floats) -> Floats:
    """Share dropped of what the list holds; NaN where it holds nothing.

    Args:
        kept: what is kept.
        weights: what each chunk counts: 1, or its tokens; 0 beyond the list's end.
    """
    return 1 - _ratio((weights * kept).sum(axis=1), weights.sum(axis=1))


def answer_survives(kept: Table, holds_answer: Table) -> Floats:
    """1 where a kept chunk holds the answer's words; NaN where no chunk of the list does."""
    return _where(holds_answer.any(axis=1), (kept & holds_answer).any(axis=1))


def auc(levels: Floats, needed: Table) -> float:
    """Return how often a needed chunk of one list has a higher level than one that is not, ties by half.

    NaN where all or none are needed. Both arguments are (places,).
    """
    difference = levels[needed][:, None] - levels[~needed][None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0))) if difference.size else float("nan")


def _ratio(part: Any, total: Any) -> Floats:
    shares: Floats = np.full(np.shape(total), np.nan)
    np.divide(part, total, out=shares, where=total > 0)
    return shares


def _where(defined: Any, values: Any) -> Floats:
    return np.where(defined, values, np.nan).astype(np.float64)
