"""How alike candidates are: shared shingles, weighted shared terms, embeddings. All in numpy, exact and repeatable."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.candidates import Candidate
from pruner.terms import terms
from pruner.wordnumbers import Numbers

__all__ = ["Matrix", "embedding_cosines", "jaccards", "known_cosines", "tfidf_cosines"]

Matrix = NDArray[np.float32]
_Ids = NDArray[np.int64]

# Squares of lengths between which float32 is exact enough.
_SMALLEST, _LARGEST = 1e-30, 1e30
# A term of more texts than this is counted by a dense product, the others pair by pair.
_RARE = 16
_BLOCK = 2048
_SHINGLE = 3
_MIXED = np.uint64(0x9E3779B97F4A7C15)  # Makes one number of three, modulo 2^64: 2^64 over the golden ratio.
_PADDING = [(1 << 64) - 1] * _SHINGLE


def jaccards(texts: Sequence[Sequence[int] | Numbers]) -> Matrix:
    """Compare texts by their shingles of three words: shared ones over all of both.

    Args:
        texts: the words of each, as numbers below 2^64; a text with fewer than three words is a single shingle, one
            without any is like no other.

    Returns:
        Shape (n, n), symmetric, in [0, 1].
    """
    n = len(texts)
    rows, columns = _distinct(*_shingles(texts), (n - 1).bit_length())
    shared = _products(rows, columns, np.ones(len(rows), np.float32), n)
    sizes = np.bincount(rows, minlength=n).astype(np.float32)
    either = sizes[:, None] + sizes[None, :] - shared
    return np.asarray(np.divide(shared, either, out=np.zeros_like(shared), where=either > 0), np.float32)


def _distinct(rows: _Ids, values: Numbers, row_bits: int) -> tuple[_Ids, _Ids]:
    """Number the values, and give each pair of a row and a value once, sorted by value and then by row.

    Values give up so many of their lowest bits to the rows: sorting one array of numbers takes a third of the time that
    sorting another one's places does.
    """
    pairs = np.sort(values >> np.uint64(row_bits) << np.uint64(row_bits) | rows.astype(np.uint64))
    pairs = pairs[_steps(pairs)]
    of_row = (pairs & np.uint64((1 << row_bits) - 1)).astype(np.int64)
    return of_row, _steps(pairs >> np.uint64(row_bits)).cumsum() - 1


def _steps(values: _Ids | Numbers) -> NDArray[np.bool_]:
    """Say of each value whether it differs from the one before."""
    return np.concatenate([np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]])


def _shingles(texts: Sequence[Sequence[int] | Numbers]) -> tuple[_Ids, Numbers]:
    """Return the shingles of all texts, one after the other: whose each is, and a number for its words."""
    padded = [[*text, *_PADDING[len(text) :]] if 0 < len(text) < _SHINGLE else text for text in texts]
    lengths = list(map(len, padded))
    words = np.concatenate([np.empty(0, np.uint64), *(np.asarray(text, np.uint64) for text in padded)])
    rows = np.repeat(np.arange(len(texts)), lengths)
    whole = rows[:-2] == rows[2:]
    return rows[:-2][whole], (((words[:-2] * _MIXED + words[1:-1]) * _MIXED + words[2:]) * _MIXED)[whole]


class _Numbers(dict[str, int]):
    """Gives each word a number, in the order they are met, so that every run adds in the same order."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def tfidf_cosines(texts: Sequence[str]) -> Matrix:
    """Compare texts by their terms, each weighed by count x (log((1 + N) / (1 + n)) + 1), n of N texts holding it.

    Returns:
        Shape (n, n), symmetric, in [0, 1]; 0 for a text without terms.
    """
    numbers = _Numbers()
    found = [np.unique([numbers[term] for term in terms(text)], return_counts=True) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(words) for words, _ in found])
    columns = np.concatenate([np.empty(0, np.int64), *(words for words, _ in found)]).astype(np.int64)
    counts = np.concatenate([np.empty(0, np.float32), *(counted for _, counted in found)]).astype(np.float32)
    holding = np.bincount(columns, minlength=len(numbers))
    weights = counts * (np.log((1 + len(texts)) / (1 + holding[columns])) + 1).astype(np.float32)
    lengths = np.sqrt(np.bincount(rows, weights**2, minlength=len(texts)))
    weights = (weights / np.maximum(lengths[rows], 1e-9)).astype(np.float32)
    in_order = np.argsort(columns, kind="stable")
    return np.clip(_products(rows[in_order], columns[in_order], weights[in_order], len(texts)), 0, 1)


