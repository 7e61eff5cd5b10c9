from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.budget import FitBudget, TokenBudget
from pruner.candidates import By, Candidate
from pruner.errors import ConfigError
from pruner.evidence import render_evidence
from pruner.stages import run_stages
from pruner.tokens import TokenCounter
from tests.packed import Characters, Words, candidate, result_of, texts

COUNTERS = [Words(), Characters(), TokenCounter()]
rows = st.lists(
    st.tuples(texts, st.none() | st.integers(0, 20), st.none() | st.floats(0, 1), st.none() | texts), max_size=8
).map(
    lambda found: [
        candidate(i, text, order=order, relevance=relevance, source_id=source)
        for i, (text, order, relevance, source) in enumerate(found)
    ]
)
stages = st.builds(
    FitBudget,
    st.integers(0, 300),
    st.sampled_from(COUNTERS),
    st.sampled_from(["greedy", "density"]),
    st.frozensets(st.integers(0, 7), max_size=3),
)


def words(index: int, n: int, **fields: Any) -> Candidate:
    """Make a candidate whose block has n words: two of the opening tag, one of the closing one."""
    return candidate(index, " ".join(["w"] * (n - 3)), **fields)


def kept(stage: FitBudget, candidates: Sequence[Candidate]) -> list[int]:
    return [c.index for c in stage(candidates).kept]


def test_what_is_left_for_evidence_is_the_context_without_the_other_parts() -> None:
    parts = {"system": 500, "history": 300, "question": 50, "output_reserve": 1000, "formatting_margin": 150}
    assert TokenBudget(8000, **parts).evidence == 6000


def test_when_nothing_is_left_one_line_says_what_took_it() -> None:
    with pytest.raises(
        ConfigError, match=r"^nothing is left for evidence: max_context 900 - \(system 500 \+ history 400\)$"
    ):
        TokenBudget(900, system=500, history=400)


def test_a_negative_part_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^history=-5 is negative"):
        TokenBudget(900, history=-5)


def test_a_chunk_that_does_not_fit_is_passed_over_and_the_next_one_tried() -> None:
    assert kept(FitBudget(20, Words()), [words(0, 10), words(1, 15), words(2, 10)]) == [0, 2]


def test_chunks_are_taken_in_the_order_of_their_selection() -> None:
    rows = [words(0, 10, order=2), words(1, 10, order=0), words(2, 10, order=1), words(3, 10)]
    assert kept(FitBudget(20, Words()), rows) == [1, 2]


def test_density_takes_the_most_relevance_per_token() -> None:
    rows = [words(0, 20, relevance=0.9), words(1, 5, relevance=0.5), words(2, 10, relevance=0.6)]
    assert kept(FitBudget(20, Words()), rows) == [0]
    assert kept(FitBudget(20, Words(), "density"), rows) == [1, 2]


@pytest.mark.parametrize("pick", ["greedy", "density"])
def test_the_protected_are_the_last_to_be_dropped(pick: Literal["greedy", "density"]) -> None:
    rows = [
        words(0, 10, relevance=0.1, order=0),
        words(1, 10, relevance=0.1, order=1),
        words(2, 5, relevance=1, order=2),
    ]
    assert kept(FitBudget(20, Words(), pick, frozenset({0, 1})), rows) == [0, 1]


def test_among_the_protected_the_order_of_selection_decides() -> None:
    rows = [words(0, 15, order=1), words(1, 15, order=0)]
    assert kept(FitBudget(20, Words(), "density", frozenset({0, 1})), rows) == [1]


def test_a_block_is_protected_when_one_of_its_parts_is() -> None:
    rows = [words(0, 5, relevance=1), replace(words(1, 15, relevance=0.1), merged=(4,))]
    assert kept(FitBudget(15, Words(), "density", frozenset({4})), rows) == [1]


def test_tags_and_attributes_count() -> None:
    plain, sourced = (
        words(0, 10),
        replace(words(1, 10), chunk=words(1, 10).chunk.model_copy(update={"source_id": "a b"})),
    )
    assert FitBudget(99, Words())([plain, sourced]).costs == {0: 10, 1: 12}


def test_the_trace_says_what_each_chunk_cost_kept_or_not() -> None:
    result = FitBudget(12, Words())([words(0, 10), words(1, 9)])
    assert result.costs == {0: 10, 1: 9}
    assert result.dropped == {1: By.TOKEN_BUDGET}
    assert [c.tokens for c in result.kept] == [10]
    assert run_stages([words(0, 10)], [FitBudget(12, Words())])[1][0].costs == {0: 10}


@given(rows, stages)
def test_what_is_rendered_never_exceeds_the_budget(candidates: list[Candidate], stage: FitBudget) -> None:
    shown = render_evidence(result_of(stage(candidates).kept))
    assert stage.counter.count(shown) <= stage.budget


@given(rows, stages)
def test_the_stage_is_idempotent_keeps_the_order_and_changes_only_the_count(
    candidates: list[Candidate], stage: FitBudget
) -> None:
    once = stage(candidates)
    assert [c.index for c in stage(once.kept).kept] == [c.index for c in once.kept]
    assert [replace(c, tokens=None) for c in once.kept] == [c for c in candidates if c.index not in once.dropped]


@given(rows, stages)
def test_whatever_was_dropped_did_not_fit_beside_what_went_before_it(
    candidates: list[Candidate], stage: FitBudget
) -> None:
    result = stage(candidates)
    used = sum(c.tokens or 0 for c in result.kept)
    assert used <= stage.budget
    assert all(result.costs[index] > stage.budget - used for index in result.dropped)
