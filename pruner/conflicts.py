"""What near-equal texts say differently: numbers, dates, units and negations."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from pruner.lexicon import COUNTERS, KINDS, KNOWN, KOREAN_NUMERALS, NUMERALS, UNIT_SIGNS

__all__ = ["Difference", "Reading", "agree", "differences", "folded", "plain", "read"]


# How negations are written onto the word that they negate.
_CONTRACTIONS = (("’", "'"), ("can't", "can not"), ("won't", "will not"), ("n't", " not"), ("cannot", "can not"))
_KEIN = re.compile(r"\bk(eine?[mnrs]?)\b")
_SINGLE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff"
# A sign is one where no number, word or bracket ends before it.
_SIGNED = r"(?:(?<![\w)\]-])[-−–+])?\d+(?:[.,'’:/⁄‐–-]\d+)*(?:e[-+]?\d+)?"
_TOKEN = re.compile(
    rf"{_SIGNED}[백천만억조百千万萬亿億]*(?: ?(?:{UNIT_SIGNS}))?|[{NUMERALS}]+(?: ?(?:{UNIT_SIGNS}|[个個倍次]))?"
    rf"|(?<!\S)(?:[{KOREAN_NUMERALS}]+ ?(?:{COUNTERS})|하루|이틀|[사나열]흘|닷새|엿새|이레|여드레|아흐레|보름)"
    rf"|[월화수목금토일]요일|오[전후]|[上下]午"
    rf"|[<>]=|[%‰°€$£¥₩₫<>≤≥≠]|아니|금지|불가|(?<!\S)[안못](?=\s)|[{_SINGLE}]|[^\W\d_{_SINGLE}]+"
)
# The same, for what most texts are made of, at half the time.
_ASCII_TOKEN = re.compile(r"[a-z]+|(?:(?<![\w)\]-])[-+])?\d+(?:[.,':/-]\d+)*(?:e[-+]?\d+)?|[<>]=|[%$<>]")
# Leaves of an ASCII text its words, and 0 for a digit or a sign: the marks are as by tokens, at a quarter of the time.
_ASCII_WORDS = {**dict.fromkeys(range(128), " "), **dict.fromkeys(map(ord, "0123456789%$<>"), "0")}
_ASCII_WORDS |= {ord(letter): letter for letter in "abcdefghijklmnopqrstuvwxyz"}
_GERMAN_ENDS = "|".join(f"(?<={end})" for end in ("zig", "dreissig", "hundert", "tausend", "inhalb", "rthalb"))
_NUMBER = re.compile(rf"^(?:[-−–+\d{NUMERALS}].*|[{KOREAN_NUMERALS}].+|.*+(?:{_GERMAN_ENDS}))$", re.MULTILINE)
_EXPONENT = re.compile(r"\de[-+]?\d+")
# Of one group after a point nobody can say whether it is of thousands: 1.500 stays what it is.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3})+|(?:\.\d{3}){2,})")
_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}")


_WRITTEN = str.maketrans("−–‐⁄", "---/", " '’")
_RAISED = {ord(sign): f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}  # 10² is not 102.
_MASKED, _LEFT_OUT = 0, -1

Marks = NDArray[np.int64]
Fact = tuple[str, str, int]
Difference = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Reading:
    """A text as it is compared.

    Attributes:
        text: with its negations spelled out.
        skeleton: a number for each word, 0 for numbers and units in a row, nothing for negations: what contradicts a
            text has the same skeleton.
        marks: of the words by which it was made; not of numbers, which are no words there.
    """

    text: str
    skeleton: Marks
    marks: Mapping[str, int]

    @property
    def words(self) -> list[str]:
        """Return its words, numbers and signs, in their order."""
        return (_ASCII_TOKEN if self.text.isascii() else _TOKEN).findall(self.text)

    @cached_property
    def facts(self) -> list[Fact]:
        """Return what the skeleton leaves out: the kind, the fact, and after how many words it stands."""
        found, negations = [], 0
        for place, word in enumerate(self.words):
            mark = self.marks.get(word, _MASKED)
            if mark > 0:
                continue
            negations += mark == _LEFT_OUT
            if kind := _kind(word):
                found.append((kind, _value(word) if kind in ("number", "date") else word, place - negations))
        return found


def read(texts: Sequence[str]) -> list[Reading]:
    """Take apart what is to be compared, texts as `folded` or `plain` gives them; equal words get equal numbers."""
    spelled = list(map(_spelled, texts))
    words = list(map(_words_of, spelled))
    rows = np.repeat(np.arange(len(texts)), list(map(len, words)))
    numbers: dict[str, int] = defaultdict(count(1).__next__)
    marked = np.fromiter(map(numbers.__getitem__, chain.from_iterable(words)), np.int64, len(rows))
    marks = _marks_of(numbers)
    marked = np.fromiter(chain([_MASKED], marks.values()), np.int64, len(marks) + 1)[marked]
    rows, marked = rows[marked != _LEFT_OUT], marked[marked != _LEFT_OUT]
    again = (marked[1:] == _MASKED) & (marked[:-1] == _MASKED) & (rows[1:] == rows[:-1])
    first = np.concatenate([np.ones(min(len(marked), 1), np.bool_), ~again])
    ends = np.bincount(rows[first], minlength=len(texts)).cumsum()
    skeletons = np.split(marked[first], ends[:-1]) if texts else []
    return [Reading(text, skeleton, marks) for text, skeleton in zip(spelled, skeletons, strict=True)]


def _words_of(text: str) -> list[str]:
    if not text.isascii():
        return _TOKEN.findall(text)
    words = text.translate(_ASCII_WORDS)
    if "0e" in words:  # Of a number its exponent is no word.
        words = _EXPONENT.sub("0", text).translate(_ASCII_WORDS)
    return words.replace("0", " 0 ").split()


def _spelled(text: str) -> str:
    """Spell out the negations that are written onto other words; a number and its unit may stand on two lines."""
    if not text.isascii():
        text = " ".join(text.split())
    if "n't" in text or "cannot" in text or "’" in text:
        for written, meant in _CONTRACTIONS:
            text = text.replace(written, meant)
    return _KEIN.sub(r"nicht \1", text) if "kein" in text else text


def _marks_of(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return for each word 0 for a number or a unit, -1 for a negation, its number for any other; in the same order."""
    masked = dict.fromkeys(_NUMBER.findall("\n".join(numbers)), _MASKED)
    return {**numbers, **masked, **{word: KNOWN[word] for word in numbers.keys() & KNOWN.keys()}}


