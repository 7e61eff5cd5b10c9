"""Have an LLM grade labelled lists, each once, to JSONL records: the only step of the evaluation that costs money.

A run that was stopped or killed goes on where it was; what is in the file is not paid again. Other dials of a
grading come from PRUNER_* variables and pruner.toml, as for `pruner prune`.
"""

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from eval.datasets import Row, read_all
from eval.errors import EvalError
from eval.graders import Grader, Listwise, worst_cost
from eval.paid import Budget, Run
from eval.questions import QUESTIONS, make_question
from eval.recordfile import RecordFile, open_records
from eval.records import LISTWISE, Record
from eval.setups import grading_config
from pruner.backends import Backend, ClosableBackend, make_backend
from pruner.config import PrunerConfig
from pruner.schema import Status
from pruner.tokens import TokenCounter

__all__ = ["add_arguments", "run"]

EXIT_DONE, EXIT_INCOMPLETE = 0, 1

_DIALS = ("model", "base_url", "prompt", "reply_format", "readout", "scoring", "chunk_order", "seed", "timeout")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `grade`."""
    add = parser.add_argument
    add("data", nargs="+", type=Path, help="labelled lists, .jsonl or .jsonl.gz")
    add("--out", type=Path, required=True, help="records are appended to this file; lists that are in it are skipped")
    add("--strategy", choices=[LISTWISE, *QUESTIONS], default=LISTWISE, help="the question to ask (default: listwise)")
    add("--model", help="prefix:name")
    add("--base-url", help="an OpenAI-compatible server instead of the vendor's own")
    add("--prompt", help="name of a shipped prompt, or path of a .jinja file; for listwise")
    add("--reply-format", choices=["pairs", "listed", "keyed"])
    add("--readout", choices=["json", "probe"])
    add("--scoring", choices=["grade", "expected"], help="expected (default) also asks for token probabilities")
    add("--chunk-order", choices=["reranker", "shuffle"])
    add("--seed", type=int, help="of the shuffle")
    add("--timeout", type=float, help="seconds for each list, retries included")
    add("--cut", type=_positive, metavar="N", help="grade the first N chunks of each list")
    add("--limit", type=_positive, metavar="N", help="grade N lists of each file")
    add("--sample", type=int, metavar="SEED", help="take the lists in an order drawn by this seed, not the file's")
    add("--concurrency", type=_positive, default=4, metavar="N", help="lists graded at a time (default: 4)")
    add("--max-cost", type=float, metavar="USD", help="stop before the records in the file have cost more")
    add("--retry", action="store_true", help="grade again what ended in a fallback")
    add("--no-reply", action="store_true", help="leave out the raw replies, which may quote chunks")


def _positive(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return int(given)


def run(options: argparse.Namespace) -> int:
    """Grade what is not graded yet.

    Returns:
        0 when every list is graded, else 1.
    """
    if any(options.out.resolve() == path.resolve() for path in options.data):
        raise EvalError(f"--out {options.out} is one of the lists; give the records a file of their own")
    if options.max_cost is not None and not options.max_cost > 0:
        raise EvalError(f"--max-cost must be above 0, not {options.max_cost}")
    config = grading_config(**{name: value for name in _DIALS if (value := getattr(options, name)) is not None})
    given = list(read_all(options.data, labelled=False))
    rows = [row for path in options.data for row in _chosen((r for p, r in given if p == path), options)]
    worst = _pricing(config, options.max_cost)
    with open_records(options.out) as file:
        return asyncio.run(_grade(rows, [row for _, row in given], config, worst, file, options))


def _chosen(rows: Iterable[Row], options: argparse.Namespace) -> Iterable[Row]:
    """Sample by a hash, so that a larger `--limit` adds lists and replaces none."""
    if options.sample is not None:
        rows = sorted(rows, key=lambda row: _drawn(options.sample, row))
    return (row.cut(options.cut) if options.cut else row for row in islice(rows, options.limit))


def _drawn(seed: int, row: Row) -> bytes:
    return hashlib.sha256(f"{seed} {row.dataset} {row.id}".encode()).digest()


def _pricing(config: PrunerConfig, limit: float | None) -> Callable[[Row], float]:
    """Return the worst price of a list, 0 where no limit asks for it."""
    if limit is None:
        return lambda row: 0.0
    counter = TokenCounter()

    def worst(row: Row) -> float:
        price = worst_cost(config, row, counter)
        if price is None:
            raise EvalError(f"--max-cost cannot be held: {_unpriced(config)}; leave it out")
        return price

    return worst


def _unpriced(config: PrunerConfig) -> str:
    return (
        "a server at base_url has prices of its own" if config.base_url else f"nobody knows the price of {config.model}"
    )


async def _grade(
    rows: Sequence[Row],
    everything: Sequence[Row],
    config: PrunerConfig,
    worst: Callable[[Row], float],
    file: RecordFile,
    options: argparse.Namespace,
) -> int:
    backend = make_backend(config)
    try:
        grader = _grader(options.strategy, config, backend, everything)
        todo = _todo(rows, grader, file.records, retry=options.retry)
        spent = sum(record.cost or 0.0 for record in file.records)
        grading = Run(grader, file, Budget(options.max_cost, spent), worst, keep_reply=not options.no_reply)
        if todo:
            await grading(todo, options.concurrency)
    finally:
        if isinstance(backend, ClosableBackend):
            await backend.aclose()
    return _tell(grading, len(rows) - len(todo), len(todo))


def _grader(strategy: str, config: PrunerConfig, backend: Backend, rows: Sequence[Row]) -> Grader:
    return Listwise(config, backend) if strategy == LISTWISE else make_question(strategy, config, backend, rows)


def _todo(rows: Sequence[Row], grader: Grader, records: Iterable[Record], *, retry: bool) -> list[Row]:
    latest = {record.key: record for record in records}
    done = {key for key, record in latest.items() if not (retry and record.status == Status.FALLBACK)}
    return [row for row in rows if (row.dataset, row.id, row.sha256, grader.setup) not in done]


def _tell(grading: Run, before: int, wanted: int) -> int:
    """Say how it went, on stderr."""
    counts = ", ".join(f"{name} {count}" for name, count in grading.counts.items()) or "nothing to do"
    said = [f"{counts} ({before} lists were graded before; {grading.paid} in all)"]
    if left := wanted - grading.written:
        why = grading.stopped or "the provider did not answer for them"
        said.append(f"{left} lists are not graded: {why}; the same command goes on with them")
    elif grading.counts[Status.FALLBACK]:
        said.append("--retry grades again what ended in a fallback")
    sys.stderr.write("".join(f"grade: {line}\n" for line in said))
    return EXIT_INCOMPLETE if left else EXIT_DONE
