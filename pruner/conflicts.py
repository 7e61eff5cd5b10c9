"""What near-equal texts say differently: numbers, dates, units and negations."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pruner.lexicon import (
    KINDS,
    KNOWN,
    MAGNITUDES,
    NUMBER_WORDS,
    OPPOSITE_BEGINNINGS,
    OPPOSITES,
    SAME_NAME,
    STAND_BEFORE,
)
from pruner.skeletons import LEFT_OUT, folded, is_number, skeletons, spelled, tokens
from pruner.wordnumbers import Numbers

__all__ = ["Difference", "Reading", "agree", "differences", "read"]

# Of one group after a point nobody can say whether it is of thousands: 1.500 stays what it is.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3})+|(?:\.\d{3}){2,})")
# What a million may follow; whether 1.500 million are more than two, nobody can say either.
_COUNTED = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,2})?")
_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}")
# Bits, which are no bytes; thousandths, which are no millions.
_CASED = re.compile(r"[KMGTm](?<![^\W\d_].)(?:(?<=[KMGT])b|(?<=[KMG])Bps|(?<=m)W)(?![^\W\d_])")
_LETTER = re.compile(r"[a-hj-ru-z]")  # As of zone A; s and t are ends of words, i is one.
_ROMAN = re.compile(r"(?=[ivx])x{0,3}(?:ix|iv|v?i{0,3})")
_SHORTEST_STEM = 4  # Undo is not the opposite of do, nor unit of it.
_WRITTEN = str.maketrans("−–‐⁄", "---/", " '’")

Fact = tuple[str, str, int]
Difference = tuple[str, tuple[str, ...], tuple[str, ...]]


class _Said(NamedTuple):
    words: list[str]
    facts: list[Fact]


@dataclass(frozen=True)
class Reading:
    """A text as it is compared.

    Attributes:
        given: as it was.
        text: folded, with its negations spelled out.
        skeleton: a number for each word, 0 for numbers and units in a row, nothing for negations: what contradicts a
            text has the same skeleton.
        left_out: how many words the skeleton leaves out, about as many as there are facts.
    """

    given: str
    text: str
    skeleton: Numbers
    left_out: int

    @cached_property
    def said(self) -> _Said:
        """Return its words, and what the skeleton leaves out of them: kind, fact, and after how many other words."""
        return _said(self.text)


def read(texts: Sequence[str]) -> list[Reading]:
    """Read texts, all at once."""
    written = [spelled(folded(text)) for text in texts]
    return list(map(Reading, texts, written, *skeletons(written)))


def agree(a: Reading, b: Reading) -> bool:
    """Whether two near-equal texts state the same, as `differences` compares them, but sooner."""
    of_a, of_b = _apart(a, b)
    return _same(a, b, of_a.facts, of_b.facts) and _unnoticed(a, b, of_a.words, of_b.words) is None


def _same(a: Reading, b: Reading, of_a: Sequence[Fact], of_b: Sequence[Fact]) -> bool:
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
    (words_a, of_a), (words_b, of_b) = _apart(a, b)
    if _same(a, b, of_a, of_b):
        return _unnoticed(a, b, words_a, words_b)
    for here, there in ((_anywhere(of_a), _anywhere(of_b)), (of_a, of_b)):
        if sides := _only(here, there):
            return sides
    return _shown(of_a, of_b)


def _unnoticed(a: Reading, b: Reading, words_a: Sequence[str], words_b: Sequence[str]) -> Difference | None:
    """Compare what is no fact by itself: words that negate each other, and units by their case."""
    units_a, units_b = map(_cased_units, _between(a.given, b.given))
    if units_a != units_b:
        return _only(units_a, units_b) or _shown(units_a, units_b)
    return _opposites(words_a, words_b)


def _cased_units(text: str) -> list[Fact]:
    return [("unit", unit, 0) for unit in _CASED.findall(text)]


def _opposites(a: Sequence[str], b: Sequence[str]) -> Difference | None:
    """Find two words, one in each text, of which one is the opposite of the other, or another letter or numeral."""
    only_a, only_b = ((Counter(x) - Counter(y)).keys() for x, y in ((a, b), (b, a)))
    if found := _negated(only_a, only_b):
        return "negation", found[:1], found[1:]
    if found := _negated(only_b, only_a):
        return "negation", found[1:], found[:1]
    for is_label in (_LETTER.fullmatch, _ROMAN.fullmatch):
        of_a, of_b = (tuple(sorted(filter(is_label, words))) for words in (only_a, only_b))
        if of_a and of_b:
            return "number", of_a, of_b
    return None


def _negated(words: Set[str], others: Set[str]) -> tuple[str, ...]:
    """Return the first word that negates another, and that one."""
    for word in sorted(words):
        if opposites := sorted(OPPOSITES.get(word, frozenset()) & others):
            return word, opposites[0]
        for negated, plain in OPPOSITE_BEGINNINGS:
            other = plain + word[len(negated) :]
            if word.startswith(negated) and len(word) >= len(negated) + _SHORTEST_STEM and other in others:
                return word, other
    return ()


def _apart(a: Reading, b: Reading) -> tuple[_Said, _Said]:
    """Return what both say; of texts that begin or end alike at length, without what they share there."""
    part_a, part_b = _between(a.text, b.text)
    if len(part_a) > len(a.text) / 2:
        return a.said, b.said  # It is kept, for the next one.
    return _said(part_a), _said(part_b)


def _between(a: str, b: str) -> tuple[str, str]:
    """Leave out what two texts begin and end with alike, but for two words: what is read of a word depends on those."""
    before = _shared(a, b)
    after = _shared(a[:before:-1], b[:before:-1])
    before = len(_first(a[:before].rsplit(None, 2)))
    after = len(_first(a[len(a) - after :].split(None, 2)[::-1]))
    return a[before : len(a) - after], b[before : len(b) - after]


def _first(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 3 else ""


def _shared(a: str, b: str) -> int:
    """Return how many characters two texts have in common before they first differ."""
    return bisect_left(range(min(len(a), len(b))), True, key=lambda end: a[: end + 1] != b[: end + 1])


def _said(text: str) -> _Said:
    words, found, place = tokens(text), list[Fact](), 0
    for word in words:
        kind = _kind(word)
        if kind and kind != "negated":
            _add(found, (kind, _value(kind, word), place))
        place += not kind
    return _Said(words, found)


def _add(facts: list[Fact], fact: Fact) -> None:
    """Add a fact in the way that others are written: 1 million as 1000000, $5 and May 5 as 5 $ and 5 May."""
    facts.append(fact)
    before, last = facts[-2:-1], facts[-3:-2]
    if fact[0] != "number" or not before or before[0][2] != fact[2]:
        return
    if fact[1] in MAGNITUDES and before[0][0] == "number" and _COUNTED.fullmatch(before[0][1]):
        number = (Decimal(before[0][1]) * MAGNITUDES[fact[1]]).normalize()
        facts[-2:] = [("number", f"{number:f}", fact[2])]
    elif before[0][1] in STAND_BEFORE and not (last and last[0][0] == "number" and last[0][2] == fact[2]):
        facts[-2:] = [fact, *before]


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
    if KNOWN.get(word) == LEFT_OUT:
        return "negated"
    if is_number(word):
        return "date" if _DATE.fullmatch(word) else "number"
    return ""


def _value(kind: str, word: str) -> str:
    """Write a fact in one way, whatever way it is written in."""
    if kind in ("unit", "date") and word in SAME_NAME:
        return SAME_NAME[word]
    if kind in ("number", "date"):
        return NUMBER_WORDS.get(word) or _number(word)
    return word


def _number(token: str) -> str:
    """Write a number without separators of its thousands, and with a point before its decimals."""
    number = token.translate(_WRITTEN).removeprefix("+")
    if _GROUPED.fullmatch(number):
        return number.replace(",", "").replace(".", "")
    if "." in number and "," in number:
        point = max(number.rfind("."), number.rfind(","))
        return number[:point].replace(",", "").replace(".", "") + "." + number[point + 1 :]
    return number.replace(",", ".")
