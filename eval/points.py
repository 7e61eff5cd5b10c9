"""From a sweep to points: what each configuration reaches over some of the questions, and which are worth having."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval.statistics import Matrix, Ratio, interval, lower_bound
from eval.strategies import Configuration
from eval.sweep import Sweep

__all__ = ["LEVELS", "Draws", "Estimate", "Point", "Trade", "best_at", "pareto", "points", "ratios", "trades"]

Mask = NDArray[np.bool_]
LEVELS = (0.98, 0.96, 0.90)
_WITH_BANDS = ("recall", "compression", "token_compression")


@dataclass(frozen=True)
class Draws:
    """How bootstrap intervals are made.

    Attributes:
        resamples: how often the questions are drawn anew.
        seed: of the draws.
    """

    resamples: int = 2000
    seed: int = 0


@dataclass(frozen=True)
class Estimate:
    """A measured value with its 95 % bootstrap interval over questions."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write as `.97 [.93, 1.00]`; a dash where it is not defined, and no interval where none is known."""
        if np.isnan(self.value):
            return "–"
        if np.isnan(self.low):
            return f"{self.value:.2f}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Point:
    """What one configuration reaches over a set of questions.

    Attributes:
        questions: how many.
        with_gold: those with a needed chunk in the list; recall preserved is about these.
        whole: those that keep every needed chunk.
        recall: recall preserved, `whole` over `with_gold`.
        recall_shown: exact one-sided 95 % lower bound of it, for this one configuration looked at alone.
        compression: share of chunks dropped, over all questions.
        token_compression: the same in tokens.
        chunk_recall: mean share of a question's needed chunks that are kept.
        precision: mean share of the kept chunks that are needed.
        ndcg: mean nDCG of what is kept.
        answer_survives: share of the questions whose answer string stands in the list that still hold it.
        cost: mean US dollars of the pruner a query; nan where no price is known.
        latency: mean seconds of the pruner a query.
        on_line: no other configuration of its strategy is better in one of recall and compression, and as good in the
            other.
    """

    configuration: Configuration
    questions: int
    with_gold: int
    whole: int
    recall: Estimate
    recall_shown: float
    compression: Estimate
    token_compression: Estimate
    chunk_recall: float
    precision: float
    ndcg: float
    answer_survives: float
    cost: float
    latency: float
    on_line: bool

    @property
    def strategy(self) -> str:
        """The strategy that it configures."""
        return self.configuration.strategy


@dataclass(frozen=True)
class Trade:
    """The most compressing configuration of a strategy that reaches a level of recall on these questions.

    Attributes:
        level: recall preserved that is asked for.
        strategy: whose configurations are searched.
        tried: how many there are; the more, the more the best one flatters.
        point: the best; None where none reaches the level.
        compression: interval with the choice made anew in every resample.
        held_out: mean recall on the questions that a resample left out, of what was chosen on those it drew: what such
            a choice really keeps on other questions.
    """

    level: float
    strategy: str
    tried: int
    point: Point | None
    compression: Estimate
    held_out: float


def ratios(sweep: Sweep) -> Mapping[str, Ratio]:
    """Return every measure of a sweep as sums over questions."""
    chunks, tokens = (
        np.broadcast_to(np.array(sizes, dtype=float), sweep.whole.shape)
        for sizes in ([case.n for case in sweep.cases], [sum(case.tokens) for case in sweep.cases])
    )
    found = {
        "recall": Ratio.mean(sweep.whole),
        "compression": Ratio(sweep.compression * chunks, chunks),
        "token_compression": Ratio(np.nan_to_num(sweep.token_compression) * tokens, tokens),
    }
    means = ("chunk_recall", "precision", "ndcg", "answer_survives", "cost", "latency")
    return found | {name: Ratio.mean(getattr(sweep, name)) for name in means}


