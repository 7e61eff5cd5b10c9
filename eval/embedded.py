"""What the embedded model makes of labelled lists: `python -m eval.embedded read | fit | table`.

`read` is slow (a minute a list on two cores) and goes on where it stopped; its records hold no text of query or chunk.
`fit` and `table` need only the records. Lists are halved by a hash of their id: constants are fitted on the
`tune` half, the table is about the `test` half.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pruner import PrunerConfig
from pruner.backends.local import LocalBackend
from pruner.preparation import to_chunks
from pruner.prompting import build_request, load_prompt
from pruner.schema import Candidate

__all__ = ["Record", "half_of", "load_records"]

RECORDS = Path(__file__).parent / "records" / "embedded.jsonl"
DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Plan:
    """How many lists of a set, cut to how many chunks."""

    dataset: str
    cut: int
    tune: int
    test: int


PLANS = (
    Plan("hotpotqa_pooled", 15, 7, 10),
    Plan("musique", 20, 5, 10),
    Plan("xquad", 20, 4, 10),
    Plan("mtrag", 10, 4, 5),
)


@dataclass(frozen=True)
class Record:
    """The raw readings of one list.

    Attributes:
        gold: places of the needed chunks, from 0.
        readings: log odds per chunk that it is needed.
        chars: length of each chunk's text.
        input_tokens: read by the model, without what it remembered.
    """

    dataset: str
    id: str
    half: str
    n: int
    gold: list[int]
    readings: list[float]
    chars: list[int]
    input_tokens: int
    seconds: float
    prompt_sha256: str


def half_of(identifier: str) -> str:
    """Return `tune` or `test`, by a hash of the list's id."""
    return "tune" if hashlib.sha256(identifier.encode()).digest()[0] % 2 == 0 else "test"


def load_records(path: Path = RECORDS) -> list[Record]:
    """Read the recorded lists."""
    return [Record(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def planned(data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (dataset, list) in turns over the sets and halves, so that a run that is stopped has some of each."""
    queues = [list(_chosen(plan, half, data)) for plan in PLANS for half in ("tune", "test")]
    for turn in zip_longest(*queues):
        yield from (entry for entry in turn if entry is not None)


def _chosen(plan: Plan, half: str, data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    wanted = plan.tune if half == "tune" else plan.test
    with gzip.open(data / f"{plan.dataset}.dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            row["chunks"] = row["chunks"][: plan.cut]
            if wanted and half_of(row["id"]) == half and _gold(row):
                wanted -= 1
                yield plan.dataset, row


def _gold(row: dict[str, Any]) -> list[int]:
    return [place for place, chunk in enumerate(row["chunks"]) if chunk["id"] in row["gold"]]


def read(data: Path, records: Path, model: str) -> None:
    """Record what is planned and not yet recorded."""
    done = {(r.dataset, r.id) for r in load_records(records)} if records.exists() else set()
    todo = [entry for entry in planned(data) if (entry[0], entry[1]["id"]) not in done]
    records.parent.mkdir(exist_ok=True)
    backend = LocalBackend.from_config(PrunerConfig(model=model))
    with records.open("a", encoding="utf-8") as file:
        for dataset, row in tqdm(todo, unit="list", desc=f"{len(done)} lists are here"):
            file.write(json.dumps(asdict(_read_one(backend, dataset, row))) + "\n")
            file.flush()


def _read_one(backend: LocalBackend, dataset: str, row: dict[str, Any]) -> Record:
    config = PrunerConfig(model="local:any")
    prompt = load_prompt(config.prompt)
    known = [{key: chunk.get(key) for key in ("id", "text", "title", "score")} for chunk in row["chunks"]]
    candidates = [Candidate(i, chunk, chunk.text) for i, chunk in enumerate(to_chunks(known))]
    request = build_request(prompt, config, row["query"], candidates)
    started = time.monotonic()
    readings, usage = asyncio.run(backend.read(request))
    return Record(
        dataset=dataset,
        id=row["id"],
        half=half_of(row["id"]),
        n=len(candidates),
        gold=_gold(row),
        readings=[round(reading, 3) for reading in readings],
        chars=[len(c.text) for c in candidates],
        input_tokens=usage.input_tokens - usage.cached_tokens,
        seconds=round(time.monotonic() - started, 1),
        prompt_sha256=prompt.sha256,
    )


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(prog="python -m eval.embedded", description=__doc__)
    parser.add_argument("step", choices=["read"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the labelled lists")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    options = parser.parse_args()
    read(options.data, options.records, options.model)


if __name__ == "__main__":
    main()
