"""What fits: hard caps on chunks and tokens, the same on every path."""

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.schema import By, Candidate, Counter
from pruner.stages import StageResult

__all__ = ["MaxChunks", "TokenCap"]


def _by_priority(candidates: Sequence[Candidate], keep_top_k: int) -> list[Candidate]:
    """Order for a cap: as they were selected; or else the reranker's first few, then by grade, then by rank.

    Ungraded rank with the best graded. The first `keep_top_k` of what is left are the reranker's best few: no earlier
    stage drops one of them.
    """
    if all(c.order is not None for c in candidates):
        return sorted(candidates, key=lambda c: c.order or 0)
    rest = sorted(candidates[keep_top_k:], key=lambda c: (-_level(c), c.index))
    return [*candidates[:keep_top_k], *rest]


def _level(candidate: Candidate) -> float:
    if candidate.expected is not None:
        return candidate.expected
    return float(candidate.grade or 5)


@dataclass(frozen=True, slots=True)
class MaxChunks:
    """Keep at most `max_chunks`: the reranker's first `keep_top_k`, then the best graded."""

    max_chunks: int
    keep_top_k: int

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Split by priority."""
        over = _by_priority(candidates, self.keep_top_k)[self.max_chunks :]
        dropped = {c.index: By.MAX_CHUNKS for c in over}
        return StageResult([c for c in candidates if c.index not in dropped], dropped)


@dataclass(frozen=True, slots=True)
class TokenCap:
    """Keep at most `token_cap` tokens of text; a chunk that does not fit is passed over, the next one is tried."""

    token_cap: int
    keep_top_k: int
    counter: Counter

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Fill the cap in order of priority."""
        left, dropped = self.token_cap, {}
        for candidate in _by_priority(candidates, self.keep_top_k):
            cost = self.counter.count(candidate.text)
            if cost > left:
                dropped[candidate.index] = By.TOKEN_CAP
            else:
                left -= cost
        return StageResult([c for c in candidates if c.index not in dropped], dropped)
