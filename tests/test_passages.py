import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import ConfigError
from pruner.passages import _mixed, blocks_of, join, merge_spans, regions, stretches
from pruner.sentences import load_splitter, sentences, units, units_of
from tests.packed import texts

SPLIT = load_splitter()
TABLE = "| plan | days |\n|---|---|\n| Basic. | 14 |"
CODE = "```py\na = 1.\n\nb = 2.\n```"


def shown(text: str) -> list[str]:
    return [text[start:end] for start, end, _ in units(text, SPLIT)]


def test_prose_is_cut_into_its_sentences() -> None:
    assert shown("Dr. Smith kept it. See p. 3!\n\nNew one.") == ["Dr. Smith kept it.", "See p. 3!", "New one."]


@pytest.mark.parametrize(
    "two",
    [
        ["备份保留14天。", "专业版除外！"],
        ["백업은 14일 동안 보관됩니다.", "프로는 제외됩니다."],
        ["Sao lưu được giữ 14 ngày.", "Trừ gói Pro."],
        ["Das gilt z. B. am 3. Mai.", "Sonst nicht."],
        ["バックアップは14日間。", "「Proは除く。」"],
    ],
)
def test_sentences_of_many_languages_are_found(two: list[str]) -> None:
    assert shown(" ".join(two)) == two


@pytest.mark.parametrize(
    "whole",
    [TABLE, CODE, "name\tdays.\nBasic\t14.", "<table>\n<tr><td>a. B.</td></tr>\n</table>", "    x = 1.\n    y = 2."],
)
def test_a_table_or_a_code_block_is_one_unit(whole: str) -> None:
    assert shown(f"Before.\n\n{whole}\n\nAfter.") == ["Before.", whole, "After."]


def test_a_table_right_below_a_line_of_prose_is_found() -> None:
    assert shown(f"These are the plans:\n{TABLE}") == ["These are the plans:", TABLE]


def test_code_that_is_never_closed_goes_to_the_end() -> None:
    assert shown("Try.\n```\na.\n\nB. C.") == ["Try.", "```\na.\n\nB. C."]


def test_list_items_are_sentences_of_their_own() -> None:
    assert shown("We keep\n- one day\n- two days") == ["We keep", "- one day", "- two days"]


def test_a_sentence_longer_than_what_the_splitter_sees_at_once_stays_whole() -> None:
    long = "word " * 1000 + "end."
    assert shown(f"First one. {long} Last one.") == ["First one.", long, "Last one."]


@pytest.mark.parametrize("before", range(1_990, 2_010))
def test_no_sentence_goes_on_over_a_blank_line_wherever_it_is(before: int) -> None:
    assert shown("x" * before + "\n\ny")[-1] == "y"


@pytest.mark.parametrize("sentences_before", [10, 326, 330, 340])
def test_a_quotation_is_cut_or_not_whatever_paragraphs_stand_before_it(sentences_before: int) -> None:
    quotation = '"He came home. He saw the dog. He went out."'
    assert shown("Word. " * sentences_before + "\n\n" + quotation)[-1] == quotation


@given(texts)
def test_units_lie_in_order_apart_and_hold_all_that_is_not_blank(text: str) -> None:
    found = units(text, SPLIT)
    edges = [edge for start, end, _ in found for edge in (start, end)]
    assert edges == sorted(edges)
    between = zip([0, *edges[1::2]], [*edges[::2], len(text)], strict=True)
    assert not any(text[start:end].strip() for start, end in between)
    assert all(text[start:end].strip() for start, end, _ in found)


@given(texts)
def test_regions_lie_in_order_and_apart(text: str) -> None:
    edges = [edge for region in regions(text, 50) for edge in (region.start, region.end)]
    assert edges == sorted(edges)


@pytest.mark.parametrize(
    "unit", ["天。", "“a. ", "(a. ", "a.\n", "| a |\n", "```\n", "    a\n", "- a\n", "\n\n", ". ", "1. "]
)
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    started = time.process_time()
    units(unit * (40_000 // len(unit)), SPLIT)
    assert time.process_time() - started < 5  # quadratic takes 16 or more


def test_many_ordinals_in_a_row_take_no_more_than_linear_time() -> None:
    started = time.process_time()
    assert len(sentences("1. " * 300_000, lambda text: list(range(3, len(text) + 1, 3)))) == 1
    assert time.process_time() - started < 5  # quadratic takes 20 or more


def test_pieces_join_with_a_mark_where_something_was_left_out() -> None:
    assert join("One. Two. Three.", [(0, 4), (10, 16)]) == "One.\n[…]\nThree."
    assert join("One. Two. Three.", [(0, 4), (5, 9)]) == "One. Two."


def test_rows_of_a_table_join_without_a_mark() -> None:
    text = "| a |\n|---|\n| 1 |\n| 2 |"
    assert join(text, [(0, 11), (18, 23)]) == "| a |\n|---|\n| 2 |"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair)))))
def test_merged_spans_cover_the_same_places_and_lie_apart(spans: list[tuple[int, int]]) -> None:
    merged = merge_spans(spans)
    assert {place for s, e in merged for place in range(s, e)} == {place for s, e in spans for place in range(s, e)}
    assert all(before[1] < after[0] for before, after in pairwise(merged))


def test_a_blank_text_has_no_sentence() -> None:
    assert sentences(" \n ", SPLIT) == []


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(ConfigError, match=r"^splitting sentences needs: pip install 'listwise-pruner\[sentences\]'$"):
        load_splitter()


def test_importing_the_stages_loads_no_splitter() -> None:
    code = "import sys, pruner, pruner.parents, pruner.extract, pruner.citations; print('sentencex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


_LINES = ["word", "Two words. ", "See item 1.", " ", "   x", "    y", "\n", "\n\n", " \n", "\r", "\x0b", "\u2028", "é"]
_MARKS = ["~~", "``", "|", "| a |", "\t", "<", "<pre>", "</pre>", "```", "- item", "1. x", "。"]
mixed = st.lists(st.sampled_from([*_LINES, *_MARKS]), max_size=30).map("".join)


@given(mixed)
def test_between_two_tables_or_code_blocks_all_prose_is_one_region(text: str) -> None:
    found = regions(text, len(text))
    assert not any(one.kind == other.kind == "prose" for one, other in pairwise(found))
    assert [block for block in found if block.kind != "prose"] == [b for b in _mixed(text) if b.kind != "prose"]


@given(mixed, st.integers(1, 60))
def test_a_region_holds_several_paragraphs_up_to_a_length(text: str, longest: int) -> None:
    whole = {(block.start, block.end) for block in _mixed(text)}
    assert all(r.end - r.start <= longest or (r.start, r.end) in whole for r in regions(text, longest))


@given(mixed)
def test_the_units_of_a_text_are_those_of_its_blocks_one_by_one(text: str) -> None:
    assert units(text, SPLIT) == [unit for block in _mixed(text) for unit in units_of(text, block, SPLIT)]


@given(mixed)
def test_the_blocks_of_its_stretches_are_those_of_a_text(text: str) -> None:
    assert [block for stretch in stretches(text) for block in blocks_of(text, stretch)] == _mixed(text)


@given(texts)
def test_the_splitter_ends_where_the_text_does(text: str) -> None:
    assert not text or SPLIT(text)[-1] == len(text)
