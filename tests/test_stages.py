from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.budget import FitBudget
from pruner.diversity import Select
from pruner.preparation import MinScore
from pruner.schema import By, Candidate, Chunk, Grade
from pruner.selection import FallbackTopN, KeepAll, Threshold
from pruner.stages import Stage, StageResult, run_stages


class Words:
    def count(self, text: str) -> int:
        return len(text.split())


def candidate(
    index: int, grade: int | None = None, expected: float | None = None, score: float | None = None, words: int = 1
) -> Candidate:
    text = " ".join(["w"] * words)
    level = None if grade is None else Grade(grade)
    return Candidate(index, Chunk(text=text, score=score), text, level, expected)


def graded(*grades: int | None) -> list[Candidate]:
    return [candidate(index, grade) for index, grade in enumerate(grades)]


def kept(stage: Stage, candidates: Sequence[Candidate]) -> list[int]:
    return [c.index for c in stage(candidates).kept]


candidates_strategy = st.lists(
    st.tuples(
        st.none() | st.integers(1, 5),
        st.none() | st.floats(1, 5),
        st.none() | st.floats(allow_nan=True),
        st.integers(0, 9),
    ),
    max_size=12,
).map(lambda rows: [candidate(i, *row) for i, row in enumerate(rows)])
stages_strategy = st.sampled_from(
    [
        Threshold(3, 2),
        Threshold(4.5, 0, use_expected=True),
        FallbackTopN(None),
        FallbackTopN(3),
        KeepAll(),
        Select(max_chunks=3, first=(0, 1)),
        FitBudget(None, Words(), cap=11),
        MinScore(0.5, 2),
    ]
)


def test_threshold_keeps_what_reaches_it() -> None:
    assert kept(Threshold(3, 0), graded(5, 2, 3, 1)) == [0, 2]


def test_keep_top_k_saves_the_first_few_whatever_their_grade() -> None:
    result = Threshold(3, 2)(graded(1, 1, 1, 5))
    assert [(c.index, c.by) for c in result.kept] == [(0, By.KEEP_TOP_K), (1, By.KEEP_TOP_K), (3, By.GRADE)]
    assert result.dropped == {2: By.BELOW_THRESHOLD}


def test_ungraded_chunks_are_kept_and_say_so() -> None:
    result = Threshold(5, 0)(graded(1, None, 5))
    assert [(c.index, c.by) for c in result.kept] == [(1, By.UNGRADED), (2, By.GRADE)]


def test_a_grade_that_suffices_is_named_before_the_place() -> None:
    assert Threshold(3, 2)(graded(5, 1)).kept[0].by is By.GRADE


def test_expected_grades_decide_when_asked_for_and_written_ones_stand_in() -> None:
    mixed = [candidate(0, 5, 2.4), candidate(1, 2, 3.1), candidate(2, 4, None)]
    assert kept(Threshold(3, 0, use_expected=True), mixed) == [1, 2]


def test_fallback_keeps_the_first_n_or_all() -> None:
    assert kept(FallbackTopN(2), graded(None, None, None)) == [0, 1]
    assert kept(FallbackTopN(None), graded(None, None, None)) == [0, 1, 2]


def test_min_score_spares_the_first_few_and_the_unscored() -> None:
    rows = [
        candidate(0, score=0.1),
        candidate(1, score=0.2),
        candidate(2),
        candidate(3, score=0.9),
        candidate(4, score=float("nan")),
    ]
    assert kept(MinScore(0.5, 1), rows) == [0, 2, 3, 4]


@given(candidates_strategy, stages_strategy)
def test_every_stage_puts_each_candidate_in_one_place_and_keeps_order(rows: list[Candidate], stage: Stage) -> None:
    left, traces = run_stages(rows, [stage])
    indices = [c.index for c in left]
    assert indices == sorted(indices)
    assert sorted([*indices, *traces[0].dropped]) == [c.index for c in rows]


@given(candidates_strategy, stages_strategy)
def test_every_stage_is_idempotent(rows: list[Candidate], stage: Stage) -> None:
    once = stage(rows).kept
    assert [c.index for c in stage(once).kept] == [c.index for c in once]


@given(candidates_strategy, st.floats(1, 5), st.floats(1, 5), st.booleans())
def test_a_higher_threshold_never_keeps_more(rows: list[Candidate], a: float, b: float, use_expected: bool) -> None:
    low, high = sorted((a, b))
    assert set(kept(Threshold(high, 2, use_expected), rows)) <= set(kept(Threshold(low, 2, use_expected), rows))


def _lose(candidates: Sequence[Candidate]) -> StageResult:
    return StageResult(candidates[1:])


def _double(candidates: Sequence[Candidate]) -> StageResult:
    return StageResult([*candidates, candidates[0]])


def _both(candidates: Sequence[Candidate]) -> StageResult:
    return StageResult(candidates, {0: By.MIN_SCORE})


@pytest.mark.parametrize("stage", [_lose, _double, _both])
def test_a_stage_that_loses_or_doubles_a_candidate_is_a_bug_that_raises(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match=stage.__name__):
        run_stages(graded(1, 2), [stage])


def test_the_trace_names_the_stage_and_what_it_dropped() -> None:
    _, traces = run_stages(graded(5, 1), [Threshold(3, 0)])
    assert traces[0].stage == "Threshold"
    assert traces[0].kept == (0,)
    assert traces[0].dropped == {1: "below_threshold"}
