"""What near-equal texts say differently: numbers, dates, units and negations."""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pruner.characters import Table, table
from pruner.lexicon import COUNTERS, KINDS, KNOWN, KOREAN_NUMERALS, NUMERALS, UNIT_SIGNS
from pruner.wordnumbers import Numbers, number_of, numbered

__all__ = ["Difference", "Reading", "agree", "differences", "folded", "plain", "read"]


# How negations are written onto the word that they negate.
_CONTRACTIONS = (("can't", "can not"), ("won't", "will not"), ("n't", " not"))
_KEIN = re.compile(r"\bk(eine?[mnrs]?)\b")
_SIGNS = "%‰°€$£¥₩₫<>≤≥≠"
_SINGLE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff"
# A sign is one where no number, word or bracket ends before it.
_SIGNED = r"(?:(?<![\w)\]-])[-−–+])?\d+(?:[.,'’:/⁄‐–-]\d+)*(?:e[-+]?\d+)?"
# What begins anything else than a word of one sign.
_BEGINS = f"{NUMERALS}{KOREAN_NUMERALS}하나닷엿여아보월화수목금토오上下불안못"
_TOKEN = re.compile(
    rf"(?![{_BEGINS}])[{_SINGLE}]"
    rf"|{_SIGNED}[백천만억조百千万萬亿億]*(?: ?(?:{UNIT_SIGNS}))?|[{NUMERALS}]+(?: ?(?:{UNIT_SIGNS}|[个個倍次]))?"
    rf"|(?<!\S)(?:[{KOREAN_NUMERALS}]+ ?(?:{COUNTERS})|하루|이틀|[사나열]흘|닷새|엿새|이레|여드레|아흐레|보름)"
    rf"|[월화수목금토일]요일|오[전후]|[上下]午"
    rf"|[<>]=|[{_SIGNS}]|아니|금지|불가|(?<!\S)[안못](?=\s)|[{_SINGLE}]|[^\W\d_{_SINGLE}]+"
)
_SINGLES = re.compile(f"[{_SINGLE}\U00010000-\U0010ffff]")
# The same, for what most texts are made of, at half the time.
_ASCII_TOKEN = re.compile(r"[a-z]+|(?:(?<![\w)\]-])[-+])?\d+(?:[.,':/-]\d+)*(?:e[-+]?\d+)?|[<>]=|[%$<>]")
_NUMBER_ENDS = ("zig", "dreissig", "hundert", "tausend", "inhalb", "rthalb")
_NUMBER_BEGINS = re.compile(rf"[-−–+\d{NUMERALS}]|[{KOREAN_NUMERALS}].")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
# Of one group after a point nobody can say whether it is of thousands: 1.500 stays what it is.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3})+|(?:\.\d{3}){2,})")
_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}")


_WRITTEN = str.maketrans("−–‐⁄", "---/", " '’")
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_RAISED_DIGITS = {ord(sign): f"^{digit}" for digit, sign in enumerate(_RAISED)}  # 10² is not 102.
_MASKED, _LEFT_OUT = 0, -1
_SLOT_BITS = 14  # So that few words share a slot with one that is known: only those are looked up.

Fact = tuple[str, str, int]
Difference = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Reading:
    """A text as it is compared.

    Attributes:
        text: with its negations spelled out.
        skeleton: a number for each word, 0 for numbers and units in a row, nothing for negations: what contradicts a
            text has the same skeleton.
        stated: how many words the skeleton leaves out, about as many as there are facts.
    """

    text: str
    skeleton: Numbers
    stated: int = 0

    @cached_property
    def facts(self) -> list[Fact]:
        """Return what the skeleton leaves out: the kind, the fact, and after how many words it stands."""
        return _facts(self.text)


