"""The contract of a selection stage, and the runner that no stage can forget to be traced by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pruner.schema import By, Candidate, StageTrace

__all__ = ["Stage", "StageResult", "run_stages"]


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage lets through, and index → reason of what it drops."""

    kept: Sequence[Candidate]
    dropped: Mapping[int, By] = field(default_factory=dict)


Stage: TypeAlias = Callable[[Sequence[Candidate]], StageResult]


def run_stages(
    candidates: Sequence[Candidate], stages: Sequence[Stage]
) -> tuple[Sequence[Candidate], tuple[StageTrace, ...]]:
    """Run the stages one after the other.

    Returns:
        What is left, and one trace per stage.

    Raises:
        RuntimeError: a stage lost, invented or doubled a candidate; always a bug in that stage.
    """
    traces = []
    for stage in stages:
        result = stage(candidates)
        _check_complete(stage, candidates, result)
        traces.append(_trace(stage, result))
        candidates = result.kept
    return candidates, tuple(traces)


def _name(stage: Stage) -> str:
    return getattr(stage, "__name__", type(stage).__name__)


def _trace(stage: Stage, result: StageResult) -> StageTrace:
    dropped = {index: str(reason) for index, reason in result.dropped.items()}
    return StageTrace(stage=_name(stage), kept=tuple(c.index for c in result.kept), dropped=dropped)


def _check_complete(stage: Stage, before: Sequence[Candidate], result: StageResult) -> None:
    after = [c.index for c in result.kept] + list(result.dropped)
    if sorted(after) != sorted(c.index for c in before):
        raise RuntimeError(f"stage {_name(stage)} did not put each candidate in exactly one place")
