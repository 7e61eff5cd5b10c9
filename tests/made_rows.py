"""Labelled lists for tests, as rows and as files."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eval.datasets import Row
from pruner.schema import Chunk


def entry(identifier: str = "q1", n: int = 4, **fields: Any) -> dict[str, Any]:
    """A row as it stands in a file: chunks a, b, c, …, of which the first is needed."""
    chunks = [{"id": "abcdefghij"[i], "text": f"chunk {i} of {identifier}", "score": float(n - i)} for i in range(n)]
    row = {"id": identifier, "dataset": "set", "query": "why?", "chunks": chunks, "gold": ["a"], **fields}
    return {name: value for name, value in row.items() if value is not ...}


def write(path: Path, entries: Iterable[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(each) + "\n" for each in entries)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def row(identifier: str = "q1", n: int = 4, **fields: Any) -> Row:
    chunks = tuple(Chunk(id="abcdefghij"[i], text=f"chunk {i} of {identifier}", score=float(n - i)) for i in range(n))
    return Row(**{"id": identifier, "dataset": "set", "query": "why?", "chunks": chunks, "gold": ("a",), **fields})
