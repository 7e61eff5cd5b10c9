import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pruner.candidates import Candidate, Chunk
from pruner.similarity import embedding_cosines, jaccards, known_cosines, tfidf_cosines

small_texts = st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=30)


def shingles(text: list[int]) -> set[tuple[int, ...]]:
    if 0 < len(text) < 3:
        return {tuple(text)}
    return {tuple(text[i : i + 3]) for i in range(len(text) - 2)}


@given(small_texts)
def test_the_jaccard_of_shingles_is_that_of_the_sets(texts: list[list[int]]) -> None:
    sets = list(map(shingles, texts))
    wanted = [[len(a & b) / len(a | b) if a | b else 0.0 for b in sets] for a in sets]
    assert jaccards(texts) == pytest.approx(np.array(wanted).reshape(len(texts), len(texts)), abs=1e-6)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=9).map(" ".join), min_size=1, max_size=40))
def test_tfidf_cosines_are_those_of_the_written_out_vectors(texts: list[str]) -> None:
    words = sorted({word for text in texts for word in text.split()})
    counts = np.array([[text.split().count(word) for word in words] for text in texts], float).reshape(len(texts), -1)
    vectors = counts * (np.log((1 + len(texts)) / (1 + (counts > 0).sum(0))) + 1)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    assert tfidf_cosines(texts) == pytest.approx(vectors @ vectors.T, abs=1e-5)


def of_vectors(*vectors: object) -> list[Candidate]:
    return [Candidate(i, Chunk(text="t", embedding=v), "t") for i, v in enumerate(vectors)]


def test_embeddings_may_be_lists_or_arrays_of_any_kind() -> None:
    found = embedding_cosines(of_vectors([1, 0], (0.0, 2.0), np.array([3, 3], np.float16)))
    assert found is not None
    assert found == pytest.approx(np.array([[1, 0, 0.7071], [0, 1, 0.7071], [0.7071, 0.7071, 1]]), abs=1e-3)


numbers = st.floats() | st.integers() | st.booleans() | st.sampled_from([None, "1.5", "x", 10**400, [1.0], 1j])


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1, max_size=3)))
def test_lists_are_read_as_numpy_reads_them_each_by_itself(vectors: list[list[Any]]) -> None:
    def read(vector: list[Any]) -> NDArray[np.float32]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                row = np.array(vector, np.float32)
            except (TypeError, ValueError, OverflowError):
                return np.full(len(vector), np.nan, np.float32)
        return row if row.ndim == 1 else np.full(len(vector), np.nan, np.float32)

    found = known_cosines(of_vectors(*map(tuple, map(read, vectors))))
    # Not every one of these is a chunk's embedding by right: only its first number is looked at.
    usable = [Candidate(i, Chunk(text="t").model_copy(update={"embedding": v}), "t") for i, v in enumerate(vectors)]
    assert np.array_equal(known_cosines(usable), found, equal_nan=True)


@pytest.mark.parametrize(
    "vectors",
    [
        ([1.0], None),
        ([1.0], [1.0, 2.0]),
        ([0.0], [1.0]),
        ([1.0], [float("nan")]),
        ([1.0], [1e300]),
        ([1.0], [10**400]),
        ([1.0, "x"],),
    ],
)
def test_embeddings_that_cannot_be_compared_are_none(vectors: tuple[object, ...]) -> None:
    assert embedding_cosines(of_vectors(*vectors)) is None


class Tensor:
    """One that refuses to become an array, as those of torch do that need a gradient."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> float:
        return 1.0

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


@pytest.mark.parametrize("other", [[1.0, 2.0], np.array([1.0, 2.0]), np.ma.array([1.0, 2.0], mask=[False, False])])
def test_what_cannot_be_read_takes_nothing_from_the_others(other: object) -> None:
    found = known_cosines(of_vectors([2.0, 4.0], other, Tensor()))
    assert found[0, 1] == pytest.approx(1)
    assert np.isnan(found[2]).all()


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=2).filter(any), st.integers(-43, 37), st.integers(-43, 37))
def test_the_length_of_an_embedding_does_not_count(vector: list[int], one: int, other: int) -> None:
    wanted = embedding_cosines(of_vectors(vector, [1, 2]))
    found = embedding_cosines(of_vectors([x * 10.0**one for x in vector], [10.0**other, 2 * 10.0**other]))
    assert wanted is not None
    assert found == pytest.approx(wanted, abs=0.02 if min(one, other) < -38 else 1e-5)
