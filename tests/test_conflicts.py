import time
from collections import Counter
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.conflicts import _apart, differences, read
from pruner.lexicon import KNOWN
from pruner.skeletons import is_number, plain, spelled, tokens

CONTRADICTIONS = [
    ("Backups are kept for 14 days.", "Backups are kept for 30 days.", "number", ("14",), ("30",)),
    ("It takes two days.", "It takes three days.", "number", ("2",), ("3",)),
    ("It may fall to -5.", "It may fall to 5.", "number", ("-5",), ("5",)),
    ("if x < 5", "if x > 5", "number", ("<",), (">",)),
    ("Files up to 10 MB.", "Files up to 10 GB.", "unit", ("mb",), ("gb",)),
    ("At most $10.", "At most €10.", "unit", ("$",), ("€",)),
    ("A 30-day trial.", "A 30-month trial.", "unit", ("day",), ("month",)),
    ("In force since 2024-05-03.", "In force since 2024-06-03.", "date", ("2024-05-03",), ("2024-06-03",)),
    ("From May 3 on.", "From June 3 on.", "date", ("may",), ("june",)),
    ("Data is deleted.", "Data is not deleted.", "negation", (), ("not",)),
    ("You can export.", "You can't export.", "negation", (), ("not",)),
    ("You can export.", "You cannot export.", "negation", (), ("not",)),
    ("Data may be shared.", "Data may never be shared.", "negation", (), ("never",)),
    ("Die Daten werden gelöscht.", "Die Daten werden nicht gelöscht.", "negation", (), ("nicht",)),
    ("Das ist ein Mangel.", "Das ist kein Mangel.", "negation", (), ("nicht",)),
    ("备份保留14天。", "备份保留30天。", "number", ("14天",), ("30天",)),
    ("备份保留三天。", "备份保留五天。", "number", ("三天",), ("五天",)),
    ("用户可以导出数据。", "用户不可以导出数据。", "negation", (), ("不",)),
    ("백업은 14일 동안 보관됩니다.", "백업은 30일 동안 보관됩니다.", "number", ("14일",), ("30일",)),
    ("접근 권한이 있습니다.", "접근 권한이 없습니다.", "negation", (), ("없",)),
    ("Dữ liệu được lưu 14 ngày.", "Dữ liệu được lưu 30 ngày.", "number", ("14",), ("30",)),
    ("Dữ liệu được xóa.", "Dữ liệu không được xóa.", "negation", (), ("không",)),
]


def compared(a: str, b: str) -> object:
    return differences(*read([a, b]))


@pytest.mark.parametrize(("a", "b", "kind", "only_a", "only_b"), CONTRADICTIONS)
def test_a_contradiction_is_named_by_its_kind_andtokens(
    a: str, b: str, kind: str, only_a: tuple[str, ...], only_b: tuple[str, ...]
) -> None:
    assert compared(a, b) == (kind, only_a, only_b)
    assert compared(b, a) == (kind, only_b, only_a)


def by_tokens(text: str) -> list[str]:
    """Take a text apart by its tokens, one after the other."""
    found: list[str] = []
    for word in tokens(spelled(text)):
        stated = word == "e" or is_number(word) or word in KNOWN
        if KNOWN.get(word) != -1 and not (stated and found[-1:] == ["0"]):
            found.append("0" if stated else word)
    return found


_SIGNS = "ae5.,:/%$<>+-' \né’–—_ßİ٣½ก不있없😀\U00010330\ud800\0\u00a0"
_WORDS = ["not", "12", "1e5", "don't", "may", "zig", "vierzig", "µs", "\U00010331\U00010330", "x" * 40]
_UNSPACED = ["14天", "三个月", "千米", "上午", "上海", "하루", "하늘", "월요일", "안 ", "열두 개"]
parts = st.sampled_from([*_SIGNS, *_WORDS, *_UNSPACED])


