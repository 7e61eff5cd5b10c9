"""The two arms of a running A/B test, from the pruner's decision log: `python -m eval ab decisions.jsonl`.

Users, not requests, were put into arms, so users are the units: what one user's requests have in common is not counted
twice. Without outcomes the arms are compared by what was sent; with them, by how it went.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.errors import EvalError
from eval.jsonl import parse_object, read_lines, read_objects
from eval.markdown import table
from eval.points import Estimate
from eval.statistics import student

__all__ = ["Arms", "is_decision_log", "read_arms", "read_outcomes", "told"]

ARMS = ("pruner", "baseline")
MEASURES = {"chunks": "chunks sent", "tokens": "tokens sent", "fallback": "fallbacks", "outcome": "outcome"}
# As good as infinitely many.
_MANY = 1e6


@dataclass(slots=True)
class Unit:
    """One user's requests: how many had each measure, and its sum."""

    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, measures: Mapping[str, float]) -> None:
        """Count a request."""
        self.counts.update(measures.keys())
        for name, value in measures.items():
            self.sums[name] += value


@dataclass(slots=True)
class Arms:
    """What the log holds: arm → user → sums.

    Attributes:
        others: lines of other modes than `ab`.
        unreadable: lines that are none.
        keyless: requests without a key; each is a user of its own.
    """

    units: dict[str, dict[str, Unit]] = field(default_factory=lambda: {arm: defaultdict(Unit) for arm in ARMS})
    others: int = 0
    unreadable: int = 0
    keyless: int = 0

    def requests(self, arm: str) -> int:
        """How many requests an arm had."""
        return sum(unit.counts["chunks"] for unit in self.units[arm].values())

    def users(self, arm: str, measure: str) -> list[Unit]:
        """Return the users of an arm of whom the measure is known."""
        return [unit for unit in self.units[arm].values() if unit.counts[measure]]

    def mean(self, arm: str, measure: str) -> tuple[float, float]:
        """Return the mean over an arm's requests and its standard error; nan where there are none, or one user.

        The error is that of a ratio of sums over users (Deng, Knoblich, Lu, KDD 2018: the delta method).
        """
        units = self.users(arm, measure)
        count = sum(unit.counts[measure] for unit in units)
        if not count:
            return math.nan, math.nan
        mean = sum(unit.sums[measure] for unit in units) / count
        if len(units) < 2:
            return mean, math.nan
        spread = sum((unit.sums[measure] - mean * unit.counts[measure]) ** 2 for unit in units)
        return mean, math.sqrt(spread * len(units) / (len(units) - 1)) / count


def is_decision_log(path: Path) -> bool:
    """Say whether the first line of a file is one of the decision log."""
    for _, line in read_lines(path):
        try:
            return bool({"arm", "kept", "mode"} <= json.loads(line).keys())
        except (ValueError, AttributeError):
            return False
    return False


def read_outcomes(path: Path) -> dict[str, float]:
    """Read how requests went: `{"request_id", "outcome"}` a line, such as 1 for a thumb up and 0 for one down.

    Raises:
        EvalError: `file:line: what is wrong`.
    """
    found: dict[str, float] = {}
    for number, entry in read_objects(path):
        request, outcome = entry.get("request_id"), entry.get("outcome")
        if not isinstance(request, str) or not isinstance(outcome, int | float) or not math.isfinite(outcome):
            raise EvalError(f"{path}:{number}: must hold a 'request_id' and a number as 'outcome'")
        found[request] = float(outcome)
    return found


def read_arms(paths: Iterable[Path], outcomes: Mapping[str, float]) -> Arms:
    """Sum up the arms of decision logs.

    Raises:
        EvalError: there is no line of mode `ab`, or none of one of the arms; or no outcome is of a request.
    """
    arms = Arms()
    for line in _lines(paths, arms):
        _add(arms, line, outcomes)
    for arm in ARMS:
        if not arms.units[arm]:
            raise EvalError(f"the log holds no request of mode 'ab' in the arm {arm!r}; `replay` sums up other modes")
    if outcomes and not _has(arms, "outcome"):
        raise EvalError(f"none of the {len(outcomes)} outcomes has the request_id of a request in the log")
    return arms