def embedding_cosines(candidates: Sequence[Candidate]) -> Matrix | None:
    """Compare candidates by the cosine of their embeddings.

    Returns:
        Shape (n, n), symmetric, in [-1, 1]; None when one has no embedding, or not one of the same length, finite and
        not all zero.
    """
    found = known_cosines(candidates)
    return None if not candidates or np.isnan(found).any() else found


def known_cosines(candidates: Sequence[Candidate]) -> Matrix:
    """Compare those candidates by their embeddings that have one.

    Returns:
        Shape (n, n), symmetric, in [-1, 1]; NaN where not both have one of the same length, finite and not all zero.
    """
    found = np.full((len(candidates), len(candidates)), np.nan, np.float32)
    places: dict[int, list[int]] = {}
    for place, candidate in enumerate(candidates):
        if candidate.chunk.embedding is not None:
            places.setdefault(len(candidate.chunk.embedding), []).append(place)
    for length, group in places.items():
        cosines = _cosines(_matrix([candidates[place].chunk.embedding for place in group], length))
        if len(group) == len(candidates):
            return cosines
        found[np.ix_(group, group)] = cosines
    return found


def _matrix(given: Sequence[Any], length: int) -> Matrix:
    """Read embeddings of one length, at once if they are all lists of numbers; what is none becomes NaN."""
    try:
        with np.errstate(over="ignore"):  # What is too large becomes infinite.
            plain = all(type(vector) is list for vector in given)
            rows = _from_lists(given, length) if plain else np.asarray(given, np.float32)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # The last is of tensors that need a gradient.
        rows = np.empty(0, np.float32)
    if rows.shape == (len(given), length):
        return rows
    if len(given) == 1:
        return np.full((1, length), np.nan, np.float32)
    return np.concatenate([_matrix([one], length) for one in given])


def _from_lists(given: Sequence[Any], length: int) -> Matrix:
    """Read lists of floats in a third of the time that numpy takes to look at each number; all else as numpy does."""
    try:
        packed = b"".join([struct.pack(f"{length}f", *vector) for vector in given])
    except (struct.error, OverflowError):
        return np.asarray(given, np.float32)
    return np.frombuffer(packed, np.float32).reshape(len(given), length)


def _cosines(vectors: Matrix) -> Matrix:
    """Return the cosines of the rows; NaN for those that are not finite or all zero."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        products = vectors @ vectors.T
        squares = products.diagonal()
        if not (squares.min() > _SMALLEST and squares.max() < _LARGEST):
            vectors = vectors / abs(vectors).max(axis=1, keepdims=True)
            products = vectors @ vectors.T
        lengths = np.sqrt(products.diagonal())
        return np.asarray(products / lengths / lengths[:, None], np.float32)


def _products(rows: _Ids, columns: _Ids, weights: Matrix, n: int) -> Matrix:
    """Multiply a sparse matrix with n rows by its own transpose; each place is given once, sorted by column and row."""
    squares = np.bincount(rows, weights**2, minlength=n)
    holding = np.bincount(columns)
    shared = np.flatnonzero(holding[columns] > 1)
    rows, columns, weights = rows[shared], columns[shared], weights[shared]
    common = holding[columns] > _RARE
    total = _pair_by_pair(rows[~common], columns[~common], weights[~common], n)
    total = total + total.T
    ids = (np.cumsum(holding > _RARE) - 1)[columns]
    many = int((holding > _RARE).sum())
    for start in range(0, many, _BLOCK):
        here = common & (ids >= start) & (ids < start + _BLOCK)
        dense = np.zeros((n, min(_BLOCK, many - start)), np.float32)
        dense[rows[here], ids[here] - start] = weights[here]
        total += dense @ dense.T
    np.fill_diagonal(total, squares)
    return np.asarray(total, np.float32)


def _pair_by_pair(rows: _Ids, columns: _Ids, weights: Matrix, n: int) -> NDArray[np.float64]:
    """Add up the products of rows that share a column, above the diagonal; columns are sorted, rows within them too."""
    total = np.zeros(n * n)
    for apart in range(1, _RARE):
        first = np.flatnonzero(columns[apart:] == columns[:-apart])
        if not len(first):
            break
        pairs = rows[first] * n + rows[first + apart]
        total += np.bincount(pairs, weights[first] * weights[first + apart], minlength=n * n)
    return total.reshape(n, n)
