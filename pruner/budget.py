"""How many tokens of evidence fit beside everything else in the generator's context, and which chunks get them."""

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.candidates import By, Candidate, by_rank
from pruner.dialtypes import BudgetPick
from pruner.errors import ConfigError
from pruner.evidence import FOOTER, body, header
from pruner.schema import Counter
from pruner.stages import StageResult

__all__ = ["FitBudget", "Room", "TokenBudget", "Unexpanded"]


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


class Room:
    """What is left of the limits on tokens while chunks are taken.

    Args:
        counter: counts as the generator does.
        budget: for all blocks as `render_evidence` writes them: text as escaped, opening and closing tag; None: any.
        cap: for the texts alone; None: any.
        blocks: how many there may be; their numbers are not known yet, so that the highest stands in.
    """

    def __init__(self, counter: Counter, budget: int | None, cap: int | None, blocks: int) -> None:
        self._counter, self._highest = counter, blocks
        self._budget, self._cap = budget, cap
        self._footer = 0 if budget is None else counter.count(FOOTER)
        self._headers: dict[int, int] = {}
        self._costs: dict[tuple[int, str], tuple[int, int]] = {}
        self.held: set[int] = set()

    def cost(self, candidate: Candidate) -> tuple[int, int]:
        """Count text and block, once; 0 where there is no limit."""
        key = candidate.index, candidate.text
        if key not in self._costs:
            self._costs[key] = self._counted(candidate)
        return self._costs[key]

    def _counted(self, candidate: Candidate) -> tuple[int, int]:
        count = self._counter.count
        text = 0 if self._cap is None else count(candidate.text)
        if self._budget is None:
            return text, 0
        return text, self._header(candidate) + count(body(candidate)) + self._footer

    def _header(self, candidate: Candidate) -> int:
        if candidate.index not in self._headers:  # It is the same whatever is shown of a candidate.
            self._headers[candidate.index] = self._counter.count(header(candidate, self._highest))
        return self._headers[candidate.index]

    def over(self, cost: tuple[int, int]) -> By | None:
        """Return the reason why so much is too much; None if it is not."""
        text, block = cost
        if self._cap is not None and text > self._cap:
            return By.TOKEN_CAP
        if self._budget is not None and block > self._budget:
            return By.TOKEN_BUDGET
        return None

    def take(self, cost: tuple[int, int]) -> By | None:
        """Take so much, or return the reason why that is too much."""
        text, block = cost
        if reason := self.over(cost):
            return reason
        self._cap = None if self._cap is None else self._cap - text
        self._budget = None if self._budget is None else self._budget - block
        return None

    def hold(self, candidate: Candidate) -> bool:
        """Take a candidate, once, and say whether it is taken."""
        if candidate.index not in self.held and self.take(self.cost(candidate)) is None:
            self.held.add(candidate.index)
        return candidate.index in self.held


@dataclass(frozen=True, slots=True)
class FitBudget:
    """Keep what fits into a number of tokens; what does not is passed over, and the next one is tried.

    The protected come first, then the others in the order of their selection or by relevance per token. One that does
    not fit with its parent or headings is tried as it was given. Once something did not fit, one that does not fit as
    it was given is not counted with more around it: it costs more.

    Attributes:
        budget: tokens for all blocks together, as `Room` counts them; None: any number.
        counter: counts as the generator does.
        pick: `greedy` in the order of selection, or `density`: most relevance per token first.
        first: indices of those that go before all others: the reranker's first few and what coverage chose.
        cap: tokens for all texts together, without what is written around them; None: any number.
    """

    budget: int | None
    counter: Counter
    pick: BudgetPick = "greedy"
    first: frozenset[int] = frozenset()
    cap: int | None = None

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Fill the budget."""
        room = Room(self.counter, self.budget, self.cap, len(candidates))
        fitting: dict[int, Candidate] = {}
        dropped: dict[int, By] = {}
        costs: dict[int, int] = {}
        for candidate in self._in_turn(candidates, room):
            for form in _worth_trying(candidate, room, tight=bool(dropped)):
                cost = room.cost(form)
                costs[form.index] = max(cost)
                if over := room.take(cost):
                    dropped[form.index] = over
                    continue
                dropped.pop(form.index, None)
                fitting[form.index] = form.changed(tokens=max(cost))
                break
        kept = [fitting[c.index] for c in candidates if c.index in fitting]
        return StageResult(kept, dropped, costs=costs)

    def _in_turn(self, candidates: Sequence[Candidate], room: Room) -> list[Candidate]:
        selected = sorted(by_rank(candidates), key=_turn)
        rest = [c for c in selected if self.first.isdisjoint((c.index, *c.merged))]
        if self.pick == "density":
            rest.sort(key=lambda c: -(c.relevance or 0.0) / max(*room.cost(c), 1))
        return [c for c in selected if not self.first.isdisjoint((c.index, *c.merged))] + rest


@dataclass(frozen=True, slots=True)
class Unexpanded:
    """Show some as they were given: with more around them, something that goes before does not fit.

    Attributes:
        indices: whom.
    """

    indices: frozenset[int]

    def __call__(self, candidates: Sequence[Candidate]) -> StageResult:
        """Put their texts back."""
        return StageResult([_as_given(c) if c.index in self.indices else c for c in candidates])


def _worth_trying(candidate: Candidate, room: Room, tight: bool) -> list[Candidate]:
    """Return what may be shown of a candidate, the best first; what stands for several stays as it is."""
    if candidate.text == candidate.chunk.text:
        return [candidate]
    given = _as_given(candidate)
    if tight and given.text in candidate.text and room.over(room.cost(given)):
        return [given]
    return [candidate] if candidate.merged else [candidate, given]


def _as_given(candidate: Candidate) -> Candidate:
    return candidate.changed(text=candidate.chunk.text, parent=None, spans=())


def _turn(candidate: Candidate) -> tuple[bool, int, float]:
    return candidate.order is None, candidate.order or 0, -(candidate.relevance or 0.0)
