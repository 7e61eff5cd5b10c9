import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.cases import Case
from eval.errors import EvalError
from eval.strategies import STRATEGIES, Configuration, configurations
from eval.sweep import sweep
from tests.made_cases import made_case, made_record

TOP_2 = Configuration("top_n", (("n", 2),))
LISTWISE = Configuration("listwise", (("threshold", 4), ("keep_top_k", 1), ("scoring", "grade")))
CASES = [
    made_case("a", [1, 5, 4], [1, 2], tokens=(60, 30, 10), holds_answer=frozenset({2}), has_answer=True),
    made_case("b", [1, 1], [], tokens=(50, 50)),
]


def test_every_measure_has_a_row_for_each_configuration_and_a_column_for_each_case() -> None:
    found = sweep(CASES, [TOP_2, LISTWISE])
    assert found.kept.tolist() == [
        [[True, True, False], [True, True, False]],
        [[True, True, True], [True, False, False]],
    ]
    np.testing.assert_allclose(found.whole, np.array([[0, np.nan], [1, np.nan]]))
    np.testing.assert_allclose(found.chunk_recall, np.array([[0.5, np.nan], [1, np.nan]]))
    np.testing.assert_allclose(found.precision, np.array([[0.5, np.nan], [2 / 3, np.nan]]))
    np.testing.assert_allclose(found.compression, np.array([[1 / 3, 0], [0, 0.5]]))
    np.testing.assert_allclose(found.token_compression, np.array([[0.1, 0], [0, 0.5]]))
    np.testing.assert_allclose(found.answer_survives, np.array([[0, np.nan], [1, np.nan]]))


def test_what_lists_lack_is_named_in_the_order_of_the_configurations() -> None:
    bare = made_case("c", [None, None], [0], scores=(None, None), records={})
    cuts = [
        Configuration(name, ((dial, 0.5),)) for name, dial in (("score_cut", "at_least"), ("relative_cut", "share"))
    ]
    for tried in ([LISTWISE, *cuts], [*cuts[::-1], LISTWISE]):
        assert list(sweep([*CASES, bare], tried).lacking) == [c.strategy for c in tried]


def test_what_asks_nobody_costs_nothing_and_what_has_no_price_is_not_free() -> None:
    priced = made_case("a", [1, 5], [0])
    unpriced = made_case("b", [1, 5], [0], records={"listwise": made_record("b", [1, 5], cost=None, latency=2.0)})
    found = sweep([priced, unpriced], [TOP_2, LISTWISE])
    np.testing.assert_allclose(found.cost, np.array([[0, 0], [0.001, np.nan]]))
    np.testing.assert_allclose(found.latency, np.array([[0, 0], [0.5, 2.0]]))


def test_all_configurations_are_compared_on_the_same_cases() -> None:
    without = made_case("c", [1, 1], [0], records={})
    found = sweep([*CASES, without], [TOP_2, LISTWISE])
    assert [case.id for case in found.cases] == ["a", "b"]
    assert (found.left_out, found.lacking) == (1, {"listwise": 1})
    assert sweep([*CASES, without], [TOP_2]).left_out == 0


def test_the_longest_list_may_be_one_of_those_left_out() -> None:
    longest = made_case("c", [1] * 9, [8], scores=(-1.0,) * 9)
    cut = Configuration("relative_cut", (("share", 0.5),))
    found = sweep([*CASES, longest], [TOP_2, cut])
    assert (found.kept.shape, found.lacking) == ((2, 2, 3), {"relative_cut": 1})


def test_when_no_case_is_left_it_says_what_is_missing() -> None:
    with pytest.raises(EvalError, match="no list has a grading for anchors: make them by `python -m eval grade`"):
        sweep(CASES, [TOP_2, Configuration("anchors", (("level", 3), ("keep_top_k", 0)))])
    with pytest.raises(EvalError, match="nothing to compare"):
        sweep([], [TOP_2])
    with pytest.raises(EvalError, match="nothing to compare"):
        sweep(CASES, [])


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    made = []
    for name in range(draw(st.integers(1, 4))):
        grades = draw(st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=6))
        places = st.frozensets(st.integers(0, len(grades) - 1))
        tokens = tuple(draw(st.lists(st.integers(0, 50), min_size=len(grades), max_size=len(grades))))
        made.append(made_case(str(name), grades, sorted(draw(places)), tokens=tokens, holds_answer=draw(places)))
    return made


@given(cases())
def test_the_tables_hold_what_each_strategy_keeps_of_each_case(made: list[Case]) -> None:
    found = sweep(made, configurations(made))
    for c, configuration in enumerate(found.configurations):
        for q, case in enumerate(made):
            kept = STRATEGIES[configuration.strategy].keep(case, configuration)
            assert kept == frozenset(np.flatnonzero(found.kept[c, q]).tolist())
            assert kept is not None
            assert found.compression[c, q] == pytest.approx(1 - len(kept) / case.n)
            if case.needed:
                assert bool(found.whole[c, q]) == (case.needed <= kept)


@given(cases())
def test_keeping_everything_keeps_the_recall_and_the_oracle_has_the_best_precision(made: list[Case]) -> None:
    found = sweep(made, [Configuration("all"), Configuration("oracle")])
    needed = np.array([bool(case.needed) for case in made])
    assert found.whole[:, needed].all()
    assert (found.compression[0] == 0).all()
    np.testing.assert_allclose(found.precision[1, needed], 1)
    np.testing.assert_allclose(found.ndcg[1, needed], 1)
