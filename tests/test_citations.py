import time
from dataclasses import replace

import pytest
from hypothesis import given

from pruner.candidates import Candidate, Chunk
from pruner.citations import check_citations
from pruner.parents import ExpandParents, MergeChildren
from pruner.sentences import load_splitter
from tests.packed import candidate, result_of, texts

SPLIT = load_splitter()
SOURCE = "Backups of Basic are kept for 14 days. Those of Pro for 90. All go on cancelling."
RESULT = result_of(
    [
        candidate(0, SOURCE[:38], source_id="terms", start_char=0, end_char=38),
        candidate(1, SOURCE[39:59], source_id="terms", start_char=39, end_char=59),
    ]
)


def uncited(answer: str) -> list[str]:
    return [answer[start:end] for start, end in check_citations(answer, RESULT, split=SPLIT).uncited]


def test_an_answer_that_cites_each_sentence_is_in_order() -> None:
    report = check_citations("Basic keeps 14 days [E1]. Pro keeps 90 [E2].", RESULT, sources={"terms": SOURCE})
    assert report.cited == ("E1", "E2")
    assert report.ok


@pytest.mark.parametrize(
    "cite",
    [
        "[E1, E7]",
        "[E1][E7]",
        "[e1; e7]",
        "【E1，E7】",
        "[ E1 E7 ]",
        "［E1、E7］",
        "[E1 and E7]",
        "[E1/E7]",
        "〔E1〕［Ｅ7］",
        "[E1, page 3] [E7, page 4]",
        "(E1) (E7)",
        "(E1, E7)",
        "(E1 and E7)",
        "（E1、E7）",
        "[E1, 7]",
        "[E1; 7; E1]",
        "(E1, 7)",
        "[see E1 and E7]",
        "[Source: E1; E7]",
        "(see E1, E7)",
        "[^E1][^E7]",
        "[[E1]] [[E7]]",
        "**[E1]** *[E7]*",
        "[E01][E007]",
        "[E1](#e1) [E7](#e7)",
        "[E1,\n E7]",
        "[E1" + ", E1" * 99 + ", E7]",
        "[E1,E7] [E7]",
    ],
)
def test_ids_that_no_block_has_are_found_however_they_are_written(cite: str) -> None:
    report = check_citations(f"Basic keeps 14 days {cite}.", RESULT)
    assert report.unknown == ("E7",)
    assert report.cited == ("E1", "E7")
    assert not report.ok


def test_a_range_cites_all_between_its_ends() -> None:
    assert check_citations("It keeps 14 days [E1]. Pro keeps more [E2–E4].", RESULT).unknown == ("E3", "E4")
    assert check_citations("So [E1-3].", RESULT).cited == ("E1", "E2", "E3")
    assert check_citations("So [E1-E999999999].", RESULT).unknown == ("E999999999",)
    assert check_citations("So (E1-E3, 5).", RESULT).cited == ("E1", "E2", "E3", "E5")
    assert check_citations("So [E1][E99999999999999].", RESULT).unknown == ("E99999999999999",)


def test_numbers_beside_an_id_that_are_no_ids_are_none() -> None:
    for cite in ("[E1, page 3]", "[E1, p. 3, 4]", "[E1, 2025 edition]", "[E1: 14 days]", "(E1, page 3)"):
        assert check_citations(f"It keeps 14 days {cite}.", RESULT).cited == ("E1",)


@pytest.mark.parametrize(
    "answer",
    [
        "[E1" + " " * 50_000 + "x",
        "[E1" + " E1" * 20_000,
        "[ " * 20_000,
        f"[E{'9' * 5_000}]",
        "(a " * 20_000,
        "(E1" * 20_000,
        "[a b c " * 9_000,
        "(E1" + " ," * 20_000,
        "[E1" + ",1" * 20_000,
    ],
)
def test_a_long_answer_of_anything_is_read_at_once(answer: str) -> None:
    started = time.process_time()
    assert check_citations(answer, RESULT, split=lambda text: [len(text)]).cited == ()
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "answer",
    [
        "E7 keeps it.",
        "See [1].",
        "[Example 7]",
        "[E]",
        "(E7 keeps it)",
        "(E)",
        "(a list of E7x)",
        "[none of the many words E7]",
        "f(E)",
    ],
)
def test_what_is_no_citation_is_none(answer: str) -> None:
    assert check_citations(answer, RESULT).cited == ()


