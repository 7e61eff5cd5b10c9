"""What is asked with the product's deadline and retries need not be a grading."""

import asyncio
from typing import Any

import pytest

from pruner.backends.scripted import ScriptedBackend
from pruner.errors import BackendError, Reason, ReplyError
from pruner.grading import Answer, Room, ask_for
from pruner.schema import GradingRequest, RawGrading, Status, Usage

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


CUT_OFF = RawGrading(text="<think>Let me see", finish="length", usage=Usage(10, 5, calls=1))


def read_cut_off(raw: RawGrading) -> str:
    if raw.finish == "length":
        raise ReplyError(Reason.TRUNCATED)
    return read(raw)


async def rooms_given(*answers: Any) -> list[int]:
    """Make one call after the other, each answered so; return by how much the cap on the reply was raised."""
    backend, room = ScriptedBackend(answers), Room()
    for _ in answers:
        await ask_for(backend, REQUEST, asyncio.get_running_loop().time() + 30, read_cut_off, room)
    return [request.max_output_tokens - REQUEST.max_output_tokens for request in backend.requests]


async def test_a_reply_cut_off_before_there_was_anything_to_read_is_not_asked_for_again() -> None:
    backend = ScriptedBackend([CUT_OFF, "yes"])
    answer = await ask_for(backend, REQUEST, asyncio.get_running_loop().time() + 30, read_cut_off, Room())
    assert (answer.reason, answer.usage.calls, len(backend.requests)) == (Reason.TRUNCATED, 1, 1)


async def test_the_calls_after_a_reply_that_was_cut_off_have_room_to_think() -> None:
    assert await rooms_given(CUT_OFF, "yes", "yes") == [0, 4_096, 4_096]


async def test_room_that_helped_once_stays() -> None:
    assert await rooms_given(CUT_OFF, "yes", CUT_OFF, "yes") == [0, 4_096, 4_096, 4_096]


@pytest.mark.parametrize("second", [CUT_OFF, BackendError(Reason.BAD_REQUEST), BackendError(Reason.CONTEXT_OVERFLOW)])
async def test_room_that_is_in_vain_is_taken_back_for_good(second: Any) -> None:
    assert await rooms_given(CUT_OFF, second, CUT_OFF, "yes") == [0, 4_096, 0, 0]


async def test_a_fault_that_has_nothing_to_do_with_it_leaves_the_room() -> None:
    assert await rooms_given(CUT_OFF, BackendError(Reason.AUTH), "yes") == [0, 4_096, 4_096]
