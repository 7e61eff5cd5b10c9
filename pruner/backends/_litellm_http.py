"""The HTTP clients that litellm is given; in a module of its own, as `httpx` comes with litellm only."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from weakref import ref

import httpx

from pruner.backends._litellm import ANSWERS, BEGUN, Answered
from pruner.backends.wire import PACKING, begin, environment_read, is_bounded, parse
from pruner.errors import BackendError

__all__ = ["http_maker"]

_MAX_BODY, _MAX_SMALL_BODY = 2_000_000, 50_000


def http_maker() -> Callable[[], httpx.AsyncClient]:
    """Return a function that makes clients quickly: no time-out of their own, no redirects, bounded bodies."""
    limits = httpx.Limits(max_connections=None)
    with environment_read(httpx.InvalidURL):
        tls = httpx.create_ssl_context()

    def make() -> httpx.AsyncClient:
        with environment_read(httpx.InvalidURL):
            client = httpx.AsyncClient(verify=tls, timeout=None, limits=limits, headers=PACKING)
        client.event_hooks = {"request": [partial(begin, ref(client)), _note_begin], "response": [_check]}
        return client

    return make


async def _note_begin(_: httpx.Request) -> None:
    begun = BEGUN.get()
    if begun and not begun.done():
        begun.set_result(None)


async def _check(response: httpx.Response) -> None:
    """Read a body before litellm does, which would work for seconds, on the event loop, on a large one of no use.

    It searches that for secrets. A compressed one may be a thousand times as long when it is unpacked.
    """
    response.encoding = "utf-8"
    encoding = response.headers.get("content-encoding")
    if encoding and not is_bounded(encoding):
        raise httpx.ReadError("the answer is packed in a way that was not asked for")
    small = response.is_error or encoding
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Bounded(response.stream, _MAX_SMALL_BODY if small else _MAX_BODY)
    content = await response.aread()
    if response.is_success:
        try:
            parse(content)
        except BackendError as error:
            raise httpx.ReadError(str(error)) from error
    if (answers := ANSWERS.get()) is not None:
        answers.append(Answered(response.status_code, content, response.headers))


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, limit: int) -> None:
        self._stream, self._left = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise httpx.ReadError("the answer is longer than any answer should be")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
