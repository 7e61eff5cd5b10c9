"""The one LLM call: asked inside one deadline, retried where that can help, read into grades."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Generic, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay
from tenacity.wait import wait_base, wait_exponential_jitter

from pruner.backends import Backend
from pruner.errors import BackendError, ConfigError, GradingError, Reason, ReplyError
from pruner.replies import GradeSheet, read_reply
from pruner.schema import THOUGHTS, GradingRequest, RawGrading, Status, Usage
from pruner.tokens import at_least, plain_in

__all__ = ["Answer", "Room", "ask", "ask_for"]

_BACKOFF = wait_exponential_jitter(multiplier=0.2, max=2.0, jitter=0.2)
_JITTER = 0.2
# Of the time left; a wait that ends later leaves none for the answer.
_WAITING = 0.9
_FLAT = 0.05
_READ, _SHORT = 0.7, 1_000
_IN_VAIN = (Reason.TRUNCATED, Reason.BAD_REQUEST, Reason.CONTEXT_OVERFLOW)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What came of asking: what was read (grades, mostly), or the reason why there is nothing.

    Attributes:
        status: ok, partial or fallback.
        reason: why it is not ok.
        detail: of the fault, for the log; holds no text of query, chunk or reply.
        sheet: what was read of the reply, the grades by label; None on fallback.
        raw: the last reply, if one came.
        usage: over all attempts.
    """

    status: Status
    reason: Reason | None
    detail: str
    sheet: T | None
    raw: RawGrading | None
    usage: Usage


@dataclass(slots=True)
class Room:
    """Output tokens for thoughts, kept by who asks a model again and again: only few that think are known by name.

    The reply that was cut off is not asked for again. Those after it get the room; it stays once it helped.

    Attributes:
        tokens: how many the next request gets.
        helped: whether a reply that had them was whole.
        in_vain: whether one was cut off all the same, or refused.
    """

    tokens: int = 0
    helped: bool = False
    in_vain: bool = False

    def learn(self, given: int, fault: Reason | None) -> None:
        """Take note of how a request ended that got so many."""
        if not given and fault is Reason.TRUNCATED and not self.in_vain:
            self.tokens = THOUGHTS
        elif given and fault is None:
            self.helped = True
        elif given and fault in _IN_VAIN and not self.helped:
            self.tokens, self.in_vain = 0, True


class _Attempts:
    """Counts attempts and remembers how the last one ended; what a deadline interrupts is still to be reported."""

    def __init__(self, backend: Backend, request: GradingRequest) -> None:
        self._backend = backend
        self._request = request
        self.count = 0
        self.error: BackendError | None = None
        self.raw: RawGrading | None = None

    async def __call__(self) -> RawGrading:
        self.count += 1
        try:
            self.raw = await _graded(self._backend.grade(self._request))
        except BackendError as error:
            self.error = error
            raise
        self.count += max(self.raw.usage.calls, 1) - 1  # A probe asks many times at each attempt.
        return self.raw

    @property
    def usage(self) -> Usage:
        return replace(self.raw.usage if self.raw else Usage(), calls=self.count)


async def _graded(given: object) -> RawGrading:
    """Wait for what a backend grades; one of the caller's own may do anything else."""
    if not isawaitable(given):
        raise ConfigError("the backend's grade() must be async: write `async def grade(request)`")
    raw: object = await given
    if not isinstance(raw, RawGrading):
        raise ConfigError(f"the backend's grade() must return a RawGrading, not {type(raw).__name__}")
    return raw


async def ask(
    backend: Backend, request: GradingRequest, deadline: float, room: Room | None = None
) -> Answer[GradeSheet]:
    """Ask for grades until they are here, the deadline is, or asking again cannot help; see `ask_for`."""

    def read(raw: RawGrading) -> GradeSheet:
        return _informative(read_reply(raw, request.n), request)

    answer = await ask_for(backend, request, deadline, read, room)
    if answer.sheet and answer.sheet.missing:
        return replace(answer, status=Status.PARTIAL, reason=Reason.MISSING_GRADES)
    return answer


