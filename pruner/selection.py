"""From grades to kept chunks: the two dials, and what stands in for them when there are no grades."""

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.schema import By, Candidate
from pruner.stages import StageResult

__all__ = ["FallbackTopN", "KeepAll", "LeftOut", "Threshold"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keep what reaches the threshold, what is ungraded, and the reranker's first `keep_top_k`.

    Attributes:
        threshold: lowest level kept, in [1, 5].
        keep_top_k: how many of the first candidates stay whatever their grade.
        use_expected: judge by the expected grade where there is one, else by the written one.
        covering: indices of those that a required sub-query needs: they stay as well.
    """

    threshold: float
    keep_top_k: int
    use_expected: bool = False
    covering: tuple[int, ...] = ()

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by grade."""
        verdicts = [self._verdict(place, c) for place, c in enumerate(candidates)]
        judged = list(zip(candidates, verdicts, strict=True))
        dropped = {c.index: by for c, by in judged if by is By.BELOW_THRESHOLD}
        return StageResult([c.changed(by=by) for c, by in judged if by is not By.BELOW_THRESHOLD], dropped)

    def level(self, candidate: Candidate) -> float | None:
        """The number that is held against the threshold; None when ungraded."""
        if self.use_expected and candidate.expected is not None:
            return candidate.expected
        return candidate.grade

    def _verdict(self, place: int, candidate: Candidate) -> By:
        level = self.level(candidate)
        if level is None:
            return By.UNGRADED
        if level >= self.threshold:
            return By.GRADE
        if place < self.keep_top_k:
            return By.KEEP_TOP_K
        return By.COVERAGE if candidate.index in self.covering else By.BELOW_THRESHOLD


@dataclass(frozen=True, slots=True)
class FallbackTopN:
    """Keep the reranker's first n; stands in for the dials when the grading failed. None keeps all.

    Attributes:
        n: how many.
        covering: indices of those that a required sub-query needs: they stay as well.
    """

    n: int | None
    covering: tuple[int, ...] = ()

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by place."""
        n = len(candidates) if self.n is None else self.n
        kept = [c.changed(by=By.FALLBACK) for c in candidates[:n]]
        kept += [c.changed(by=By.COVERAGE) for c in candidates[n:] if c.index in self.covering]
        return StageResult(kept, {c.index: By.FALLBACK_TOP_N for c in candidates[n:] if c.index not in self.covering})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Apply the rule of the fallback to candidates that the model was not shown: beyond the first n they go.

    Attributes:
        indices: of the candidates that were not shown.
        n: `fallback_top_n`; None keeps all, ungraded.
        covering: indices of those that a required sub-query needs: they stay as well.
    """

    indices: frozenset[int]
    n: int | None
    covering: tuple[int, ...] = ()

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by place, the others pass."""
        n = len(candidates) if self.n is None else self.n
        dropped = {
            c.index: By.FALLBACK_TOP_N
            for c in candidates[n:]
            if c.index in self.indices and c.index not in self.covering
        }
        return StageResult([c for c in candidates if c.index not in dropped], dropped)


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Keep everything; stands in for the dials when nobody was asked."""

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Mark all as kept without a grade."""
        return StageResult([c.changed(by=By.SKIPPED) for c in candidates])