@given(st.lists(st.lists(parts, max_size=12).map("".join), max_size=4))
def test_a_skeleton_is_what_the_tokens_make_it(texts: list[str]) -> None:
    numbers = [reading.skeleton.tolist() for reading in read(texts)]
    words = [by_tokens(plain(text)) for text in texts]
    assert list(map(len, numbers)) == list(map(len, words))
    pairs = set(zip(chain(*numbers), chain(*words), strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len({word for _, word in pairs})
    assert all((number == 0) == (word == "0") for number, word in pairs)


@given(st.lists(parts, max_size=20).map("".join))
def test_an_ascii_text_has_the_tokens_that_it_has_within_any_other(text: str) -> None:
    ascii_text = plain("".join(filter(str.isascii, text)))
    assert tokens(ascii_text) == tokens(f"{ascii_text} é")[:-1]


@given(st.lists(parts, max_size=8).map("".join), st.lists(parts, max_size=40).map("".join))
def test_texts_that_begin_and_end_alike_differ_in_what_lies_between(middle: str, around: str) -> None:
    a, b = read([f"{around} {middle} {around}", f"{around}  {around}"])
    whole = (Counter(fact[:2] for fact in one.said.facts) for one in (a, b))
    between = (Counter(fact[:2] for fact in said.facts) for said in _apart(a, b))
    one, other = whole
    apart, from_it = between
    assert one - other == apart - from_it
    assert other - one == from_it - apart


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-5 +5", ["-5", "+5"]),
        ("a-5 (-5) 5-5 --5", ["a", "5", "-5", "5-5", "5"]),
        ("5. 5- 1,000.50% −5", ["5", "5", "1,000.50", "%", "−5"]),
    ],
)
def test_a_sign_belongs_to_a_number_where_nothing_ends_before_it(text: str, words: list[str]) -> None:
    assert tokens(plain(text)) == words


@pytest.mark.parametrize(("a", "b"), [row[:2] for row in CONTRADICTIONS])
def test_what_contradicts_has_the_same_skeleton(a: str, b: str) -> None:
    one, other = read([a, b])
    assert one.skeleton.tolist() == other.skeleton.tolist()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Backups  are kept.", "backups are KEPT"),
        ("It does not work.", "It doesn't work."),
        ("It doesn’t work.", "It doesn't work."),
        ("Kosten: 1.000.000 Euro", "Kosten: 1000000 Euro"),
        ("It costs 1,000.", "It costs 1000."),
        ("It costs 1,000.50.", "It costs 1000.50."),
        ("１４ days", "14 days"),
        ("14–30 days", "14-30 days"),
        ("14‑30 days", "14-30 days"),
        ("½ day", "1/2 day"),
        ("备份保留14 天。", "备份保留14天。"),
        ("三 个月", "三个月"),
        ("30 일 동안", "30일 동안"),
        ("두 개", "두\n개"),
        ("5 percent", "5 %"),
        ("5 min", "5 minutes"),
        ("1 day", "1 days"),
        ("10 mb", "10 MB"),
        ("10 kB", "10 KB"),
        ("undo", "do"),
        ("a unit", "a it"),
        ("at 3 a.m. daily", "at 3 am daily"),
        ("14 days", "fourteen days"),
        ("fünf Tage", "5 Tage"),
        ("since Jan 5", "since January 5"),
        ("5 dollars", "5 dollar"),
        ("costs $5 a month", "costs 5 dollars a month"),
        ("AUD 5 or 6", "5 AUD or 6"),
        ("on 5 January 2024 at noon", "on January 5, 2024, at noon"),
        ("1 million rows of 5", "1,000,000 rows of 5"),
        ("1.5 million and then 2", "1500000 and then 2"),
        ("two hundred users in 3 days", "200 users in 3 days"),
        ("the user's name", "the users name"),
        ("it is on, on and on", "it is on on and on"),
    ],
)
def test_what_is_only_written_differently_does_not_differ(a: str, b: str) -> None:
    assert compared(a, b) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Basic keeps 14 days, Pro 30 days.", "Basic keeps 30 days, Pro 14 days."),
        ("A is not stored, B is stored.", "A is stored, B is not stored."),
    ],
)
def test_facts_that_changed_places_differ(a: str, b: str) -> None:
    assert compared(a, b) is not None


