"""What is asked with the product's deadline and retries need not be a grading."""

import asyncio
from typing import Any

import pytest

from pruner.backends.scripted import ScriptedBackend
from pruner.errors import BackendError, Reason, ReplyError
from pruner.grading import Answer, ask_for
from pruner.schema import GradingRequest, RawGrading, Status

pytestmark = pytest.mark.anyio

REQUEST = GradingRequest("system", "user", n=3)


def read(raw: RawGrading) -> str:
    if raw.text is None or raw.text.startswith("bad"):
        raise ReplyError(Reason.UNPARSEABLE)
    return raw.text.upper()


async def ask(*answers: Any, seconds: float = 30) -> Answer[str]:
    deadline = asyncio.get_running_loop().time() + seconds
    return await ask_for(ScriptedBackend(answers), REQUEST, deadline, read)


async def test_the_answer_is_what_the_reader_makes_of_the_reply() -> None:
    answer = await ask("yes")
    assert (answer.sheet, answer.status, answer.reason) == ("YES", Status.OK, None)


async def test_a_fault_that_passes_is_tried_again() -> None:
    answer = await ask(BackendError(Reason.RATE_LIMITED, "", retryable=True, retry_after=0.0), "yes")
    assert (answer.sheet, answer.usage.calls) == ("YES", 2)


@pytest.mark.parametrize(
    ("given", "reason"), [("bad", Reason.UNPARSEABLE), (BackendError(Reason.AUTH, "no key"), Reason.AUTH)]
)
async def test_what_cannot_be_read_or_had_is_a_fallback(given: Any, reason: Reason) -> None:
    answer = await ask(given)
    assert (answer.sheet, answer.status, answer.reason) == (None, Status.FALLBACK, reason)
