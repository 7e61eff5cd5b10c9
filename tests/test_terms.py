import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.terms import terms, terms_held


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("How long, on Pro_2?", ["how", "long", "on", "pro", "2"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("备份保留", ["备份", "份保", "保留"]),
        ("백업은 14일", ["백업", "업은", "14", "일"]),
        ("ファイル", ["ファ", "ァイ", "イル"]),
        ("giữ 14 ngày", ["giữ", "14", "ngày"]),
        ("好", ["好"]),
        ("… !", []),
    ],
)
def test_terms_are_words_and_pairs_of_characters_where_words_are_not_spaced(text: str, found: list[str]) -> None:
    assert terms(text) == found


@given(st.text(), st.text())
def test_the_terms_of_two_lines_are_those_of_each(a: str, b: str) -> None:
    assert terms(f"{a}\n{b}") == terms(a) + terms(b)


@given(st.text(st.characters(max_codepoint=127)))
def test_an_ascii_text_has_the_terms_that_it_has_within_any_other(text: str) -> None:
    assert [*terms(text), "é"] == terms(f"{text} é")


@given(st.text(), st.text(), st.frozensets(st.characters()))
def test_stretches_hold_those_of_their_terms_that_are_wanted(a: str, b: str, wanted: frozenset[str]) -> None:
    wanted |= frozenset(terms(b)[:1])
    assert terms_held(a + b, [(0, len(a)), (len(a), len(a + b))], wanted) == [
        wanted.intersection(terms(a)),
        wanted.intersection(terms(b)),
    ]
