"""Sums over a stream of pruned queries, in memory that does not grow with it."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

__all__ = ["Pruned", "Quantiles", "Replay", "Traffic"]

_ACCURACY = 0.01
_BASE = math.log((1 + _ACCURACY) / (1 - _ACCURACY))
# Everything faster is as fast.
_FASTEST = 1e-6


@dataclass(frozen=True, slots=True)
class Pruned:
    """One query of a log.

    Attributes:
        day: ISO date, or "" where the log holds no time.
        status: of the grading.
        reason: why it is not ok.
        chunks: (before, after).
        tokens: of the chunks, (before, after).
        cost: of the grading, US dollars; None where nobody knows.
        latency: of the grading, seconds; None where none was asked.
        generator: the generator's (input, output) tokens without pruning; None where the log does not say.
    """

    day: str
    status: str
    reason: str | None
    chunks: tuple[int, int]
    tokens: tuple[int, int]
    cost: float | None
    latency: float | None
    generator: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuse what no sum can hold: one bad line of a log would spoil the figures of all."""
        if not (isinstance(self.status, str) and isinstance(self.reason, str | None)):
            raise ValueError("`status` and `reason` must be texts")
        numbers = (*self.chunks, *self.tokens, self.cost, self.latency, *(self.generator or ()))
        if not all(number is None or 0 <= number < math.inf for number in numbers):
            raise ValueError("a count, cost or latency is no finite number from 0 on")


class Quantiles:
    """Quantiles of positive numbers within 1 %, in a few hundred counters.

    The buckets grow by a constant factor (DDSketch: Masson, Rim, Lee, VLDB 2019).
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[math.ceil(math.log(max(value, _FASTEST)) / _BASE)] += 1

    def at(self, share: float) -> float | None:
        """Return the value that `share` of the values do not exceed; None of none."""
        wanted, seen = math.ceil(share * self._counts.total()), 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return 2 * math.exp(bucket * _BASE) / (math.exp(_BASE) + 1)
        return None


@dataclass(slots=True)
class Traffic:
    """What was pruned in a day, or in all.

    Attributes:
        unpriced: gradings whose cost nobody knows; they are not in `cost`.
        measured: queries whose generator tokens are known, the sums of their input and output tokens, and of their
            chunks' tokens.
    """

    queries: int = 0
    chunks_before: int = 0
    chunks_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    cost: float = 0.0
    unpriced: int = 0
    measured: int = 0
    generator_input: int = 0
    generator_output: int = 0
    measured_chunk_tokens: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    latency: Quantiles = field(default_factory=Quantiles)

    def add(self, query: Pruned) -> None:
        """Count a query."""
        self.queries += 1
        self.chunks_before += query.chunks[0]
        self.chunks_after += query.chunks[1]
        self.tokens_before += query.tokens[0]
        self.tokens_after += query.tokens[1]
        self.statuses[query.status] += 1
        if query.reason:
            self.reasons[f"{query.status} {query.reason}"] += 1
        if query.latency is not None:
            self.latency.add(query.latency)
        self._add_costs(query)

    def _add_costs(self, query: Pruned) -> None:
        self.cost += query.cost or 0.0
        self.unpriced += query.cost is None
        if query.generator is not None:
            self.measured += 1
            self.generator_input += query.generator[0]
            self.generator_output += query.generator[1]
            self.measured_chunk_tokens += query.tokens[0]

    def share(self, status: str) -> float:
        """Return the share of queries that ended so; 0 of none."""
        return self.statuses[status] / self.queries if self.queries else 0.0

    @property
    def compression(self) -> float:
        """Share of chunks dropped; 0 of none."""
        return 1 - self.chunks_after / self.chunks_before if self.chunks_before else 0.0

    @property
    def token_compression(self) -> float:
        """Share of the chunks' tokens dropped; 0 of none."""
        return 1 - self.tokens_after / self.tokens_before if self.tokens_before else 0.0


@dataclass(slots=True)
class Replay:
    """A log, summed up.

    Attributes:
        days: by ISO date; "" holds the lines without a time.
        baseline: lines of the baseline arm of an A/B test, and of shadow mode switched off: nothing was graded there.
        unreadable: why lines were passed over, and how often.
        first_unreadable: where the first of them stands, and why.
    """

    days: dict[str, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    total: Traffic = field(default_factory=Traffic)
    baseline: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    first_unreadable: str = ""

    def add(self, query: Pruned) -> None:
        """Count a query in its day and in all."""
        self.days[query.day].add(query)
        self.total.add(query)

    def pass_over(self, where: str, why: str) -> None:
        """Count a line that cannot be read."""
        self.first_unreadable = self.first_unreadable or f"{where}: {why}"
        self.unreadable[why] += 1
