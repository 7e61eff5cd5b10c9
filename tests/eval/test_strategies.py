from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.cases import Case
from eval.strategies import STRATEGIES, Configuration, configurations
from pruner import Grade, Grading, Pruner, PrunerConfig, Status
from pruner.backends.scripted import ScriptedBackend
from tests.made_cases import made_case, made_record

ASSEMBLER = Pruner(PrunerConfig(), backend=ScriptedBackend([]))
LEVEL = st.none() | st.integers(1, 5)
MEAN = st.none() | st.floats(1, 5) | st.sampled_from([1.5, 2.0, 3.0, 4.5])


def asked(strategy: str, grades: int = 6, **found: Any) -> Case:
    record = made_record("q", [None] * grades, strategy=strategy, **found)
    return made_case("q", [None] * grades, [0, 4], records={strategy: record})


def kept(case: Case, strategy: str, **dials: Any) -> set[int] | None:
    found = STRATEGIES[strategy].keep(case, Configuration(strategy, tuple(dials.items())))
    return None if found is None else set(found)


@given(
    st.lists(st.tuples(LEVEL, MEAN), min_size=1, max_size=12),
    st.sampled_from(list(Status)),
    st.floats(1, 5) | st.integers(1, 5),
    st.integers(0, 14),
    st.sampled_from(["grade", "expected"]),
)
def test_listwise_keeps_what_the_product_keeps(
    levels: list[tuple[int | None, float | None]], status: Status, threshold: float, keep_top_k: int, scoring: str
) -> None:
    grades, expected = zip(*levels, strict=True)
    record = made_record("q", grades, expected=expected, status=str(status))
    case = made_case("q", grades, [], records={"listwise": record})
    grading = Grading(tuple(None if g is None else Grade(g) for g in grades), expected, status)
    dials: dict[str, Any] = {"threshold": threshold, "keep_top_k": keep_top_k, "scoring": scoring}
    result = ASSEMBLER.assemble("q", ["x"] * len(grades), grading, **dials)
    assert kept(case, "listwise", **dials) == {d.index for d in result.decisions if d.kept}


def test_all_keeps_everything_and_the_oracle_what_is_needed() -> None:
    case = made_case("q", [1] * 4, [1, 3])
    assert kept(case, "all") == {0, 1, 2, 3}
    assert kept(case, "oracle") == {1, 3}
    assert kept(made_case("q", [1] * 4, []), "oracle") == set()


def test_top_n_keeps_the_first_of_the_ranking() -> None:
    case = made_case("q", [1] * 4, [0])
    assert kept(case, "top_n", n=3) == {0, 1, 2}
    assert kept(case, "top_n", n=9) == {0, 1, 2, 3}


def test_a_score_cut_is_absolute_or_a_share_of_the_best() -> None:
    case = made_case("q", [1] * 4, [0], scores=(8.0, 4.0, 5.0, 1.0))
    assert kept(case, "score_cut", at_least=4.0) == {0, 1, 2}
    assert kept(case, "relative_cut", share=0.6) == {0, 2}


@pytest.mark.parametrize(("strategy", "dial"), [("score_cut", "at_least"), ("relative_cut", "share")])
def test_a_list_without_scores_cannot_be_cut_by_them(strategy: str, dial: str) -> None:
    assert kept(made_case("q", [1] * 2, [0], scores=(2.0, None)), strategy, **{dial: 0.5}) is None


def test_no_share_can_be_taken_of_scores_below_zero() -> None:
    assert kept(made_case("q", [1] * 2, [0], scores=(-1.0, -2.0)), "relative_cut", share=0.5) is None


def test_direct_select_keeps_the_choice_and_the_first_few() -> None:
    case = asked("direct_select", selected=(4, 3))
    assert kept(case, "direct_select", keep_top_k=0) == {3, 4}
    assert kept(case, "direct_select", keep_top_k=2) == {0, 1, 3, 4}


def test_budget_select_adds_the_most_needed_to_the_first_two() -> None:
    case = asked("budget_select", selected=(5, 3, 4))
    assert kept(case, "budget_select", budget=1) == {0, 1, 5}
    assert kept(case, "budget_select", budget=2) == {0, 1, 3, 5}


def test_choosing_nothing_is_a_choice() -> None:
    assert kept(asked("direct_select", selected=()), "direct_select", keep_top_k=0) == set()
    assert kept(asked("budget_select", selected=()), "budget_select", budget=3) == {0, 1}


def test_anchors_cut_the_ranking_below_the_passage_of_a_level() -> None:
    found: dict[str, Any] = {"anchors": {"5": 9.0, "3": 4.0, "2": 2.0}, "ranked": (10.0, 1.0, 4.0, 3.0, 0.0, 9.0)}
    case = asked("anchors", **found)
    assert kept(case, "anchors", level=5, keep_top_k=0) == {0, 5}
    assert kept(case, "anchors", level=3, keep_top_k=0) == {0, 2, 5}
    assert kept(case, "anchors", level=5, keep_top_k=2) == {0, 1, 5}


@pytest.mark.parametrize("strategy", ["direct_select", "budget_select", "anchors"])
def test_a_question_that_failed_keeps_everything(strategy: str) -> None:
    case = asked(strategy, status="fallback", reason="timeout")
    [first, *_] = STRATEGIES[strategy].grid(strategy, [case])
    assert STRATEGIES[strategy].keep(case, first) == frozenset(range(6))


@pytest.mark.parametrize("name", [name for name, strategy in STRATEGIES.items() if strategy.asks])
def test_what_was_not_asked_is_not_known(name: str) -> None:
    case = made_case("q", [1] * 3, [0], records={})
    [first, *_] = STRATEGIES[name].grid(name, [case])
    assert STRATEGIES[name].keep(case, first) is None


def test_only_strategies_that_some_list_has_the_data_for_are_tried() -> None:
    case = made_case("q", [1] * 3, [0], scores=(None,) * 3)
    assert {c.strategy for c in configurations([case])} == {"all", "top_n", "listwise", "oracle"}
    assert {c.strategy for c in configurations([case, asked("anchors")])} > {"anchors"}
    assert {c.strategy for c in configurations([case], ["all", "anchors"])} == {"all"}


def test_expected_grades_are_tried_only_where_there_are_any() -> None:
    def scorings(expected: tuple[float | None, ...]) -> set[Any]:
        record = made_record("q", [1, 2], expected=expected)
        case = made_case("q", [1, 2], [0], records={"listwise": record})
        return {dict(c.dials)["scoring"] for c in configurations([case], ["listwise"])}

    assert scorings((None, None)) == {"grade"}
    assert scorings((None, 2.5)) == {"grade", "expected"}


def test_every_place_in_the_ranking_is_tried_as_its_end() -> None:
    cases = [made_case("q", [1] * n, [0]) for n in (2, 4)]
    assert [str(c) for c in configurations(cases, ["top_n"])] == [f"top_n n={n}" for n in (1, 2, 3, 4)]


def test_a_configuration_has_a_short_label() -> None:
    dials = (("threshold", 2.5), ("keep_top_k", 2), ("scoring", "expected"))
    assert str(Configuration("listwise", dials)) == "listwise threshold=2.5 keep_top_k=2 scoring=expected"
    assert str(Configuration("all")) == "all"
