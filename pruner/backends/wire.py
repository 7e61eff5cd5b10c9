"""What the backends that speak HTTP do alike, whatever the vendor's format."""

import asyncio
import json
import select
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import ref

# HTTP clients load this at the first connection, which is within a call.
import anyio._backends._asyncio  # noqa: F401
import httpx2

from pruner.backends.faults import UNANSWERED
from pruner.config import KEY_VARIABLES, PrunerConfig
from pruner.errors import BackendError, ConfigError, Reason

__all__ = [
    "PACKING",
    "as_int",
    "as_str",
    "as_text",
    "begin",
    "environment_read",
    "http_maker",
    "is_bounded",
    "key_of",
    "parse",
]

PACKING = {"accept-encoding": "gzip, deflate"}

_MAX_BODY = 2_000_000
_MAX_ENCODED_BODY = 64_000
_MAX_ERROR_BODY = 16_000
_MAX_ENCODED_ERROR_BODY = 2_000
_PART = 512
_ANSWERED = "http11.response_closed.complete"
_NEW_OR_ANSWERED = ("connection.connect_tcp.started", "http11.receive_response_headers.complete")


def http_maker() -> Callable[[], httpx2.AsyncClient]:
    """Return a function that makes clients quickly: no time-out of their own, no redirects, bounded bodies."""
    limits = httpx2.Limits(max_connections=None)
    with environment_read():
        tls = httpx2.create_ssl_context()

    def make() -> httpx2.AsyncClient:
        with environment_read():
            client = httpx2.AsyncClient(verify=tls, timeout=None, limits=limits, headers=PACKING)
        client.event_hooks = {"request": [partial(begin, ref(client))], "response": [_tame]}
        return client

    make()  # What is wrong with the environment is told now, not within a call.
    return make


@contextmanager
def environment_read(*further: type[Exception]) -> Iterator[None]:
    """Tell in one line when the proxies and certificates that HTTP clients read from the environment cannot be used.

    Args:
        further: what else a client may raise over them.

    Raises:
        ConfigError: so it is.
    """
    faults: tuple[type[Exception], ...] = (ImportError, OSError, ValueError, httpx2.InvalidURL, *further)
    try:
        yield
    except faults as error:
        raise ConfigError(
            "cannot use the proxy or the certificates of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, "
            f"NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR, SSLKEYLOGFILE): {error}"
        ) from error


def is_bounded(encoding: str) -> bool:
    """Whether what is packed so can be a thousand times as long at most: not if packed twice, nor by newer methods."""
    return encoding.strip().lower() in ("identity", "gzip", "deflate")


async def begin(client: "ref[Any]", request: Any) -> None:
    """Have the connections of a client, held weakly, tended to; before each request."""
    request.extensions[UNANSWERED] = unanswered = [True]
    request.extensions["trace"] = _tending_connection(client, unanswered)


def _tending_connection(client: "ref[Any]", unanswered: list[bool]) -> Callable[[str, Mapping[str, Any]], Any]:
    """Return a tracer for one request that mends what httpcore leaves open and undone, should the request connect.

    - A connection whose TLS handshake ends in a cancellation is closed. httpcore closes it on errors only; the event
      loop would hold on to the socket until the server gives up.
    - It is read in small parts, with a pause after each full one. httpcore reads 64 kB and works through it in one go,
      which is long enough to miss a deadline when it is made of thousands of interim responses or chunks of one byte.
    - It is closed after its answer when the client was closed while it connected. httpcore's pool has forgotten it by
      then.
    - Its socket is at hand when httpcore asks, twice a request, whether the server has closed an idle connection. To
      look for it takes ten times as long, for each of them.

    What is `unanswered` is emptied when the request connects, or is answered.
    """
    opened: Any = None

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        nonlocal opened
        if event in _NEW_OR_ANSWERED:
            unanswered.clear()
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            opened = info["return_value"]
            opened.read = partial(_read_a_little, opened.read)
            if hasattr(select, "poll") and (sock := opened.get_extra_info("socket")):
                opened.get_extra_info = partial(_socket_info, opened.get_extra_info, sock)
        elif opened is not None and (event == "connection.start_tls.failed" or (event == _ANSWERED and is_closed())):
            await opened.aclose()

    def is_closed() -> bool:
        return (known := client()) is None or bool(known.is_closed)

    return trace


def _socket_info(ask: Callable[[str], Any], sock: Any, name: str) -> Any:
    if name != "is_readable":
        return ask(name)
    if sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


async def _read_a_little(read: Callable[..., Awaitable[bytes]], max_bytes: int, **limit: float | None) -> bytes:
    size = min(max_bytes, _PART)
    part = await read(size, **limit)
    if len(part) == size:
        await asyncio.sleep(0)
    return part


async def _tame(response: httpx2.Response) -> None:
    """Bound a body before an SDK reads it, and read it as UTF-8 whatever charset it claims.

    A compressed one is bounded more narrowly, as it may be a thousand times as long when it is unpacked. That of an
    error counts as far as its bound: the status has said what matters.
    """
    response.encoding = "utf-8"
    encoding = response.headers.get("content-encoding")
    if encoding and not is_bounded(encoding):
        raise httpx2.ReadError("the answer is packed in a way that was not asked for")
    limits = (_MAX_ERROR_BODY, _MAX_ENCODED_ERROR_BODY) if response.is_error else (_MAX_BODY, _MAX_ENCODED_BODY)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, limits[bool(encoding)], cut=response.is_error)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, *, cut: bool) -> None:
        self._stream, self._left, self._cut = stream, limit, cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0 and self._cut:
                return
            if self._left < 0:
                raise httpx2.ReadError("the answer is longer than any answer should be")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def key_of(config: PrunerConfig) -> str | None:
    """Return the key to send; None to a server of one's own that was given none.

    Raises:
        ConfigError: no key for the vendor's own address.
    """
    if config.api_key is None and config.base_url is None:
        raise ConfigError(
            f"no API key for {config.model!r}: set {KEY_VARIABLES[config.prefix]} (the constructor PrunerConfig(…) "
            "alone does not read it), or name a base_url of your own, or a model that needs none such as "
            "local:qwen2.5-coder-1.5b"
        )
    return config.api_key.get_secret_value() if config.api_key else None


def parse(content: bytes) -> object:
    """Read a body.

    Raises:
        BackendError: it is no JSON, or larger than any answer.
    """
    if len(content) > _MAX_BODY:
        raise BackendError(Reason.PROVIDER_ERROR, f"the answer has {len(content)} bytes", retryable=True)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BackendError(Reason.PROVIDER_ERROR, "the answer is no JSON", retryable=True) from error


def as_str(value: object) -> str | None:
    """Return a text; None for anything else."""
    return value if isinstance(value, str) else None


def as_text(value: object) -> str:
    """Write what was read of a body as JSON again.

    Raises:
        BackendError: it is nested too deeply.
    """
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise BackendError(Reason.PROVIDER_ERROR, "the answer is nested too deeply", retryable=True) from error


def as_int(value: object) -> int:
    """Return a count; 0 for anything else."""
    return value if type(value) is int and 0 < value < 10**12 else 0
