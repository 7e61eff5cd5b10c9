"""MCP over standard input and output: bad lines, signals, a host that leaves; the SDK has no answer to them."""

import asyncio
import json
import os
import signal
import sys
import threading
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from pruner.texts import without_surrogates

__all__ = ["serve_stdio"]

_INTERRUPTED = 130
_PATIENCE = 2.0  # seconds
_NO_JSON = "this line is no JSON that can be read: malformed, nested too deep, or a number of too many digits"
_NO_MESSAGE = "this line is no message of JSON-RPC 2.0; batches are not taken"


def serve_stdio(server: Server[Any], lifespan: AbstractAsyncContextManager[Any]) -> None:
    """Serve until the input ends, SIGTERM, or nobody reads the output; SIGINT ends the process at once, with 130.

    Args:
        server: of the tools.
        lifespan: entered before, and left when no more is taken.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # Until the loop listens to it.
    try:
        asyncio.run(_serve(server, lifespan))
    except* ConnectionError:
        os._exit(0)  # Nobody reads our output; at a usual exit what is left of it would be written.


async def _serve(server: Server[Any], lifespan: AbstractAsyncContextManager[Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with stdio_server() as (read, write):
        # Not within the transport's tasks, which cancel all when a line cannot be written.
        served = asyncio.create_task(_until(stop, server, lifespan, read, write))
        try:
            await asyncio.shield(served)
        except asyncio.CancelledError:  # A line could not be written; why, the transport says when it is left.
            stop.set()
            with anyio.CancelScope(shield=True):
                await served
            _end_soon()
        else:
            if stop.is_set():
                os._exit(0)  # A thread waits for the next line, and would be waited for.


def _end_soon() -> None:
    """End the process if it does not end by itself: where the input is still open, a thread waits for its next line."""
    timer = threading.Timer(_PATIENCE, os._exit, (0,))
    timer.daemon = True
    timer.start()


async def _until(
    stop: asyncio.Event, server: Server[Any], lifespan: AbstractAsyncContextManager[Any], read: Any, write: Any
) -> None:
    async with lifespan:
        running = asyncio.create_task(server.run(_Mending(read, write), write, server.create_initialization_options()))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            stopped.cancel()
            running.result()
            return
        running.cancel()
        await asyncio.wait({running})


class _Mending:
    """Reads also what the SDK's reader refuses for half a character, and answers what is no message, as it never does.

    JavaScript leaves half a character where it cuts a text through an emoji.
    """

    def __init__(self, stream: Any, answers: Any) -> None:
        self._stream, self._answers = stream, answers

    async def receive(self) -> Any:
        while isinstance(message := await self._stream.receive(), ValidationError):
            read = _read_again(message)
            if isinstance(read, SessionMessage):
                return read
            if read is not None:
                await self._answers.send(SessionMessage(read))
        return message

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> "_Mending":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_Mending":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)


def _read_again(error: ValidationError) -> SessionMessage | JSONRPCError | None:
    """Return the message after all, or the answer to what is none; nothing for an empty line."""
    first = error.errors(include_url=False)[0]
    if first["type"] != "json_invalid":
        return _refusal(INVALID_REQUEST, _NO_MESSAGE)
    line = str(first["input"]).removeprefix("\ufeff")
    if not line.strip():
        return None
    try:
        text = without_surrogates(json.dumps(json.loads(line), ensure_ascii=False))
    except (ValueError, RecursionError):
        return _refusal(PARSE_ERROR, _NO_JSON)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError:
        return _refusal(INVALID_REQUEST, _NO_MESSAGE)


def _refusal(code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
