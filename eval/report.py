"""`python -m eval report`: the curve as one HTML file to look into, with what each configuration lost.

The file asks no other host for anything, and its own policy forbids that it could: data sets hold whatever they hold.
"""

import argparse
import base64
import hashlib
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from eval.cases import Case
from eval.datasets import Row, read_all
from eval.plots import style_of
from eval.points import LEVELS, Estimate, Point, Trade, points, trades
from eval.records import LISTWISE
from eval.sources import (
    add_draw_arguments,
    add_source_arguments,
    draws_of,
    load_source,
    sweep_of,
)
from eval.sweep import Sweep

__all__ = ["add_arguments", "lost_questions", "render", "run"]

_PAGE = Path(__file__).parent / "page"
_BANDED = ("recall", "compression", "token_compression")
_PLAIN = ("chunk_recall", "precision", "ndcg", "answer_survives", "cost", "latency", "recall_shown")
Key = tuple[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `report` takes."""
    add_source_arguments(parser)
    add_draw_arguments(parser)
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="file to write (%(default)s)")
    parser.add_argument("--strategy", action="append", metavar="NAME", help="only these (all that the data allow)")
    parser.add_argument("--no-text", action="store_true", help="leave out questions and chunks; ids and grades stay")


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    loaded, draws = load_source(options), draws_of(options)
    swept = sweep_of(loaded, options.strategy)
    lost = lost_questions(swept)
    wanted = {(swept.cases[q].dataset, swept.cases[q].id) for own in lost for q in own}
    texts = {} if options.no_text else _rows(options.data, wanted)
    data = _data(swept, points(swept, draws), lost, texts)
    html = render(loaded.swept(swept).notes, trades(swept, draws), data)
    options.out.write_text(html, encoding="utf-8")
    sys.stdout.write(f"written: {options.out} ({len(html.encode()) / 1e6:.1f} MB)\n")
    return 0


def lost_questions(swept: Sweep) -> list[dict[int, list[int]]]:
    """Return for each configuration the questions that lost a needed chunk, with the places of what they lost."""
    needed = np.zeros(swept.kept.shape[1:], dtype=np.bool_)
    for q, case in enumerate(swept.cases):
        needed[q, list(case.needed)] = True
    found = []
    for kept in swept.kept:
        gone = needed & ~kept
        found.append({int(q): np.flatnonzero(gone[q]).tolist() for q in np.flatnonzero(gone.any(axis=1))})
    return found


def render(notes: Sequence[str], traded: Sequence[Trade], data: Mapping[str, Any]) -> str:
    """Return the page: everything inline, and a policy that lets nothing else in."""
    environment = Environment(
        loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script, style = ((_PAGE / name).read_text(encoding="utf-8") for name in ("report.js", "report.css"))
    return environment.get_template("report.html").render(
        notes=notes,
        traded=traded,
        levels=[f"{level:.0%}" for level in LEVELS],
        data=Markup(_embedded(data)),
        script=Markup(script),
        style=Markup(style),
        policy=f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'",
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Mapping[str, Any]) -> str:
    """Write JSON in which no text can end the script element or begin another."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rows(paths: Sequence[Path], wanted: set[Key]) -> dict[Key, Row]:
    return {(row.dataset, row.id): row for _, row in read_all(paths) if (row.dataset, row.id) in wanted}


def _data(
    swept: Sweep, found: Sequence[Point], lost: Sequence[Mapping[int, Sequence[int]]], rows: Mapping[Key, Row]
) -> dict[str, Any]:
    names = list(dict.fromkeys(point.strategy for point in found))
    return {
        "levels": list(LEVELS),
        "strategies": {name: _look(name, names) for name in names},
        "points": [_point(point, own) for point, own in zip(found, lost, strict=True)],
        "questions": {q: _question(swept.cases[q], rows) for q in sorted({q for own in lost for q in own})},
    }


def _look(name: str, names: Sequence[str]) -> dict[str, Any]:
    style = style_of(name, names)
    return {"colour": style.colour, "marker": style.marker, "dashed": style.dashes != "-"}


def _point(point: Point, lost: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    banded = {name: _three(getattr(point, name)) for name in _BANDED}
    plain = {name: _number(getattr(point, name)) for name in _PLAIN}
    told = {"label": str(point.configuration), "strategy": point.strategy, "onLine": point.on_line}
    return told | banded | plain | {"lost": [[q, places] for q, places in lost.items()], "withGold": point.with_gold}


def _three(estimate: Estimate) -> list[float | None]:
    return [_number(value) for value in (estimate.value, estimate.low, estimate.high)]


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _question(case: Case, rows: Mapping[Key, Row]) -> dict[str, Any]:
    row = rows.get((case.dataset, case.id))
    return {
        "dataset": case.dataset,
        "id": case.id,
        "query": row.query if row else None,
        "needed": len(case.needed),
        "n": case.n,
        "chunks": dict(_chunks(case, row)),
    }


def _chunks(case: Case, row: Row | None) -> Iterable[tuple[int, dict[str, Any]]]:
    record = case.records.get(LISTWISE)
    for place in sorted(case.needed):
        chunk = row.chunks[place] if row else None
        yield (
            place,
            {
                "id": chunk.id if chunk else None,
                "title": chunk.title if chunk else None,
                "text": chunk.text if chunk else None,
                "score": case.scores[place],
                "grade": record.grades[place] if record else None,
                "expected": record.expected[place] if record else None,
            },
        )
