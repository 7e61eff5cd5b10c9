"""The free half of a result: stages over graded candidates, a decision for each, and the trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pruner.access import Access, Revision, in_force, may_see
from pruner.budget import FitBudget, Room, Unexpanded
from pruner.candidates import By, Candidate, Chunk, Conflict
from pruner.config import PrunerConfig
from pruner.coverage import cover, relevances, uncovered
from pruner.errors import Reason
from pruner.extract import Extract
from pruner.order import Order
from pruner.parents import ExpandParents, MergeChildren
from pruner.preparation import MinScore
from pruner.schema import Counter, Decision, Grading, StageTrace, Status
from pruner.selection import FallbackTopN, KeepAll, LeftOut, Threshold
from pruner.sentences import Splitter
from pruner.stages import Stage, run_stages

__all__ = ["Asked", "Assembled", "Prepared", "Selected", "decide", "load", "pack", "prepare", "select"]

Parents = Mapping[str | int, Chunk]

_OVER = (By.TOKEN_CAP, By.TOKEN_BUDGET)


@dataclass(frozen=True, slots=True)
class Asked:
    """What belongs to one request and not to the dials.

    Attributes:
        query: the question.
        principals: whom the caller speaks for.
        required: ids of the sub-queries that must be covered.
    """

    query: str = ""
    principals: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is left before the grading.

    Attributes:
        given: one per input chunk, without a word of what the caller may not see.
        left: those that go on, in reranker order.
        stages: what has been done.
        closed: parents of what the caller may not see.
    """

    given: Sequence[Candidate]
    left: Sequence[Candidate]
    stages: tuple[StageTrace, ...]
    closed: frozenset[str | int] = frozenset()


@dataclass(frozen=True, slots=True)
class Selected:
    """What is taken, before any text is replaced.

    Attributes:
        left: in reranker order.
        first: indices that the budget considers first: of the reranker's best few and of what coverage chose, those
            that fit together as they were given.
        conflicts: among all that were graded.
        stages: what has been done, the preparation included.
        closed: parents of what the caller may not see.
    """

    left: Sequence[Candidate]
    first: frozenset[int]
    conflicts: tuple[Conflict, ...]
    stages: tuple[StageTrace, ...]
    closed: frozenset[str | int] = frozenset()


@dataclass(frozen=True, slots=True)
class Assembled:
    """The kept candidates in the order asked for, and how that came about."""

    kept: tuple[Candidate, ...]
    conflicts: tuple[Conflict, ...]
    uncovered: tuple[str, ...]
    stages: tuple[StageTrace, ...]


def load() -> None:
    """Import and make what takes time, so that no call has to."""
    import pruner.diversity  # noqa: F401
    from pruner.conflicts import read
    from pruner.terms import terms

    read(["é"])  # Makes its tables, as does the next.
    terms("é")


def prepare(candidates: Sequence[Candidate], config: PrunerConfig, asked: Asked) -> Prepared:
    """Run what comes before the grading, the same in both halves."""
    guards = _guards(candidates, config, asked)
    left, traces = run_stages(candidates, [*guards, *_dedup(config), *_min_score(config)])
    hidden = {i for trace in traces for i, reason in trace.dropped.items() if reason == By.ACCESS}
    given = [_blank(c) if c.index in hidden else c for c in candidates] if hidden else candidates
    closed = frozenset(name for i in hidden for name in [candidates[i].chunk.parent_id] if name is not None)
    return Prepared(given, left, traces, closed)


def _blank(candidate: Candidate) -> Candidate:
    return Candidate(candidate.index, Chunk(text="", id=candidate.chunk.id), "")


def _guards(candidates: Sequence[Candidate], config: PrunerConfig, asked: Asked) -> list[Stage]:
    """Return the checks of access and revision that these candidates need."""
    stages: list[Stage] = []
    if any(c.chunk.acl is not None or (c.parent and c.parent.acl is not None) for c in candidates):
        stages.append(Access(asked.principals))
    if config.revision_policy == "active":
        stages.append(Revision())
    return stages


def _dedup(config: PrunerConfig) -> list[Stage]:
    if config.dedup == "off":
        return []
    from pruner.dedup import DuplicateIds, NearDuplicates, SpanDuplicates

    stages: list[Stage] = [DuplicateIds(config.dedup_jaccard)]
    if config.dedup != "ids":
        stages.append(SpanDuplicates(config.dedup_overlap))
    if config.dedup == "texts":
        canonical = config.source_policy == "syndicated"
        stages.append(NearDuplicates(config.dedup_jaccard, config.dedup_cosine, config.dedup_across_sources, canonical))
    return stages


def _min_score(config: PrunerConfig) -> list[Stage]:
    return [] if config.min_score is None else [MinScore(config.min_score, config.keep_top_k)]


def select(prepared: Prepared, grading: Grading, config: PrunerConfig, asked: Asked, counter: Counter) -> Selected:
    """Take from what was prepared, by grades or, without them, by rank."""
    graded = [c.changed(grade=grading.grades[c.index], expected=grading.expected[c.index]) for c in prepared.left]
    best_few = tuple(c.index for c in graded[: config.keep_top_k])
    covering: tuple[int, ...] = ()
    room = Room(counter, config.token_budget, config.token_cap, len(graded))
    chosen: list[Stage] = []
    if asked.required or _chooses(config):
        relevance = relevances(graded)
        for candidate in graded[: config.keep_top_k]:
            room.hold(candidate)
        covering = cover(graded, asked.required, relevance, room.hold)
        graded = [c.changed(relevance=relevance[c.index]) for c in graded]
        chosen = [_select(config, best_few, covering)]
    left, traces = run_stages(graded, [*_judge(grading, config, covering), *chosen])
    conflicts = tuple(dict.fromkeys(conflict for c in graded for conflict in c.conflicts))
    stages = (*prepared.stages, *traces)
    return Selected(left, frozenset(room.held), conflicts, stages, prepared.closed)