def read(texts: Sequence[str]) -> list[Reading]:
    """Take apart what is to be compared, texts as `folded` or `plain` gives them; equal words get equal numbers."""
    spelled = list(map(_spelled, texts))
    rows, numbers, ending = numbered(list(map(_plain_words, spelled)), _parts(), _NUMBER_ENDS)
    marks = np.where(ending, _MASKED, _marks_of(numbers))
    stated = np.bincount(rows[marks <= 0], minlength=len(texts)).tolist()
    numbers[marks == _MASKED] = _MASKED
    rows, numbers = rows[marks != _LEFT_OUT], numbers[marks != _LEFT_OUT]
    again = (numbers[1:] == _MASKED) & (numbers[:-1] == _MASKED) & (rows[1:] == rows[:-1])
    first = np.concatenate([np.ones(min(len(numbers), 1), np.bool_), ~again])
    ends = np.bincount(rows[first], minlength=len(texts)).cumsum()
    skeletons = np.split(numbers[first], ends[:-1]) if texts else []
    return list(map(Reading, spelled, skeletons, stated))


def _marks_of(numbers: Numbers) -> NDArray[np.int8]:
    """Return for each word 0 for a number or a unit, -1 for a negation, 1 for any other."""
    known, marks, slots = _known()
    found = np.ones(len(numbers), np.int8)
    likely = np.flatnonzero(slots[_slots(numbers)])
    places = np.minimum(np.searchsorted(known, numbers[likely]), len(known) - 1)
    found[likely] = np.where(known[places] == numbers[likely], marks[places], 1)
    return found


def _slots(numbers: Numbers) -> Numbers:
    return numbers * np.uint64(number_of("slot") | 1) >> np.uint64(64 - _SLOT_BITS)


@cache
def _known() -> tuple[Numbers, NDArray[np.int8], NDArray[np.bool_]]:
    """Return the numbers of the words that are known, sorted, their marks, and in which slots there are any."""
    words = {**KNOWN, "e": _MASKED}  # As in 1e5: its exponent is no word.
    marks = dict(sorted({_MASKED: _MASKED, **{number_of(word): mark for word, mark in words.items()}}.items()))
    known, slots = np.array(list(marks), np.uint64), np.zeros(1 << _SLOT_BITS, np.bool_)
    slots[_slots(known)] = True
    return known, np.array(list(marks.values()), np.int8), slots


def _plain_words(text: str) -> str:
    """Write a text so that `_parts` parts it as `_TOKEN` does."""
    if text.isascii() or not _SINGLES.search(text):
        return text
    return " ".join(map(_plain_word, _tokens(text)))


@lru_cache(maxsize=20_000)
def _plain_word(word: str) -> str:
    """Write 0 for a number, and the shortest negation for any."""
    mark = KNOWN.get(word, 1)
    if mark == _LEFT_OUT:
        return "no"
    return "0" if mark == _MASKED or _is_number(word) else word


@cache
def _parts() -> Table:
    """Leave letters as they are, and make 0 of any digit or sign."""
    return table((rf"[\d{_SIGNS}]", "0"), (r"[\W_]", " "))


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _TOKEN.findall(" ".join(text.split()))  # A number and its unit may stand on two lines.


def _spelled(text: str) -> str:
    """Spell out the negations that are written onto other words."""
    text = text.replace("’", "'").replace("cannot", "can not")
    if "n't" in text:
        for written, meant in _CONTRACTIONS:
            text = text.replace(written, meant)
    return _KEIN.sub(r"nicht \1", text) if "kein" in text else text


def folded(text: str) -> str:
    """Fold case and compatibility forms."""
    if not unicodedata.is_normalized("NFKC", text):
        raised = any(sign in text for sign in _RAISED)
        text = unicodedata.normalize("NFKC", text.translate(_RAISED_DIGITS) if raised else text)
    return text.casefold()


def plain(text: str) -> str:
    """Fold case, compatibility forms and white space: what is equal after that is one text."""
    return " ".join(folded(text).split())


def agree(a: Reading, b: Reading) -> bool:
    """Whether two near-equal texts state the same facts, as `differences` compares them, but sooner."""
    return _agree(a, b, *_facts_apart(a, b))


