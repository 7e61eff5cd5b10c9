from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.candidates import By, Candidate, Chunk, Conflict, Grade
from pruner.coverage import cover, relevances, uncovered
from pruner.diversity import Select


def of(*rows: dict[str, Any]) -> list[Candidate]:
    made = []
    for i, row in enumerate(rows):
        given = dict(row)
        grade, relevance = given.pop("grade", None), given.pop("relevance", None)
        chunk = Chunk(**{"text": f"text {i}", **given})
        level = None if grade is None else Grade(grade)
        made.append(Candidate(i, chunk, chunk.text, level, query_ids=chunk.query_ids, relevance=relevance))
    return made


def taken(stage: Select, candidates: list[Candidate]) -> list[int]:
    return [c.index for c in sorted(stage(candidates).kept, key=lambda c: c.order or 0)]


def test_relevance_is_the_grade_on_a_scale_from_0_to_1_and_the_ungraded_are_needed() -> None:
    assert relevances(of({"grade": 1}, {"grade": 4}, {})) == {0: 0, 1: 0.75, 2: 1}


def test_without_any_grade_relevance_is_the_rank_and_never_the_score() -> None:
    assert relevances(of({"score": -9.0}, {"score": 7.0})) == {0: 1, 1: 0.5}


def test_each_sub_query_gets_its_most_relevant_candidate() -> None:
    rows = of({"grade": 2, "query_ids": ["a"]}, {"grade": 5, "query_ids": ["a"]}, {"grade": 1, "query_ids": ["b"]})
    assert cover(rows, ["a", "b", "c"], relevances(rows)) == (1, 2)


def test_one_candidate_can_serve_several_sub_queries() -> None:
    rows = of({"grade": 4, "query_ids": ["a"]}, {"grade": 4, "query_ids": ["a", "b"]}, {"grade": 3, "query_ids": ["b"]})
    assert cover(rows, ["a", "b"], relevances(rows)) == (1,)


def test_what_nothing_serves_is_named() -> None:
    assert uncovered(of({"query_ids": ["a"]}, {}), ["b", "a", "c", "b"]) == ("b", "c")


def test_at_lambda_1_the_order_is_that_of_relevance() -> None:
    assert taken(Select(1.0), of({"relevance": 0.2}, {"relevance": 0.9}, {"relevance": 0.2})) == [1, 0, 2]


def test_what_is_redundant_waits_and_its_score_says_so() -> None:
    rows = of(
        {"relevance": 1.0, "embedding": [1, 0]},
        {"relevance": 1.0, "embedding": [1, 0.01]},
        {"relevance": 0.75, "embedding": [0, 1]},
    )
    stage = Select(0.5)
    assert taken(stage, rows) == [0, 2, 1]
    assert [c.mmr for c in stage(rows).kept] == pytest.approx([0.5, 0.0, 0.375], abs=1e-2)


def test_without_embeddings_redundancy_is_in_the_terms_and_the_trace_says_so() -> None:
    rows = of(
        {"relevance": 1.0, "text": "backups are kept two weeks"},
        {"relevance": 1.0, "text": "backups are kept two weeks there"},
        {"relevance": 0.9, "text": "cancelling ends the plan"},
    )
    assert taken(Select(0.5), rows) == [0, 2, 1]
    assert Select(0.5)(rows).note.startswith("redundancy by terms")


def test_a_contradiction_is_not_redundant() -> None:
    first, second, third = of(*[{"relevance": r, "embedding": [1, 0]} for r in (1.0, 0.9, 0.8)])
    against = (Conflict((0, 2), "number", (("1",), ("2",))),)
    rows = [
        Candidate(c.index, c.chunk, c.text, relevance=c.relevance, conflicts=against if c is not second else ())
        for c in (first, second, third)
    ]
    assert taken(Select(0.5, max_chunks=2), rows) == [0, 2]


