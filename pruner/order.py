"""In which order the generator reads the kept chunks; every policy only permutes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from pruner.candidates import Candidate, by_rank
from pruner.dialtypes import OrderPolicy
from pruner.errors import ConfigError
from pruner.stages import StageResult

__all__ = ["Order", "OrderPolicy"]


@dataclass(frozen=True, slots=True)
class Order:
    """Put the candidates in order.

    Attributes:
        by: `reranker`: as they were given. `relevance`: most relevant first. `edges`: the most relevant at both ends,
            rank 1, 3, 5 … 6, 4, 2, since what lies in the middle of a long prompt is read worst. `query` and `source`:
            those of the first sub-query or of one source together, the groups as their best chunks are ranked, those
            without one last. `time`: oldest first, undated last.

    Raises:
        ConfigError: there is no such policy.
    """

    by: OrderPolicy = "reranker"

    def __post_init__(self) -> None:
        """Check the name."""
        if self.by not in get_args(OrderPolicy):
            raise ConfigError(f"no order {self.by!r}; use one of {', '.join(get_args(OrderPolicy))}")

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Permute."""
        return StageResult(_POLICIES[self.by](by_rank(candidates)))


def _relevance(ranked: list[Candidate]) -> list[Candidate]:
    return sorted(ranked, key=lambda c: -(c.relevance or 0.0))


def _edges(ranked: list[Candidate]) -> list[Candidate]:
    best_first = _relevance(ranked)
    return best_first[::2] + best_first[1::2][::-1]


def _grouped(key: Callable[[Candidate], object]) -> Callable[[list[Candidate]], list[Candidate]]:
    def group(ranked: list[Candidate]) -> list[Candidate]:
        places = {name: place for place, name in enumerate(dict.fromkeys(map(key, ranked)))}
        return sorted(ranked, key=lambda c: (key(c) is None, places[key(c)]))

    return group


def _time(ranked: list[Candidate]) -> list[Candidate]:
    return sorted(ranked, key=lambda c: (not c.chunk.date, c.chunk.date or ""))


_POLICIES: dict[OrderPolicy, Callable[[list[Candidate]], list[Candidate]]] = {
    "reranker": list,
    "relevance": _relevance,
    "edges": _edges,
    "query": _grouped(lambda c: c.query_ids[0] if c.query_ids else None),
    "source": _grouped(lambda c: c.chunk.source_id),
    "time": _time,
}
