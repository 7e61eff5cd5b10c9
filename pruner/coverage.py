"""Which candidate each required sub-query is answered by, and which sub-queries nothing answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pruner.candidates import Candidate

__all__ = ["cover", "relevances", "uncovered"]


def relevances(candidates: Sequence[Candidate]) -> dict[int, float]:
    """Put all candidates on one scale in [0, 1], whatever they were judged by. Raw scores are not comparable: unused.

    Returns:
        Index → (level - 1) / 4 where any has a level, expected before written; one without counts as needed, as
        everywhere. Where none has, by rank: from 1 for the first down to 1 / n for the last.
    """
    n = len(candidates)
    if all(c.grade is None and c.expected is None for c in candidates):
        return {c.index: (n - place) / n for place, c in enumerate(candidates)}
    return {c.index: _level(c) for c in candidates}


def _level(candidate: Candidate) -> float:
    level = candidate.expected if candidate.expected is not None else candidate.grade
    return 1.0 if level is None else (level - 1) / 4


def cover(
    candidates: Sequence[Candidate],
    required: Iterable[str],
    relevance: Mapping[int, float],
    hold: Callable[[Candidate], bool] = lambda _: True,
) -> tuple[int, ...]:
    """Choose for each required sub-query the best candidate that there is room for.

    Args:
        candidates: in reranker order.
        required: the sub-queries.
        relevance: index → relevance.
        hold: takes a candidate, once, if there is room for it, and says so.

    Returns:
        Their indices in the order of the sub-queries, each once: of equally relevant ones that which serves most of
        them, then the better ranked.
    """
    names = tuple(dict.fromkeys(required))
    serves = {c.index: sum(name in c.query_ids for name in names) for c in candidates}
    best_first = sorted(candidates, key=lambda c: (-relevance[c.index], -serves[c.index], c.index)) if names else []
    chosen = (next((c.index for c in best_first if name in c.query_ids and hold(c)), None) for name in names)
    return tuple(dict.fromkeys(index for index in chosen if index is not None))


def uncovered(candidates: Iterable[Candidate], required: Iterable[str]) -> tuple[str, ...]:
    """Return the required sub-queries that none of the candidates serves."""
    served = {name for c in candidates for name in c.query_ids}
    return tuple(name for name in dict.fromkeys(required) if name not in served)
