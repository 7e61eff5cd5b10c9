"""Requests at random moments or one after the other, on connections that cost little."""

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Self

from eval.bench.load_figures import Met, Seen
from eval.bench.load_provider import numbered

__all__ = ["NO_ANSWER", "Ask", "Connections", "arrivals", "met_of", "press", "read_answer"]

Ask = Callable[[str], Awaitable[Met]]

_NUMBERS = count(1)
_PLACE = "QUERY"
NO_ANSWER = Met("5xx: no answer", 0, None)


def arrivals(rate: float | None) -> Iterator[float]:
    """Return when requests are due: at random moments, so many a second, or whenever one is asked for."""
    due = time.perf_counter()
    while True:
        due = due + random.expovariate(rate) if rate else time.perf_counter()
        yield due


async def press(ask: Ask, clients: int, seconds: float, rate: float | None, seen: Seen) -> None:
    """Ask from many tasks until the time is over."""
    started, dues = time.perf_counter(), arrivals(rate)

    async def client() -> None:
        for due in dues:
            if due > started + seconds:
                return
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            met = await ask(numbered(next(_NUMBERS)))
            seen.add(time.perf_counter() - due, met)

    await asyncio.gather(*(client() for _ in range(clients)))
    seen.took += time.perf_counter() - started


class Connections:
    """Kept-alive connections to the service, each used in its turn.

    Args:
        port: of the service, on this machine.
        chunks: of every list.
    """

    def __init__(self, port: int, chunks: list[str]) -> None:
        content = json.dumps({"query": _PLACE, "chunks": chunks})
        length = len(content) - len(_PLACE) + len(numbered(0))
        head = f"POST /v1/prune HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        self._port = port
        self._before, self._after = f"{head}content-length: {length}\r\n\r\n{content}".encode().split(_PLACE.encode())
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()

    async def open(self, n: int) -> Self:
        """Open so many."""
        self._free.extend([await self._connect() for _ in range(n)])
        return self

    async def ask(self, query: str) -> Met:
        """Send a list, and read what became of it; a connection that ends with it is replaced."""
        reader, writer = self._free.popleft()
        try:
            met, ends = await self._exchange(reader, writer, query)
        except (OSError, EOFError):
            met, ends = NO_ANSWER, True
        if ends:
            writer.close()
            reader, writer = await self._connect()
        self._free.append((reader, writer))
        return met

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: str
    ) -> tuple[Met, bool]:
        writer.write(self._before + query.encode() + self._after)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        return read_answer(int(head[9:12]), body), b"connection: close" in head

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def aclose(self) -> None:
        """Close those that wait for nothing."""
        for _, writer in self._free:
            writer.close()
            await writer.wait_closed()


def read_answer(code: int, body: bytes) -> Met:
    """Take from an answer of the service what its request met."""
    if code != 200:
        return Met(str(code), 0, 0.0)
    answer = json.loads(body)
    usage = answer["usage"]
    return met_of(answer["status"], answer["reason"], usage["calls"], usage["output_tokens"])


def met_of(status: str, reason: str | None, calls: int, micros: int) -> Met:
    """Say what a request met, by status, reason and usage of its result."""
    answered = micros or not calls
    return Met(f"{status} {reason or ''}".strip(), calls, micros / 1e6 if answered else None)
