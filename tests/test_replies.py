import json
import math
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.errors import Reason, ReplyError
from pruner.replies import ROOM, ROOM_EACH, GradeSheet, _read_exact, _read_text, read_reply
from pruner.schema import RawGrading, Token

Finish = Literal["stop", "length", "refused"]
Grades = list[int | None]

unhurried = settings(deadline=None)


def read(text: str | None, n: int, finish: Finish = "stop", reasoning: str | None = None) -> GradeSheet:
    return read_reply(RawGrading(text=text, finish=finish, reasoning=reasoning), n)


def grades_of(text: str, n: int, finish: Finish = "stop") -> Grades:
    return [grade and int(grade) for grade in read(text, n, finish).grades]


def reason_of(raw: RawGrading, n: int = 3) -> Reason:
    with pytest.raises(ReplyError) as caught:
        read_reply(raw, n)
    return caught.value.reason


READ = {
    # the three forms
    "pairs": ('{"grades":[[1,5],[2,1],[3,4]]}', [5, 1, 4]),
    "pairs with notes": ('{"grades":[[1,5,"says it"],[2,1,""],[3,4,null]]}', [5, 1, 4]),
    "listed": ('{"grades":[{"id":1,"grade":5},{"id":2,"grade":1},{"id":3,"grade":4}]}', [5, 1, 4]),
    "keyed": ('{"1":5,"2":1,"3":4}', [5, 1, 4]),
    "keyed in grades": ('{"grades":{"1":5,"2":1,"3":4}}', [5, 1, 4]),
    "keyed with reasons": ('{"1":{"grade":5,"reason":"x"},"2":{"grade":1},"3":4}', [5, 1, 4]),
    "bare pairs": ("[[1,5],[2,1],[3,4]]", [5, 1, 4]),
    "bare listed": ('[{"id":1,"grade":5},{"id":2,"grade":1},{"id":3,"grade":4}]', [5, 1, 4]),
    "one object a label": ('[{"1":5},{"2":1},{"3":4}]', [5, 1, 4]),
    "an array too many": ("[[[1,5],[2,1],[3,4]]]", [5, 1, 4]),
    "a tool call in text": ('<tool_call>{"name":"grade","arguments":{"1":5,"2":1,"3":4}}</tool_call>', [5, 1, 4]),
    "two-digit labels": (json.dumps({str(i): 1 + i % 5 for i in range(1, 13)}), [1 + i % 5 for i in range(1, 13)]),
    "json lines": ('{"id":1,"grade":5}\n{"id":2,"grade":1}\n{"id":3,"grade":4}', [5, 1, 4]),
    "json lines in a list of prose": ('- {"1":5} says it\n- {"2":1}\n- {"3":4} helps', [5, 1, 4]),
    "an index as key beside the label": ('{"0":{"id":1,"grade":5},"1":{"id":2,"grade":1},"2":{"id":3}}', [5, 1, None]),
    # what stands around
    "byte order mark": ('\ufeff{"1":5,"2":1,"3":4}', [5, 1, 4]),
    "fence": ('```json\n{"1":5,"2":1,"3":4}\n```', [5, 1, 4]),
    "open fence": ('```json\n{"1":5,"2":1,"3":4}', [5, 1, 4]),
    "another fence first": ('```bash\nctl set --limit {5}\n```\n```json\n{"1":5,"2":1,"3":4}\n```', [5, 1, 4]),
    "prose around": ('The grades, see [3]:\n{"1":5,"2":1,"3":4}\nMore [1, 5]?', [5, 1, 4]),
    "an open bracket in the prose": ('I read [chunk 1 and {set {"1":5,"2":1,"3":4}', [5, 1, 4]),
    "double braces": ('{{"1":5,"2":1,"3":4}}', [5, 1, 4]),
    "quoted prose first": ('"Here you are": {"1":5,"2":1,"3":4}', [5, 1, 4]),
    "elided draft": ('As {"1": 5, ...}:\n{"1":1,"2":5,"3":1}', [1, 5, 1]),
    "corrected draft": ('{"1":5,"2":5,"3":5} No, rather: {"1":1,"2":5,"3":1}', [1, 5, 1]),
    "remark after the answer": ('{"1":1,"2":5,"3":1} where {"2":1} was close', [1, 5, 1]),
    # thoughts
    "thought": ('<think>{"1":5,"2":5,"3":5} no</think>{"1":1,"2":5,"3":1}', [1, 5, 1]),
    "longer thought": ('<think>{"1":5,"2":5,"3":5} no</think>{"2":5}', [None, 5, None]),
    "thought opened in the prompt": ('maybe {"1":5,"2":5,"3":5} no</think>{"2":5}', [None, 5, None]),
    "two thoughts": ('<think>a</think> so <THINKING>{"1":5,"2":5}</THINKING>{"2":5}', [None, 5, None]),
    "thought tag in a note": ('[[1,5,"has </think> in it"],[2,1,"and <think>"],[3,4,""]]', [5, 1, 4]),
    # not quite JSON
    "double-encoded grades": ('{"grades":"[{\\"id\\":1,\\"grade\\":5},{\\"id\\":2,\\"grade\\":1}]"}', [5, 1, None]),
    "double-encoded reply": (json.dumps('{"grades":[[1,5],[2,1],[3,4]]}'), [5, 1, 4]),
    "encoded three times": (json.dumps(json.dumps({"grades": "[[1,5],[2,1],[3,4]]"})), [5, 1, 4]),
    "trailing commas": ('{"grades":[[1,5,],[2,1],[3,4,],],}', [5, 1, 4]),
    "missing comma": ("[[1,5] [2,1]\n[3,4]]", [5, 1, 4]),
    "comments": ('{"1":5, // says it: {"2":5}\n"2":1, // no\n"3":4}', [5, 1, 4]),
    "python literal": ("{'1': 5, '2': None, '3': 'it's', 4: True, 5: 1}", [5, None, None, None, 1]),
    "bare words": ("{grades: [{id: 1, grade: ESSENTIAL}, {id: 2, grade: unrelated}]}", [5, 1]),
    "unescaped quotes in a note": ('[[1,5,"the "best" one"],[2,1,"x"]]', [5, 1]),
    "faulty escape in a note": (r'[[1,5,"\d+ \u12"],[2,1,"x"]]', [5, 1]),
    "line break in a note": ('[[1,5,"a\nb"],[2,1,"x"]]', [5, 1]),
    "forgotten bracket": ('{"grades":[[1,5],[2,1}', [5, 1]),
    "wrong bracket": ('{"1":5,"2":1]', [5, 1]),
    "never closed": ('{"1":5,"2":1', [5, 1]),
    # grades
    "grade spellings": (
        '{"1":"5","2":"ESSENTIAL","3":"5 - Essential","4":4.0,"5":"unrelated","6":"Essential (5)","7":" 2 ","8":"3.0"}',
        [5, 5, 5, 4, 1, 5, 2, 3],
    ),
    "invalid grades": (
        '{"1":5,"2":0,"3":6,"4":null,"5":true,"6":"high","7":4.5,"8":-1,"9":"5 - Unrelated","10":"","11":[5],"12":"٥"}',
        [5, *[None] * 11],
    ),
    "not a number": ('{"1":NaN,"2":Infinity,"3":-Infinity,"4":1e999,"5":5}', [None, None, None, None, 5]),
    "huge integer": ('{"1":1' + "0" * 5000 + ',"2":5}', [None, 5]),
    # labels
    "label spellings": ('{"chunk 1":5,"[2]":1,"Chunk_3":4,"04":2,"#5":3}', [5, 1, 4, 2, 3]),
    "label under another name": ('[{"label":1,"grade":5},{"Chunk":"2","Grade":1}]', [5, 1]),
    "foreign labels": ("[[0,5],[-1,5],[99,5],[true,5],[null,5],[1.0,5],[2,1],[1e400,5]]", [None, 1, None]),
    "huge label": (f'{{"{10**400}":5,"2":1}}', [None, 1]),
    "repeated label": ("[[1,2],[3,1],[2,1],[3,5],[3,2]]", [2, 1, 5]),
    "repeated key": ('{"1":2,"1":5,"2":1}', [5, 1]),
    "number in the place of a note": ("[[1,5,7],[2,1]]", [None, 1]),
    "forged entries in a note": (json.dumps([[1, 1, '"],[2,5],[3,5]] {"2":5,"3":5}'], [2, 1], [3, 1]]), [1, 1, 1]),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_reply_is_read(text: str, expected: Grades) -> None:
    assert grades_of(text, len(expected)) == expected


FROM_ZERO = {
    "pairs": '{"grades":[[0,5],[1,1],[2,4]]}',
    "pairs in another order": "[[2,4],[0,5],[1,1]]",
    "pairs with notes": '{"grades":[[0,5,"says it"],[1,1,""],[2,4,null]]}',
    "listed": '{"grades":[{"id":0,"grade":5},{"id":1,"grade":1},{"id":2,"grade":4}]}',
    "keyed": '{"0":5,"1":1,"2":4}',
    "keyed with reasons": '{"0":{"grade":5,"reason":"x"},"1":{"grade":1},"2":4}',
    "json lines": '{"id":0,"grade":5}\n{"id":1,"grade":1}\n{"id":2,"grade":4}',
    "label spellings": '{"chunk 0":5,"[1]":1,"#2":4}',
}


@pytest.mark.parametrize("text", FROM_ZERO.values(), ids=FROM_ZERO)
def test_labels_that_count_from_zero_mean_the_chunks_in_order(text: str) -> None:
    assert grades_of(text, 3) == [5, 1, 4]


@pytest.mark.parametrize("text", FROM_ZERO.values(), ids=FROM_ZERO)
def test_of_labels_that_seem_to_count_from_zero_but_are_not_complete_none_counts(text: str) -> None:
    assert reason_of(RawGrading(text=text), 4) is Reason.SCHEMA_MISMATCH


def test_a_label_zero_beside_all_of_ours_is_just_unknown() -> None:
    sheet = read_reply(RawGrading(text="[[0,1],[1,5],[2,1],[3,4]]"), 3)
    assert (sheet.grades, sheet.unknown) == ((5, 1, 4), 1)


def test_mean_levels_go_with_labels_that_count_from_zero() -> None:
    text = "[[0,5],[1,1]]"
    tokens = tuple(Token(sign, ((sign, 0.0),)) for sign in text)
    assert read_reply(RawGrading(text=text, tokens=tokens), 2).expected == (5.0, 1.0)


CUT = {
    "pairs inside a label": ('{"grades":[[1,5],[2,1],[3', [5, 1, None]),
    "pairs inside a grade": ('{"grades":[[1,5],[2,1],[3,4', [5, 1, None]),
    "pairs inside a note": ('[[1,5,"a"],[2,1,"quotes [[1,1],[2,5],[3,5]] and', [5, None, None]),
    "listed after the grade": ('{"grades":[{"id":1,"grade":5},{"id":2,"grade":1,', [5, None, None]),
    "keyed before a grade": ('{"1":5,"2":1,"3":', [5, 1, None]),
    "keyed after a digit": ('{"1":5,"2":1', [5, None, None]),
    "keyed after a delimiter": ('{"1":5,"2":1 ', [5, 1, None]),
    "keyed inside a name": ('{"1":5,"2":"ESSENTIAL', [5, None, None]),
    "whole": ('{"1":5,"2":1,"3":4}', [5, 1, 4]),
}


@pytest.mark.parametrize(("text", "expected"), CUT.values(), ids=CUT)
def test_whole_entries_of_a_cut_off_reply_count(text: str, expected: Grades) -> None:
    assert grades_of(text, len(expected), "length") == expected


UNREADABLE = {
    "empty": ("", Reason.UNPARSEABLE),
    "blank": (" \n\t", Reason.UNPARSEABLE),
    "prose": ("All documents are relevant.", Reason.UNPARSEABLE),
    "citation": ("Chunks [3] and [1] answer it.", Reason.UNPARSEABLE),
    "echo": ("page_label: 3, price: $640, Doc: 2, Relevance: 9", Reason.UNPARSEABLE),
    "lines without JSON": ("1: 5\n2: 1\n3: 4", Reason.UNPARSEABLE),
    "scalar": ("5", Reason.UNPARSEABLE),
    "string": ('"5"', Reason.UNPARSEABLE),
    "open thought": ('<think>{"1":5,"2":1}', Reason.UNPARSEABLE),
    "thought alone": ('<think>{"1":5,"2":1}</think>', Reason.UNPARSEABLE),
    "empty object": ("{}", Reason.SCHEMA_MISMATCH),
    "empty array": ("[]", Reason.SCHEMA_MISMATCH),
    "other keys": ('{"documents":[{"id":1,"relevance":"High"}]}', Reason.SCHEMA_MISMATCH),
    "other wrapper": ('{"limits":{"1":5,"2":1}}', Reason.SCHEMA_MISMATCH),
    "grades without labels": ("[5,1,4]", Reason.SCHEMA_MISMATCH),
    "one pair alone": ("[1,5]", Reason.SCHEMA_MISMATCH),
    "foreign labels only": ('{"7":5,"0":1}', Reason.SCHEMA_MISMATCH),
    "invalid grades only": ('{"1":0,"2":"high"}', Reason.SCHEMA_MISMATCH),
}


@pytest.mark.parametrize(("text", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_reply_without_a_valid_grade_says_why(text: str, reason: Reason) -> None:
    assert reason_of(RawGrading(text=text)) is reason


@pytest.mark.parametrize("text", [None, "", '<think>so {"1":5,"2":1', '{"grades":[[1', '{"documents":[]}'])
def test_cut_off_reply_without_a_grade_is_truncated(text: str | None) -> None:
    assert reason_of(RawGrading(text=text, finish="length")) is Reason.TRUNCATED


def test_refusal_is_not_read() -> None:
    assert reason_of(RawGrading(text='{"1":5}', levels=((0, 0, 0, 0, 1),), finish="refused")) is Reason.REFUSED


def test_reasoning_counts_when_the_text_is_empty() -> None:
    assert read(" ", 2, reasoning='{"1":5,"2":1}').grades == (5, 1)


def test_reasoning_does_not_count_beside_a_text() -> None:
    assert reason_of(RawGrading(text="Done.", reasoning='{"1":5,"2":1}')) is Reason.UNPARSEABLE


def test_reasoning_does_not_count_when_it_was_cut_off() -> None:
    assert reason_of(RawGrading(reasoning='{"1":5,"2":1}', finish="length")) is Reason.TRUNCATED


def test_reasoning_in_prose_is_unparseable() -> None:
    assert reason_of(RawGrading(reasoning="Chunk 1 is a 5.")) is Reason.UNPARSEABLE


def test_message_of_an_error_holds_nothing_of_the_reply() -> None:
    with pytest.raises(ReplyError) as caught:
        read('{"1":"secret"}', 1)
    assert "secret" not in str(caught.value)


def test_faults_are_counted() -> None:
    sheet = read("[[1,5],[1,2],[2,9],[7,5],[true,1],[3,4]]", 4)
    assert (sheet.missing, sheet.duplicate, sheet.unknown, sheet.invalid) == (2, 1, 2, 1)


def test_a_good_reply_counts_no_faults() -> None:
    sheet = read('{"1":5,"2":1}', 2)
    assert (sheet.missing, sheet.duplicate, sheet.unknown, sheet.invalid) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        '{"grades":[[1,5,"says \\u0022it\\u0022"],[2,1]]}',
        '{"grades":[{"id":1,"grade":5,"reason":"says \\"it\\""},{"id":2,"grade":1,"reason":""}]}',
        '{"1":{"grade":5,"reason":"says \\"it\\""},"2":1}',
    ],
)
def test_notes_stand_beside_their_grades(text: str) -> None:
    assert read(text, 2).notes == ('says "it"', None)


def test_note_is_that_of_the_grade_that_counts() -> None:
    assert read('[[1,2,"low"],[1,5,"high"],[1,3,"mid"]]', 1).notes == ("high",)


# distributions


def test_levels_give_mean_and_rounded_grade() -> None:
    sheet = read_reply(RawGrading(levels=((0, 0, 0, 0.25, 0.75), (0.5, 0.5, 0, 0, 0), (1, 0, 0, 0, 0))), 3)
    assert sheet.expected == (4.75, 1.5, 1.0)
    assert sheet.grades == (5, 2, 1)


def test_levels_are_scaled_to_sum_one() -> None:
    assert read_reply(RawGrading(levels=((0, 0, 0, 0, 0.5),)), 1).expected == (5.0,)


@pytest.mark.parametrize(
    "row", [(), (1.0,), (0.0,) * 5, (math.nan, 0, 0, 0, 1), (math.inf, 0, 0, 0, 1), (-0.5, 0, 0, 0, 1.5), (0.2,) * 6]
)
def test_faulty_row_is_ungraded(row: tuple[float, ...]) -> None:
    sheet = read_reply(RawGrading(levels=((0, 0, 0, 0, 1), row)), 2)
    assert (sheet.grades, sheet.expected) == ((5, None), (5.0, None))
    assert (sheet.missing, sheet.invalid) == (1, 1)


def test_rows_beyond_the_labels_are_unknown() -> None:
    assert read_reply(RawGrading(levels=((0, 0, 0, 0, 1.0),) * 3), 1).unknown == 2


def test_labels_beyond_the_rows_are_missing() -> None:
    sheet = read_reply(RawGrading(levels=((0, 0, 0, 0, 1.0),)), 3)
    assert (sheet.grades, sheet.missing, sheet.invalid) == ((5, None, None), 2, 0)


@pytest.mark.parametrize("levels", [(), ((math.nan,) * 5,)])
def test_levels_without_a_usable_row_are_an_error(levels: tuple[tuple[float, ...], ...]) -> None:
    assert reason_of(RawGrading(levels=levels), 1) is Reason.SCHEMA_MISMATCH


@unhurried
@given(st.lists(st.lists(st.floats(), max_size=6).map(tuple), max_size=4), st.integers(1, 4))
def test_any_levels_give_a_sheet_or_a_reply_error(levels: list[tuple[float, ...]], n: int) -> None:
    assert_sheet_or_reply_error(RawGrading(levels=tuple(levels)), n)


# expected grades from tokens


def tokens(*texts: str, **tops: Sequence[tuple[str, float]]) -> tuple[Token, ...]:
    """Return one token per text; `t3=…` gives the alternatives of token 3, the others are certain."""
    return tuple(Token(text, tuple(tops.get(f"t{i}", [(text, 0.0)]))) for i, text in enumerate(texts))


def expected_of(given: tuple[Token, ...], n: int, text: str | None = None) -> tuple[float | None, ...]:
    text = "".join(token.text for token in given) if text is None else text
    return read_reply(RawGrading(text=text, tokens=given), n).expected


HALF = math.log(0.5)


@pytest.mark.parametrize(
    "given_tokens",
    [
        tokens('{"', "grades", '":[[', "1", ",", "5", "],[", "2", ",", "1", "]]}", t5=[("5", HALF), ("4", HALF)]),
        tokens('{"1":', "5", ', "2": 1}', t1=[("5", HALF), ("4", HALF)]),
        tokens('[{"id":1,"grade":', '"5"', "},", '{"id":2,"grade":1}]', t1=[('"5"', HALF), ('"4"', HALF)]),
    ],
    ids=["pairs", "keyed", "listed"],
)
def test_expected_is_the_mean_over_the_alternatives_of_the_digit(given_tokens: tuple[Token, ...]) -> None:
    assert expected_of(given_tokens, 2) == pytest.approx((4.5, 1.0))


def test_digit_inside_a_merged_token_is_found() -> None:
    merged = tokens("[[1", ",5],[", "2,1", "]]", t1=[(",5],[", HALF), (",4],[", HALF), ("4],[", 0.0), (",", 0.0)])
    assert expected_of(merged, 2) == pytest.approx((4.5, 1.0))


def test_alternatives_that_are_no_level_do_not_count() -> None:
    top = [("5", HALF), ("4", HALF), ("6", 0.0), ("45", 0.0), ("4.5", 0.0), ("x", 0.0), ("", 0.0), (" 4", 0.0)]
    assert expected_of(tokens('{"1":', "5", "}", t1=top), 1) == pytest.approx((4.5,))


def test_alternatives_of_one_level_add_up() -> None:
    top = [("5", math.log(0.25)), ("5}", math.log(0.25)), ("1", HALF)]
    assert expected_of(tokens('{"1":', "5", "}", t1=top), 1) == pytest.approx((3.0,))


@pytest.mark.parametrize("top", [[], [("5", math.nan)], [("5", -math.inf)], [("x", 0.0)]])
def test_expected_is_none_without_usable_alternatives(top: list[tuple[str, float]]) -> None:
    assert expected_of(tokens('{"1":', "5", "}", t1=top), 1) == (None,)


def test_positive_logprob_counts_as_certain() -> None:
    assert expected_of(tokens('{"1":', "5", "}", t1=[("5", 1e6)]), 1) == (5.0,)


def test_expected_is_none_when_tokens_do_not_join_to_the_text() -> None:
    assert expected_of(tokens('{"1":', "4", "}"), 1, text='{"1":5}') == (None,)


def test_tokens_around_the_text_shift_the_digit() -> None:
    assert expected_of(tokens("\n", '{"1":', "5", "}", "<|end|>", t2=[("4", 0.0)]), 1, text='{"1":5}') == (4.0,)


def test_expected_belongs_to_the_answer_not_the_draft() -> None:
    assert expected_of(tokens("[[1,5],[2,1]] ", "No:", "[[1,", "4", "],[2,1]]", t3=[("3", 0.0)]), 2)[0] == 3.0


def test_expected_belongs_to_the_higher_of_two_grades() -> None:
    assert expected_of(tokens("[[1,", "2", "],[1,", "5", "]]", t3=[("4", 0.0)]), 1) == (4.0,)


def test_expected_is_none_for_a_grade_in_words() -> None:
    assert expected_of(tokens('{"1":', '"ESSENTIAL"', "}"), 1) == (None,)


@pytest.mark.parametrize("text", ['{"grades":"[[1,5]]"}', json.dumps('{"1":5}')])
def test_expected_is_none_for_an_encoded_grade(text: str) -> None:
    assert expected_of(tokens(text), 1) == (None,)


# any text


def read_or_none(raw: RawGrading, n: int) -> GradeSheet | None:
    try:
        return read_reply(raw, n)
    except ReplyError:
        return None


def assert_sheet_or_reply_error(raw: RawGrading, n: int) -> None:
    sheet = read_or_none(raw, n)
    if sheet:
        assert len(sheet.grades) == len(sheet.expected) == len(sheet.notes) == n
        assert sheet.missing == sheet.grades.count(None) < n
        assert all(mean is None or 1 <= mean <= 5 for mean in sheet.expected)


any_text = st.text(st.characters(exclude_categories=()) | st.sampled_from("{}[]\",:\\'1234567890 \n"))
jsonish = st.lists(
    st.sampled_from(['{"1":', '{"id":1', "[[1,5]", "[", "]", "{", "}", '"', "\\", ",", ":", "5", "2", "//", "'"])
    | st.sampled_from(["<think>", "</think>", '"grades":', '"grade":', '"2":', "true", "\n", "NaN", "\ud800", "\0"])
).map("".join)


@unhurried
@given(any_text | jsonish, st.sampled_from(["stop", "length"]), st.integers(1, 5))
def test_any_text_gives_a_sheet_or_a_reply_error(text: str, finish: Finish, n: int) -> None:
    assert_sheet_or_reply_error(RawGrading(text=text, finish=finish, tokens=tokens(*text)), n)


ENDLESS = ["[", "{", '{"1":', '{"1":5,', "[[1,5],", '{"1":5}', "<think>", "</think>", " ", "7", "a", '"', "'", "\\"]
ENDLESS += ['\\"', '"\\"', "[//", '["a"b ', "\x00", "\ud800"]


@pytest.mark.parametrize("start", ["", '["'])
@pytest.mark.parametrize("unit", ENDLESS)
def test_a_megabyte_of_anything_gives_a_sheet_or_a_reply_error(start: str, unit: str) -> None:
    assert_sheet_or_reply_error(RawGrading(text=start + unit * (1_000_000 // len(unit))), 1000)


def calls_to_read(text: str, n: int) -> int:
    """Count the functions called on the way, built-in ones too: work that takes no clock to measure."""
    called = 0

    def count(*_: object) -> None:
        nonlocal called
        called += 1

    sys.setprofile(count)
    try:
        read_or_none(RawGrading(text=text), n)
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("start", ["", '["', '{"grades":"', "<think>", "<think></think>"])
@pytest.mark.parametrize("unit", [*ENDLESS, "[{", "[1]", "[[1,", '{"grades":"[', '["\\u12",', '{"grades":"[[1,5]]"}'])
def test_a_longer_reply_is_no_more_work(start: str, unit: str) -> None:
    some, more = (calls_to_read(start + unit * (size // len(unit)), 10) for size in (200_000, 1_000_000))
    assert more <= 1.1 * some < 150_000


ANSWER = '{"grades":[[1,5],[2,1],[3,4]]}'
LONG = {
    "an answer, then circles": ANSWER + "\nAnd so on [1]" * 10_000,
    "an answer, then blanks": ANSWER + " " * 100_000,
    "circles, then an answer": "so chunk [1] it is, then that {x}, or both of [2, 3], " * 10_000 + ANSWER,
    "prose, then an answer": "I read chunk [1] again. " * 10_000 + ANSWER + " ",
    "a thought, then an answer": "<think>" + '{"1":1,"2":1,"3":1} or ' * 10_000 + "</think>" + ANSWER,
    "a thought, then an answer and a remark": "<think>"
    + "so [1] " * 10_000
    + "</think>"
    + ANSWER
    + " I am sure." * 100,
    "a thought opened in the prompt": '{"1":1,"2":1} or ' * 10_000 + "</think>" + ANSWER,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_an_answer_at_either_end_of_a_long_reply_is_read(text: str) -> None:
    assert grades_of(text, 3) == [5, 1, 4]


def test_a_thought_without_end_hides_its_drafts_however_long_it_is() -> None:
    assert reason_of(RawGrading(text="<think>" + ANSWER * 10_000)) is Reason.UNPARSEABLE


@pytest.mark.parametrize("left", range(12))
def test_no_grade_is_made_of_a_half_where_the_front_of_a_long_reply_ends(left: int) -> None:
    room = ROOM + ROOM_EACH
    text = " " * (room - left) + '{"1":500 }' + "." * 2 * room
    assert read_or_none(RawGrading(text=text), 1) is None


def test_an_answer_with_long_reasons_is_read_whole() -> None:
    entries = [{"id": label, "grade": 5, "reason": 'so "[1,1]" it is, ' * 400} for label in range(1, 6)]
    assert read(json.dumps({"grades": entries}), 5).missing == 0


def test_an_answer_of_a_thousand_chunks_is_read_whole() -> None:
    entries = [{"id": label, "grade": 5, "reason": "x" * 120} for label in range(1, 1001)]
    assert read(json.dumps({"grades": entries}), 1000).missing == 0


# any grading

gradings = st.lists(st.integers(1, 5), min_size=1, max_size=30)
notes = st.none() | st.text()
prose = st.lists(st.sampled_from(["Grades:", "see [3]", "[x]", "{limit}", "```json\n", "it's", '5" pipe', "\n"])).map(
    " ".join
)


def as_pairs(grades: list[int], note: str | None) -> object:
    return {"grades": [[i, grade, *([] if note is None else [note])] for i, grade in enumerate(grades, 1)]}


def as_listed(grades: list[int], note: str | None) -> object:
    return {"grades": [{"id": i, "grade": grade, "reason": note} for i, grade in enumerate(grades, 1)]}


def as_keyed(grades: list[int], note: str | None) -> object:
    return {str(i): grade if note is None else {"grade": grade, "reason": note} for i, grade in enumerate(grades, 1)}


Form = Callable[[list[int], str | None], object]
forms = pytest.mark.parametrize("form", [as_pairs, as_listed, as_keyed])


@forms
@unhurried
@given(grades=gradings, note=notes, before=prose, after=prose, indent=st.sampled_from([None, 2]))
def test_any_grading_is_read_back_from_among_prose(
    form: Form, grades: list[int], note: str | None, before: str, after: str, indent: int | None
) -> None:
    sheet = read(f"{before} {json.dumps(form(grades, note), indent=indent)} {after}", len(grades))
    assert list(sheet.grades) == grades
    assert set(sheet.notes) == {note or None}
    assert (sheet.missing, sheet.duplicate, sheet.unknown, sheet.invalid) == (0, 0, 0, 0)


@forms
@unhurried
@given(grades=gradings, note=notes, ascii_only=st.booleans(), data=st.data())
def test_no_prefix_of_a_grading_changes_a_grade(
    form: Form, grades: list[int], note: str | None, ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(form(grades, note), ensure_ascii=ascii_only)
    sheet = read_or_none(RawGrading(text=text[: data.draw(st.integers(0, len(text)))], finish="length"), len(grades))
    found = sheet.grades if sheet else ()
    assert all(got in (None, grade) for got, grade in zip(found, grades, strict=False))


# the reply that was asked for

blanks = st.text(" \t\r\n", max_size=2)
ALMOST = ["", ",", "[", "]", "{", "}", "0", "1", ".0", '"', "\f", "\xa0", "٣", "null", "[1,5],"]


@st.composite
def nearly_exact(draw: st.DrawFn) -> str:
    """Write pairs with blanks anywhere, mostly in order; now and then with something in it that is not asked for."""
    labels = draw(st.integers(1, 12).map(lambda n: list(range(1, n + 1))) | st.lists(st.integers(-1, 12), max_size=4))
    parts = ["{", '"grades"', ":", "["]
    for place, label in enumerate(labels):
        parts += [*[","][: place > 0], "[", str(label), ",", str(draw(st.integers(1, 5))), "]"]
    parts += ["]", "}"]
    if draw(st.booleans()):
        parts[draw(st.integers(0, len(parts) - 1))] = draw(st.sampled_from(ALMOST))
    around = cycle(draw(st.lists(blanks, min_size=1, max_size=5)))
    return "".join(next(around) + part for part in parts)


@unhurried
@given(nearly_exact(), st.sampled_from(["stop", "length"]), st.integers(1, 12))
def test_the_quick_reader_says_what_the_tolerant_one_says_or_nothing(text: str, finish: Finish, n: int) -> None:
    raw = RawGrading(text=text, finish=finish)
    quick = _read_exact(raw, text.count("[") - 1) or _read_exact(raw, n)
    assert quick is None or quick == _read_text(raw, len(quick.grades))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("n", [1, 25, 1000])
def test_the_reply_that_was_asked_for_is_read_quickly(n: int, indent: int | None, separators: tuple[str, str]) -> None:
    grades = [1 + label % 5 for label in range(n)]
    raw = RawGrading(text=json.dumps(as_pairs(grades, None), indent=indent, separators=separators))
    quick = _read_exact(raw, n)
    assert quick == _read_text(raw, n)
    assert quick is not None
    assert list(quick.grades) == grades


@pytest.mark.parametrize(
    "raw",
    [
        RawGrading(text='{"grades":[[1,5],[2,1]]}', tokens=tokens("x")),
        RawGrading(text='{"grades":[[1,5],[2,1]]}' + " " * 10 * ROOM),
        RawGrading(text='{"grades":[[2,5],[1,1]]}'),
        RawGrading(text='{"grades":[[1,5],[2,1],[2,5]]}'),
        RawGrading(text='{"grades":[[1,5]]}'),
        RawGrading(text=None),
    ],
    ids=["with probabilities", "endless", "out of order", "twice", "cut short", "nothing"],
)
def test_any_other_reply_is_left_to_the_tolerant_reader(raw: RawGrading) -> None:
    assert _read_exact(raw, 2) is None


@forms
def test_expected_of_a_grade_follows_its_place(form: Form) -> None:
    levels = [1, 5, 2, 4, 3, 5, 5, 1, 2, 3, 4, 5]
    text = json.dumps(form(levels, "5 of 5"))
    assert expected_of(tokens(*text), len(levels)) == tuple(levels)
