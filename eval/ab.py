"""`python -m eval ab`: two ways of selecting on the same questions, compared pair by pair.

Of a decision log instead of labelled lists, the two arms of the A/B test that wrote it are compared.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval.arms import is_decision_log, read_arms, read_outcomes, told
from eval.cases import Case
from eval.markdown import table
from eval.points import Draws, Estimate
from eval.records import LISTWISE
from eval.sources import (
    add_draw_arguments,
    add_source_arguments,
    draws_of,
    load_source,
    read_configuration,
)
from eval.statistics import Matrix, Ratio, interval, mcnemar
from eval.strategies import Kept
from eval.sweep import sweep

__all__ = ["Arm", "Comparison", "add_arguments", "arm_of", "compare", "cuts_like", "matched_cut", "run"]

AllKept: TypeAlias = Sequence[Kept]
Named: TypeAlias = tuple[str, AllKept]
# What the pruner does unless it is told otherwise.
DEFAULT = "listwise threshold=3 keep_top_k=2 scoring=grade"


@dataclass(frozen=True)
class Arm:
    """What one way of selecting did with each of Q questions, wherever it is known from.

    Attributes:
        name: of the way.
        whole: float[Q]: 1 where every needed chunk was kept, 0 where one was lost, nan where there was none to keep.
        chunks: float[Q]: how many chunks were kept.
        tokens: float[Q]: how many tokens they have.
    """

    name: str
    whole: Matrix
    chunks: Matrix
    tokens: Matrix


@dataclass(frozen=True)
class Comparison:
    """Two arms on the same questions.

    Attributes:
        recall: recall preserved of each, and the difference of the first to the second.
        compression: the same for the share of chunks dropped.
        token_compression: the same in tokens.
        wins: places of the questions that only the first arm kept whole.
        losses: places of those that only the second did.
        p_value: exact McNemar, two-sided.
    """

    names: tuple[str, str]
    recall: tuple[Estimate, Estimate, Estimate]
    compression: tuple[Estimate, Estimate, Estimate]
    token_compression: tuple[Estimate, Estimate, Estimate]
    wins: tuple[int, ...]
    losses: tuple[int, ...]
    p_value: float


def compare(a: Arm, b: Arm, chunks: ArrayLike, tokens: ArrayLike, draws: Draws) -> Comparison:
    """Compare two arms.

    Args:
        a: the first arm.
        b: the second, on the same questions in the same order.
        chunks: int[Q], length of each list.
        tokens: int[Q], tokens of each list.
        draws: how the intervals are made.
    """
    wins = np.flatnonzero((a.whole == 1) & (b.whole == 0))
    losses = np.flatnonzero((a.whole == 0) & (b.whole == 1))
    return Comparison(
        names=(a.name, b.name),
        recall=_paired(Ratio.mean([a.whole, b.whole]), draws),
        compression=_paired(_dropped([a.chunks, b.chunks], chunks), draws),
        token_compression=_paired(_dropped([a.tokens, b.tokens], tokens), draws),
        wins=tuple(map(int, wins)),
        losses=tuple(map(int, losses)),
        p_value=mcnemar(len(wins), len(losses)),
    )


def _dropped(kept: Sequence[Matrix], of: ArrayLike) -> Ratio:
    total = np.broadcast_to(np.asarray(of, dtype=float), np.shape(kept))
    return Ratio(total - np.asarray(kept), total)


def _paired(ratio: Ratio, draws: Draws) -> tuple[Estimate, Estimate, Estimate]:
    """Return both values and their difference, with intervals over the same resampled questions."""
    values, samples = ratio.value, ratio.bootstrap(draws.resamples, draws.seed)
    values, samples = np.append(values, values[0] - values[1]), np.c_[samples, samples[:, 0] - samples[:, 1]]
    ends = np.stack([values, *interval(samples)], axis=1)
    first, second, difference = (Estimate(*map(float, row)) for row in ends)
    return first, second, difference


def arm_of(name: str, cases: Sequence[Case], kept: AllKept) -> Arm:
    """Return the arm that kept these places of each case."""
    whole = [float(case.needed <= left) if case.needed else np.nan for case, left in zip(cases, kept, strict=True)]
    tokens = [sum(case.tokens[place] for place in left) for case, left in zip(cases, kept, strict=True)]
    return Arm(name, np.array(whole), np.array([float(len(left)) for left in kept]), np.array(tokens, dtype=float))


def matched_cut(weights: Sequence[Sequence[int]], total: float, seed: int) -> list[Kept]:
    """Cut every ranking after the same n so that as nearly `total` is kept as can be, and never more.

    What is left over after the largest common n goes to some questions, in seeded order, as one chunk more.

    Args:
        weights: what each chunk counts, per question: 1 to match the number of chunks, its tokens to match tokens.
        total: to be kept over all questions.
        seed: of the order.
    """
    longest = max(map(len, weights))
    sums: NDArray[np.int_] = np.zeros((len(weights), longest + 1), dtype=int)
    for question, own in enumerate(weights):
        sums[question, 1 : len(own) + 1] = np.cumsum(own)
        sums[question, len(own) + 1 :] = sum(own)
    n = int(np.flatnonzero(sums.sum(axis=0) <= total)[-1])
    lengths, left = np.full(len(weights), n), total - sums[:, n].sum()
    for question in np.random.default_rng(seed).permutation(len(weights)) if n < longest else ():
        more = sums[question, n + 1] - sums[question, n]
        if len(weights[question]) > n and more <= left:
            lengths[question] += 1
            left -= more
    return [frozenset(range(min(int(size), len(own)))) for size, own in zip(lengths, weights, strict=True)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `ab` takes."""
    add_source_arguments(parser)
    add_draw_arguments(parser)
    parser.add_argument("--a", default=DEFAULT, help="a configuration (%(default)s)")
    parser.add_argument(
        "--outcomes", type=Path, help="of a decision log: how requests went, {request_id, outcome} a line"
    )
    parser.add_argument("--b", help="another (the ranking cut to as many chunks, and to as many tokens, as --a keeps)")