def folded(text: str) -> str:
    """Fold case and compatibility forms."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_RAISED))).casefold()


def plain(text: str) -> str:
    """Fold case, compatibility forms and white space: what is equal after that is one text."""
    return " ".join(folded(text).split())


def agree(a: Reading, b: Reading) -> bool:
    """Whether two near-equal texts state the same facts, as `differences` compares them, but sooner."""
    if np.array_equal(a.skeleton, b.skeleton):
        return a.facts == b.facts
    stated = zip(a.facts, b.facts, strict=False)
    return len(a.facts) == len(b.facts) and all(one[:2] == other[:2] for one, other in stated)


def differences(a: Reading, b: Reading) -> Difference | None:
    """Compare the facts of two near-equal texts.

    Returns:
        The kind of the first difference, what only the one says, and what only the other says; None when they say the
        same. Facts that merely stand elsewhere, such as two numbers exchanged, count as different in texts that have
        the same skeleton.
    """
    if agree(a, b):
        return None
    of_a, of_b = a.facts, b.facts
    for here, there in ((_anywhere(of_a), _anywhere(of_b)), (of_a, of_b)):
        if sides := _only(here, there):
            return sides
    return _shown(of_a, of_b)


def _anywhere(facts: Sequence[Fact]) -> list[Fact]:
    return [(kind, fact, 0) for kind, fact, _ in facts]


def _only(a: Sequence[Fact], b: Sequence[Fact]) -> Difference | None:
    only_a, only_b = (list((Counter(x) - Counter(y)).elements()) for x, y in ((a, b), (b, a)))
    return _shown(only_a, only_b) if only_a or only_b else None


def _shown(a: Sequence[Fact], b: Sequence[Fact]) -> Difference:
    kind = (a or b)[0][0]
    return kind, tuple(fact for _, fact, _ in a), tuple(fact for _, fact, _ in b)


def _kind(word: str) -> str:
    """Say what kind of fact a word states; the empty string when it states none."""
    if word in KINDS:
        return KINDS[word]
    if _NUMBER.fullmatch(word):
        return "date" if _DATE.fullmatch(word) else "number"
    return ""


def _value(token: str) -> str:
    """Write a number without separators of its thousands, and with a point before its decimals."""
    number = token.translate(_WRITTEN).removeprefix("+")
    if _GROUPED.fullmatch(number):
        return number.replace(",", "").replace(".", "")
    if "." in number and "," in number:
        point = max(number.rfind("."), number.rfind(","))
        return number[:point].replace(",", "").replace(".", "") + "." + number[point + 1 :]
    return number.replace(",", ".")