def test_caps_per_parent_and_source_drop_with_their_reason() -> None:
    rows = of(
        *[
            {"relevance": 1 - i / 9, "source_id": s, "parent_id": p}
            for i, (s, p) in enumerate([("a", "x"), ("a", "x"), ("a", "y")])
        ]
    )
    result = Select(per_parent=1, per_source=1)(rows)
    assert result.dropped == {1: By.PARENT_CAP, 2: By.SOURCE_CAP}


def test_parents_of_the_same_name_in_two_sources_are_two() -> None:
    rows = of({"source_id": "a", "parent_id": "x"}, {"source_id": "b", "parent_id": "x"}, {}, {})
    assert not Select(per_parent=1, per_source=1)(rows).dropped


def test_the_first_few_and_coverage_are_exempt_from_caps_and_count() -> None:
    rows = of(*[{"relevance": r, "source_id": "a"} for r in (0.0, 1.0, 0.5, 0.9)])
    result = Select(per_source=1, first=(0,), covering=(2,))(rows)
    assert [(c.index, c.order) for c in result.kept] == [(0, 0), (2, 1)]
    assert result.dropped == {1: By.SOURCE_CAP, 3: By.SOURCE_CAP}


def test_official_sources_come_first_and_without_a_cap_where_they_are_authoritative() -> None:
    rows = of(
        {"relevance": 1.0, "source_id": "blog"},
        {"relevance": 0.9, "source_id": "blog"},
        {"relevance": 0.2, "source_id": "docs", "authority": "official"},
        {"relevance": 0.1, "source_id": "docs", "authority": "official"},
    )
    stage = Select(per_source=1, policy="authoritative")
    assert taken(stage, rows) == [2, 3, 0]
    assert stage(rows).dropped == {1: By.SOURCE_CAP}
    assert "1 other sources" in stage(rows).note


rows = st.lists(
    st.fixed_dictionaries(
        {
            "relevance": st.floats(0, 1),
            "text": st.lists(st.sampled_from("abcd"), max_size=4).map(" ".join),
            "source_id": st.none() | st.sampled_from(["a", "b"]),
            "parent_id": st.none() | st.sampled_from(["x", "y"]),
            "query_ids": st.lists(st.sampled_from(["q1", "q2"]), max_size=2),
            "authority": st.none() | st.just("official"),
        }
    ),
    max_size=9,
).map(lambda rows: of(*rows))
stages = st.builds(
    Select,
    mmr_lambda=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    max_chunks=st.none() | st.integers(2, 6),
    per_parent=st.none() | st.integers(1, 2),
    per_source=st.none() | st.integers(1, 2),
    policy=st.sampled_from(["comparative", "authoritative"]),
    first=st.sampled_from([(), (0,), (0, 1)]),
)


@given(rows)
def test_lambda_1_equals_the_order_of_relevance(candidates: list[Candidate]) -> None:
    by_relevance = sorted(candidates, key=lambda c: (-(c.relevance or 0), c.index))
    assert taken(Select(1.0), candidates) == [c.index for c in by_relevance]


@given(rows, stages)
def test_coverage_is_never_beaten_by_mmr_or_caps(candidates: list[Candidate], rules: Select) -> None:
    covering = cover(candidates, ["q1", "q2"], {c.index: c.relevance or 0.0 for c in candidates})
    stage = Select(rules.mmr_lambda, None, rules.per_parent, rules.per_source, rules.policy, rules.first, covering)
    order = taken(stage, candidates)
    present = [index for index in (*rules.first, *covering) if index < len(candidates)]
    assert order[: len(set(present))] == list(dict.fromkeys(present))


@given(rows, stages)
def test_selecting_takes_each_once_in_some_order_and_keeps_to_the_caps(
    candidates: list[Candidate], stage: Select
) -> None:
    result = stage(candidates)
    assert sorted([*(c.index for c in result.kept), *result.dropped]) == [c.index for c in candidates]
    assert sorted(c.order for c in result.kept if c.order is not None) == list(range(len(result.kept)))
    assert stage.max_chunks is None or len(result.kept) <= stage.max_chunks
    assert result.kept == stage(candidates).kept
