"""Ways to choose what of a list is sent on, all on the same lists.

A strategy is a function from a case and its dials to the places that are kept, or None where the case lacks what the
strategy goes by; and a function that lists the configurations worth trying. Adding one: write the two, add the line
in `STRATEGIES`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from eval.cases import Case
from eval.records import LISTWISE
from pruner.schema import Status

__all__ = [
    "STRATEGIES",
    "Configuration",
    "Kept",
    "Strategy",
    "configurations",
    "lacked",
    "lacking",
    "not_applied",
    "short_of",
]

Kept: TypeAlias = frozenset[int]
Dial: TypeAlias = float | int | str
Grid: TypeAlias = Callable[[Sequence[Case]], Iterable[Mapping[str, Dial]]]

KEEP_TOP_K = (0, 1, 2, 3, 5)
THRESHOLDS: Mapping[str, Sequence[float]] = {"grade": (2, 3, 4, 5), "expected": (1.5, 2, 2.5, 3, 3.5, 4, 4.5)}
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
BUDGET = 5


@dataclass(frozen=True)
class Configuration:
    """A strategy with its dials set; its text is a short label."""

    strategy: str
    dials: tuple[tuple[str, Dial], ...] = ()

    def __str__(self) -> str:
        """Return `listwise threshold=3 keep_top_k=2 scoring=grade`."""
        shown = (f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in self.dials)
        return " ".join([self.strategy, *shown])


@dataclass(frozen=True)
class Strategy:
    """How to choose, and with which dials to try.

    Attributes:
        choose: case and dials → the kept places, or None.
        dials: cases → the settings worth trying.
        asks: whether it rests on records of its own name, which cost money.
        needs: what of a list it goes by, where not every list has it.
    """

    choose: Callable[..., Kept | None]
    dials: Grid
    asks: bool = False
    needs: str = ""

    def keep(self, case: Case, configuration: Configuration) -> Kept | None:
        """Return the kept places; None when the case lacks what the strategy goes by."""
        return self.choose(case, **dict(configuration.dials))

    def grid(self, name: str, cases: Sequence[Case]) -> list[Configuration]:
        """Return the configurations worth trying on these cases."""
        return [Configuration(name, tuple(dials.items())) for dials in self.dials(cases)]


def configurations(cases: Sequence[Case], strategies: Iterable[str] | None = None) -> list[Configuration]:
    """Return the grids of the named strategies (all by default) that at least one of the cases has the data for."""
    named = STRATEGIES if strategies is None else {name: STRATEGIES[name] for name in strategies}
    found = []
    for name, strategy in named.items():
        grid = strategy.grid(name, cases)
        if grid and any(strategy.keep(case, grid[0]) is not None for case in cases):
            found += grid
    return found


def short_of(cases: Sequence[Case], found: Iterable[Configuration]) -> Mapping[str, int]:
    """Return the strategies that ask nobody and cannot be applied to some of the cases, with how many those are.

    To leave out such cases would leave out those that the reranker is least sure of.
    """
    free = [c for c in found if not STRATEGIES[c.strategy].asks]
    counts = Counter(name for case in cases for name in lacked(case, free))
    return {name: counts[name] for name in dict.fromkeys(c.strategy for c in free) if counts[name]}


def lacked(case: Case, found: Iterable[Configuration]) -> tuple[str, ...]:
    """Return the strategies that a case lacks something for, in their order."""
    first = {c.strategy: c for c in found}
    return tuple(name for name, c in first.items() if STRATEGIES[name].keep(case, c) is None)


def not_applied(short: Mapping[str, int]) -> str:
    """Say which strategies are left out, and what they would need."""
    return "; ".join(
        f"{name} is left out: it needs {STRATEGIES[name].needs}, which {count} of the lists lack"
        for name, count in short.items()
    )


def lacking(names: Iterable[str]) -> str:
    """Say what these strategies go by and no list has: gradings, which `grade` makes, or scores of the reranker."""
    asking, ranking = ([name for name in sorted(names) if STRATEGIES[name].asks is asks] for asks in (True, False))
    if asking:
        named = ", ".join(asking)
        return f"no list has a grading for {named}: make them by `python -m eval grade`, and give them by --records"
    return f"no list has the scores that {', '.join(ranking)} cuts by"


def _grid(**dials: Sequence[Dial]) -> Grid:
    return lambda cases: [dict(zip(dials, values, strict=True)) for values in product(*dials.values())]


def _keep_all(case: Case) -> Kept:
    return frozenset(range(case.n))


def _top_n(case: Case, n: int) -> Kept:
    return frozenset(range(min(n, case.n)))


def _every_n(cases: Sequence[Case]) -> Iterable[Mapping[str, Dial]]:
    return [{"n": n} for n in range(1, max((case.n for case in cases), default=0) + 1)]


def _score_cut(case: Case, at_least: float) -> Kept | None:
    """Keep what the reranker scored at least so high."""
    scores = _known(case.scores)
    return scores and frozenset(place for place, score in enumerate(scores) if score >= at_least)


def _deciles(cases: Sequence[Case]) -> Iterable[Mapping[str, Dial]]:
    """Cut at the deciles of all scores: what is a high score is known only from the scores."""
    scores = [score for case in cases for score in case.scores if score is not None]
    return [{"at_least": float(f"{cut:.4g}")} for cut in np.quantile(scores, SHARES)] if scores else []


def _relative_cut(case: Case, share: float) -> Kept | None:
    """Keep what has at least this share of the list's best score; None where that is not above 0."""
    scores = _known(case.scores)
    if not scores or max(scores) <= 0:
        return None
    return frozenset(place for place, score in enumerate(scores) if score >= share * max(scores))


