"""Texts without what near-equal ones may say differently: numbers, units and negations."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from pruner.characters import Table, table
from pruner.lexicon import COUNTERS, KNOWN, KOREAN_NUMERALS, NUMERALS, UNIT_SIGNS
from pruner.wordnumbers import Numbers, number_of, numbered

__all__ = ["LEFT_OUT", "folded", "is_number", "plain", "skeletons", "spelled", "tokens"]

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
    rf"|[<>!]=|[{_SIGNS}]|아니|금지|불가|(?<!\S)[안못](?=\s)|[{_SINGLE}]|[^\W\d_{_SINGLE}]+"
)
_SINGLES = re.compile(f"[{_SINGLE}\U00010000-\U0010ffff]")
# The same, for what most texts are made of, at half the time.
_ASCII_TOKEN = re.compile(r"[a-z]+|(?:(?<![\w)\]-])[-+])?\d+(?:[.,':/-]\d+)*(?:e[-+]?\d+)?|[<>!]=|[%$<>]")
_NUMBER_ENDS = ("zig", "dreissig", "hundert", "tausend", "inhalb", "rthalb")
_NUMBER_BEGINS = re.compile(rf"[-−–+\d{NUMERALS}]|[{KOREAN_NUMERALS}].")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_RAISED_DIGITS = {ord(sign): f"^{digit}" for digit, sign in enumerate(_RAISED)}  # 10² is not 102.
_MASKED, LEFT_OUT = 0, -1
_MIXED = np.uint64(number_of("mixed") | 1)
_SLOT_BITS = 14  # So that few words share a slot with one that is known: only those are looked up.


def skeletons(texts: Sequence[str]) -> tuple[list[Numbers], list[int]]:
    """Take apart what is to be compared, texts as `spelled` gives them; equal words get equal numbers.

    Returns:
        For each a skeleton: a number for each word, 0 for numbers and units in a row, nothing for negations, so that
        what contradicts a text has the same; and how many words it leaves out, about as many as there are facts.
    """
    rows, numbers, ending = numbered(list(map(_plain_words, texts)), _parts(), _NUMBER_ENDS)
    marks = np.where(ending, _MASKED, _marks_of(numbers))
    stated = np.bincount(rows[marks <= 0], minlength=len(texts)).tolist()
    numbers[marks == _MASKED] = _MASKED
    rows, numbers = rows[marks != LEFT_OUT], numbers[marks != LEFT_OUT]
    again = (numbers[1:] == _MASKED) & (numbers[:-1] == _MASKED) & (rows[1:] == rows[:-1])
    first = np.concatenate([np.ones(min(len(numbers), 1), np.bool_), ~again])
    ends = np.bincount(rows[first], minlength=len(texts)).cumsum()
    return np.split(numbers[first], ends[:-1]) if texts else [], stated


def _marks_of(numbers: Numbers) -> NDArray[np.int8]:
    """Return for each word 0 for a number or a unit, -1 for a negation, 1 for any other."""
    known, marks, slots = _known()
    found = np.ones(len(numbers), np.int8)
    likely = np.flatnonzero(slots[_slots(numbers)])
    places = np.minimum(np.searchsorted(known, numbers[likely]), len(known) - 1)
    found[likely] = np.where(known[places] == numbers[likely], marks[places], 1)
    return found


def _slots(numbers: Numbers) -> Numbers:
    return numbers * _MIXED >> np.uint64(64 - _SLOT_BITS)


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
    return " ".join(map(_plain_word, tokens(text)))


@lru_cache(maxsize=20_000)
def _plain_word(word: str) -> str:
    """Write 0 for a number, and the shortest negation for any."""
    mark = KNOWN.get(word, 1)
    if mark == LEFT_OUT:
        return "no"
    return "0" if mark == _MASKED or is_number(word) else word


@cache
def _parts() -> Table:
    """Leave letters as they are, and make 0 of any digit or sign."""
    return table((rf"[\d{_SIGNS}]", "0"), (r"[\W_]", " "))


def tokens(text: str) -> list[str]:
    """Return the words, numbers and signs of a text as `spelled` gives it."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _TOKEN.findall(" ".join(text.split()))  # A number and its unit may stand on two lines.


def spelled(text: str) -> str:
    """Spell out the negations that are written onto other words; write genitives and hours of the day in one way."""
    text = text.replace("’", "'").replace("'s", "s").replace("cannot", "can not")
    if ".m." in text:
        text = text.replace("a.m.", "am").replace("p.m.", "pm")
    if "'" in text and "n't" in text:  # The first is found at once.
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


def is_number(word: str) -> bool:
    """Whether a token is a number, in digits or a numeral that no list needs to hold."""
    return word.endswith(_NUMBER_ENDS) or (word[0] not in _LETTERS and bool(_NUMBER_BEGINS.match(word)))
