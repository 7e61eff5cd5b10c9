"""Named parts of the questions, so that a mean does not hide where a configuration fails."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.cases import Case
from eval.errors import EvalError

__all__ = ["slices"]

ALL = "all"
_MOST_VALUES = 12
_LENGTHS = ((10, "1 to 10"), (15, "11 to 15"), (20, "16 to 20"), (25, "21 to 25"))


def slices(cases: Sequence[Case], keys: Sequence[str] | None = None) -> Mapping[str, NDArray[np.bool_]]:
    """Return bool[Q] by name, `all` first; a part that holds every question or none is left out.

    Sliced by data set, length of the list, number of gold chunks, and the keys of `meta` (hops, language, whatever is
    there) that have two to twelve different plain values, not one of its own
    for each question.

    Args:
        cases: the questions.
        keys: slice by these keys of `meta` only, whatever number of values they have.

    Raises:
        EvalError: a key is in no question's `meta`.
    """
    named: dict[str, Callable[[Case], str | None]] = {}
    if keys is None:
        named = {"dataset": lambda case: case.dataset, "chunks": _length, "gold": _gold}
    for key in _meta_keys(cases) if keys is None else _checked(cases, keys):
        named[key] = lambda case, key=key: _plain(case.meta.get(key))  # type: ignore[misc]
    found = {ALL: np.ones(len(cases), dtype=bool)}
    for name, value_of in named.items():
        values = [value_of(case) for case in cases]
        for value in _sorted({value for value in values if value is not None}):
            found[f"{name} = {value}"] = np.array([each == value for each in values])
    return {name: mask for name, mask in found.items() if name == ALL or not mask.all()}


def _length(case: Case) -> str:
    return next((name for most, name in _LENGTHS if case.n <= most), "26 or more")


def _gold(case: Case) -> str:
    count = len(case.needed) + case.missing
    return str(count) if count < 4 else "4 or more"


def _plain(value: Any) -> str | None:
    """Return a value that a slice can be named after: a text, a number, a bool, or a list of just one."""
    if isinstance(value, list | tuple) and len(value) == 1:
        return _plain(value[0])
    return str(value) if isinstance(value, str | int | float) else None


def _meta_keys(cases: Sequence[Case]) -> list[str]:
    values: dict[str, list[str]] = {}
    for case in cases:
        for key, value in case.meta.items():
            if (plain := _plain(value)) is not None:
                values.setdefault(key, []).append(plain)
    return sorted(key for key, found in values.items() if 2 <= len(set(found)) <= min(_MOST_VALUES, len(found) - 1))


def _checked(cases: Sequence[Case], keys: Sequence[str]) -> Sequence[str]:
    for key in keys:
        if not any(_plain(case.meta.get(key)) is not None for case in cases):
            known = sorted({name for case in cases for name in case.meta})
            raise EvalError(
                f"no question has a plain value for {key!r} in 'meta'; there are {', '.join(known) or 'no keys'}"
            )
    return keys


def _sorted(values: Iterable[str]) -> list[str]:
    """Sort by the number a value begins with, then the texts."""

    def key(value: str) -> tuple[float, str]:
        number = re.match(r"\d+", value)
        return (float(number[0]) if number else inf, value)

    return sorted(values, key=key)
