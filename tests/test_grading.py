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


async def ask_thinker(room: Room, *answers: Any, seconds: float = 30) -> tuple[Answer[str], list[int]]:
    """Return the answer, and the output caps that were asked with."""
    backend = ScriptedBackend(answers)
    deadline = asyncio.get_running_loop().time() + seconds
    answer = await ask_for(backend, REQUEST, deadline, read_cut_off, room)
    return answer, [request.max_output_tokens - REQUEST.max_output_tokens for request in backend.requests]


async def test_a_reply_cut_off_before_there_was_anything_to_read_is_asked_for_with_room() -> None:
    answer, rooms = await ask_thinker(Room(), CUT_OFF, "yes")
    assert (answer.sheet, answer.status, rooms) == ("YES", Status.OK, [0, 4_096])


async def test_what_the_reply_that_was_cut_off_took_is_counted() -> None:
    answer, _ = await ask_thinker(Room(), CUT_OFF, RawGrading(text="yes", usage=Usage(10, 700, 4, calls=1)))
    assert answer.usage == Usage(20, 705, 4, calls=2)


async def test_room_that_helped_is_given_at_once_from_then_on() -> None:
    room = Room()
    await ask_thinker(room, CUT_OFF, "yes")
    assert (await ask_thinker(room, "yes"))[1] == [4_096]


async def test_room_is_given_once_and_not_kept_when_it_did_not_help() -> None:
    room = Room()
    answer, rooms = await ask_thinker(room, CUT_OFF, CUT_OFF)
    assert (answer.reason, rooms, room.tokens) == (Reason.TRUNCATED, [0, 4_096], 0)


async def test_a_reply_cut_off_although_it_had_room_is_not_asked_for_again() -> None:
    answer, rooms = await ask_thinker(Room(4_096), CUT_OFF)
    assert (answer.reason, rooms) == (Reason.TRUNCATED, [4_096])


async def test_when_the_deadline_ends_the_second_attempt_the_first_says_why() -> None:
    class Slow:
        async def grade(self, request: GradingRequest) -> RawGrading:
            if request.max_output_tokens > REQUEST.max_output_tokens:
                await asyncio.Event().wait()
            return CUT_OFF

    deadline = asyncio.get_running_loop().time() + 0.05
    answer = await ask_for(Slow(), REQUEST, deadline, read_cut_off)
    assert (answer.reason, answer.usage.calls) == (Reason.TRUNCATED, 2)
