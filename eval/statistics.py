"""What a measured share of questions shows: intervals, paired tests, and proof that a target is met.

Everything reported is a ratio of two sums over questions (questions still whole over questions with gold; chunks
dropped over chunks), so one bootstrap serves all. Questions are the units: chunks of one list are not independent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = [
    "Matrix",
    "Ratio",
    "binomial_p_value",
    "fixed_sequence",
    "interval",
    "learn_then_test",
    "losses_allowed",
    "lower_bound",
    "mcnemar",
    "questions_for_power",
    "questions_needed",
    "student",
    "upper_bound",
]

Matrix = NDArray[np.float64]
# Of resampled weights held at once: 4 million numbers of 8 bytes.
_BLOCK = 4_000_000
_MOST_QUESTIONS = 20_000


@dataclass(frozen=True)
class Ratio:
    """A measure of C configurations on Q questions: one sum over the questions, divided by another.

    Attributes:
        over: float[C, Q], what is summed above the line; Q is at least 1.
        under: float[C, Q], what is summed below it.
    """

    over: Matrix
    under: Matrix

    @classmethod
    def mean(cls, values: ArrayLike) -> Self:
        """Return the mean over those questions where the measure is defined: float[C, Q], nan where it is not."""
        given = np.asarray(values, dtype=float)
        defined = ~np.isnan(given)
        return cls(np.where(defined, given, 0.0), defined.astype(float))

    @property
    def value(self) -> Matrix:
        """The measure of each configuration, float[C]; nan where nothing is below the line."""
        return _divide(self.over.sum(axis=1), self.under.sum(axis=1))

    def only(self, questions: NDArray[np.bool_]) -> "Ratio":
        """Return the same measure on some of the questions: bool[Q]."""
        return Ratio(self.over[:, questions], self.under[:, questions])

    def bootstrap(self, resamples: int, seed: int, *, left_out: bool = False) -> Matrix:
        """Measure again on questions drawn with replacement (Efron 1979, Annals of Statistics 7).

        One seed draws the same questions for every configuration and measure, so differences of rows are paired.

        Args:
            resamples: how many times to draw.
            seed: of the draws.
            left_out: measure on the questions that a draw left out, instead of on those drawn.

        Returns:
            float[resamples, C].
        """
        blocks = [
            _divide(weights @ self.over.T, weights @ self.under.T)
            for weights in _draws(self.over.shape[1], resamples, seed, left_out)
        ]
        return np.concatenate(blocks)


def _draws(questions: int, resamples: int, seed: int, left_out: bool) -> Iterator[Matrix]:
    """Yield how often each question was drawn, float[block, Q], in blocks that fit into memory."""
    generator = np.random.default_rng(seed)
    step = max(1, _BLOCK // questions)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = generator.integers(questions, size=(size, questions)) + questions * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * questions).reshape(size, questions)
        yield (counts == 0 if left_out else counts).astype(float)


def _divide(over: Matrix, under: Matrix) -> Matrix:
    ratio: Matrix = np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0)
    return ratio


def interval(samples: Matrix, confidence: float = 0.95) -> tuple[Any, Any]:
    """Return the central percentile interval over the first axis, without the undefined samples; nan where all are."""
    tail = 50 * (1 - confidence)
    defined = ~np.isnan(samples).all(axis=0)
    bounds = np.full((2, *samples.shape[1:]), np.nan)
    bounds[:, defined] = np.nanpercentile(samples[:, defined], [tail, 100 - tail], axis=0)
    return bounds[0], bounds[1]


def student(degrees: float, confidence: float = 0.95) -> float:
    """Return how many standard errors a two-sided interval reaches (Student 1908, Biometrika 6)."""
    return float(stats.t.ppf((1 + confidence) / 2, degrees))


def mcnemar(wins: int, losses: int) -> float:
    """Return the exact two-sided p-value that neither of two configurations is better (McNemar 1947).

    Args:
        wins: questions that only the first configuration got right.
        losses: questions that only the second got right.

    Returns:
        1.0 where they never differ.
    """
    return float(stats.binomtest(wins, wins + losses, 0.5).pvalue) if wins + losses else 1.0


def lower_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the exact one-sided lower bound of a share (Clopper and Pearson 1934, Biometrika 26); 0 without trials."""
    if successes == 0:
        return 0.0
    return float(stats.beta.ppf(1 - confidence, successes, trials - successes + 1))


