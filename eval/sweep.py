"""Every configuration on every case, at once: the figures that curve, A/B and tuning are made of."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eval import measures
from eval.cases import Case
from eval.errors import EvalError
from eval.measures import Floats, Table
from eval.strategies import STRATEGIES, Configuration, Kept, lacked, lacking

__all__ = ["Sweep", "sweep"]

# Of nDCG: 2^level - 1, a needed chunk being of level 2 and a helpful one of level 1.
_GAIN_NEEDED, _GAIN_HELPFUL = 3.0, 1.0


@dataclass(frozen=True)
class Sweep:
    """What each configuration keeps of each case, and how good that is.

    C configurations, Q cases, N places of the longest list. Measures are float (C, Q), NaN where not defined.

    Attributes:
        cases: those for which every configuration has what it goes by, so that all are compared on the same lists.
        configurations: as given.
        left_out: number of cases that lacked something.
        lacking: strategy → number of cases that lacked what it goes by.
        kept: bool (C, Q, N); False beyond a list's end.
        whole: 1 where every needed chunk of the list is kept; its mean is recall preserved.
        chunk_recall: share of the needed chunks that are kept.
        precision: share of the kept chunks that are needed.
        ndcg: nDCG@10 of what is sent.
        compression: share of the chunks dropped.
        token_compression: share of the tokens dropped.
        answer_survives: 1 where a kept chunk holds the answer's words.
        cost: of the pruner, US dollars; 0 for what asks nobody, NaN where the model has no known price.
        latency: of the pruner, seconds.
        omitted: strategies that were not tried, as they cannot be applied to so many of the cases.
    """

    cases: tuple[Case, ...]
    configurations: tuple[Configuration, ...]
    left_out: int
    lacking: Mapping[str, int]
    kept: NDArray[np.bool_]
    whole: Floats
    chunk_recall: Floats
    precision: Floats
    ndcg: Floats
    compression: Floats
    token_compression: Floats
    answer_survives: Floats
    cost: Floats
    latency: Floats
    omitted: Mapping[str, int] = field(default_factory=dict)


def sweep(cases: Sequence[Case], configurations: Sequence[Configuration]) -> Sweep:
    """Try every configuration on every case.

    Raises:
        EvalError: no case has what all configurations go by.
    """
    if not cases or not configurations:
        raise EvalError("nothing to compare: no list, or no configuration")
    without = [lacked(case, configurations) for case in cases]
    used = tuple(case for case, names in zip(cases, without, strict=True) if not names)
    if not used:
        raise EvalError(_why_none(without))
    kept = np.stack([_table(used, partial(_kept, configuration)) for configuration in configurations])
    needed = _table(used, lambda case: case.needed)
    helping = _table(used, lambda case: case.helping)
    answer = _table(used, lambda case: case.holds_answer)
    gains = np.where(needed, _GAIN_NEEDED, np.where(helping, _GAIN_HELPFUL, 0.0))
    ones, tokens = _padded(used, lambda case: [1] * case.n), _padded(used, lambda case: case.tokens)

    def each(measure: Callable[[Table], Floats]) -> Floats:
        return np.stack([measure(table) for table in kept])

    return Sweep(
        cases=used,
        configurations=tuple(configurations),
        left_out=len(cases) - len(used),
        lacking=Counter(name for names in without for name in names),
        kept=kept,
        whole=each(lambda table: measures.whole(table, needed)),
        chunk_recall=each(lambda table: measures.chunk_recall(table, needed)),
        precision=each(lambda table: measures.precision(table, needed)),
        ndcg=each(lambda table: measures.ndcg(table, gains)),
        compression=each(lambda table: measures.compression(table, ones)),
        token_compression=each(lambda table: measures.compression(table, tokens)),
        answer_survives=each(lambda table: measures.answer_survives(table, answer)),
        cost=_of_records(used, configurations, "cost"),
        latency=_of_records(used, configurations, "latency"),
    )


def _why_none(without: Sequence[tuple[str, ...]]) -> str:
    everywhere = set.intersection(*map(set, without))
    return lacking(everywhere) if everywhere else "no list has what all of these go by at once; leave one of them out"


def _kept(configuration: Configuration, case: Case) -> Kept:
    places = STRATEGIES[configuration.strategy].keep(case, configuration)
    if places is None:
        raise ValueError(f"{configuration} needs what another setting of its strategy does not")
    return places


def _table(cases: Sequence[Case], places: Callable[[Case], Kept]) -> Table:
    table = np.zeros((len(cases), _longest(cases)), dtype=np.bool_)
    for q, case in enumerate(cases):
        table[q, list(places(case))] = True
    return table


def _padded(cases: Sequence[Case], values: Callable[[Case], Sequence[float]]) -> Floats:
    table = np.zeros((len(cases), _longest(cases)))
    for q, case in enumerate(cases):
        table[q, : case.n] = values(case)
    return table


def _longest(cases: Sequence[Case]) -> int:
    return max((case.n for case in cases), default=0)


def _of_records(cases: Sequence[Case], configurations: Sequence[Configuration], name: str) -> Floats:
    by_strategy = {c.strategy: [_of_record(case, c.strategy, name) for case in cases] for c in configurations}
    return np.array([by_strategy[c.strategy] for c in configurations], dtype=np.float64)


def _of_record(case: Case, strategy: str, name: str) -> float:
    if not STRATEGIES[strategy].asks:
        return 0.0
    value = getattr(case.records[strategy], name)
    return float("nan") if value is None else float(value)
