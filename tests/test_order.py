from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.candidates import Candidate
from pruner.errors import ConfigError
from pruner.order import Order, OrderPolicy
from tests.packed import candidate

POLICIES: list[OrderPolicy] = ["reranker", "relevance", "edges", "query", "source", "time"]
ROWS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.fixed_dictionaries(
        {
            "relevance": st.none() | st.floats(0, 1),
            "query_ids": st.lists(st.sampled_from(["q1", "q2"]), unique=True).map(tuple),
            "source_id": st.none() | st.sampled_from(["a", "b"]),
            "date": st.none() | st.sampled_from(["2024-05-01", "2025-01-31"]),
        }
    ),
    max_size=9,
)
rows = ROWS.map(lambda found: [candidate(i, **fields) for i, fields in enumerate(found)])


def order(by: OrderPolicy, *fields: dict[str, Any]) -> list[int]:
    given_ = [candidate(i, **f) for i, f in enumerate(fields)]
    return [c.index for c in Order(by)(given_).kept]


def by_relevance(by: OrderPolicy, *relevances: float | None) -> list[int]:
    return order(by, *({"relevance": relevance} for relevance in relevances))


def test_the_default_is_the_rerankers_order() -> None:
    shuffled = [candidate(2), candidate(0), candidate(1)]
    assert [c.index for c in Order()(shuffled).kept] == [0, 1, 2]


def test_relevance_puts_the_most_relevant_first_and_ties_as_ranked() -> None:
    assert by_relevance("relevance", 0.2, 0.9, None, 0.9) == [1, 3, 0, 2]


def test_edges_puts_rank_1_3_5_first_and_6_4_2_last() -> None:
    assert by_relevance("edges", 0.9, 0.8, 0.7, 0.6, 0.5, 0.4) == [0, 2, 4, 5, 3, 1]


def test_sub_queries_stand_together_as_their_best_chunk_is_ranked_and_the_rest_last() -> None:
    found: list[dict[str, Any]] = [{"query_ids": ids} for ids in (("b",), (), ("a",), ("b", "a"), ("a",))]
    assert order("query", *found) == [0, 3, 2, 4, 1]


def test_sources_stand_together() -> None:
    found: list[dict[str, Any]] = [{"source_id": name} for name in ("x", "y", None, "x")]
    assert order("source", *found) == [0, 3, 1, 2]


def test_time_goes_from_old_to_new_and_the_undated_come_last() -> None:
    found: list[dict[str, Any]] = [{"date": date} for date in ("2025-01-01", None, "2024-01-01", "2025-01-01")]
    assert order("time", *found) == [2, 0, 3, 1]


@given(rows, st.sampled_from(POLICIES), st.randoms())
def test_every_policy_only_permutes_and_does_not_depend_on_the_order_given(
    candidates: list[Candidate], by: OrderPolicy, random: Random
) -> None:
    once = Order(by)(candidates)
    assert sorted(once.kept, key=lambda c: c.index) == candidates
    assert not once.dropped
    assert Order(by)(random.sample(candidates, len(candidates))).kept == once.kept


def test_an_unknown_policy_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^no order 'best'; use one of reranker, relevance, edges"):
        Order("best")  # type: ignore[arg-type]
