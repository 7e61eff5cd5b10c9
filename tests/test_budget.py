from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.budget import FitBudget, Room, TokenBudget, Unexpanded
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
    assert stage.counter.count(shown) <= (stage.budget or 0)


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
    left = (stage.budget or 0) - sum(c.tokens or 0 for c in result.kept)
    assert left >= 0
    assert all(result.costs[index] > left for index in result.dropped)


def cap(tokens: int) -> FitBudget:
    return FitBudget(None, Words(), cap=tokens)


def plain(index: int, n: int, **fields: Any) -> Candidate:
    return candidate(index, " ".join(["w"] * n), **fields)


def test_a_cap_counts_the_texts_alone_and_passes_over_what_does_not_fit() -> None:
    result = cap(10)([plain(0, 4), plain(1, 9), plain(2, 5)])
    assert [(c.index, c.tokens) for c in result.kept] == [(0, 4), (2, 5)]
    assert (result.dropped, result.costs) == ({1: By.TOKEN_CAP}, {0: 4, 1: 9, 2: 5})


def test_a_cap_holds_even_against_the_protected() -> None:
    stage = FitBudget(None, Words(), first=frozenset({0}), cap=3)
    assert kept(stage, [plain(0, 4, order=0), plain(1, 3, order=1)]) == [1]


def test_with_both_limits_each_is_held_and_named() -> None:
    rows = [plain(0, 8), plain(1, 5, source_id="s " * 20), plain(2, 5)]
    result = FitBudget(20, Words(), cap=6)(rows)
    assert [c.index for c in result.kept] == [2]
    assert result.dropped == {0: By.TOKEN_CAP, 1: By.TOKEN_BUDGET}


@pytest.mark.parametrize("stage", [FitBudget(6, Words()), cap(3)])
def test_one_that_does_not_fit_with_its_headings_is_tried_as_it_was_given(stage: FitBudget) -> None:
    headed = replace(plain(0, 3), text="Terms / Backups\n\nw w w")
    assert [c.text for c in stage([headed]).kept] == ["w w w"]


class Noting(Words):
    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return super().count(text)


def test_when_room_is_short_what_does_not_fit_as_it_was_given_is_not_counted_with_more_around_it() -> None:
    counter = Noting()
    full = replace(plain(1, 5), text="more w w w w w")
    rows = [plain(0, 3), full, replace(plain(2, 4), text="more w w w w"), replace(plain(3, 1), text="more w")]
    result = FitBudget(None, counter, cap=5)(rows)
    assert [c.text for c in result.kept] == ["w w w", "more w"]
    assert result.costs == {0: 3, 1: 5, 2: 4, 3: 2}
    assert "more w w w w" not in counter.counted


def test_nor_is_a_block_of_several_whose_best_part_alone_does_not_fit() -> None:
    counter = Noting()
    block = replace(plain(2, 4), text="w w w w and more", merged=(3,))
    result = FitBudget(None, counter, cap=5)([plain(0, 3), plain(1, 9), block])
    assert (result.dropped, result.costs) == ({1: By.TOKEN_CAP, 2: By.TOKEN_CAP}, {0: 3, 1: 9, 2: 4})
    assert block.text not in counter.counted


def test_when_there_is_room_nothing_is_counted_that_is_not_shown() -> None:
    counter = Noting()
    FitBudget(None, counter, cap=99)([replace(plain(n, n + 1), text="more" + " w" * (n + 1)) for n in range(3)])
    assert counter.counted == ["more w", "more w w", "more w w w"]


@pytest.mark.parametrize("pick", ["greedy", "density"])
def test_nothing_is_counted_twice(pick: Literal["greedy", "density"]) -> None:
    counter = Noting()
    rows = [plain(0, 3), plain(1, 9), replace(plain(2, 4), text="more w w w w"), replace(plain(3, 1), text="more w")]
    FitBudget(None, counter, pick, cap=5)(rows)
    assert sorted(counter.counted) == sorted(set(counter.counted))


def test_a_section_that_is_shorter_than_its_chunk_is_tried_first() -> None:
    short = replace(plain(0, 9), text="of its own", parent=plain(9, 3).chunk)
    assert [c.text for c in cap(5)([short]).kept] == ["of its own"]


@given(rows, st.integers(0, 60), st.sampled_from(COUNTERS))
def test_no_cap_is_ever_exceeded(candidates: list[Candidate], tokens: int, counter: Any) -> None:
    left = FitBudget(None, counter, cap=tokens)(candidates).kept
    assert sum(counter.count(c.text) for c in left) <= tokens


@pytest.mark.parametrize("limit", [{"budget": 10}, {"budget": None, "cap": 7}], ids=str)
def test_a_limit_is_exact(limit: dict[str, Any]) -> None:
    row = [words(0, 10)]
    assert kept(FitBudget(counter=Words(), **limit), row) == [0]
    less = {name: tokens and tokens - 1 for name, tokens in limit.items()}
    assert kept(FitBudget(counter=Words(), **less), row) == []


def test_room_holds_each_once() -> None:
    room = Room(Words(), None, 5, 9)
    assert [room.hold(c) for c in (plain(0, 3), plain(0, 3), plain(1, 3), plain(2, 2))] == [True, True, False, True]
    assert room.held == {0, 2}


def test_what_is_shown_as_it_was_given_has_nothing_of_a_parent() -> None:
    grown = replace(plain(0, 1), text="more w", parent=plain(9, 2).chunk, spans=((0, 6),))
    left = Unexpanded(frozenset({0}))([grown, replace(grown, index=1)]).kept
    assert [(c.text, c.parent is None, c.spans) for c in left] == [("w", True, ()), ("more w", False, ((0, 6),))]
