"""Labelled lists with what selection goes by: sources, offsets, sub-queries, parents; and overlapping cuts."""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from pruner import Chunk
from pruner.terms import terms

__all__ = ["LabelledList", "overlapping", "plain", "rows"]

_FOUND_BY_A_SUB_QUERY = 3
_WINDOW, _STEP, _PARENT, _LISTED = 1000, 500, 2000, 25
_OFFSETS = re.compile(r"(.*)\[(\d+):(\d+)\]")


@dataclass(frozen=True)
class LabelledList:
    """A ranked list, and what of it is needed.

    Attributes:
        needed: places of the needed chunks, from 0.
        references: needed passages as (source_id, start, end), where the labels are passages and not chunks.
        required: ids of the sub-queries.
        parents: parent_id → parent.
        sources: source_id → text, where it is known.
    """

    dataset: str
    id: str
    query: str
    chunks: tuple[Chunk, ...]
    needed: frozenset[int] = frozenset()
    references: tuple[tuple[str, int, int], ...] = ()
    required: tuple[str, ...] = ()
    answer: str | None = None
    parents: Mapping[str | int, Chunk] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def touching(self) -> list[int]:
        """Places of the chunks that show a part of a needed passage."""
        return [place for place, chunk in enumerate(self.chunks) if any(map(partial(_touches, chunk), self.references))]


def _touches(chunk: Chunk, passage: tuple[str, int, int]) -> bool:
    source, start, end = passage
    here = chunk.start_char or 0
    return source == chunk.source_id and start < here + len(chunk.text) and here < end


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the lists of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def plain(dataset: str, row: Mapping[str, Any], n: int) -> LabelledList:
    """Take the first n chunks of a list as they are; the steps of a decomposed question are its sub-queries."""
    given = row["chunks"][:n]
    sub_queries = _sub_queries(row["meta"].get("decomposition", ()))
    found = _found_by(sub_queries, [f"{c.get('title', '')}\n{c['text']}" for c in given])
    return LabelledList(
        dataset=dataset,
        id=row["id"],
        query=row["query"],
        chunks=tuple(_chunk(dataset, chunk, query_ids) for chunk, query_ids in zip(given, found, strict=True)),
        needed=frozenset(place for place, chunk in enumerate(given) if chunk["id"] in row["gold"]),
        required=tuple(sub_queries),
        answer=row.get("answer"),
    )


def _chunk(dataset: str, chunk: Mapping[str, Any], query_ids: Sequence[str]) -> Chunk:
    title = chunk.get("title")
    return Chunk(
        text=chunk["text"],
        id=chunk["id"],
        title=title,
        query_ids=tuple(query_ids),
        **(_passage(chunk) if dataset == "mtrag" else {"source_id": title or chunk["source"]}),
    )


def _passage(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """Read a document and offsets out of an id; offsets only where they are as long as the text."""
    document, start, end = [*chunk["id"].rsplit("-", 2), "", ""][:3]
    offsets = start.isdigit() and end.isdigit() and int(end) - int(start) == len(chunk["text"])
    return {"source_id": document, **({"start_char": int(start), "end_char": int(end)} if offsets else {})}


def _sub_queries(steps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Write out the steps of a question: `#1` is the answer of the first."""
    written = {}
    for number, step in enumerate(steps, 1):
        question = re.sub(r"#(\d+)", lambda match: steps[int(match[1]) - 1]["answer"], step["question"])
        written[f"q{number}"] = question
    return written


def _found_by(sub_queries: Mapping[str, str], texts: Sequence[str]) -> list[list[str]]:
    """Say which sub-queries have a text among their best few by BM25."""
    index = _index(texts)
    best = {name: _ranked(index, query)[:_FOUND_BY_A_SUB_QUERY] for name, query in sub_queries.items()}
    return [[name for name, places in best.items() if place in places] for place in range(len(texts))]


def _index(texts: Sequence[str]) -> bm25s.BM25:
    index = bm25s.BM25()
    index.index([terms(text) for text in texts], show_progress=False)
    return index


def _ranked(index: bm25s.BM25, query: str) -> list[int]:
    """Return the places of the texts that share a term with the query, best first."""
    known = [term for term in terms(query) if term in index.vocab_dict]
    scores = index.get_scores(known) if known else np.zeros(0)
    return [int(place) for place in np.argsort(-scores, kind="stable") if scores[place] > 0]


def overlapping(given: Iterable[Mapping[str, Any]]) -> Iterator[LabelledList]:
    """Cut the documents of the lists anew, each window half over the one before it, and rank the windows by BM25.

    A document is what is known of it: the stretches that the lists' chunks, by their offsets, lie in without a gap.
    Each window has a parent of up to three times its length that holds it.
    """
    listed = list(given)
    sources = _stretches(chunk for row in listed for chunk in row["chunks"])
    windows = [window for source, text in sources.items() for window in _windows(source, text)]
    parents = {window.parent_id: _parent(window, sources) for window in windows if window.parent_id is not None}
    index = _index([window.text for window in windows])
    for row in listed:
        ranked = [windows[place] for place in _ranked(index, row["query"])[:_LISTED]]
        references = tuple(found for text in row["meta"]["references"] for found in _places(text, sources))
        if references:
            yield LabelledList(
                "chroma",
                row["id"],
                row["query"],
                tuple(ranked),
                frozenset(),
                references,
                parents=parents,
                sources=sources,
            )


def _stretches(chunks: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Put chunks together at their offsets; line breaks that the chunks lost are filled in."""
    at: dict[str, dict[int, tuple[int, str]]] = defaultdict(dict)
    for chunk in chunks:
        document, start, end = _OFFSETS.fullmatch(chunk["source"]).groups()  # type: ignore[union-attr]
        at[document][int(start)] = (int(end), chunk["text"].ljust(int(end) - int(start), "\n"))
    found: dict[str, str] = {}
    for document, pieces in at.items():
        name, reached = "", -1
        for start, (end, text) in sorted(pieces.items()):
            if start != reached:
                name = f"{document}@{start}"
            found[name] = found.get(name, "") + text
            reached = end
    return found


def _windows(source: str, text: str) -> Iterator[Chunk]:
    for start in range(0, max(len(text) - _STEP, 1), _STEP):
        window = text[start : start + _WINDOW]
        yield Chunk(
            text=window,
            id=f"{source}+{start}",
            source_id=source,
            parent_id=f"{source}/{start // _PARENT}",
            start_char=start,
            end_char=start + len(window),
        )


def _parent(window: Chunk, sources: Mapping[str, str]) -> Chunk:
    start = (window.start_char or 0) // _PARENT * _PARENT
    text = sources[str(window.source_id)][start : start + _PARENT + _WINDOW]
    return Chunk(text=text, id=window.parent_id, source_id=window.source_id, start_char=start)


def _places(text: str, sources: Mapping[str, str]) -> Iterator[tuple[str, int, int]]:
    for name, source in sources.items():
        if (start := source.find(text)) >= 0:
            yield name, start, start + len(text)
            return
