from math import log2

import numpy as np
import pytest

from eval import measures
from eval.measures import Table

# Three questions over lists of 4, 3 and 2: two of three needed kept; nothing needed in the list; all needed kept.
KEPT: Table = np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]], dtype=bool)
NEEDED: Table = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
NOTHING: Table = np.zeros((1, 4), dtype=bool)
NAN = float("nan")


def equal(found: object, expected: list[float]) -> None:
    np.testing.assert_allclose(np.asarray(found), expected)


def test_recall_preserved_is_all_or_nothing_and_undefined_without_gold() -> None:
    equal(measures.whole(KEPT, NEEDED), [0, NAN, 1])


def test_chunk_recall_is_the_share_of_the_needed_that_is_kept() -> None:
    equal(measures.chunk_recall(KEPT, NEEDED), [2 / 3, NAN, 1])


def test_precision_is_the_share_of_the_kept_that_is_needed() -> None:
    equal(measures.precision(KEPT, NEEDED), [2 / 3, NAN, 1])
    equal(measures.precision(NOTHING, NEEDED[:1]), [NAN])


def test_compression_counts_chunks_or_tokens_of_the_list_alone() -> None:
    equal(measures.compression(KEPT, np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])), [1 / 4, 1 / 3, 1 / 2])
    tokens = np.array([[10, 70, 10, 10], [0, 0, 0, 0], [30, 10, 0, 0]])
    equal(measures.compression(KEPT, tokens), [0.7, NAN, 0.75])


def test_ndcg_is_of_what_is_sent_in_the_order_it_is_sent() -> None:
    # Sent are places 0, 2, 3: gains 3, 0, 3; the best order of the whole list is 3, 3, 3.
    first = (3 + 3 / log2(4)) / (3 + 3 / log2(3) + 3 / log2(4))
    equal(measures.ndcg(KEPT, np.where(NEEDED, 3.0, 0.0)), [first, NAN, 1.0])


def test_ndcg_counts_helpful_chunks_less_and_looks_at_the_first_few() -> None:
    gains = np.array([[1.0, 3.0, 0.0]])
    everything = np.ones((1, 3), dtype=bool)
    equal(measures.ndcg(everything, gains), [(1 + 3 / log2(3)) / (3 + 1 / log2(3))])
    equal(measures.ndcg(everything, gains, at=1), [1 / 3])


def test_an_answer_survives_where_a_chunk_that_holds_it_is_kept() -> None:
    holds: Table = np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=bool)
    equal(measures.answer_survives(KEPT, holds), [1, NAN, 0])


@pytest.mark.parametrize(
    ("levels", "needed", "auc"),
    [([3, 2, 1], [0], 1.0), ([1, 2, 3], [0], 0.0), ([1, 1], [0], 0.5), ([3, 1, 2], [0, 1], 0.5), ([1, 2], [], NAN)],
)
def test_auc_is_the_share_of_pairs_in_the_right_order(levels: list[float], needed: list[int], auc: float) -> None:
    mask = np.isin(np.arange(len(levels)), needed)
    equal(measures.auc(np.array(levels, dtype=float), mask), auc)  # type: ignore[arg-type]
