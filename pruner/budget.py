"""How many tokens of evidence fit beside everything else in the generator's context, and which chunks get them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pruner.candidates import By, Candidate, by_rank
from pruner.errors import ConfigError
from pruner.evidence import FOOTER, body, header
from pruner.schema import Counter
from pruner.stages import StageResult

__all__ = ["FitBudget", "TokenBudget"]


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The parts of the generator's context, in its own tokens.

    Attributes:
        max_context: all that it takes.
        system: the system turn, with the evidence rules.
        history: earlier turns.
        question: this one.
        output_reserve: kept free for the answer.
        formatting_margin: kept free for what a chat template puts around the turns.

    Raises:
        ConfigError: a part is negative, or nothing is left for evidence.
    """

    max_context: int
    system: int = 0
    history: int = 0
    question: int = 0
    output_reserve: int = 0
    formatting_margin: int = 0

    def __post_init__(self) -> None:
        """Check that something is left."""
        parts = ("system", "history", "question", "output_reserve", "formatting_margin")
        if negative := [name for name in ("max_context", *parts) if getattr(self, name) < 0]:
            raise ConfigError(f"{negative[0]}={getattr(self, negative[0])} is negative; give a number of tokens")
        if self.evidence <= 0:
            taken = " + ".join(f"{name} {getattr(self, name)}" for name in parts if getattr(self, name))
            raise ConfigError(f"nothing is left for evidence: max_context {self.max_context} - ({taken or 0})")

    @property
    def evidence(self) -> int:
        """Tokens left for the evidence blocks."""
        taken = self.system + self.history + self.question + self.output_reserve + self.formatting_margin
        return self.max_context - taken


@dataclass(frozen=True, slots=True)
class FitBudget:
    """Keep what fits into a number of tokens; what does not is passed over, and the next one is tried.

    A chunk costs what `render_evidence` writes for it: text, opening and closing tag. The protected come first, then
    the others in the order of their selection or by relevance per token. One whose parent does not fit is tried alone.

    Attributes:
        budget: tokens for all blocks together.
        counter: counts as the generator does.
        pick: `greedy` in the order of selection, or `density`: most relevance per token first.
        first: indices of those that go before all others: the reranker's first few and what coverage chose.
    """

    budget: int
    counter: Counter
    pick: Literal["greedy", "density"] = "greedy"
    first: frozenset[int] = frozenset()

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Fill the budget."""
        costs = {c.index: self._cost(c, len(candidates)) for c in candidates}
        left, fitting = self.budget, dict[int, Candidate]()
        for candidate in self._in_turn(candidates, costs):
            for form in _forms(candidate):
                cost = costs[form.index] if form is candidate else self._cost(form, len(candidates))
                if cost <= left:
                    left -= cost
                    costs[form.index] = cost
                    fitting[form.index] = form.changed(tokens=cost)
                    break
        kept = [fitting[c.index] for c in candidates if c.index in fitting]
        dropped = {c.index: By.TOKEN_BUDGET for c in candidates if c.index not in fitting}
        return StageResult(kept, dropped, costs=costs)

    def _cost(self, candidate: Candidate, highest: int) -> int:
        """Count the block; its number is not known yet, so that the highest stands in."""
        count = self.counter.count
        return count(header(candidate, highest)) + count(body(candidate)) + count(FOOTER)

    def _in_turn(self, candidates: Sequence[Candidate], costs: dict[int, int]) -> list[Candidate]:
        selected = sorted(by_rank(candidates), key=_turn)
        rest = [c for c in selected if self.first.isdisjoint((c.index, *c.merged))]
        if self.pick == "density":
            rest.sort(key=lambda c: -(c.relevance or 0.0) / max(costs[c.index], 1))
        return [c for c in selected if not self.first.isdisjoint((c.index, *c.merged))] + rest


def _forms(candidate: Candidate) -> list[Candidate]:
    """Return what may be shown of a candidate, the best first; what stands for several stays as it is."""
    if candidate.parent is None or candidate.merged:
        return [candidate]
    return [candidate, candidate.changed(text=candidate.chunk.text, parent=None, spans=())]


def _turn(candidate: Candidate) -> tuple[bool, int, float]:
    return candidate.order is None, candidate.order or 0, -(candidate.relevance or 0.0)
