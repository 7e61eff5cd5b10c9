"""Labelled retrieval lists: one JSON object a line, checked loudly, since a wrong label ends up in a figure.

::

    {"id", "dataset", "query", "chunks": [{"id", "text", "title"?, "score"?, …}], "gold": [ids of needed chunks],
     "gold_missing"?: [those that are not in the list], "gold_retrieved"?: bool, "helpful"?: [ids], "answer"?, "meta"?}

Chunks are in reranker order, best first. Judge a pruner only by gold that is in the list.

A line of a production log is a row without labels: no `gold`, `dataset` is `log` unless it is given, and it may hold
`time` (ISO 8601) and `generator` (`{"input_tokens", "output_tokens"}` of the answer before pruning).
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from eval.jsonl import read_objects
from pruner.errors import RequestError
from pruner.preparation import to_chunks
from pruner.schema import Chunk

__all__ = ["Row", "read_all", "read_rows", "to_row"]

_FIELDS = {"id", "dataset", "query", "chunks", "gold", "gold_missing", "gold_retrieved", "helpful", "answer", "meta"}
_OF_A_LOG = ("time", "generator")


@dataclass(frozen=True)
class Row:
    """One labelled list.

    Attributes:
        id: unique within its data set.
        dataset: name of the set, or of its part (`xquad_de`).
        query: the question.
        chunks: in reranker order; keys that `Chunk` does not know are in its metadata.
        gold: ids of the needed chunks, in the list or not.
        helpful: ids of chunks that help and are not needed.
        answer: the answer, where it is known.
        meta: whatever reports are to be sliced by.
    """

    id: str
    dataset: str
    query: str
    chunks: tuple[Chunk, ...]
    gold: tuple[str, ...]
    helpful: tuple[str, ...] = ()
    answer: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needed(self) -> frozenset[int]:
        """Places, from 0, of the gold chunks that are in the list."""
        return self._places(self.gold)

    @property
    def helping(self) -> frozenset[int]:
        """Places of the helpful chunks that are in the list."""
        return self._places(self.helpful)

    @property
    def sha256(self) -> str:
        """Of the query and of the chunks' ids, titles and texts, in order: of what a grading is about."""
        parts = [self.query, *(part for chunk in self.chunks for part in (str(chunk.id), chunk.title, chunk.text))]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def cut(self, n: int) -> "Row":
        """Return the row with its first `n` chunks."""
        return replace(self, chunks=self.chunks[:n])

    def _places(self, ids: Iterable[str]) -> frozenset[int]:
        wanted = set(ids)
        return frozenset(place for place, chunk in enumerate(self.chunks) if chunk.id in wanted)


def read_rows(path: Path, *, labelled: bool = True) -> Iterator[Row]:
    """Stream the rows of a `.jsonl` or `.jsonl.gz` file.

    Args:
        path: of the file.
        labelled: whether each row must be labelled; else it may be a line of a log.

    Raises:
        EvalError: `file:line: field: what is wrong`; also for an empty file and for a row that was there before.
    """
    seen: dict[tuple[str, str], int] = {}
    for number, entry in read_objects(path):
        try:
            row = to_row(entry, labelled=labelled)
            if (first := seen.setdefault((row.dataset, row.id), number)) != number:
                raise EvalError(f"id: {row.id!r} of {row.dataset!r} stands in line {first} already")
        except EvalError as error:
            raise EvalError(f"{path}:{number}: {error}") from None
        yield row


def read_all(paths: Iterable[Path], *, labelled: bool = True) -> Iterator[tuple[Path, Row]]:
    """Stream the rows of several files, refusing a list that stands in two of them."""
    seen: dict[tuple[str, str], Path] = {}
    for path in paths:
        for row in read_rows(path, labelled=labelled):
            if (first := seen.setdefault((row.dataset, row.id), path)) != path:
                raise EvalError(f"{path}: id: {row.id!r} of {row.dataset!r} stands in {first} already; give it once")
            yield path, row


