"""The words of many texts as numbers, all at once: the texts of one list have ten thousand of them."""

import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pruner.characters import Table, replaced_codes

__all__ = ["Numbered", "Numbers", "number_of", "numbered"]

Numbers: TypeAlias = NDArray[np.uint64]
_Places: TypeAlias = NDArray[np.intp]

# Of texts together: what is worked on then stays near the processor.
_AT_ONCE = 1 << 16
# Another one in each process, so that nobody can make up words that share a number.
_BASE = secrets.randbits(64) | 1
_MODULUS = 1 << 64
_BLANK, _ZERO = ord(" "), ord("0")


class Numbered(NamedTuple):
    """Words one after the other.

    Attributes:
        rows: of which text each is.
        numbers: as `number_of` gives them; 0 for zeros in a row.
        ending: whether each ends as asked for.
    """

    rows: _Places
    numbers: Numbers
    ending: NDArray[np.bool_]


def number_of(word: str) -> int:
    """Number a word: its letters as the digits, lowest first, of a number to a random base, modulo 2^64.

    Two different words share one with a probability of about 2^-64, as long as they have less than a thousand letters.
    """
    return sum(ord(letter) * pow(_BASE, place, _MODULUS) for place, letter in enumerate(word)) % _MODULUS


def numbered(texts: Sequence[str], by: Table, endings: tuple[str, ...]) -> Numbered:
    """Number the words of texts.

    Args:
        texts: what they are in.
        by: leaves the letters of words as they are, and makes anything else a blank or 0.
        endings: of three letters or more, of words that are to be told apart.
    """
    found = []
    for batch in _batches(texts):
        its = _numbered(texts[batch.start : batch.stop], by, endings)
        found.append(its._replace(rows=its.rows + batch.start))
    return Numbered(*map(np.concatenate, zip(*found, strict=True)))


def _batches(texts: Sequence[str]) -> Iterator[range]:
    first, size = 0, 0
    for place, text in enumerate(texts):
        if size and size + len(text) > _AT_ONCE:
            yield range(first, place)
            first, size = place, 0
        size += len(text) + 1
    yield range(first, len(texts))


def _numbered(texts: Sequence[str], by: Table, endings: tuple[str, ...]) -> Numbered:
    text = " ".join(texts) + " "
    codes = replaced_codes(text, by)
    kinds = (codes > _BLANK).astype(np.uint8) + (codes > _ZERO)
    edges = np.concatenate([[0], np.flatnonzero(kinds[1:] != kinds[:-1]) + 1, [len(kinds)]])
    words = np.flatnonzero(kinds[edges[:-1]])
    starts, ends = edges[words], edges[words + 1]
    sums = _Sums(codes)
    numbers = sums.numbers(starts, ends)
    numbers[codes[starts] == _ZERO] = 0
    firsts = np.cumsum([0, *(len(text) + 1 for text in texts)])
    rows = np.repeat(np.arange(len(texts)), np.diff(np.searchsorted(starts, firsts)))
    return Numbered(rows, numbers, _end_with(endings, text, sums, starts, ends))


class _Sums:
    """The number of any stretch of a text, from two sums."""

    def __init__(self, codes: NDArray[np.uint32]) -> None:
        small = len(codes) <= 2 * _AT_ONCE
        self._powers, self._inverses = _usual_powers() if small else _powers(len(codes))
        self._sums = np.empty(len(codes) + 1, np.uint64)
        self._sums[0] = 0
        np.cumsum(codes * self._powers[: len(codes)], out=self._sums[1:])

    def numbers(self, starts: _Places, ends: _Places) -> Numbers:
        return (self._sums[ends] - self._sums[starts]) * self._inverses[starts]


def _end_with(endings: tuple[str, ...], text: str, sums: _Sums, starts: _Places, ends: _Places) -> NDArray[np.bool_]:
    last_three = sums.numbers(np.maximum(ends - 3, 0), ends)
    found = np.zeros(len(ends), np.bool_)
    for number in _last_three(endings):
        found |= last_three == number
    likely = np.flatnonzero(found)
    places = zip(starts[likely].tolist(), ends[likely].tolist(), strict=True)
    found[likely] = [text[start:end].endswith(endings) for start, end in places]
    return found


@cache
def _last_three(endings: tuple[str, ...]) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(number) for number in {number_of(ending[-3:]) for ending in endings})


def _powers(size: int) -> tuple[Numbers, Numbers]:
    """Return the powers of the base and of its inverse."""
    return _powers_of(_BASE, size), _powers_of(pow(_BASE, -1, _MODULUS), size)


def _powers_of(base: int, size: int) -> Numbers:
    return np.cumprod(np.full(size, base, np.uint64), dtype=np.uint64)


@cache
def _usual_powers() -> tuple[Numbers, Numbers]:
    return _powers(2 * _AT_ONCE)
