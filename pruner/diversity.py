"""From what is good enough to what is taken: coverage first, then maximal marginal relevance, under caps."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from pruner.candidates import By, Candidate, by_rank
from pruner.dedup import is_official
from pruner.dialtypes import SourcePolicy
from pruner.similarity import Matrix, embedding_cosines, tfidf_cosines
from pruner.stages import StageResult

__all__ = ["Select"]

# Scores closer than this are equal: float32 products differ by less between machines.
_DECIMALS = 5


@dataclass(frozen=True, slots=True)
class Select:
    """Take the candidates one by one, and note for each when and why.

    First the reranker's best few, then what coverage chose: they count for the caps per parent and per source, and
    fall to neither. Then, again and again, that with the highest lambda x relevance - (1 - lambda) x redundancy, the
    redundancy being the highest cosine to anything taken before (Carbonell and Goldstein 1998). Texts that contradict
    each other are not redundant. Equal scores go by rank.

    Attributes:
        mmr_lambda: weight of relevance against redundancy, in [0, 1]; 1 is the order of relevance.
        max_chunks: how many to take at most, whatever they are; None: all.
        per_parent: how many of one parent; None: any.
        per_source: how many of one source; None: any.
        policy: `comparative` enforces the cap per source; `authoritative` takes official sources first and without it;
            `syndicated` is a matter of copies (see `NearDuplicates.canonical`) and enforces it.
        first: indices of the reranker's best few.
        covering: indices of what coverage chose, in order.
    """

    mmr_lambda: float = 1.0
    max_chunks: int | None = None
    per_parent: int | None = None
    per_source: int | None = None
    policy: SourcePolicy = "comparative"
    first: tuple[int, ...] = ()
    covering: tuple[int, ...] = ()

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Take, in the order of selection; return in the order of rank."""
        ranked = by_rank(candidates)
        likeness, note = self._likeness(ranked)
        turn = _Turn(self, ranked, likeness)
        turn.run()
        kept = [c.changed(order=turn.order[n], mmr=turn.scores[n]) for n, c in enumerate(ranked) if n in turn.order]
        dropped = {ranked[n].index: reason for n, reason in turn.dropped.items()}
        return StageResult(kept, dropped, note="; ".join(filter(None, (note, self._note(ranked)))))

    def _likeness(self, ranked: Sequence[Candidate]) -> tuple[Matrix | None, str]:
        if self.mmr_lambda == 1 or len(ranked) < 2:
            return None, ""
        found = embedding_cosines(ranked)
        note = "" if found is not None else "redundancy by terms: not all have an embedding of the same length"
        likeness = tfidf_cosines([c.text for c in ranked]) if found is None else np.clip(found, 0, 1)
        places = {c.index: n for n, c in enumerate(ranked)}
        for conflict in {conflict for c in ranked for conflict in c.conflicts}:
            a, b = (places.get(index) for index in conflict.indices)
            if a is not None and b is not None:
                likeness[a, b] = likeness[b, a] = 0
        return likeness, note

    def _note(self, ranked: Sequence[Candidate]) -> str:
        notes = []
        for cap, name in ((self.per_parent, "parent_id"), (self.per_source, "source_id")):
            unknown = sum(getattr(c.chunk, name) is None for c in ranked)
            if cap is not None and unknown:
                notes.append(f"{unknown} of {len(ranked)} without a {name}")
        if self.policy == "authoritative":
            others = {c.chunk.source_id for c in ranked if not is_official(c)}
            notes.append(f"{len(others)} other sources beside the official ones")
        return "; ".join(notes)


class _Turn:
    """One run of the selection, over places in the ranking."""

    def __init__(self, rules: Select, ranked: Sequence[Candidate], likeness: Matrix | None) -> None:
        weight = rules.mmr_lambda
        self._rules, self._ranked = rules, ranked
        self._gain = weight * np.array([c.relevance or 0.0 for c in ranked])
        self._losses = None if likeness is None else (1 - weight) * likeness.astype(np.float64)
        self._loss = np.zeros(len(ranked))
        self._score = self._gain if weight == 1 else self._gain.round(_DECIMALS)
        self._open = np.ones(len(ranked), np.bool_)
        self._caps = [
            (By.PARENT_CAP, rules.per_parent, _parents(ranked), Counter[Hashable]()),
            (By.SOURCE_CAP, rules.per_source, _sources(ranked, rules.policy), Counter[Hashable]()),
        ]
        self.order: dict[int, int] = {}
        self.scores: dict[int, float] = {}
        self.dropped: dict[int, By] = {}

    def run(self) -> None:
        places = {c.index: n for n, c in enumerate(self._ranked)}
        for index in (*self._rules.first, *self._rules.covering):
            if (n := places.get(index)) is not None and self._open[n]:
                self._take(n)
        pools = [np.ones(len(self._ranked), np.bool_)]
        if self._rules.policy == "authoritative":
            pools.insert(0, np.array([is_official(c) for c in self._ranked], np.bool_))
        for pool in pools:
            for _ in range(int((self._open & pool).sum())):  # Each turn closes one.
                self._take_or_drop(int(np.where(self._open & pool, self._score, -np.inf).argmax()))

    def _take_or_drop(self, n: int) -> None:
        for reason, cap, keys, taken in self._caps:
            if cap is not None and keys[n] is not None and taken[keys[n]] >= cap:
                self._open[n] = False
                self.dropped[n] = reason
                return
        self._take(n)

    def _take(self, n: int) -> None:
        self._open[n] = False
        if self._rules.max_chunks is not None and len(self.order) >= self._rules.max_chunks:
            self.dropped[n] = By.MAX_CHUNKS
            return
        self.scores[n] = round(float(self._score[n]), _DECIMALS)
        self.order[n] = len(self.order)
        for _, _, keys, taken in self._caps:
            taken[keys[n]] += 1
        if self._losses is not None:
            self._loss = np.maximum(self._loss, self._losses[n])
            self._score = (self._gain - self._loss).round(_DECIMALS)


def _parents(ranked: Sequence[Candidate]) -> list[Hashable]:
    return [None if c.chunk.parent_id is None else (c.chunk.source_id, c.chunk.parent_id) for c in ranked]


def _sources(ranked: Sequence[Candidate], policy: str) -> list[Hashable]:
    """Name the sources that a cap is for; official ones have none where they come first."""
    free = policy == "authoritative"
    return [None if free and is_official(c) else c.chunk.source_id for c in ranked]
