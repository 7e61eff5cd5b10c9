"""The labelled sample that ships with the project, and how it is built: `python -m eval.sample`.

The questions and their labels are in `data/questions.jsonl`, the lists come from the demo's corpus by BM25. Both are
put together into `data/sample.jsonl.gz`; see `data/README.md` for who labelled it, and by which rules.
"""

import argparse
import gzip
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from eval.jsonl import read_objects
from pruner.demo.corpus import Corpus
from pruner.errors import PrunerError
from pruner.schema import Chunk
from pruner.tokens import TokenCounter

__all__ = ["PYTHON", "SAMPLE", "build", "main"]

SAMPLE = Path(__file__).parent / "data" / "sample.jsonl.gz"
QUESTIONS = SAMPLE.with_name("questions.jsonl")

# The documentation is that of one release; another's has other texts, to which the labels do not belong.
PYTHON = "3.11.7"
LABELLED_BY = "one large language model that read each list in full"


def build() -> Iterator[dict[str, Any]]:
    """Yield the sample's rows.

    Raises:
        EvalError: this is another Python than the one whose documentation was labelled.
        ConfigError: bm25s is not installed.
    """
    if platform.python_version() != PYTHON:
        raise EvalError(f"this is Python {platform.python_version()}; the labels belong to the texts of {PYTHON}")
    corpus = Corpus.build(TokenCounter())
    for _, question in read_objects(QUESTIONS):
        yield _row(question, corpus.search(question["query"], question["k"]))


def _row(question: Mapping[str, Any], chunks: Sequence[Chunk]) -> dict[str, Any]:
    ranks = {str(chunk.id): rank for rank, chunk in enumerate(chunks)}
    gold = sorted(question["gold"], key=lambda name: ranks.get(name, len(ranks)))
    meta = {"language": question["language"], "kind": question["kind"], "order": "bm25"}
    if "interchangeable" in question:
        meta["interchangeable"] = question["interchangeable"]
    row = {
        "id": question["id"],
        "dataset": "stdlib",
        "query": question["query"],
        "chunks": [_chunk(chunk) for chunk in chunks],
        "gold": gold,
        "gold_missing": [name for name in gold if name not in ranks],
        "helpful": question["helpful"],
        "meta": meta | {"python": PYTHON, "labelled_by": LABELLED_BY},
    }
    return row | ({"answer": question["answer"]} if "answer" in question else {})


def _chunk(chunk: Chunk) -> dict[str, Any]:
    score = None if chunk.score is None else round(chunk.score, 4)
    return {"id": chunk.id, "title": chunk.title, "text": chunk.text, "score": score}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the sample and write it.

    Returns:
        0 when written, 2 when it cannot be built here.
    """
    parser = argparse.ArgumentParser(prog="python -m eval.sample", description="Build the labelled sample anew.")
    parser.add_argument("--out", type=Path, default=SAMPLE, metavar="FILE", help="where to (default: in the package)")
    options = parser.parse_args(arguments)
    try:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in build()]
    except PrunerError as error:
        sys.stderr.write(f"sample: {error}\n")
        return 2
    # No time stamp, so that the same rows are the same bytes.
    options.out.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
