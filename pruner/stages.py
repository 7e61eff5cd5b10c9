"""The contract of a selection stage, and the runner that no stage can forget to be traced by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from pruner.schema import By, Candidate, StageTrace

__all__ = ["Stage", "StageResult", "run_stages"]

_index = attrgetter("index")


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage lets through, and what it drops.

    Attributes:
        kept: the candidates that go on; a stage may replace their texts, never their chunks.
        dropped: index → reason of the others.
        of: index of a dropped one → index of the kept one that stands for it.
        costs: index → tokens, where the stage counted them, of kept and dropped ones.
        note: what it had to leave out of account, for the trace; holds no text.
    """

    kept: Sequence[Candidate]
    dropped: Mapping[int, By] = field(default_factory=dict)
    of: Mapping[int, int] = field(default_factory=dict)
    costs: Mapping[int, int] = field(default_factory=dict)
    note: str = ""


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
    traces: list[StageTrace] = []
    before = sorted(map(_index, candidates))
    for stage in stages:
        result = stage(candidates)
        kept = tuple(map(_index, result.kept))
        if sorted((*kept, *result.dropped)) != before:
            raise RuntimeError(f"stage {_name(stage)} did not put each candidate in exactly one place")
        traces.append(_trace(stage, kept, result))
        candidates, before = result.kept, sorted(kept)
    return candidates, tuple(traces)


def _name(stage: Stage) -> str:
    return getattr(stage, "__name__", type(stage).__name__)


def _trace(stage: Stage, kept: tuple[int, ...], result: StageResult) -> StageTrace:
    dropped = {index: str(reason) for index, reason in result.dropped.items()}
    return StageTrace(
        stage=_name(stage),
        kept=kept,
        dropped=dropped,
        of=dict(result.of),
        costs=dict(result.costs),
        note=result.note,
    )
