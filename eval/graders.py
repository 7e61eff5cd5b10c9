"""Who turns a labelled list into a record: the product itself for `listwise`, a question of its own for the rest."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Protocol

from eval.datasets import Row
from eval.records import Record, Setup
from eval.setups import setup_of
from pruner.backends import Backend
from pruner.config import PrunerConfig
from pruner.errors import Reason
from pruner.pipeline import Pruner
from pruner.prices import Pricer, make_pricer, unpriced
from pruner.schema import Status, Usage
from pruner.tokens import TokenCounter

__all__ = ["Grader", "Listwise", "make_record", "pricer_of", "worst_cost"]

_INSTRUCTIONS, _PER_CHUNK, _REPLY_PER_CHUNK, _REPLY = 2_000, 80, 64, 1_024
_SAFETY = 1.5


class Grader(Protocol):
    """Grades lists by one setup."""

    setup: Setup

    async def __call__(self, row: Row) -> Record:
        """Ask about one list; faults of provider and model become a record with status `fallback`."""


class Listwise:
    """The product's own grading."""

    def __init__(self, config: PrunerConfig, backend: Backend) -> None:
        self.setup = setup_of(config)
        self._pruner = Pruner(config, backend=backend)
        self._counter = TokenCounter()

    async def __call__(self, row: Row) -> Record:
        """Grade one list."""
        grading = await self._pruner.grade(row.query, row.chunks)
        return make_record(
            row,
            self.setup,
            self._counter,
            status=grading.status,
            reason=grading.reason,
            usage=grading.usage,
            latency=grading.latency,
            reply=grading.reply,
            grades=tuple(grade and int(grade) for grade in grading.grades),
            expected=tuple(mean and round(mean, 4) for mean in grading.expected),
        )


def make_record(
    row: Row,
    setup: Setup,
    counter: TokenCounter,
    *,
    status: Status,
    reason: Reason | None,
    usage: Usage,
    latency: float = 0.0,
    reply: str | None = None,
    grades: Sequence[int | None] | None = None,
    expected: Sequence[float | None] | None = None,
    **found: Any,
) -> Record:
    """Put together a record; `found` is what only some strategies have."""
    n = len(row.chunks)
    return Record(
        dataset=row.dataset,
        id=row.id,
        n=n,
        list_sha256=row.sha256,
        **vars(setup),
        version=version("listwise-pruner"),
        status=str(status),
        reason=reason and str(reason),
        grades=tuple(grades or [None] * n),
        expected=tuple(expected or [None] * n),
        tokens=tuple(counter.count(chunk.text) for chunk in row.chunks),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        calls=usage.calls,
        cost=usage.cost,
        latency=round(latency, 3),
        reply=reply,
        **found,
    )


def pricer_of(config: PrunerConfig) -> Pricer:
    """Return what a call costs; a server of one's own has its own prices, whatever its model is called."""
    return unpriced if config.base_url else make_pricer(config.prefix, config.model_name)


def worst_cost(config: PrunerConfig, row: Row, counter: TokenCounter) -> float | None:
    """Return what grading a list costs at most, by a generous count and without retries; None where unpriced."""
    n = len(row.chunks)
    read = _INSTRUCTIONS + _PER_CHUNK * n + sum(counter.count(chunk.text) for chunk in row.chunks)
    times = n if config.readout == "probe" else 1
    usage = Usage(input_tokens=int(_SAFETY * read * times), output_tokens=_REPLY + _REPLY_PER_CHUNK * n)
    return pricer_of(config)(usage)
