"""Who turns a labelled list into a record: the product itself for `listwise`, a question of its own for the rest."""

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Protocol

from eval.datasets import Row
from eval.records import LISTWISE, Record, Setup
from pruner.backends import Backend
from pruner.config import PrunerConfig
from pruner.errors import Reason
from pruner.pipeline import Pruner
from pruner.prices import Pricer, make_pricer, unpriced
from pruner.prompting import load_prompt
from pruner.schema import Status, Usage
from pruner.tokens import TokenCounter

__all__ = ["Grader", "Listwise", "grading_config", "make_record", "pricer_of", "setup_of", "worst_cost"]

# What else changes grades, besides what a setup names; all other dials select, which is free and done later.
_FURTHER_DIALS = ("temperature", "instructions", "reasons", "max_input_tokens", "scoring")
# Selection is for later, so that nothing is kept from the model now.
_NO_SELECTION = {"keep_top_k": 0, "min_score": None, "min_chunks": 0, "min_tokens": 0, "max_chunks": None}
_NO_SELECTION |= {"token_cap": None, "fallback_top_n": None}
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


def grading_config(**dials: Any) -> PrunerConfig:
    """Make the config to grade by: dials, environment and file, and token probabilities where there are any.

    Raises:
        ConfigError: a dial is wrong.
    """
    return PrunerConfig.load(**{"scoring": "expected", **dials, **_NO_SELECTION})


def setup_of(config: PrunerConfig) -> Setup:
    """Return how lists are graded by a config."""
    prompt = load_prompt(config.prompt)
    return Setup(
        strategy=LISTWISE,
        model=config.model,
        prompt=prompt.name,
        prompt_sha256=prompt.sha256,
        readout=config.readout,
        reply_format=config.reply_format if config.readout == "json" else "",
        chunk_order=f"shuffle {config.seed}" if config.chunk_order == "shuffle" else "reranker",
        dials=further_dials(config),
    )


def further_dials(config: PrunerConfig) -> str:
    """Return the other dials that are not as usual; instructions by a hash, as they may be private."""
    usual = PrunerConfig(scoring="expected")
    changed = {name: getattr(config, name) for name in _FURTHER_DIALS if getattr(config, name) != getattr(usual, name)}
    if "instructions" in changed:
        changed["instructions"] = hashlib.sha256(config.instructions.encode()).hexdigest()[:8]
    return " ".join(f"{name}={value}" for name, value in changed.items())


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