def upper_bound(successes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the exact one-sided upper bound of a share; 1 without trials."""
    return 1 - lower_bound(trials - successes, trials, confidence)


def binomial_p_value(successes: ArrayLike, trials: int, target: float) -> Matrix:
    """Return how likely so many successes are where the true share is only the target.

    At most 1 - confidence exactly where `lower_bound` at that confidence reaches the target.
    """
    return np.asarray(stats.binom.sf(np.asarray(successes) - 1, trials, target), dtype=float)


def fixed_sequence(p_values: ArrayLike, delta: float) -> int:
    """Return how many hypotheses in a row are rejected, each at the full level, up to the first that is not.

    The order must not come from the data that gave the p-values; then the chance of any wrong rejection is at most
    delta, however many are tested (Maurer, Hothorn and Lehmacher 1995).
    """
    failed = np.flatnonzero(np.asarray(p_values) > delta)
    return int(failed[0]) if failed.size else len(np.asarray(p_values))


def learn_then_test(successes: ArrayLike, trials: int, target: float, confidence: float = 0.95) -> int:
    """Return how many configurations in a row are shown to reach the target.

    Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei 2021, arXiv:2110.01052) with their fixed-sequence
    testing: the hypothesis "the share of successes is below the target" is tested for each configuration by its exact
    binomial p-value, in an order learnt from other data. With probability `confidence` not one of those returned is
    below the target, so any of them may be chosen afterwards.

    Args:
        successes: of each configuration on the same questions, int[C], in an order fixed without these questions.
        trials: how many questions.
        target: the share to be shown.
        confidence: 1 - delta.
    """
    return fixed_sequence(binomial_p_value(successes, trials, target), 1 - confidence)


def losses_allowed(trials: int, target: float, confidence: float = 0.95) -> int | None:
    """Return how many questions may be lost while the target is still shown; None where even no loss shows it."""
    shown = np.flatnonzero(binomial_p_value(np.arange(trials + 1), trials, target) <= 1 - confidence)
    return trials - int(shown[0]) if shown.size else None


def questions_needed(target: float, confidence: float = 0.95, lost: int = 0) -> int:
    """Return the fewest questions that show the target when so many of them are lost."""
    trials = np.arange(lost + 1, _MOST_QUESTIONS)
    shown = stats.binom.sf(trials - lost - 1, trials, target) <= 1 - confidence
    return _first(trials, shown)


def questions_for_power(target: float, true: float, confidence: float = 0.95, power: float = 0.8) -> int:
    """Return from how many questions on the target is shown with probability `power`.

    Args:
        target: the share to be shown; below `true`.
        true: the share that the configuration really reaches.
        confidence: of the proof.
        power: how likely the proof is to succeed.
    """
    trials = np.arange(1, _MOST_QUESTIONS)
    # The fewest successes that show the target: the first k with P(X >= k) <= 1 - confidence.
    fewest = stats.binom.isf(1 - confidence, trials, target) + 1
    reached = stats.binom.sf(fewest - 1, trials, true) >= power
    # The chance goes up in a saw's teeth with the number of questions; what counts is where it stays above.
    stays = np.logical_and.accumulate(reached[::-1])[::-1]
    return _first(trials, stays)


def _first(trials: NDArray[np.int_], holds: NDArray[np.bool_]) -> int:
    found = np.flatnonzero(holds)
    if not found.size:
        raise ValueError(f"no number of questions below {_MOST_QUESTIONS} is enough")
    return int(trials[found[0]])