APART = [
    # Numbers, however they are written.
    *[("1.500 mm", "1,500 mm"), ("0,500 mm", "0500 mm"), ("(-5 degrees)", "(5 degrees)"), ("–5 °C", "5 °C")],
    *[("10² m", "102 m"), ("1.5e-3", "1.5e3"), ("x <= 5", "x < 5"), ("at most 5", "at least 5"), ("v2.10", "v2.1")],
    *[("1 million", "1 billion"), ("1 million", "100,000"), ("1.500 million", "1500000"), ("a million", "a thousand")],
    *[("5 $ 6", "6 $ 5"), ("$5 or $6", "$6 or $5"), ("5 May, 6 June", "6 May, 5 June"), ("2 million 3", "3 million 2")],
    *[("thirteen", "fourteen"), ("one third", "one half"), ("vierzig", "fünfzig"), ("halb", "doppelt")],
    *[("the sixth day", "the seventh day"), ("am vierten Mai", "am fünften Mai"), ("fünfhundert", "sechshundert")],
    *[("anderthalb", "zweieinhalb"), ("이틀 이내", "사흘 이내"), ("하루", "보름"), ("mười lăm", "mười tư")],
    *[
        ("半年", "一年"),
        ("5萬", "5億"),
        ("einundzwanzig", "zweiundzwanzig"),
        ("两名员工", "三名员工"),
        ("百分之五", "百分之六"),
        ("五千克", "五克"),
    ],
    *[
        ("두 개", "세 개"),
        ("십사 일", "삼십 일"),
        ("열네 명", "스무 명"),
        ("5만 원", "5억 원"),
        ("một triệu", "một tỷ"),
    ],
    # Units and currencies.
    *[("5 %", "5"), ("5 %", "5 percentage points"), ("5 nm", "5 µm"), ("5 ng", "5 pg"), ("5 kWh", "5 MWh")],
    *[("5美元", "5欧元"), ("5달러", "5유로"), ("3小時", "3個月"), ("5吨", "5克"), ("5公里", "5公斤"), ("5시", "5개")],
    *[("AUD 5", "CAD 5"), ("5 yen", "5 won"), ("hourly", "daily"), ("14 business days", "14 calendar days")],
    *[("10 Mb", "10 MB"), ("10 Gb/s", "10 GB/s"), ("10 Mbps", "10 MBps"), ("5 mW", "5 MW")],
    # Dates and times.
    *[("on Monday", "on Tuesday"), ("am Montag", "am Dienstag"), ("星期一", "星期二"), ("월요일에", "화요일에")],
    *[
        ("before May", "after May"),
        ("5 am", "5 pm"),
        ("5 a.m.", "5 p.m."),
        ("since Jan 5", "since Feb 5"),
        ("上午", "下午"),
        ("오전", "오후"),
    ],
    # Negations and exceptions.
    *[("It is encrypted.", "It is unencrypted."), ("legal", "illegal"), ("x == 5", "x != 5"), ("enabled", "disabled")],
    *[("unbegrenzt", "begrenzt"), ("ausschalten", "einschalten"), ("hợp pháp", "bất hợp pháp")],
    *[("비공개 문서", "공개 문서"), ("미완료", "완료"), ("export", "import"), ("A: unsafe. B.", "A: safe. B.")],
    *[("non-refundable", "refundable"), ("not more than 5", "more than 5"), ("except owners", "for owners")],
    *[("by default true", "by default false"), ("it is on, on Mondays", "it is off, on Mondays"), ("allow", "deny")],
    *[("asynchronous calls", "synchronous calls"), ("erlaubt", "verboten"), ("Ja", "Nein")],
    *[("since Jan 5", "since Feb 5"), ("the user's 5 s", "the users 5 min")],
    # Letters and numerals that name one of several.
    *[("zone A", "zone B"), ("Article IV", "Article VI"), ("plan a of a plan", "plan b of a plan")],
    *[
        ("keinesfalls löschen", "löschen"),
        ("keinerlei Recht", "ein Recht"),
        ("außer Pro", "mit Pro"),
        ("非公开", "公开"),
        ("请别使用", "请使用"),
    ],
    *[("禁止使用", "允许使用"), ("불가능", "가능"), ("trừ gói Pro", "với gói Pro"), ("cấm xóa", "được xóa")],
]


@pytest.mark.parametrize("shared", ["aaaaaaaaaaMb", "10 Mb", "Kbps", "xMbx 3 mW", "word " * 40])
def test_a_unit_that_differs_in_case_is_named_alone_whatever_stands_beside_it(shared: str) -> None:
    both = (f"{shared} is 5 Mb in {shared}", f"{shared} is 5 MB in {shared}")
    assert differences(*read(both)) == ("unit", ("Mb",), ())


@pytest.mark.parametrize(("a", "b"), APART)
def test_what_says_something_else_differs_however_it_is_written(a: str, b: str) -> None:
    assert compared(a, b) is not None
    assert compared(a, a) is None


def test_texts_of_many_different_words_are_compared_in_linear_time() -> None:
    a, b = (" ".join(f"un{letter}{chr(97 + n % 26) * (n // 26 + 4)}" for n in range(4000)) for letter in "xy")
    started = time.process_time()
    assert compared(a, b) is None
    assert time.process_time() - started < 3  # each held against each takes far longer


@given(st.text())
def test_any_text_says_the_same_as_itself(text: str) -> None:
    assert compared(text, text) is None


@given(st.text(), st.text())
def test_whether_two_texts_differ_does_not_depend_on_their_order(a: str, b: str) -> None:
    assert (compared(a, b) is None) == (compared(b, a) is None)