def to_row(entry: Mapping[str, Any], *, labelled: bool = True) -> Row:
    """Check an entry and make a row of it.

    Args:
        entry: as in the file; ids of its chunks are made texts in place.
        labelled: whether `gold` must be there; else it may be a line of a log: its `time` and `generator` go to `meta`.

    Raises:
        EvalError: `field: what is wrong`.
    """
    if not labelled:
        entry = _as_row(entry)
    if unknown := sorted(entry.keys() - _FIELDS):
        raise EvalError(f"{unknown[0]}: no such field; further values belong into 'meta'")
    chunks = _chunks(entry.get("chunks"))
    row = Row(
        id=_identifier(entry.get("id"), "id"),
        dataset=_text(entry, "dataset"),
        query=_text(entry, "query"),
        chunks=chunks,
        gold=_identifiers(entry.get("gold", None if labelled else []), "gold"),
        helpful=_identifiers(entry.get("helpful", []), "helpful"),
        answer=_answer(entry.get("answer")),
        meta=_meta(entry.get("meta")),
    )
    _check_labels(row, entry)
    return row


def _as_row(line: Mapping[str, Any]) -> Mapping[str, Any]:
    known = {name: line[name] for name in _OF_A_LOG if name in line}
    rest = {name: value for name, value in line.items() if name not in _OF_A_LOG}
    return {"dataset": "log", **rest, **({"meta": {**_meta(line.get("meta")), **known}} if known else {})}


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        raise EvalError(f"{name}: must be a text that is not blank, got {_shown(value)}")
    return value


def _answer(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise EvalError(f"answer: must be a text, got {_shown(value)}")
    return value or None


def _meta(value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise EvalError(f"meta: must be an object, got {_shown(value)}")
    return value or {}


def _identifier(value: Any, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise EvalError(f"{name}: must be a text or a whole number, got {_shown(value)}")
    return str(value)


def _identifiers(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise EvalError(f"{name}: must be a list of chunk ids, got {_shown(value)}")
    found = tuple(_identifier(each, f"{name}[{place}]") for place, each in enumerate(value))
    if twice := _first_twice(found):
        raise EvalError(f"{name}: {twice!r} stands there twice")
    return found


def _chunks(value: Any) -> tuple[Chunk, ...]:
    if not isinstance(value, list) or not value:
        raise EvalError(f"chunks: must be a list of at least one chunk, got {_shown(value)}")
    for place, chunk in enumerate(value):
        if not isinstance(chunk, dict):
            raise EvalError(f"chunks[{place}]: must be an object, got {_shown(chunk)}")
        chunk["id"] = _identifier(chunk.get("id"), f"chunks[{place}].id")
    try:
        chunks = tuple(to_chunks(value))
    except RequestError as error:
        raise EvalError(f"chunks: {error}") from None
    for place, chunk in enumerate(chunks):
        if chunk.score is not None and not math.isfinite(chunk.score):
            raise EvalError(f"chunks[{place}].score: must be a finite number, got {chunk.score}")
        if chunk.acl is not None:
            raise EvalError(
                f"chunks[{place}].acl: who may see a chunk is not measured; give what one reader sees, without it"
            )
    if twice := _first_twice([str(chunk.id) for chunk in chunks]):
        raise EvalError(f"chunks: id {twice!r} stands there twice; labels could not tell the two apart")
    return chunks


def _check_labels(row: Row, entry: Mapping[str, Any]) -> None:
    listed = {str(chunk.id) for chunk in row.chunks}
    missing = set(_identifiers(entry.get("gold_missing", []), "gold_missing"))
    if lost := [name for name in row.gold if name not in listed | missing]:
        raise EvalError(f"gold: {lost[0]!r} is not in the list; if it was not retrieved, name it in 'gold_missing' too")
    if wrong := sorted(missing & listed):
        raise EvalError(f"gold_missing: {wrong[0]!r} is in the list")
    if wrong := sorted(missing - set(row.gold)):
        raise EvalError(f"gold_missing: {wrong[0]!r} is not in 'gold'")
    if lost := [name for name in row.helpful if name not in listed]:
        raise EvalError(f"helpful: {lost[0]!r} is not in the list")
    if wrong := sorted(set(row.helpful) & set(row.gold)):
        raise EvalError(f"helpful: {wrong[0]!r} is in 'gold' as well")
    if entry.get("gold_retrieved") not in (None, listed >= set(row.gold)):
        raise EvalError(f"gold_retrieved: {_shown(entry['gold_retrieved'])} is not what 'gold' and 'chunks' say")


def _first_twice(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _shown(value: Any) -> str:
    """Name what was found, without quoting text of the data."""
    if isinstance(value, str):
        return "a blank text" if not value.strip() else "a text"
    return "nothing" if value is None else json.dumps(value)[:40]
