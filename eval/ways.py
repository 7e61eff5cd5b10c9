"""Compare ways of grading on the lists that all of them graded: model, prompt, readout, reply format, order, scoring.

Each --records is one way; the first is what the others are held against, list by list.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.cases import Case, load_cases
from eval.errors import EvalError
from eval.markdown import number, table
from eval.measures import Floats, auc
from eval.points import Draws, Estimate
from eval.records import LISTWISE, Record, Setup
from eval.sources import add_draw_arguments, draws_of, natural_number, share_between, whole_number
from eval.statistics import Ratio, interval
from eval.strategies import STRATEGIES, Configuration

__all__ = ["Way", "add_arguments", "compare", "run"]

_UNGRADED = 5.0
_HEAD = ("way", "scoring", "ungraded", "AUC", "AUC less that of the first", "recall preserved", "chunks dropped")


@dataclass(frozen=True)
class Way:
    """One way of grading, on the lists that all ways graded, in one order.

    Attributes:
        name: what tells it from the others.
        scoring: `grade` or `expected`; `order` for the ranking itself.
        cases: with their records; at least one has a needed chunk and one that is not.
    """

    name: str
    scoring: str
    cases: tuple[Case, ...]

    @property
    def aucs(self) -> Floats:
        """How often a needed chunk has a higher level than another, per list; nan where all or none are needed."""
        return np.array([auc(_levels(case, self.scoring), _needed(case)) for case in self.cases])

    def kept(self, threshold: float, keep_top_k: int) -> list[frozenset[int]]:
        """Return what is kept of each list."""
        dials = (("threshold", threshold), ("keep_top_k", keep_top_k), ("scoring", self.scoring))
        configuration = Configuration(LISTWISE, dials)
        return [STRATEGIES[LISTWISE].keep(case, configuration) or frozenset() for case in self.cases]

    @property
    def ungraded(self) -> float:
        """Share of chunks without a grade."""
        grades = [grade for case in self.cases for grade in _record(case).grades]
        return grades.count(None) / len(grades)


def compare(ways: Sequence[Way], threshold: float, keep_top_k: int, draws: Draws) -> str:
    """Write the table: one row a way, after one of the ranking's own order."""
    order = Way("the ranking itself", "order", ways[0].cases)
    aucs = Ratio.mean([way.aucs for way in (order, *ways)])
    samples = aucs.bootstrap(draws.resamples, draws.seed)
    rows = []
    for place, way in enumerate((order, *ways)):
        own = Estimate(float(aucs.value[place]), *interval(samples[:, place]))
        less = Estimate(float(aucs.value[place] - aucs.value[1]), *interval(samples[:, place] - samples[:, 1]))
        rest = ["–", own, less, "–", "–"] if place == 0 else [number(way.ungraded), own, less if place > 1 else "–"]
        rows.append([way.name, way.scoring, *rest, *(_kept_cells(way, threshold, keep_top_k, draws) if place else [])])
    return table(_HEAD, rows)


def _kept_cells(way: Way, threshold: float, keep_top_k: int, draws: Draws) -> list[Estimate]:
    kept = way.kept(threshold, keep_top_k)
    pairs = list(zip(way.cases, kept, strict=True))
    whole = [float(case.needed <= left) if case.needed else np.nan for case, left in pairs]
    dropped = Ratio(
        np.array([[case.n - len(left) for case, left in pairs]], dtype=float), np.array([[c.n for c, _ in pairs]])
    )
    return [_estimate(ratio, draws) for ratio in (Ratio.mean([whole]), dropped)]


def _estimate(ratio: Ratio, draws: Draws) -> Estimate:
    return Estimate(float(ratio.value[0]), *interval(ratio.bootstrap(draws.resamples, draws.seed)[:, 0]))


def _levels(case: Case, scoring: str) -> Floats:
    if scoring == "order":
        return -np.arange(case.n, dtype=float)
    record = _record(case)
    means = record.expected if scoring == "expected" else (None,) * case.n
    pairs = zip(record.grades, means, strict=True)
    return np.array(
        [mean if mean is not None else _UNGRADED if grade is None else grade for grade, mean in pairs], float
    )


def _needed(case: Case) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([place in case.needed for place in range(case.n)])


def _record(case: Case) -> Record:
    return case.records[LISTWISE]


def load_ways(data: Sequence[Path], records: Sequence[Path], cut: int | None) -> tuple[list[Way], list[str]]:
    """Read each file of records as one way, on the lists that all of them graded; twice where it has mean levels.

    Returns:
        The ways, and what else is to be said of the lists.

    Raises:
        EvalError: a file is unusable, or there is no list that all graded and that has needed and other chunks; or
            they graded different numbers of a list's chunks.
    """
    loaded = [load_cases(data, [path], cut=cut) for path in records]
    found = [{(c.dataset, c.id): c for c in one.cases if LISTWISE in c.records} for one in loaded]
    shared = [key for key in found[0] if all(key in cases for cases in found)]
    for key in shared:
        if len(lengths := {cases[key].n for cases in found}) > 1:
            raise EvalError(f"of {key[1]!r} ({key[0]}) these graded {sorted(lengths)} chunks; choose with --cut")
    if not any(0 < len(found[0][key].needed) < found[0][key].n for key in shared):
        raise EvalError("there is no list that all of these graded and that holds needed and other chunks")
    kept = [tuple(cases[key] for key in shared) for cases in found]
    names = _names([_record(cases[0]).setup for cases in kept])
    ways = [Way(name, scoring, cases) for name, cases in zip(names, kept, strict=True) for scoring in _scorings(cases)]
    return ways, max(loaded, key=lambda one: one.repeated).repeats


def _scorings(cases: Sequence[Case]) -> list[str]:
    with_means = any(mean is not None for case in cases for mean in _record(case).expected)
    return ["grade", "expected"] if with_means else ["grade"]


def _names(setups: Sequence[Setup]) -> list[str]:
    """Name each by what tells it from the others."""
    fields = [name for name in Setup.__dataclass_fields__ if len({getattr(s, name) for s in setups}) > 1]
    shown = [name for name in fields if name != "prompt_sha256"] or ["model", "readout"]
    return [", ".join(str(getattr(setup, name)) for name in shown if getattr(setup, name)) for setup in setups]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lists, the ways and the dials."""
    parser.add_argument("data", nargs="+", type=Path, help="labelled lists, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--records", action="append", type=Path, required=True, help="one way's gradings; repeat for others"
    )
    parser.add_argument("--cut", type=whole_number, help="judge only the first so many chunks of each list")
    parser.add_argument(
        "--threshold", type=share_between(1, 5), default=3.0, help="for the last two columns (%(default)g)"
    )
    parser.add_argument("--keep-top-k", type=natural_number, default=2, help="for the last two columns (%(default)s)")
    add_draw_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    ways, notes = load_ways(options.data, options.records, options.cut)
    shown = compare(ways, options.threshold, options.keep_top_k, draws_of(options))
    head = (
        f"{len(ways[0].cases)} lists that all of these graded; 95 % intervals by bootstrap over lists. "
        f"Recall and compression: threshold {options.threshold:g}, keep_top_k {options.keep_top_k}."
    )
    sys.stdout.write("\n\n".join([head, *notes, shown]) + "\n")
    return 0
