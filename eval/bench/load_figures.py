"""What a load run met, request by request, and the figures of it."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Met", "Seen", "percentile"]


class Met(NamedTuple):
    """What one request met.

    Attributes:
        outcome: status and reason of the answer, or the status code of a refusal.
        calls: attempts at the provider.
        provider: seconds from the first attempt's arrival at the provider until its last answer left: what it held
            the request, and the waits between attempts. None if the provider was asked and never answered it.
    """

    outcome: str
    calls: int
    provider: float | None


@dataclass
class Seen:
    """What all requests met. Seconds count from when a request was due.

    Attributes:
        seconds: of each request.
        first: of those that the provider answered at the first attempt.
        added: of each request, less what the provider took.
        outcomes: how many met which.
        took: seconds of the run.
        processor: seconds of processor time, by who used it.
    """

    seconds: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    added: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    took: float = 0.0
    processor: dict[str, float] = field(default_factory=dict)

    def add(self, seconds: float, met: Met) -> None:
        """Count a request."""
        self.seconds.append(seconds)
        self.outcomes[met.outcome] += 1
        if met.provider is None:
            return
        self.added.append(seconds - met.provider)
        if met.calls == 1:
            self.first.append(seconds)

    def errors(self) -> int:
        """Return how many were answered 5xx."""
        return sum(count for outcome, count in self.outcomes.items() if outcome.startswith("5"))

    def report(self) -> dict[str, Any]:
        """Return the figures."""
        n = len(self.seconds)
        return {
            "requests": n,
            "a_second": round(n / self.took, 1),
            "outcomes": dict(self.outcomes),
            "all_ms": _ms(self.seconds),
            "first_attempt_ms": _ms(self.first),
            "added_ms": _ms(self.added),
            "processor_ms_a_request": {who: round(1000 * spent / n, 2) for who, spent in self.processor.items()},
        }


def _ms(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    return {f"p{share}": round(1000 * percentile(seconds, share), 1) for share in (50, 99)} | {"n": len(seconds)}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that `share` percent of the values do not exceed (nearest rank)."""
    return sorted(values)[max(math.ceil(share / 100 * len(values)), 1) - 1]