async def ask_for(
    backend: Backend,
    request: GradingRequest,
    deadline: float,
    read: Callable[[RawGrading], T],
    room: Room | None = None,
) -> Answer[T]:
    """Ask until an answer is here, the deadline is, or asking again cannot help.

    Args:
        backend: whom to ask.
        request: what to ask.
        deadline: on the running loop's clock, seconds.
        read: makes something of the reply, or raises `ReplyError`.
        room: for thoughts; learns from how it ends.

    Returns:
        Always an answer: provider, network and model faults become a fallback with a reason.

    Raises:
        asyncio.CancelledError: the caller was cancelled.
    """
    room = room or Room()
    given = room.tokens
    attempts = _Attempts(backend, replace(request, max_output_tokens=request.max_output_tokens + given))
    try:
        raw = await _before(deadline, attempts)
        _check_read_whole(raw, request)
        sheet = read(raw)
    except GradingError as error:
        room.learn(given, error.reason)
        return Answer(Status.FALLBACK, error.reason, str(error), None, attempts.raw, attempts.usage)
    room.learn(given, None)
    return Answer(Status.OK, None, "", sheet, attempts.raw, attempts.usage)


async def _before(deadline: float, attempts: _Attempts) -> RawGrading:
    left = deadline - asyncio.get_running_loop().time()
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, BackendError) and error.retryable),
        wait=_WaitAsTold(),
        stop=stop_before_delay(_WAITING * max(left, 0)),
        reraise=True,
    )
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            return await retrying(attempts)
    except TimeoutError:
        if not limit.expired():
            raise
        raise attempts.error or BackendError(Reason.TIMEOUT, "no answer before the deadline") from None


class _WaitAsTold(wait_base):
    """Wait as long as the provider asked for, else a growing time; with jitter, lest all callers come back at once.

    A provider that keeps asking for less than the growing time gets the growing time: "at once" is believed once.
    """

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if not isinstance(error, BackendError) or error.retry_after is None:
            return _BACKOFF(retry_state)
        if error.reason is Reason.BAD_REQUEST:  # To be asked in another form: there is nothing to wait for.
            return error.retry_after
        least = _BACKOFF(retry_state) if retry_state.attempt_number > 1 else 0.0
        return max(error.retry_after * random.uniform(1, 1 + _JITTER), least)


def _check_read_whole(raw: RawGrading, request: GradingRequest) -> None:
    """Refuse a grading of a prompt that the server cut off without saying so: it reports far fewer tokens than it got.

    Counted only where a look at the length does not settle it.
    """
    seen, texts = raw.usage.input_tokens, (request.system, request.user)
    if not seen or request.probe or seen >= _READ * sum(map(_mostly_below, texts)):
        return
    enough = max(int(seen / _READ), _SHORT) + 1
    if at_least(texts, enough) >= enough:
        raise ReplyError(Reason.PROMPT_TRUNCATED, f"the server read {seen} of {enough} tokens or more")


def _mostly_below(text: str) -> float:
    plain = plain_in(text)
    return plain / 4.3 + (len(text) - plain) * 0.5


def _informative(sheet: GradeSheet, request: GradingRequest) -> GradeSheet:
    """Refuse a complete grading of four or more that puts everything on one middle level: it tells nothing apart.

    All ESSENTIAL and all UNRELATED are real answers. Mean levels, where they were asked for, are flat within 0.05.
    """
    if request.n >= 4 and sheet.missing == 0 and _is_flat(sheet, by_mean=request.logprobs):
        raise ReplyError(Reason.UNINFORMATIVE, "every chunk got the same middle grade")
    return sheet


def _is_flat(sheet: GradeSheet, *, by_mean: bool) -> bool:
    means = [mean for mean in sheet.expected if mean is not None]
    if by_mean and len(means) == len(sheet.grades):
        return _spread(means) <= _FLAT and 1.5 <= means[0] < 4.5
    grades = [grade for grade in sheet.grades if grade is not None]
    return _spread(grades) == 0 and grades[0] in (2, 3, 4)


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)