def _chooses(config: PrunerConfig) -> bool:
    """Whether any dial asks for more than a threshold."""
    return (
        config.mmr_lambda < 1
        or config.max_chunks is not None
        or config.max_per_parent is not None
        or config.max_per_source is not None
        or config.source_policy != "comparative"
        or config.token_budget is not None
        or config.token_cap is not None
        or config.evidence_order in ("relevance", "edges")
    )


def _select(config: PrunerConfig, first: tuple[int, ...], covering: tuple[int, ...]) -> Stage:
    from pruner.diversity import Select

    return Select(
        config.mmr_lambda,
        config.max_chunks,
        config.max_per_parent,
        config.max_per_source,
        config.source_policy,
        first,
        covering,
    )


def _judge(grading: Grading, config: PrunerConfig, covering: tuple[int, ...]) -> list[Stage]:
    if grading.status is Status.FALLBACK or grading.reason is Reason.BASELINE:
        return [FallbackTopN(config.fallback_top_n, covering)]
    if grading.status is Status.SKIPPED:
        return [KeepAll()]
    threshold = Threshold(config.threshold, config.keep_top_k, config.scoring == "expected", covering)
    if grading.left_out:
        return [LeftOut(frozenset(grading.left_out), config.fallback_top_n, covering), threshold]
    return [threshold]


def pack(
    selected: Selected,
    config: PrunerConfig,
    asked: Asked,
    counter: Counter,
    parents: Parents,
    split: Splitter | None,
) -> Assembled:
    """Make evidence of what was selected: parents, budget, extracts, order."""
    open_ = {name: p for name, p in parents.items() if p.acl is not None or name not in selected.closed}
    seen = {name: parent for name, parent in open_.items() if _admitted(parent, config, asked)}
    alone: frozenset[int] = frozenset()
    grown, traces = run_stages(selected.left, _expansion(config, seen, split))
    grown, checked = run_stages(grown, _guards(grown, config, asked))
    fits = _fitting(config, counter, selected.first)
    while True:
        left, fitted = run_stages(grown, [*_merging(config, alone), *fits])
        crowded = _crowded(selected, left, fitted) - alone
        if not crowded:
            break
        alone |= crowded
    extracts: list[Stage] = [Extract(asked.query, split), *fits] if config.extract and split else []
    left, finished = run_stages(left, [*extracts, *_order(config)])
    stages = (*traces, *checked, *fitted, *finished)
    shown = _shown(left)
    return Assembled(
        kept=tuple(left),
        conflicts=tuple(c for c in selected.conflicts if not shown.isdisjoint(c.indices)),
        uncovered=uncovered(left, asked.required),
        stages=(*selected.stages, *stages),
    )


def _shown(left: Sequence[Candidate]) -> set[int]:
    return {index for c in left for index in (c.index, *c.merged)}


def _crowded(selected: Selected, left: Sequence[Candidate], stages: Sequence[StageTrace]) -> frozenset[int]:
    """Find whom to show as it was given instead, so that more fits.

    The children of each block that did not fit; and all that go first, if one of them did not.
    """
    over = {index for stage in stages for index, reason in stage.dropped.items() if reason in _OVER}
    if not over:
        return frozenset()
    parts = {(index, of) for stage in stages for index, of in stage.of.items() if of in over}
    crowded = frozenset(index for part in parts for index in part)
    first = selected.first & {c.index for c in selected.left}
    return crowded if first <= _shown(left) else crowded | first


def _admitted(parent: Chunk, config: PrunerConfig, asked: Asked) -> bool:
    return may_see(parent, asked.principals) and (config.revision_policy == "all" or in_force(parent))


def _expansion(config: PrunerConfig, parents: Parents, split: Splitter | None) -> list[Stage]:
    return [] if config.expand == "off" else [ExpandParents(config.expand, parents, config.expand_sentences, split)]


def _merging(config: PrunerConfig, alone: frozenset[int]) -> list[Stage]:
    kept_small: list[Stage] = [Unexpanded(alone)] if alone else []
    return [] if config.expand == "off" else [*kept_small, MergeChildren()]


def _fitting(config: PrunerConfig, counter: Counter, first: frozenset[int]) -> list[Stage]:
    if config.token_budget is None and config.token_cap is None:
        return []
    return [FitBudget(config.token_budget, counter, config.budget_pick, first, config.token_cap)]


def _order(config: PrunerConfig) -> list[Stage]:
    return [] if config.evidence_order == "reranker" else [Order(config.evidence_order)]


def decide(prepared: Prepared, done: Assembled, grading: Grading) -> tuple[Decision, ...]:
    """Say of each chunk given whether it is kept, by what, and who stands for it."""
    keepers = {c.index: str(c.by) for c in done.kept}
    droppers = {index: reason for stage in done.stages for index, reason in stage.dropped.items()}
    of = {index: kept for stage in done.stages for index, kept in stage.of.items()}
    notes = grading.notes or (None,) * len(prepared.given)
    decisions = tuple(
        Decision(c.index, c.chunk.id, grade, expected, c.index in keepers, by, note, of.get(c.index))
        for c, grade, expected, note in zip(prepared.given, grading.grades, grading.expected, notes, strict=True)
        for by in [keepers.get(c.index) or droppers[c.index]]
    )
    # The grading may have been made for somebody who may see more, and a note may quote.
    return tuple(replace(d, grade=None, expected=None, note=None) if d.by == By.ACCESS else d for d in decisions)
