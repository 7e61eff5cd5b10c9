"""What the embedded model makes of labelled lists: `python -m eval.embedded read | fit | table | serve`.

`read` is slow (a minute a list on two cores) and goes on where it stopped; its records hold no text of query or chunk.
With `--overlapping N` it reads N lists that were cut anew with half overlap (`eval.lists`), to records of their own.
`fit` and `table` need only the records; `serve` offers the model to `python -m eval grade --base-url`. Lists are halved
by a hash of their id: constants are fitted on the `tune` half, the table is about the `test` half.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from eval.lists import overlapping
from eval.lists import rows as rows_of
from pruner import Grading, Pruner, PrunerConfig, Status
from pruner.backends.calibration import levels_of
from pruner.backends.local import LocalBackend, start_server
from pruner.backends.modelstore import model_path
from pruner.backends.scripted import ScriptedBackend
from pruner.preparation import to_chunks
from pruner.prompting import build_request, load_prompt
from pruner.replies import read_reply
from pruner.schema import Candidate, RawGrading

__all__ = ["Record", "half_of", "load_records"]

Matrix = NDArray[np.float64]
SHARES_BELOW = (0.02, 0.07, 0.35, 0.75)
THRESHOLDS = (2, 3, 4)
SELECTOR = Pruner(PrunerConfig(model="local:any"), backend=ScriptedBackend([]))
RECORDS = Path(__file__).parent / "records" / "embedded.jsonl"
OVERLAPPING = RECORDS.with_name("embedded.overlapping.jsonl")
DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Plan:
    """How many lists of a set, cut to how many chunks."""

    dataset: str
    cut: int
    tune: int
    test: int


PLANS = (
    Plan("hotpotqa_pooled", 15, 10, 10),
    Plan("musique", 20, 6, 10),
    Plan("xquad", 20, 2, 10),
    Plan("mtrag", 10, 2, 5),
)
WINDOWS = 15
"""To how many windows a list that was cut anew is cut."""


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


def overlapped(data: Path, wanted: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (dataset, list) of lists that were cut anew; what shows a part of a needed passage is needed."""
    for given in islice(overlapping(rows_of(data / "chroma.dev.jsonl.gz")), wanted):
        chunks = [{"id": chunk.id, "text": chunk.text} for chunk in given.chunks[:WINDOWS]]
        gold = [given.chunks[place].id for place in given.touching]
        yield given.dataset, {"id": given.id, "query": given.query, "chunks": chunks, "gold": gold}


def read(lists: Iterable[tuple[str, dict[str, Any]]], records: Path, model: str) -> None:
    """Record those lists that are not yet recorded."""
    done = {(r.dataset, r.id) for r in load_records(records)} if records.exists() else set()
    todo = [entry for entry in lists if (entry[0], entry[1]["id"]) not in done]
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


def fit(records: list[Record]) -> str:
    """Fit the constants of `pruner.backends.calibration` on the `tune` half.

    The weight of the list's mean comes from a logistic regression of needed on (reading, mean of the list); it stays
    above -1, so that a list of which nothing is needed can be seen. The cuts are quantiles of the needed chunks'
    scores: so many of them may fall below a level.
    """
    tune = [r for r in records if r.half == "tune"]
    rows = np.array([(reading, np.mean(r.readings), 1.0) for r in tune for reading in r.readings])
    needed = np.array([place in r.gold for r in tune for place in range(r.n)])
    slope, of_mean, _ = _logistic(rows, needed)
    weight = float(np.clip(of_mean / slope, -0.8, 0.0))
    scores = rows[needed] @ np.array([1.0, weight, 0.0])
    cuts = ", ".join(f"{np.quantile(scores, share):.2f}" for share in SHARES_BELOW)
    counts = f"{len(tune)} lists, {needed.sum()} of {len(needed)} chunks needed"
    return f"{counts}\n_WEIGHT_OF_MEAN = {weight:.2f}\n_CUTS = ({cuts})"


