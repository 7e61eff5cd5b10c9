import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.console import _advance, clean, table, wrap


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table([["a", "bb"], ["ccc", "d"]], ["x", "y"]) == "x    y\n---  --\na    bb\nccc  d"


def test_numbers_can_be_right_aligned() -> None:
    assert table([[1], [100]], ["n"], ">") == "  n\n---\n  1\n100"


def test_no_rows_leave_the_header() -> None:
    assert table([], ["one", "two"]) == "one  two\n---  ---"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        table([["a"]], ["x", "y"])


def test_an_unknown_flexible_column_is_refused() -> None:
    with pytest.raises(ValueError, match="title"):
        table([], ["x"], flexible="title")


def test_wide_characters_count_as_two() -> None:
    assert table([["日本", 1], ["abcd", 2]], ["x", "n"]).splitlines()[2:] == ["日本  1", "abcd  2"]


def test_combining_marks_count_as_none() -> None:
    decomposed = unicodedata.normalize("NFD", "é")
    assert table([[decomposed, 1], ["ab", 2]], ["x", "n"]).splitlines()[2] == f"{decomposed}   1"


def test_only_the_flexible_column_is_shortened() -> None:
    lines = table([["a" * 50, "b" * 10]], ["title", "by"], flexible="title", columns=20).splitlines()
    assert lines == ["title     by", "--------  ----------", "aaaaaaa…  bbbbbbbbbb"]


def test_a_table_that_fits_is_not_shortened() -> None:
    assert "…" not in table([["a" * 10]], ["title"], flexible="title", columns=10)


def test_shortening_does_not_halve_a_wide_character() -> None:
    assert table([["日本語", 1]], ["x", "n"], flexible="x", columns=7).splitlines()[2] == "日…   1"


def test_shortening_keeps_marks_with_their_letters() -> None:
    text = unicodedata.normalize("NFD", "éé")
    assert table([[text + "abc"]], ["x"], flexible="x", columns=3).splitlines()[2] == f"{text}…"


def test_with_no_room_at_all_an_ellipsis_stays() -> None:
    assert table([["abc", "defgh"]], ["x", "y"], flexible="x", columns=3).splitlines()[2] == "…  defgh"


def test_the_terminals_width_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    assert table([["a" * 50]], ["title"], flexible="title").splitlines()[2] == "a" * 11 + "…"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\n\tc", "a b c"),
        ("line\u2028paragraph\u2029end", "line paragraph end"),
        ("\x1b[31mred\x1b[0m", "�[31mred�[0m"),
        ("\x1b]0;title\x07", "�]0;title�"),
        ("\x9b2J", "�2J"),
        ("abc\x08\x08", "abc��"),
        ("\u202eevil\u202c", "�evil�"),
        ("\ud800", "�"),
        ("\x00\x7f", "��"),
    ],
)
def test_what_would_move_the_cursor_or_the_reader_is_replaced(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("text", ["naïve", "日本語", "می\u200cخواهم", "👩\u200d🔬", "a  b".replace("  ", " ")])
def test_honest_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.integers(1, 60))
def test_any_text_gives_one_printable_line_a_row(rows: list[tuple[str, str]], columns: int) -> None:
    lines = table(rows, ["title", "other"], flexible="title", columns=columns).split("\n")
    assert len(lines) == len(rows) + 2
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for line in lines for c in line)


@given(st.lists(st.tuples(st.text(), st.text(max_size=3)), max_size=5), st.integers(10, 60))
def test_a_table_fits_its_columns(rows: list[tuple[str, str]], columns: int) -> None:
    rule = table(rows, ["title", "n"], flexible="title", columns=columns).split("\n")[1]
    assert len(rule) <= columns


@given(text=st.text(), columns=st.integers(2, 40))
def test_wrapped_lines_fit_and_lose_no_character(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert all(sum(_advance(character) for character in line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join("".join(map(clean, text.splitlines())).split())


def test_wrapping_breaks_at_blanks_and_keeps_indentation() -> None:
    assert wrap("def f():\n    return one_thing and another", 20) == [
        "def f():",
        "    return one_thing",
        "    and another",
    ]


def test_a_word_that_is_too_long_is_cut() -> None:
    assert wrap("ab " + "x" * 9, 4) == ["ab", "xxxx", "xxxx", "x"]


def test_wide_characters_take_two_columns_when_wrapping() -> None:
    assert wrap("数据库", 4) == ["数据", "库"]