def run(options: argparse.Namespace) -> int:
    """Print the comparison, and the questions that one of the two lost."""
    if is_decision_log(options.data[0]):
        outcomes = read_outcomes(options.outcomes) if options.outcomes else {}
        sys.stdout.write(told(read_arms(options.data, outcomes)) + "\n")
        return 0
    loaded, draws = load_source(options), draws_of(options)
    named = [options.a, *filter(None, [options.b])]
    swept = sweep(loaded.cases, [read_configuration(text) for text in named])
    kept = [[frozenset(np.flatnonzero(row).tolist()) for row in table] for table in swept.kept]
    others = {options.b: kept[1]} if options.b else cuts_like(swept.cases, kept[0], options.seed)
    parts = [loaded.swept(swept).head]
    parts += [_told(swept.cases, (options.a, kept[0]), other, draws) for other in others.items()]
    sys.stdout.write("\n\n".join(parts) + "\n")
    return 0


def cuts_like(cases: Sequence[Case], kept: AllKept, seed: int) -> Mapping[str, AllKept]:
    """Return the rankings of the cases cut so that as much is kept as here: in chunks, and in tokens."""
    chunks, tokens = [(1,) * case.n for case in cases], [case.tokens for case in cases]
    kept_tokens = sum(case.tokens[place] for case, left in zip(cases, kept, strict=True) for place in left)
    return {
        "the ranking cut to as many chunks": matched_cut(chunks, sum(map(len, kept)), seed),
        "the ranking cut to as many tokens": matched_cut(tokens, kept_tokens, seed),
    }


def _told(cases: Sequence[Case], a: Named, b: Named, draws: Draws) -> str:
    compared = compare(
        arm_of(a[0], cases, a[1]),
        arm_of(b[0], cases, b[1]),
        [case.n for case in cases],
        [sum(case.tokens) for case in cases],
        draws,
    )
    p_value = f"= {compared.p_value:.4f}" if compared.p_value >= 0.0001 else "< 0.0001"
    differ = f"{len(compared.wins)} questions only A kept whole, {len(compared.losses)} only B"
    parts = [
        f"## A: {a[0]}\n## B: {b[0]}",
        _numbers(compared),
        f"{differ}; exact McNemar p {p_value}",
        *_lost("Lost by B alone", cases, compared.wins, b[1]),
        *_lost("Lost by A alone", cases, compared.losses, a[1]),
    ]
    return "\n\n".join(parts)


def _numbers(compared: Comparison) -> str:
    measures = {
        "recall preserved": compared.recall,
        "compression": compared.compression,
        "token compression": compared.token_compression,
    }
    return table(["", "A", "B", "A - B"], [[name, *map(str, found)] for name, found in measures.items()])


def _lost(title: str, cases: Sequence[Case], places: Sequence[int], kept: AllKept) -> list[str]:
    if not places:
        return []
    rows = []
    for place in places:
        case = cases[place]
        lost = sorted(case.needed - kept[place])
        rows.append([case.dataset, case.id, len(case.needed), ", ".join(_ranked(case, rank) for rank in lost)])
    return [title + ":", table(["data set", "question", "needed", "lost ranks (grade)"], rows)]


def _ranked(case: Case, place: int) -> str:
    record = case.records.get(LISTWISE)
    grade = record.grades[place] if record else None
    return f"{place + 1} ({grade if grade is not None else '–'})"