def _agree(a: Reading, b: Reading, of_a: Sequence[Fact], of_b: Sequence[Fact]) -> bool:
    if np.array_equal(a.skeleton, b.skeleton):
        return of_a == of_b
    return len(of_a) == len(of_b) and all(one[:2] == other[:2] for one, other in zip(of_a, of_b, strict=True))


def differences(a: Reading, b: Reading) -> Difference | None:
    """Compare the facts of two near-equal texts.

    Returns:
        The kind of the first difference, what only the one says, and what only the other says; None when they say the
        same. Facts that merely stand elsewhere, such as two numbers exchanged, count as different in texts that have
        the same skeleton.
    """
    of_a, of_b = _facts_apart(a, b)
    if _agree(a, b, of_a, of_b):
        return None
    for here, there in ((_anywhere(of_a), _anywhere(of_b)), (of_a, of_b)):
        if sides := _only(here, there):
            return sides
    return _shown(of_a, of_b)


def _facts_apart(a: Reading, b: Reading) -> tuple[list[Fact], list[Fact]]:
    """Return the facts of both; of texts that begin or end alike at length, without those that they share there."""
    before = _shared(a.text, b.text)
    after = _shared(a.text[:before:-1], b.text[:before:-1])
    if before + after < len(a.text) / 2:
        return a.facts, b.facts
    # Two words more on both sides: what is read of a word depends on those next to it.
    before = len(_first(a.text[:before].rsplit(None, 2)))
    after = len(_first(a.text[len(a.text) - after :].split(None, 2)[::-1]))
    return _facts(a.text[before : len(a.text) - after]), _facts(b.text[before : len(b.text) - after])


def _first(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 3 else ""


def _shared(a: str, b: str) -> int:
    """Return how many characters two texts have in common before they first differ."""
    return bisect_left(range(min(len(a), len(b))), True, key=lambda end: a[: end + 1] != b[: end + 1])


def _facts(text: str) -> list[Fact]:
    found, negations = [], 0
    words = _tokens(text)
    for place, kind in enumerate(map(_kind, words)):
        if kind:
            negations += kind in ("negation", "negated")
            found.append(
                (kind, _value(words[place]) if kind in ("number", "date") else words[place], place - negations)
            )
    return [fact for fact in found if fact[0] != "negated"]


def _anywhere(facts: Sequence[Fact]) -> list[Fact]:
    return [(kind, fact, 0) for kind, fact, _ in facts]


def _only(a: Sequence[Fact], b: Sequence[Fact]) -> Difference | None:
    only_a, only_b = (list((Counter(x) - Counter(y)).elements()) for x, y in ((a, b), (b, a)))
    return _shown(only_a, only_b) if only_a or only_b else None


def _shown(a: Sequence[Fact], b: Sequence[Fact]) -> Difference:
    kind = (a or b)[0][0]
    return kind, tuple(fact for _, fact, _ in a), tuple(fact for _, fact, _ in b)


@lru_cache(maxsize=20_000)
def _kind(word: str) -> str:
    """Say what kind of fact a word states, or that it is what is negated; the empty string when it is neither."""
    if word in KINDS:
        return KINDS[word]
    if KNOWN.get(word) == _LEFT_OUT:
        return "negated"
    if _is_number(word):
        return "date" if _DATE.fullmatch(word) else "number"
    return ""


def _is_number(word: str) -> bool:
    return word.endswith(_NUMBER_ENDS) or (word[0] not in _LETTERS and bool(_NUMBER_BEGINS.match(word)))


def _value(token: str) -> str:
    """Write a number without separators of its thousands, and with a point before its decimals."""
    number = token.translate(_WRITTEN).removeprefix("+")
    if _GROUPED.fullmatch(number):
        return number.replace(",", "").replace(".", "")
    if "." in number and "," in number:
        point = max(number.rfind("."), number.rfind(","))
        return number[:point].replace(",", "").replace(".", "") + "." + number[point + 1 :]
    return number.replace(",", ".")
