"""Finds the entries of a grading in JSON values: a label with its grade, as written, in whichever form.

::

    pairs    {"grades": [[1, 5], [2, 1, "few words"]]}
    listed   {"grades": [{"id": 1, "grade": 5, "reason": "few words"}]}
    keyed    {"1": 5, "2": {"grade": 1, "reason": "few words"}}

Each form may also stand alone, under one of `WRAPPERS`, in a further array, or encoded as a JSON string.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from pruner.reply_json import Box, Scalar, Steps, Value, find_values
from pruner.texts import without_surrogates

__all__ = ["LABEL", "Entry", "gradings"]

MAX_ENCODINGS = 2

WRAPPERS = frozenset(
    {"grades", "grading", "arguments", "parameters", "answer", "result", "output", "response", "chunks", "documents"}
)
LABEL_KEYS = ("id", "label", "chunk")

LABEL = re.compile(r"(?:chunk[\s_-]*)?[\[(#]?(-?[0-9]{1,9})[\])]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One label with its grade, as written; `span` is the grade's place in the text, None if it was encoded twice."""

    label: str
    grade: str
    note: str | None
    span: tuple[int, int] | None


def gradings(values: Iterable[Box], steps: Steps) -> Iterator[list[Entry]]:
    """Yield the entries of each value that has some; values of a single entry are lines of one grading.

    Args:
        values: what was found in a reply.
        steps: for reading what is encoded in them; see `find_values`.
    """
    found = filter(None, (list(_entries(value, steps)) for value in values))
    for alone, run in groupby(found, key=lambda entries: len(entries) == 1):
        if alone:
            yield [entry for (entry,) in run]
        else:
            yield from run


def _entries(box: Box, steps: Steps, encodings: int = 0) -> Iterator[Entry]:
    """Yield the whole entries in a value, in whichever form."""
    yield from _described(box)
    for key, value in box.items:
        if key is None:
            yield from _listed(value, steps, encodings)
        elif LABEL.fullmatch(key.text.strip()):
            yield from _keyed(key, value)
        elif key.text.lower() in WRAPPERS:
            yield from _wrapped(value, steps, encodings)


def _described(box: Box, key: Scalar | None = None) -> Iterator[Entry]:
    """Yield the entry that an object with a grade is; its own label goes before its key."""
    members = {name.text.lower(): value for name, value in box.items if name is not None}
    label = next((members[name] for name in LABEL_KEYS if name in members), key)
    if box.closed and label is not None and "grade" in members:
        yield _entry(label, members["grade"], members.get("reason"))


def _listed(value: Value, steps: Steps, encodings: int) -> Iterator[Entry]:
    """Yield the entries of an item of an array: a pair, or a value that has entries."""
    if isinstance(value, Scalar):
        return
    match [item for _, item in value.items]:
        case [Scalar() as label, *rest] if value.opening == "[":
            if value.closed:
                yield _pair(label, rest)
        case _:
            yield from _entries(value, steps, encodings)


def _pair(label: Scalar, rest: Sequence[Value]) -> Entry:
    match rest:
        case [grade]:
            return _entry(label, grade)
        case [grade, Scalar() as note] if note.quoted or note.text == "null":
            return _entry(label, grade, note)
        case _:
            return _entry(label)


def _keyed(key: Scalar, value: Value) -> Iterator[Entry]:
    if isinstance(value, Scalar):
        yield _entry(key, value)
    else:
        yield from _described(value, key)


def _wrapped(value: Value, steps: Steps, encodings: int) -> Iterator[Entry]:
    if isinstance(value, Box):
        yield from _entries(value, steps, encodings)
    elif value.quoted and encodings < MAX_ENCODINGS:
        for box in find_values(value.text, steps, cut=False):
            yield from (replace(entry, span=None) for entry in _entries(box, steps, encodings + 1))


def _entry(label: Value, grade: Value | None = None, note: Value | None = None) -> Entry:
    return Entry(
        label=label.text if isinstance(label, Scalar) else "",
        grade=grade.text if isinstance(grade, Scalar) else "",
        note=(without_surrogates(note.text) or None) if isinstance(note, Scalar) and note.quoted else None,
        span=(grade.start, grade.end) if isinstance(grade, Scalar) else None,
    )
