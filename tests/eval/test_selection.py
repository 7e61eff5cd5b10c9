from dataclasses import replace

import numpy as np
import pytest

from eval.embedded import Record
from eval.lists import LabelledList
from eval.selection import STRATEGIES, by_embedded_model, by_labels, measure, select, table
from pruner import Chunk, Grade, Grading, Status

SOURCE = "Rice is boiled. Basic backups are kept for 14 days. Tea is hot. Nobody came on Monday."
CHUNKS = (
    Chunk(text=SOURCE[:51], source_id="s", start_char=0, parent_id="p", query_ids=("q1",)),
    Chunk(text=SOURCE[:51], source_id="s", start_char=0, parent_id="p"),
    Chunk(text="Monday.", source_id="t", query_ids=("q2",)),
)
LIST = LabelledList(
    "made up",
    "1",
    "How long are Basic backups kept?",
    CHUNKS,
    needed=frozenset({1}),
    required=("q1", "q2", "q3"),
    answer="14 Days",
    parents={"p": Chunk(text=SOURCE, start_char=0)},
    sources={"s": SOURCE},
)
GRADED = Grading((Grade(5), Grade(5), Grade(1)), (None,) * 3, Status.OK)
A, B, C, D, E = STRATEGIES


def test_a_needed_chunk_counts_as_covered_by_its_copy() -> None:
    result = select(B, LIST, None)
    assert len(result.chunks) == 2
    assert measure(LIST, result).coverage == 1


def test_a_needed_chunk_that_is_dropped_is_not_covered() -> None:
    missed = replace(LIST, needed=frozenset({0, 2}))
    grading = Grading((Grade(5), Grade(5), Grade(1)), (None,) * 3, Status.OK)
    assert measure(missed, select(A, missed, grading)).coverage == 0.5


def test_copies_are_redundant_and_different_texts_are_not() -> None:
    assert measure(LIST, select(A, replace(LIST, chunks=CHUNKS[:2]), None)).redundancy == pytest.approx(1)
    assert measure(LIST, select(B, LIST, None)).redundancy == 0


@pytest.mark.parametrize(("strategy", "missing"), [(A, 2), (D, 1)])
def test_uncovered_sub_queries_are_those_that_no_block_serves(strategy: str, missing: int) -> None:
    assert measure(LIST, select(strategy, LIST, GRADED)).uncovered == missing


def test_the_answer_is_looked_for_in_what_is_shown() -> None:
    assert measure(LIST, select(A, LIST, None)).shown == 1
    assert measure(LIST, select(A, replace(LIST, chunks=CHUNKS[2:]), None)).shown == 0
    assert np.isnan(measure(replace(LIST, answer="60"), select(A, LIST, None)).shown)


@pytest.mark.parametrize(("strategy", "shown"), [(A, 35 / 45), (D, 1.0)])
def test_of_a_passage_the_share_that_is_shown_counts(strategy: str, shown: float) -> None:
    passage = replace(LIST, references=(("s", 16, 61),))
    assert measure(passage, select(strategy, passage, None)).shown == pytest.approx(shown)


def test_extracting_shortens_what_is_shown_and_keeps_its_spans_valid() -> None:
    whole, extracted = (measure(LIST, select(strategy, LIST, GRADED)) for strategy in (D, E))
    assert extracted.tokens < whole.tokens
    assert extracted.valid == whole.valid == 1


def test_spans_that_the_source_does_not_have_are_not_valid() -> None:
    moved = replace(LIST, sources={"s": f"New. {SOURCE}"})
    assert measure(moved, select(B, moved, None)).valid == 0.5


def test_by_the_labels_a_chunk_is_essential_when_it_shows_a_part_of_a_needed_passage() -> None:
    for start, end, grades in ((50, 60, (5, 5, 1)), (51, 60, (1, 1, 1)), (0, 1, (5, 5, 1))):
        ((_, grading),) = by_labels([replace(LIST, references=(("s", start, end),))])
        assert grading is not None
        assert (grading.grades, grading.status) == (grades, "ok")


def test_the_table_has_a_line_per_strategy_with_and_without_grading_and_no_text() -> None:
    written = table("Made up", [(LIST, GRADED)])
    assert written.count(", ranking |") == written.count(", graded |") == len(STRATEGIES)
    assert "1 lists: 1 made up." in written
    assert "backups" not in written


def test_a_list_that_the_model_read_is_cut_to_what_it_read_and_the_others_are_left_out() -> None:
    read = Record("made up", "1", "tune", 2, [1], [-9.0, 9.0], [9, 9], 99, 1.0, "0" * 64)
    [(given, grading)] = by_embedded_model([LIST, replace(LIST, id="2")], {("made up", "1"): read})
    assert given.chunks == CHUNKS[:2]
    assert grading is not None
    assert [int(grade or 0) for grade in grading.grades] == [1, 5]
