"""Small labelled lists with gradings, in memory and as files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.cases import Case
from eval.datasets import read_rows
from eval.records import Record, to_line


def made_case(
    name: str, grades: Sequence[int | None], needed: Sequence[int], *, dataset: str = "made", **further: Any
) -> Case:
    """A list graded like this; chunks have 10 tokens each, scores fall from n."""
    n = len(grades)
    given: dict[str, Any] = {
        "missing": 0,
        "scores": tuple(float(n - place) for place in range(n)),
        "tokens": (10,) * n,
        "records": {"listwise": made_record(name, grades, dataset=dataset)},
        **further,
    }
    return Case(dataset=dataset, id=name, n=n, needed=frozenset(needed), **given)


def made_record(name: str, grades: Sequence[int | None], **further: Any) -> Record:
    given: dict[str, Any] = {
        "dataset": "made",
        "list_sha256": "",
        "strategy": "listwise",
        "model": "openai:gpt-4o-mini",
        "prompt": "grade.v1",
        "prompt_sha256": "0" * 64,
        "readout": "json",
        "reply_format": "pairs",
        "chunk_order": "reranker",
        "version": "0",
        "status": "ok",
        "reason": None,
        "expected": (None,) * len(grades),
        "latency": 0.5,
        "cost": 0.001,
        **further,
    }
    return Record(id=name, n=len(grades), grades=tuple(grades), **given)


def write_lists(
    folder: Path, lists: Mapping[str, tuple[Sequence[int | None], Sequence[int]]], **setup: Any
) -> list[str]:
    """Write the lists (name → grades, needed places) and their records; return the arguments that name the files."""
    data, records = folder / "lists.jsonl", folder / "records.jsonl"
    data.write_text("".join(_row(name, *labelled) for name, labelled in lists.items()), encoding="utf-8")
    rows = {row.id: row for row in read_rows(data)}
    made = [made_record(name, grades, list_sha256=rows[name].sha256, **setup) for name, (grades, _) in lists.items()]
    records.write_text("".join(map(to_line, made)), encoding="utf-8")
    return [str(data), "--records", str(records)]


def _row(name: str, grades: Sequence[int | None], needed: Sequence[int]) -> str:
    chunks = [
        {
            "id": f"c{place}",
            "text": f"text {place} of {name} </script><b>",
            "title": f"title {place}",
            "score": 9 - place,
        }
        for place in range(len(grades))
    ]
    gold = [f"c{place}" for place in needed]
    row = {"id": name, "dataset": "made", "query": f"what of {name}?", "chunks": chunks, "gold": gold}
    return json.dumps(row | {"meta": {"order": "BM25", "hops": len(needed)}}) + "\n"
