from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner import dedup
from pruner.candidates import By, Candidate, Chunk
from pruner.dedup import DuplicateIds, NearDuplicates, SpanDuplicates
from pruner.stages import Stage, run_stages

TEXT = (
    "The backups of a workspace are kept in the region of the customer and can be restored by an administrator at will"
)


def of(*chunks: dict[str, Any]) -> list[Candidate]:
    made = [Chunk(**{"text": f"{word} text", **chunk}) for word, chunk in zip(cycle("abcdefgh"), chunks, strict=False)]
    return [Candidate(i, chunk, chunk.text, query_ids=chunk.query_ids) for i, chunk in enumerate(made)]


def test_of_one_id_the_best_ranked_is_kept() -> None:
    result = DuplicateIds()(of({"id": "x"}, {"id": "y"}, {"id": "x"}, {}, {}))
    assert [c.index for c in result.kept] == [0, 1, 3, 4]
    assert (result.dropped, result.of) == ({2: By.DUPLICATE_ID}, {2: 0})
    assert result.note == "2 of 5 without an id"


def test_what_contradicts_another_text_of_its_id_stays() -> None:
    result = DuplicateIds()(of({"id": 1, "text": TEXT + " for 14 days"}, {"id": 1, "text": TEXT + " for 30 days"}))
    assert len(result.kept) == 2
    assert [c.conflicts[0].tokens for c in result.kept] == [(("14",), ("30",))] * 2


def test_the_sub_queries_of_a_copy_go_to_the_kept_one() -> None:
    result = DuplicateIds()(of({"id": 1, "query_ids": ["q1"]}, {"id": 1, "query_ids": ["q2", "q1"]}))
    assert result.kept[0].query_ids == ("q1", "q2")
    assert result.kept[0].chunk.query_ids == ("q1",)


def span(start: int, end: int | None, source: str | None = "s", revision: str | None = None) -> dict[str, Any]:
    return {"start_char": start, "end_char": end, "source_id": source, "revision_id": revision}


@pytest.mark.parametrize(
    ("first", "second", "copy"),
    [
        (span(0, 100), span(20, 120), True),
        (span(0, 100), span(21, 121), False),
        (span(0, 1000), span(990, 1002), True),
        (span(0, 100), span(0, 100, "other"), False),
        (span(0, 100, revision="1"), span(0, 100, revision="2"), False),
        (span(0, 100, None), span(0, 100, None), False),
        (span(0, None) | {"text": TEXT[:60]}, span(1, None) | {"text": TEXT[1:61]}, True),
        (span(0, None) | {"text": TEXT + " for 14 days"}, span(0, None) | {"text": TEXT + " for 30 days"}, False),
        (span(0, None) | {"text": TEXT + " 14 days"}, span(len(TEXT), None) | {"text": " 30 days"}, False),
        (span(0, 99) | {"text": TEXT + " for 14 days"}, span(0, 99) | {"text": TEXT + " for 30 days"}, False),
        (span(0, 99) | {"text": TEXT + " for 14 days"}, span(0, 99) | {"text": TEXT + "  for 14 days"}, True),
        (span(5, 5), span(5, 5), False),
    ],
)
def test_spans_are_copies_when_they_share_most_of_the_shorter(first: Any, second: Any, copy: bool) -> None:
    result = SpanDuplicates()(of(first, second))
    assert result.dropped == ({1: By.SPAN_DUPLICATE} if copy else {})


def near(*chunks: dict[str, Any], **options: Any) -> Any:
    return NearDuplicates(**options)(of(*chunks))


def test_nearly_the_same_text_is_a_copy_of_the_better_ranked() -> None:
    result = near({"text": TEXT}, {"text": "Other words."}, {"text": TEXT.upper() + "!"}, {"text": TEXT + " indeed"})
    assert result.dropped == {2: By.NEAR_DUPLICATE, 3: By.NEAR_DUPLICATE}
    assert result.of == {2: 0, 3: 0}


@pytest.mark.parametrize("change", [" within 14 days", " not within 30 days", " within 30 weeks", " within 30 minutes"])
def test_what_contradicts_is_never_merged_and_named(change: str) -> None:
    result = near({"text": TEXT + " within 30 days"}, {"text": TEXT + change})
    assert not result.dropped
    conflict = result.kept[0].conflicts[0]
    assert conflict.indices == (0, 1)
    assert any(conflict.tokens)
    assert result.kept[1].conflicts == (conflict,)


@pytest.mark.parametrize(("kept", "changed"), [("encrypted", "unencrypted"), ("x == 5", "x != 5"), ("10 Mb", "10 MB")])
def test_what_is_the_opposite_by_a_prefix_a_sign_or_a_letter_s_case_is_never_merged(kept: str, changed: str) -> None:
    result = near({"text": f"{TEXT} {kept} {TEXT[::-1]}"}, {"text": f"{TEXT} {changed} {TEXT[::-1]}"})
    assert not result.dropped
    assert result.kept[0].conflicts


def test_a_copy_of_one_side_of_a_conflict_goes_to_that_side() -> None:
    a, b = TEXT + " for 14 days", TEXT + " for 30 days"
    result = near({"text": a}, {"text": b}, {"text": b + "."}, {"text": a + "."})
    assert result.of == {2: 1, 3: 0}
    assert [c.conflicts[0].indices for c in result.kept] == [(0, 1), (0, 1)]


