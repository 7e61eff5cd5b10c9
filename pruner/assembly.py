"""The free half of a result: stages over graded candidates, a decision for each, and the trace."""

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.config import PrunerConfig
from pruner.errors import Reason
from pruner.packing import MaxChunks, TokenCap
from pruner.preparation import MinScore
from pruner.schema import Candidate, Counter, Decision, Grading, StageTrace, Status, Trace
from pruner.selection import FallbackTopN, KeepAll, LeftOut, Threshold
from pruner.stages import Stage, run_stages

__all__ = ["Assembled", "assemble", "prepare"]


@dataclass(frozen=True, slots=True)
class Assembled:
    """The kept candidates in reranker order, one decision per candidate, and how it came about."""

    kept: list[Candidate]
    decisions: tuple[Decision, ...]
    trace: Trace


def prepare(
    candidates: Sequence[Candidate], config: PrunerConfig
) -> tuple[Sequence[Candidate], tuple[StageTrace, ...]]:
    """Run what comes before the grading, the same in both halves."""
    stages: list[Stage] = [] if config.min_score is None else [MinScore(config.min_score, config.keep_top_k)]
    return run_stages(candidates, stages)


def assemble(candidates: Sequence[Candidate], grading: Grading, config: PrunerConfig, counter: Counter) -> Assembled:
    """Select from candidates that carry their grades."""
    prepared, before = prepare(candidates, config)
    kept, after = run_stages(prepared, [*_selection(grading, config), *_caps(config, counter)])
    stages = (*before, *after)
    in_order = sorted(kept, key=lambda c: c.index)
    return Assembled(in_order, _decisions(candidates, kept, stages, grading), _trace(grading, config, stages))


def _selection(grading: Grading, config: PrunerConfig) -> list[Stage]:
    if grading.status is Status.FALLBACK or grading.reason is Reason.BASELINE:
        return [FallbackTopN(config.fallback_top_n)]
    if grading.status is Status.SKIPPED:
        return [KeepAll()]
    threshold = Threshold(config.threshold, config.keep_top_k, use_expected=config.scoring == "expected")
    if grading.left_out:
        return [LeftOut(frozenset(grading.left_out), config.fallback_top_n), threshold]
    return [threshold]


def _caps(config: PrunerConfig, counter: Counter) -> list[Stage]:
    caps: list[Stage] = []
    if config.max_chunks is not None:
        caps.append(MaxChunks(config.max_chunks, config.keep_top_k))
    if config.token_cap is not None:
        caps.append(TokenCap(config.token_cap, config.keep_top_k, counter))
    return caps


def _decisions(
    candidates: Sequence[Candidate], kept: Sequence[Candidate], stages: Sequence[StageTrace], grading: Grading
) -> tuple[Decision, ...]:
    keepers = {c.index: str(c.by) for c in kept}
    droppers = {index: reason for stage in stages for index, reason in stage.dropped.items()}
    notes = grading.notes or (None,) * len(candidates)
    return tuple(
        Decision(c.index, c.chunk.id, c.grade, c.expected, c.index in keepers, by, note)
        for c, note in zip(candidates, notes, strict=True)
        for by in [keepers.get(c.index) or droppers[c.index]]
    )


def _trace(grading: Grading, config: PrunerConfig, stages: tuple[StageTrace, ...]) -> Trace:
    return Trace(
        model=grading.model,
        prompt=grading.prompt,
        prompt_sha256=grading.prompt_sha256,
        readout=grading.readout,
        chunk_order=grading.chunk_order,
        left_out=grading.left_out,
        status=grading.status,
        reason=grading.reason,
        dials=config.selection_dials(),
        stages=stages,
    )