def _known(scores: Sequence[float | None]) -> Any:
    return None if None in scores else scores


def _direct_select(case: Case, keep_top_k: int) -> Kept | None:
    """Keep what the LLM chose, and the reranker's first few; everything where it failed."""
    record = case.records.get("direct_select")
    return None if record is None else _with_top(case, record.selected, keep_top_k)


def _budget_select(case: Case, budget: int) -> Kept | None:
    """Keep the few that the question named as sent anyway, and the first `budget` of what the LLM adds."""
    record = case.records.get("budget_select")
    return None if record is None else _with_top(case, record.selected and record.selected[:budget], TOP)


def _with_top(case: Case, selected: Sequence[int] | None, keep_top_k: int) -> Kept:
    return _keep_all(case) if selected is None else frozenset(selected) | _top_n(case, keep_top_k)


def _anchors(case: Case, level: int, keep_top_k: int) -> Kept | None:
    """Keep what the ranking function scores at least as high as the passage written for a level."""
    record = case.records.get("anchors")
    if record is None:
        return None
    if record.anchors is None or record.ranked is None:
        return _keep_all(case)
    cut = record.anchors.get(str(level), -math.inf)
    return frozenset(place for place, score in enumerate(record.ranked) if score >= cut) | _top_n(case, keep_top_k)


def _listwise(case: Case, threshold: float, keep_top_k: int, scoring: str) -> Kept | None:
    """Keep as `Pruner.assemble` does; a test proves it on random cases."""
    record = case.records.get(LISTWISE)
    if record is None:
        return None
    if record.status in (Status.FALLBACK, Status.SKIPPED):
        return _keep_all(case)
    levels: Sequence[float | None] = record.grades
    if scoring == "expected":
        levels = [g if e is None else e for g, e in zip(record.grades, record.expected, strict=True)]
    return frozenset(
        place for place, level in enumerate(levels) if place < keep_top_k or level is None or level >= threshold
    )


def _dials_of_listwise(cases: Sequence[Case]) -> Iterable[Mapping[str, Dial]]:
    """Try the expected grades only where there are any."""
    records = [case.records[LISTWISE] for case in cases if LISTWISE in case.records]
    means = any(mean is not None for record in records for mean in record.expected)
    for scoring in ("grade", "expected") if means else ("grade",):
        for threshold, keep_top_k in product(THRESHOLDS[scoring], KEEP_TOP_K):
            yield {"threshold": threshold, "keep_top_k": keep_top_k, "scoring": scoring}


def _oracle(case: Case) -> Kept:
    """Keep what is needed: the best that any strategy could do."""
    return case.needed


TOP = 2

STRATEGIES: Mapping[str, Strategy] = {
    "all": Strategy(_keep_all, _grid()),
    "top_n": Strategy(_top_n, _every_n),
    "score_cut": Strategy(_score_cut, _deciles, needs="a score for each chunk"),
    "relative_cut": Strategy(_relative_cut, _grid(share=SHARES), needs="a score for each chunk, the best above 0"),
    "budget_select": Strategy(_budget_select, _grid(budget=range(1, BUDGET + 1)), asks=True),
    "direct_select": Strategy(_direct_select, _grid(keep_top_k=KEEP_TOP_K), asks=True),
    "anchors": Strategy(_anchors, _grid(level=(2, 3, 4, 5), keep_top_k=(0, 2)), asks=True),
    LISTWISE: Strategy(_listwise, _dials_of_listwise, asks=True),
    "oracle": Strategy(_oracle, _grid()),
}