def points(sweep: Sweep, draws: Draws, questions: Mask | None = None) -> list[Point]:
    """Measure every configuration on the chosen questions (bool[Q]; all by default)."""
    chosen = np.ones(len(sweep.cases), dtype=bool) if questions is None else questions
    measures = {name: ratio.only(chosen) for name, ratio in ratios(sweep).items()}
    values = {name: ratio.value for name, ratio in measures.items()}
    bands = {name: interval(measures[name].bootstrap(draws.resamples, draws.seed)) for name in _WITH_BANDS}
    with_gold, whole = measures["recall"].under.sum(axis=1), measures["recall"].over.sum(axis=1)
    line = _lines(sweep.configurations, values["recall"], values["compression"])

    def estimate(name: str, c: int) -> Estimate:
        return Estimate(float(values[name][c]), float(bands[name][0][c]), float(bands[name][1][c]))

    return [
        Point(
            configuration=configuration,
            questions=int(chosen.sum()),
            with_gold=int(with_gold[c]),
            whole=int(whole[c]),
            recall=estimate("recall", c),
            recall_shown=lower_bound(int(whole[c]), int(with_gold[c])),
            compression=estimate("compression", c),
            token_compression=estimate("token_compression", c),
            **{name: float(values[name][c]) for name in values.keys() - set(_WITH_BANDS)},
            on_line=bool(line[c]),
        )
        for c, configuration in enumerate(sweep.configurations)
    ]


def pareto(recall: ArrayLike, compression: ArrayLike) -> Mask:
    """Return which points are beaten by no other: bool[C]. The first of equal ones stays, nan never does."""
    r, c = np.asarray(recall, dtype=float), np.asarray(compression, dtype=float)
    usable = ~(np.isnan(r) | np.isnan(c))
    order = np.lexsort((np.arange(len(r)), -r, -c))
    on_line = np.zeros(len(r), dtype=bool)
    best = -np.inf
    for place in order[usable[order]]:
        if r[place] > best:
            best, on_line[place] = r[place], True
    return on_line


def _lines(configurations: Sequence[Configuration], recall: Matrix, compression: Matrix) -> Mask:
    on_line = np.zeros(len(configurations), dtype=bool)
    for places in _by_strategy(configurations).values():
        on_line[places] = pareto(recall[places], compression[places])
    return on_line


def _by_strategy(configurations: Sequence[Configuration]) -> dict[str, NDArray[np.int_]]:
    names = np.array([configuration.strategy for configuration in configurations])
    return {str(name): np.flatnonzero(names == name) for name in dict.fromkeys(names)}


def best_at(level: float, recall: Matrix, compression: Matrix) -> NDArray[np.int_]:
    """Return the place of the most compressing configuration that reaches the level; -1 where none does.

    Args:
        level: of recall preserved.
        recall: float[..., C].
        compression: float[..., C].
    """
    # A share of whole questions: 24 of 25 reach 0.96, whatever the last bit of the division says.
    reached = np.where(recall >= level - 1e-9, compression, -np.inf)
    best = reached.argmax(axis=-1)
    return np.where(np.isneginf(reached.max(axis=-1)), -1, best)


def trades(sweep: Sweep, draws: Draws, levels: Sequence[float] = LEVELS) -> list[Trade]:
    """Say what each strategy drops at each level of recall: the curve in one table."""
    measured = points(sweep, draws)
    known = ratios(sweep)
    samples = {name: known[name].bootstrap(draws.resamples, draws.seed) for name in ("recall", "compression")}
    others = known["recall"].bootstrap(draws.resamples, draws.seed, left_out=True)
    return [
        _trade(level, name, [measured[c] for c in places], *(m[:, places] for m in (*samples.values(), others)))
        for level in levels
        for name, places in _by_strategy(sweep.configurations).items()
    ]


def _trade(level: float, name: str, own: list[Point], recall: Matrix, compression: Matrix, others: Matrix) -> Trade:
    seen = [np.array([getattr(p, measure).value for p in own]) for measure in ("recall", "compression")]
    best = int(best_at(level, seen[0], seen[1]))
    picked = best_at(level, recall, compression)
    draws = np.arange(len(picked))
    # A resample in which nothing reaches the level compresses nothing there: all chunks would have to be sent.
    anew = np.where(picked < 0, 0.0, compression[draws, picked])
    kept = np.where(picked < 0, np.nan, others[draws, picked])
    low, high = interval(anew)
    value = seen[1][best] if best >= 0 else np.nan
    return Trade(
        level=level,
        strategy=name,
        tried=len(own),
        point=own[best] if best >= 0 else None,
        compression=Estimate(float(value), float(low), float(high)),
        held_out=float(np.nanmean(kept)) if not np.isnan(kept).all() else float("nan"),
    )