def _logistic(rows: Matrix, labels: Matrix, steps: int = 50) -> Matrix:
    """Maximum likelihood by Newton's method, with a small ridge so that it always converges."""
    weights = np.zeros(rows.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (labels - p) - 1e-3 * weights
        hessian = (rows * (p * (1 - p))[:, None]).T @ rows + 1e-3 * np.eye(len(weights))
        weights = weights + np.linalg.solve(hessian, gradient)
    return weights


def table(records: list[Record], half: str) -> str:
    """Recall preserved and compression per set, beside cutting the ranking to the same number of chunks."""
    lines = [
        f"| set ({half} half) | lists | AUC | {' | '.join(f'threshold {t}' for t in THRESHOLDS)} |",
        f"|---|---|---|{'---|' * len(THRESHOLDS)}",
    ]
    chosen = [r for r in records if r.half == half]
    for name in [*dict.fromkeys(r.dataset for r in chosen), "all"]:
        rows = [r for r in chosen if name in (r.dataset, "all")]
        model, order = (np.mean([_auc(by(r), r) for r in rows]) for by in (_readings, _ranking))
        cells = [f"{model:.2f} ({order:.2f})", *(_cell(rows, threshold) for threshold in THRESHOLDS)]
        lines.append(f"| {name} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _readings(record: Record) -> Sequence[float]:
    return record.readings


def _ranking(record: Record) -> Sequence[float]:
    return range(0, -record.n, -1)


def _cell(rows: list[Record], threshold: int) -> str:
    kept = [_kept(r, threshold) for r in rows]
    mean = sum(map(len, kept)) / len(kept)
    recall, compression = _measure(rows, kept)
    cut, cut_compression = _measure(rows, [set(range(_size(r, rows, mean))) for r in rows])
    return f"{recall:.2f} / {compression:.2f} ({cut:.2f} / {cut_compression:.2f})"


def _size(record: Record, rows: list[Record], mean: float) -> int:
    """Length to which a ranking is cut so that about as many chunks are kept in all."""
    return round(mean * record.n / np.mean([r.n for r in rows]))


def _kept(record: Record, threshold: int) -> set[int]:
    """Return what the pruner keeps of a list by its recorded readings: the real reader and stages, no model."""
    sheet = read_reply(RawGrading(levels=levels_of(record.readings)), record.n)
    grading = Grading(sheet.grades, sheet.expected, Status.OK)
    result = SELECTOR.assemble("", ["x"] * record.n, grading, threshold=threshold)
    return {d.index for d in result.decisions if d.kept}


def _measure(rows: list[Record], kept: list[set[int]]) -> tuple[float, float]:
    """Return the share of lists that still hold every needed chunk, and the share of chunks dropped."""
    whole = [set(r.gold) <= left for r, left in zip(rows, kept, strict=True)]
    return float(np.mean(whole)), 1 - sum(map(len, kept)) / sum(r.n for r in rows)


def _auc(scores: Sequence[float], record: Record) -> float:
    """Return how often a needed chunk scores above one that is not, ties by half; 0.5 where all or none are needed."""
    needed = [scores[place] for place in record.gold]
    others = [score for place, score in enumerate(scores) if place not in record.gold]
    pairs = [(a > b) + 0.5 * (a == b) for a in needed for b in others]
    return float(np.mean(pairs)) if pairs else 0.5


def serve(model: str, port: int) -> None:
    """Serve the model by llama.cpp's own chat completions, on this machine alone, until interrupted."""
    name = PrunerConfig(model=model).model_name
    server = start_server(model_path(name), port)
    sys.stdout.write(f"--model openai:{name} --base-url {server.listening_address}/v1\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(prog="python -m eval.embedded", description=__doc__)
    parser.add_argument("step", choices=["read", "fit", "table", "serve"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the labelled lists")
    parser.add_argument("--records", type=Path)
    parser.add_argument(
        "--overlapping", type=int, default=0, metavar="N", help="of lists with half overlap; read: N of them"
    )
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("--port", type=int, default=8077, help="serve: on this port of 127.0.0.1")
    options = parser.parse_args()
    if options.step == "serve":
        serve(options.model, options.port)
        return
    path = options.records or (OVERLAPPING if options.overlapping else RECORDS)
    if options.step == "read":
        lists = overlapped(options.data, options.overlapping) if options.overlapping else planned(options.data)
        read(lists, path, options.model)
        return
    records = load_records(path)
    shown = [fit(records)] if options.step == "fit" else [table(records, half) for half in ("test", "tune")]
    sys.stdout.write("\n\n".join(shown) + "\n")


if __name__ == "__main__":
    main()
