"""Brings gradings that were made elsewhere into the form of records: `python -m eval.exports embedded | large_llm`.

`embedded` reads what `eval.embedded read` wrote, `large_llm` the reference gradings that lie beside the labelled lists.
The records hold no text.
"""

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from eval.datasets import Row, read_rows
from eval.embedded import DATA, RECORDS, load_records
from eval.embedded import Record as Reading
from eval.errors import EvalError
from eval.graders import Listwise, make_record
from eval.jsonl import read_objects
from eval.records import LISTWISE, Record, Setup, to_line
from pruner.backends.calibration import levels_of
from pruner.backends.modelstore import DEFAULT_MODEL
from pruner.backends.scripted import ScriptedBackend
from pruner.config import PrunerConfig
from pruner.errors import PrunerError
from pruner.schema import RawGrading, Status, Usage
from pruner.tokens import TokenCounter

__all__ = ["export_embedded", "export_large_llm", "main"]


def export_embedded(
    readings: Path, data: Path, chunk_order: str = "reranker", half: str | None = None
) -> Iterator[Record]:
    """Turn readings of the embedded model into records, by the product's own scale and reader.

    Args:
        readings: what `eval.embedded read` wrote.
        data: folder with the labelled lists.
        chunk_order: in which the model read the chunks; the readings themselves are in the reranker's.
        half: only these lists: `test`, or `tune`, by which the scale was fitted.

    Raises:
        EvalError: a list is not there, or the readings are of another prompt or other labels.
    """
    lists = _Lists(data)
    for reading in load_records(readings):
        if half and reading.half != half:
            continue
        row = lists.get(reading.dataset, reading.id).cut(reading.n)
        if sorted(row.needed) != reading.gold:
            raise EvalError(f"{readings}: {reading.id!r} of {reading.dataset!r} has other labels now")
        yield replace(asyncio.run(_graded(reading, row)), chunk_order=chunk_order, latency=reading.seconds)


async def _graded(reading: Reading, row: Row) -> Record:
    # Each chunk and each question is one step, and a step is answered with one token.
    usage = Usage(input_tokens=reading.input_tokens, output_tokens=2 * reading.n, calls=1)
    raw = RawGrading(levels=levels_of(reading.readings), usage=usage)
    config = PrunerConfig(model=f"local:{DEFAULT_MODEL}", keep_top_k=0, scoring="expected")
    grader = Listwise(config, ScriptedBackend([raw]))
    if grader.setup.prompt_sha256 != reading.prompt_sha256:
        raise EvalError(f"{reading.id!r} of {reading.dataset!r} was read with another version of {config.prompt!r}")
    return await grader(row)


def export_large_llm(gradings: Path, prompt: Path, data: Path) -> Iterator[Record]:
    """Turn the gradings of the large model into records.

    Args:
        gradings: `{"dataset", "id", "n", "grades"}`, a list a line.
        prompt: the instructions that it had.
        data: folder with the labelled lists.
    """
    lists, counter = _Lists(data), TokenCounter()
    sha256 = hashlib.sha256(prompt.read_bytes()).hexdigest()
    setup = Setup(LISTWISE, "large_llm", prompt.name, sha256, readout="json", reply_format="", chunk_order="reranker")
    for _, entry in read_objects(gradings):
        row = lists.get(entry["dataset"], entry["id"]).cut(entry["n"])
        yield make_record(row, setup, counter, status=Status.OK, reason=None, usage=Usage(), grades=entry["grades"])


class _Lists:
    """Finds labelled lists by the name of their file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, Row]] = {}

    def get(self, name: str, identifier: str) -> Row:
        path = self._folder / f"{name}.dev.jsonl.gz"
        if name not in self._files:
            self._files[name] = {row.id: row for row in read_rows(path)}
        if identifier not in self._files[name]:
            raise EvalError(f"{path}: no list {identifier!r}")
        return self._files[name][identifier]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the records of one source."""
    parser = argparse.ArgumentParser(prog="python -m eval.exports", description=__doc__)
    parser.add_argument("source", choices=["embedded", "large_llm"])
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the labelled lists")
    parser.add_argument("--records", type=Path, help="embedded: the readings (default: those of this repository)")
    parser.add_argument("--chunk-order", default="reranker", help="embedded: the order they were read in")
    parser.add_argument("--half", choices=["tune", "test"], help="embedded: the scale was fitted on the tune half")
    options = parser.parse_args(arguments)
    folder = options.data / "graded"
    try:
        if options.source == "embedded":
            found = export_embedded(options.records or RECORDS, options.data, options.chunk_order, options.half)
        else:
            found = export_large_llm(folder / "large_llm.jsonl", folder / "large_llm.prompt.txt", options.data)
        lines = [to_line(record) for record in found]
        options.out.write_text("".join(lines), encoding="utf-8")
    except (PrunerError, OSError) as error:
        sys.stderr.write(f"exports: {error}\n")
        return 2
    sys.stderr.write(f"{len(lines)} records\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