def test_sentences_without_a_citation_are_found() -> None:
    assert uncited("Basic keeps 14 days [E1]. It is cheap. Pro keeps 90 [E2].") == ["It is cheap."]


@pytest.mark.parametrize(
    "answer",
    [
        "It keeps 14 days. [E1] Pro keeps 90. [E2][E1]",
        "保留14天。[E1] 保留90天【E2】。",
        'He says "14 days." [E1]',
        "- 14 days [E1]\n- 90 [E2]",
        "It keeps 14 days (E1). Pro keeps 90. (E2) (E1)",
        "保留14天（E1）。保留90天。（E2）",
    ],
)
def test_a_citation_behind_the_full_stop_belongs_to_the_sentence_before_it(answer: str) -> None:
    assert uncited(answer) == []


def test_headings_code_and_announcements_need_no_citation() -> None:
    assert uncited("# Retention\n\nIn short:\n- 14 days [E1]\n\n```sh\nkeep 14\n```\n") == []


def test_each_item_of_a_list_needs_its_own() -> None:
    assert uncited("In short:\n- 14 days [E1]\n- 90 days") == ["- 90 days"]


def test_the_offsets_must_be_as_long_as_the_text() -> None:
    wrong = candidate(0, "Kept.", start_char=0, end_char=99)
    assert check_citations("Yes [E1].", result_of([wrong])).unsourced == ("E1",)


def test_with_the_sources_at_hand_a_span_must_be_where_it_says() -> None:
    moved = {"terms": "New: " + SOURCE}
    assert check_citations("Yes [E1]. So [E2].", RESULT, sources=moved).unsourced == ("E1", "E2")
    assert check_citations("Yes [E1].", RESULT, sources={"other": ""}).unsourced == ()


def test_a_chunk_without_offsets_may_be_anywhere_in_its_source() -> None:
    loose = result_of([candidate(0, "for 14 days", source_id="terms"), candidate(1, "for ever", source_id="terms")])
    assert check_citations("Yes [E1]. So [E2].", loose, sources={"terms": SOURCE}).unsourced == ("E2",)


def test_each_revision_is_looked_up_in_its_own_text() -> None:
    two = result_of(
        [candidate(0, "30", source_id="t", revision_id="a"), candidate(1, "90", source_id="t", revision_id="b")]
    )
    sources = {("t", "a"): "30", "t": "90"}
    assert check_citations("Yes [E1]. So [E2].", two, sources=sources).ok
    assert check_citations("Yes [E1]. So [E2].", two, sources={"t": "90"}).unsourced == ("E1",)


@pytest.mark.parametrize(
    "broken",
    [
        Candidate(0, Chunk(text="Kept."), "Kept for ever."),
        Candidate(0, Chunk(text="Kept."), "Kept.", spans=((0, 99),)),
        Candidate(0, Chunk(text="Kept.", start_char=50), "Kept.", spans=((0, 5),)),
    ],
)
def test_a_block_must_show_what_its_spans_hold(broken: Candidate) -> None:
    assert check_citations("Yes [E1].", result_of([broken])).unsourced == ("E1",)


def test_only_what_is_cited_is_looked_up() -> None:
    broken = Candidate(1, Chunk(text="Kept."), "Changed.")
    assert check_citations("Yes [E1].", result_of([RESULT.evidence[0], broken])).ok


def test_merged_and_expanded_blocks_have_true_spans() -> None:
    parents: dict[str | int, Chunk] = {"p": Chunk(text=SOURCE, source_id="terms")}
    children = [
        replace(candidate(i, text, parent_id="p", source_id="terms", heading_path=("Terms",)))
        for i, text in enumerate(["14 days", "cancelling"])
    ]
    grown = ExpandParents("sentences", parents, 0, SPLIT)(children).kept
    merged = MergeChildren()(grown).kept
    assert len(merged[0].spans) == 2
    assert check_citations("Yes [E1].", result_of(merged), sources={"terms": SOURCE}).ok


@given(texts)
def test_any_answer_can_be_checked(answer: str) -> None:
    report = check_citations(answer, RESULT, split=SPLIT)
    assert all(answer[start:end].strip() for start, end in report.uncited)
    assert set(report.unknown) <= set(report.cited)
