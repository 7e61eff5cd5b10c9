"""The record of a result, made only when somebody asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.assembly import Assembled
from pruner.candidates import Candidate
from pruner.config import PrunerConfig
from pruner.evidence import evidence_id
from pruner.schema import Counter, Decision, Disagreement, Grading, Rejected, Selected, Trace
from pruner.texts import without_surrogates

__all__ = ["TraceMaker"]


@dataclass(frozen=True, slots=True)
class TraceMaker:
    """Writes the trace of one result.

    Attributes:
        done: the stages' outcome.
        decisions: one per input chunk.
        grading: whose model and prompt are named.
        config: the dials in force.
        counter: counts the texts that no stage has counted.
    """

    done: Assembled
    decisions: Sequence[Decision]
    grading: Grading
    config: PrunerConfig
    counter: Counter

    def __call__(self) -> Trace:
        """Write it."""
        grading, config = self.grading, self.config
        selected = tuple(self._selected(place, c) for place, c in enumerate(self.done.kept, 1))
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
            stages=self.done.stages,
            policy=config.policy,
            policy_sha256=config.policy_sha256,
            mmr_lambda=config.mmr_lambda,
            budget=config.token_budget,
            used_tokens=sum(entry.tokens for entry in selected),
            selected=selected,
            rejected=tuple(self._rejected()),
            conflicts=tuple(Disagreement(indices=c.indices, kind=c.kind) for c in self.done.conflicts),
            uncovered_query_ids=tuple(map(without_surrogates, self.done.uncovered)),
        )

    def _selected(self, place: int, candidate: Candidate) -> Selected:
        tokens = candidate.tokens
        return Selected(
            evidence_id=evidence_id(place),
            index=candidate.index,
            chunk_id=_name(candidate.chunk.id),
            parent_id=_name(candidate.chunk.parent_id),
            query_ids=tuple(map(without_surrogates, candidate.query_ids)),
            tokens=self.counter.count(candidate.text) if tokens is None else tokens,
            by=str(candidate.by),
            reranker_score=candidate.chunk.score,
            grade=candidate.grade,
            expected=candidate.expected,
            relevance=candidate.relevance,
            mmr_score=candidate.mmr,
            selection_order=candidate.order,
        )

    def _rejected(self) -> list[Rejected]:
        costs = {index: cost for stage in self.done.stages for index, cost in stage.costs.items()}
        return [
            Rejected(index=d.index, chunk_id=_name(d.id), reason=d.by, of=d.of, tokens=costs.get(d.index))
            for d in self.decisions
            if not d.kept
        ]


def _name(given: str | int | None) -> str | int | None:
    """Write a name so that JSON takes it: those of files may hold half a character."""
    return without_surrogates(given) if isinstance(given, str) else given
