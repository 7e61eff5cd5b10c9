"""The probe over chat completions: one question per chunk behind a prefix that the server reads once and remembers."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pruner.schema import GradingRequest, ProbeRequest, RawGrading, Token, Usage

__all__ = ["probe"]

Ask = Callable[[GradingRequest], Awaitable[RawGrading]]

_AT_ONCE = 8


async def probe(ask: Ask, request: GradingRequest, parts: ProbeRequest) -> RawGrading:
    """Ask for one digit per chunk and read its probabilities as the distribution over the levels.

    The first question is asked alone, so that the others find the prefix in the server's memory. It stays the only one
    where the server answers it without token probabilities: there is nothing to be read in the others either.

    Args:
        ask: sends one chat request with a user turn, and returns the reply with its token alternatives.
        request: what is the same for all questions.
        parts: the list and the questions.
    """
    shared = parts.opening + "".join(parts.chunks)
    requests = [replace(request, user=shared + question, probe=None) for question in parts.questions]
    first = await ask(requests[0])
    told = not first.text or any(token.top for token in first.tokens)
    answers = [first, *(await _all(ask, requests[1:]) if told else ())]
    usage = Usage(
        sum(a.usage.input_tokens for a in answers),
        sum(a.usage.output_tokens for a in answers),
        sum(a.usage.cached_tokens for a in answers),
        calls=len(answers),
        written_tokens=sum(a.usage.written_tokens for a in answers),
    )
    return RawGrading(levels=tuple(_levels(a.tokens) for a in answers), usage=usage)


async def _all(ask: Ask, requests: Sequence[GradingRequest]) -> list[RawGrading]:
    """Ask a few at a time; the first fault ends them all."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(request: GradingRequest) -> RawGrading:
        async with free:
            return await ask(request)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    return [task.result() for task in tasks]


def _levels(tokens: Sequence[Token]) -> tuple[float, ...]:
    """Return the probabilities of the digits 1..5 as the first token that is not blank; all 0 where there are none."""
    first = next((token for token in tokens if token.text.strip()), None)
    mass = [0.0] * 5
    for text, logprob in first.top if first else ():
        if text.strip() in ("1", "2", "3", "4", "5"):
            mass[int(text) - 1] += math.exp(min(logprob, 0.0))
    return tuple(mass)
