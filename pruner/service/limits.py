"""How much at once: gradings (beyond: shed), requests (beyond: refused), bytes and seconds of a body."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect

from pruner.service.errors import Code, Refusal

__all__ = ["Admission", "StrictRequest", "StrictRoute", "read_json", "while_connected"]

T = TypeVar("T")
# Of any body, what holds texts.
_COUNTED = ("chunks", "documents", "results", "parents")


class Admission:
    """Counts what is being done.

    Args:
        max_concurrent: gradings.
        max_in_flight: requests.
        max_per_key: requests of one key; None is any number.
    """

    def __init__(self, max_concurrent: int, max_in_flight: int, max_per_key: int | None = None) -> None:
        self._max_concurrent, self._max_in_flight, self._max_per_key = max_concurrent, max_in_flight, max_per_key
        self.gradings = 0
        self.in_flight = 0
        self._of_key: Counter[str] = Counter()

    @contextmanager
    def request(self, key: str) -> Iterator[None]:
        """Count a request while it lasts.

        Raises:
            Refusal: there are as many as there may be.
        """
        if self._max_per_key is not None and self._of_key[key] >= self._max_per_key:
            raise Refusal(
                Code.TOO_MANY_REQUESTS, f"this key has {self._of_key[key]} requests in flight; wait for one of them"
            )
        if self.in_flight >= self._max_in_flight:
            raise Refusal(Code.TOO_BUSY, "the service has all the requests it can hold; come back in a moment")
        self.in_flight += 1
        self._of_key[key] += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._of_key[key] -= 1

    @contextmanager
    def grading(self) -> Iterator[bool]:
        """Count a grading while it lasts; tells whether there is room for it."""
        if self.gradings >= self._max_concurrent:
            yield False
            return
        self.gradings += 1
        try:
            yield True
        finally:
            self.gradings -= 1


class StrictRequest(Request):
    """A request whose body is read within the limits of the settings."""

    _whole: bytes | None = None

    async def body(self) -> bytes:
        """Read the body, in the time there is for it and no further than it may be long."""
        if self._whole is None:
            self._whole = await self._in_time()
        return self._whole

    async def _in_time(self) -> bytes:
        settings = self.app.state.settings
        try:
            async with asyncio.timeout(settings.body_timeout):
                return await self._read(settings.max_body)
        except TimeoutError:
            raise Refusal(Code.BODY_TIMEOUT, "the body did not arrive in time") from None
        except ClientDisconnect:
            raise Refusal(Code.BODY_TIMEOUT, "the client left before its body had arrived") from None

    async def _read(self, limit: int) -> bytes:
        body = bytearray()
        async for part in self.stream():
            body += part
            if len(body) > limit:
                raise Refusal(Code.BODY_TOO_LARGE, f"at most {limit} bytes are taken")
        return bytes(body)

    async def json(self) -> Any:
        """Read the body as JSON."""
        body = await self.body()
        given = read_json(body, self.app.state.settings.chunk_limit)
        _check_names(body)
        return given


def read_json(body: bytes, chunk_limit: int) -> Any:
    """Read JSON as the standard has it: no NaN, no lone surrogates, no endless nesting.

    Lists are counted here already, as an object is made of each entry further on: of a body at its limit, half a
    million, which takes seconds and a gigabyte.

    Raises:
        Refusal: it is none, or holds too many.
    """
    try:
        given = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(Code.INVALID_JSON, f"the body is no JSON (NaN and lone surrogates are none): {error}") from None
    for field in _COUNTED if isinstance(given, dict) else ():
        n = len(given[field]) if isinstance(given.get(field), list | dict) else 0
        if n > chunk_limit:
            raise Refusal(Code.INVALID_REQUEST, f"holds {n}, and at most {chunk_limit} are taken", field)
    return given


def _check_names(body: bytes) -> None:
    """Refuse JSON with a name twice in one object: whoever reads the other one would see another chunk.

    Raises:
        Refusal: there is one.
    """
    json.loads(body, object_pairs_hook=_differ, parse_int=str)  # An int of 4300 digits or more is an error.


def _differ(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise Refusal(Code.INVALID_REQUEST, "this name is there twice in one object; give it once", twice)


class StrictRoute(APIRoute):
    """A route whose bodies are read by `StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the request."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do work, and cancel it when the client leaves: nobody is there to read what it would cost.

    Raises:
        ClientDisconnect: the client left.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        leaving.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