def test_equal_embeddings_make_a_copy_unless_the_facts_differ() -> None:
    result = near(
        {"text": "Backups live two weeks.", "embedding": [1, 0.01]},
        {"text": "We retain copies for two weeks", "embedding": [1, 0]},
        {"text": "We retain copies for five weeks", "embedding": [1, 0.001]},
    )
    assert result.of == {1: 0}
    assert result.note == ""


def test_without_embeddings_the_trace_says_so() -> None:
    assert near({"embedding": [1.0]}, {}).note == "1 of 2 without an embedding"


EMBEDDED = st.sampled_from([None, [1.0, 0.0], [1, 0.01], [0.0, 1.0], [0.0, 0.0], [1.0], [float("nan"), 1.0]])


@given(st.lists(st.tuples(st.sampled_from(["rice", "tea", "rice is tea"]), EMBEDDED), max_size=7))
def test_whether_two_embeddings_are_compared_does_not_depend_on_the_others(rows: list[tuple[str, Any]]) -> None:
    chunks = [{"text": text, "embedding": embedding} for text, embedding in rows]
    once = near(*chunks)
    assert len(near(*[chunks[c.index] for c in once.kept]).kept) == len(once.kept)
    alone = [near(chunks[0], chunk).of for chunk in chunks[1:]]
    assert all((n in once.of) or not copy for n, copy in enumerate(alone, 1))


def test_other_sources_corroborate_when_asked_for() -> None:
    chunks = [{"text": TEXT, "source_id": name} for name in ("a", "b", "a")]
    assert near(*chunks).of == {1: 0, 2: 0}
    assert near(*chunks, across_sources=False).of == {2: 0}


def test_the_official_copy_is_kept_where_the_canonical_one_is_wanted() -> None:
    chunks = [{"text": TEXT}, {"text": TEXT, "authority": "Official"}]
    assert near(*chunks, canonical=True).of == {0: 1}


words = st.sampled_from(["the", "backup", "is", "not", "kept", "14", "30", "days", "备份", "不", "?"])
rows = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.lists(words, max_size=12).map(" ".join),
            "id": st.none() | st.integers(0, 3),
            "source_id": st.none() | st.sampled_from(["a", "b"]),
            "start_char": st.none() | st.integers(0, 30),
            "query_ids": st.lists(st.sampled_from(["q1", "q2", "q3"]), max_size=2),
            "authority": st.none() | st.just("official"),
            "embedding": st.none() | st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=2),
        }
    ),
    max_size=8,
)
STAGES: list[Stage] = [
    DuplicateIds(),
    SpanDuplicates(),
    NearDuplicates(),
    NearDuplicates(across_sources=False),
    NearDuplicates(canonical=True),
]


@given(rows, st.sampled_from(STAGES))
def test_finding_copies_twice_finds_no_more(rows: list[dict[str, Any]], stage: Stage) -> None:
    once, _ = run_stages(of(*rows), [stage])
    twice, traces = run_stages(once, [stage])
    assert not traces[0].dropped
    assert [c.query_ids for c in twice] == [c.query_ids for c in once]


@given(rows, st.sampled_from(STAGES))
def test_no_sub_query_is_lost_with_a_copy_and_each_copy_is_of_a_kept_one(
    rows: list[dict[str, Any]], stage: Stage
) -> None:
    candidates = of(*rows)
    result = stage(candidates)
    before, after = ({name for c in some for name in c.query_ids} for some in (candidates, result.kept))
    assert before == after
    assert set(result.of) == set(result.dropped)
    assert set(result.of.values()) <= {c.index for c in result.kept}
    assert all(set(conflict.indices) <= {c.index for c in result.kept} for c in result.kept for conflict in c.conflicts)


def test_texts_that_all_contradict_each_other_are_compared_with_no_more_than_fifty() -> None:
    words = "backups of the basic plan are kept for a while and then deleted"
    result = near(*({"text": f"{words} after {i} days"} for i in range(120)))
    assert len(result.kept) == 120
    assert max(sum(c.index in conflict.indices[1:] for conflict in c.conflicts) for c in result.kept) == 50


def test_texts_full_of_numbers_are_compared_with_fewer_of_those_they_contradict() -> None:
    result = near(*({"text": " ".join(str(i * 1000 + n) for n in range(300))} for i in range(100)))
    assert len(result.kept) == 100
    assert max(sum(c.index in conflict.indices[1:] for conflict in c.conflicts) for c in result.kept) == 7


def test_an_equal_text_is_found_among_more_than_fifty_that_contradict() -> None:
    words = "backups of the basic plan are kept for a while and then deleted"
    result = near(*({"text": f"{words} after {i % 100} days"} for i in range(200)))
    assert [c.index for c in result.kept] == list(range(100))
    assert {index: kept for index, kept in result.of.items() if index == 199} == {199: 99}


@pytest.mark.parametrize("end", [{}, {"end_char": 1000}])
def test_of_many_that_contradict_each_other_at_one_place_each_is_held_against_a_few(
    end: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    agree = dedup._Places.agree

    def counted(places: dedup._Places, a: int, b: int) -> bool:
        asked.append(b)
        return agree(places, a, b)

    monkeypatch.setattr(dedup._Places, "agree", counted)
    place = {"source_id": "s", "start_char": 0, **end}
    rows = [{**place, "text": f"{TEXT} for {n:03} days"} for n in range(120)]
    result = SpanDuplicates()(of(*rows, rows[100]))
    assert len(asked) <= 50 * 121
    assert (result.dropped, result.of) == ({120: By.SPAN_DUPLICATE}, {120: 100})
    assert len(SpanDuplicates()(result.kept).kept) == 120
