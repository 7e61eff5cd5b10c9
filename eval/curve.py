"""`python -m eval curve`: every configuration a point, recall preserved against compression."""

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from math import isnan
from pathlib import Path

from eval.markdown import number, table
from eval.plots import draw_curve, draw_slices, save
from eval.points import LEVELS, Estimate, Point, Trade, points, trades
from eval.slices import ALL, slices
from eval.sources import (
    Source,
    add_draw_arguments,
    add_source_arguments,
    draws_of,
    load_source,
    sweep_of,
)

__all__ = ["add_arguments", "run", "trade_table"]

_BANDED = ("recall", "compression", "token_compression")
_PLAIN = tuple(f.name for f in fields(Point) if f.name not in ("configuration", *_BANDED))
HOW_TO_READ = (
    "Recall preserved: share of the questions with a needed chunk in the list that keep every one; `shown`: its exact "
    "lower bound (95 %, one-sided) for that configuration alone. Compression: share of chunks dropped. In brackets: "
    "95 % intervals by bootstrap over questions; of the compression in the trade with the choice made anew in each "
    "resample. A best of many looks better than it is: `held out` is the mean recall of such a choice on the questions "
    "that its resample left out."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `curve` takes."""
    add_source_arguments(parser)
    add_draw_arguments(parser)
    parser.add_argument("--out", type=Path, default=Path("curve"), help="folder to write into (%(default)s)")
    parser.add_argument("--strategy", action="append", metavar="NAME", help="only these (all that the data allow)")
    parser.add_argument("--slice", action="append", metavar="KEY", help="slice by these keys of `meta` only")


def run(options: argparse.Namespace) -> int:
    """Write curve.csv, curve.md, curve.png, curve.svg, slices.png and slices.svg; print the trade."""
    draws, loaded = draws_of(options), load_source(options)
    swept = sweep_of(loaded, options.strategy)
    source = loaded.swept(swept)
    named = slices(swept.cases, options.slice)
    by_slice = {name: points(swept, draws, mask) for name, mask in named.items()}
    traded = trades(swept, draws)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    _write_csv(out / "curve.csv", by_slice)
    (out / "curve.md").write_text(_markdown(source, by_slice, traded), encoding="utf-8")
    note = f"{source.order_note}\n{source.graded_by}\nbands and bars: 95 % by bootstrap over questions"
    save(draw_curve(by_slice[ALL], source.questions, f"{note}; pale: settings off the line"), out / "curve")
    save(draw_slices({name: found for name, found in by_slice.items() if found[0].with_gold}, note), out / "slices")
    sys.stdout.write(f"{source.head}\n\n{trade_table(traded)}\n\nwritten into {out}\n")
    return 0


def trade_table(traded: Sequence[Trade]) -> str:
    """Write what each strategy drops at each level of recall."""
    head = ["recall asked for", "strategy", "of", "compression", "tokens", "recall", "held out", "configuration"]
    return table(head, [_trade_row(each) for each in traded])


def _trade_row(trade: Trade) -> Sequence[str]:
    level = f"{trade.level:.0%}"
    if trade.point is None:
        return [level, trade.strategy, str(trade.tried), "not reached", "–", "–", "–", "–"]
    point = trade.point
    held_out, name = number(trade.held_out), str(point.configuration)
    tokens = number(point.token_compression.value)
    return [level, trade.strategy, str(trade.tried), str(trade.compression), tokens, str(point.recall), held_out, name]


def _markdown(source: Source, by_slice: Mapping[str, Sequence[Point]], traded: Sequence[Trade]) -> str:
    lines = [p for p in by_slice[ALL] if p.on_line]
    parts = [
        "# Recall against compression",
        source.head,
        HOW_TO_READ,
        "## The trade",
        trade_table(traded),
    ]
    parts += ["## The line of each strategy", _point_table(lines)]
    chosen = [trade.point for trade in traded if trade.level == LEVELS[1] and trade.point]
    parts += [f"## By slice, with what is best at {LEVELS[1]:.0%} over all", _slice_table(by_slice, chosen)]
    return "\n\n".join(parts) + "\n"


def _point_table(found: Iterable[Point]) -> str:
    head = ["configuration", "recall", "shown", "compression", "tokens", "chunk recall", "precision", "nDCG"]
    head += ["answer survives", "cost $", "latency s"]
    return table(head, [_point_row(p) for p in found])


def _point_row(p: Point) -> Sequence[str]:
    row = [str(p.configuration), str(p.recall), number(p.recall_shown), str(p.compression), str(p.token_compression)]
    row += [number(value) for value in (p.chunk_recall, p.precision, p.ndcg, p.answer_survives)]
    return [*row, number(p.cost, 6), number(p.latency)]


def _slice_table(by_slice: Mapping[str, Sequence[Point]], chosen: Sequence[Point]) -> str:
    names = [p.configuration for p in chosen]
    rows = []
    for name, found in by_slice.items():
        at = {p.configuration: p for p in found}
        cells = [f"{at[c].recall} / {number(at[c].compression.value)}" for c in names]
        rows.append([name, found[0].questions, found[0].with_gold, *cells])
    return table(["slice", "questions", "with gold", *map(str, names)], rows)


def _write_csv(path: Path, by_slice: Mapping[str, Sequence[Point]]) -> None:
    bands = [f"{name}{end}" for name in _BANDED for end in ("", "_low", "_high")]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["slice", "strategy", "configuration", *bands, *_PLAIN])
        for name, found in by_slice.items():
            for p in found:
                estimates: list[Estimate] = [getattr(p, banded) for banded in _BANDED]
                numbers = [value for e in estimates for value in (e.value, e.low, e.high)]
                writer.writerow([name, p.strategy, str(p.configuration), *map(_cell, numbers), *map(_cell, _plain(p))])


def _plain(point: Point) -> list[object]:
    return [getattr(point, name) for name in _PLAIN]


def _cell(value: object) -> str:
    """Write a number so that it reads back the same; nothing where it is not defined."""
    return "" if isinstance(value, float) and isnan(value) else repr(value)
