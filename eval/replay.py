"""What pruning did, or would do, to a team's own traffic: `python -m eval replay LOG…`.

Reads logs of any length in constant memory, and asks no model. A line is either of the pruner's decision log, or a
query with the chunks that were sent, whose gradings `grade` recorded.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from eval.cases import make_case
from eval.datasets import to_row
from eval.errors import EvalError
from eval.jsonl import parse_object, read_lines
from eval.prices import token_prices
from eval.record_index import RecordIndex
from eval.records import LISTWISE, Record
from eval.replay_report import to_json, to_markdown
from eval.sources import read_configuration
from eval.strategies import STRATEGIES, Configuration
from eval.traffic import Pruned, Replay
from pruner.tokens import TokenCounter

__all__ = ["add_arguments", "decider", "replay", "run"]

Line = Mapping[str, Any]
Decide = Callable[[Line], Pruned]


def replay(lines: Iterable[tuple[str, bytes]], decide: Decide) -> Replay:
    """Sum up a log.

    A line that cannot be read is passed over and counted: the last one of a log is often half written.

    Args:
        lines: (`file:line`, JSON).
        decide: says what became of the chunks of a line that holds no decision.

    Raises:
        EvalError: no line can be read.
    """
    done = Replay()
    for where, text in lines:
        try:
            _count(done, parse_object(text, where), decide)
        except (EvalError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            done.pass_over(where, _why(error).removeprefix(f"{where}: "))
    if not done.total.queries and not done.baseline:
        raise EvalError(f"nothing to replay: {done.first_unreadable or 'no line in the log'}")
    return done


def _count(done: Replay, line: Line, decide: Decide) -> None:
    if line.get("arm") == "baseline" or line.get("mode") == "off":
        done.baseline += 1
    else:
        done.add(_decided(line) if "kept" in line else decide(line))


def _why(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _decided(line: Line) -> Pruned:
    """Read a line of the decision log."""
    usage, kept, tokens = line["usage"], line["kept"], line["tokens"]
    # What the caller sent before: with `fallback_top_n` that is not the whole list.
    before = line.get("baseline", range(line["n"]))
    if len(tokens) != line["n"] or min(*tokens, 0, 0) < 0 or not all(_are_places(p, line["n"]) for p in (kept, before)):
        raise ValueError("`tokens`, `kept` and `baseline` do not belong to `n` chunks")
    reported = usage["input_tokens"] or usage["output_tokens"]
    return Pruned(
        day=day_of(line),
        status=line["status"],
        reason=line["reason"],
        chunks=(len(before), len(kept)),
        tokens=(sum(tokens[place] for place in before), sum(tokens[place] for place in kept)),
        cost=usage["cost"] if reported else 0.0,
        latency=line["latency"] if usage["calls"] else None,
        generator=generator_tokens(line),
    )


def _are_places(places: Sequence[int], n: int) -> bool:
    return len(set(places)) == len(places) and all(0 <= place < n for place in places)


def day_of(line: Line) -> str:
    """Return the date of a line, as its `time` says it; "" without one."""
    return str(line.get("time") or "")[:10]


def generator_tokens(line: Line) -> tuple[int, int] | None:
    """Return what the generator read and wrote for this query, before pruning; None where the line does not say."""
    told = line.get("generator")
    if not told:
        return None
    return int(told["input_tokens"]), int(told["output_tokens"])


def decider(index: RecordIndex, configuration: Configuration, counter: TokenCounter) -> Decide:
    """Return how to decide on a line that holds a query and the chunks that were sent.

    Args:
        index: of the gradings.
        configuration: what to keep by.
        counter: of the chunks' tokens, where the record holds none.
    """
    strategy = STRATEGIES[configuration.strategy]

    def decide(line: Line) -> Pruned:
        row = to_row(line, labelled=False)
        record = index.find(row.sha256)
        if record is None:
            raise ValueError("no grading of this list; run `python -m eval grade` on the log")
        case = make_case(row, {LISTWISE: record}, counter)
        kept = strategy.keep(case, configuration)
        if kept is None:
            raise ValueError(f"{configuration} cannot decide on this list")
        return _by_record(line, record, case.tokens, kept)

    return decide


def _by_record(line: Line, record: Record, tokens: Sequence[int], kept: Iterable[int]) -> Pruned:
    places = list(kept)
    reported = record.input_tokens or record.output_tokens
    return Pruned(
        day=day_of(line),
        status=record.status,
        reason=record.reason,
        chunks=(record.n, len(places)),
        tokens=(sum(tokens), sum(tokens[place] for place in places)),
        cost=record.cost if reported else 0.0,
        latency=record.latency if record.calls else None,
        generator=generator_tokens(line),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the log, the gradings and the prices."""
    parser.add_argument("log", nargs="+", type=Path, help="decision logs, or queries with chunks; JSONL or .jsonl.gz")
    parser.add_argument("--records", action="append", type=Path, default=[], help="gradings of the log's lists")
    parser.add_argument(
        "--keep",
        default="listwise threshold=3 keep_top_k=2 scoring=grade",
        help="what to keep by where the log holds no decision (%(default)s)",
    )
    parser.add_argument("--generator", metavar="PREFIX:NAME", help="the model that answers, to look up its price")
    parser.add_argument("--input-price", type=_price, metavar="USD", help="of the generator, per million input tokens")
    parser.add_argument(
        "--output-price", type=_price, metavar="USD", help="of the generator, per million output tokens"
    )
    parser.add_argument("--json", action="store_true", help="write the figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Print what the log says."""
    prices = token_prices(options.generator, options.input_price, options.output_price)
    configuration = read_configuration(options.keep)
    with RecordIndex(options.records) as index:
        done = replay(
            tqdm(_lines(options.log), unit=" lines", leave=False, disable=None),
            decider(index, configuration, TokenCounter()),
        )
    sys.stdout.write((to_json(done, prices) if options.json else to_markdown(done, prices)) + "\n")
    return 0


def _lines(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        yield from ((f"{path}:{number}", line) for number, line in read_lines(path))


def _price(text: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no price")
    return price