def _lines(paths: Iterable[Path], arms: Arms) -> Iterator[Mapping[str, Any]]:
    for path in paths:
        for number, text in read_lines(path):
            try:
                yield parse_object(text, f"{path}:{number}")
            except EvalError:
                arms.unreadable += 1


def _add(arms: Arms, line: Mapping[str, Any], outcomes: Mapping[str, float]) -> None:
    if line.get("mode") != "ab":
        arms.others += 1
        return
    try:
        request, keyless = str(line.get("request_id") or ""), not line.get("key_hash")
        user = str(line.get("key_hash") or request or f"request {arms.keyless}")
        tokens = sum(line["tokens"][place] for place in line["kept"])
        unit = arms.units[line["arm"]][user]
        measures = {"chunks": len(line["kept"]), "tokens": tokens, "fallback": line["status"] == "fallback"}
    except (LookupError, TypeError):
        arms.unreadable += 1
        return
    arms.keyless += keyless
    unit.add(measures | ({"outcome": outcomes[request]} if request in outcomes else {}))


def told(arms: Arms) -> str:
    """Tell of the arms in Markdown."""
    rows: list[list[object]] = [["requests", *(f"{arms.requests(arm):,}" for arm in ARMS), ""]]
    rows.append(["users", *(f"{len(arms.units[arm]):,}" for arm in ARMS), ""])
    rows += [_row(arms, name, shown) for name, shown in MEASURES.items() if _has(arms, name)]
    parts = [table(["mean of a request", *ARMS, "difference"], rows), _of_intervals(arms)]
    if arms.keyless:
        parts.append(f"{arms.keyless:,} requests have no key: each counts as a user of its own.")
    if not _has(arms, "outcome"):
        parts.append("Whether answers are as good, only outcomes tell: give --outcomes.")
    if arms.others or arms.unreadable:
        parts.append(f"Not counted: {arms.others:,} lines of other modes, {arms.unreadable:,} that cannot be read.")
    return "\n\n".join(parts)


def _of_intervals(arms: Arms) -> str:
    few = [shown for name, shown in MEASURES.items() if _has(arms, name) and min(_users(arms, name)) < 2]
    lacking = f"; {', '.join(few)}: fewer than two users in an arm, so no interval there" if few else ""
    return f"Intervals are 95 %, over users{lacking}."


def _users(arms: Arms, measure: str) -> list[int]:
    return [len(arms.users(arm, measure)) for arm in ARMS]


def _has(arms: Arms, measure: str) -> bool:
    return any(unit.counts[measure] for units in arms.units.values() for unit in units.values())


def _row(arms: Arms, measure: str, shown: str) -> list[object]:
    (a, of_a), (b, of_b) = (arms.mean(arm, measure) for arm in ARMS)
    users_a, users_b = _users(arms, measure)
    apart = _estimate(a - b, math.hypot(of_a, of_b), _welch((of_a, users_a), (of_b, users_b)))
    return [shown, _estimate(a, of_a, users_a - 1), _estimate(b, of_b, users_b - 1), apart]


def _welch(*arms: tuple[float, int]) -> float:
    """Return the degrees of freedom of a difference, from (error, users) of each side (Welch 1947, Biometrika 34)."""
    under = sum(error**4 / (users - 1) for error, users in arms if users > 1)
    return sum(error**2 for error, _ in arms) ** 2 / under if under else _MANY


def _estimate(value: float, error: float, degrees: float) -> Estimate:
    reach = error if not error > 0 else error * student(degrees)
    return Estimate(value, value - reach, value + reach)
