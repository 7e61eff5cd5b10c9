"""A provider on this machine that misbehaves on demand, over real sockets.

A misbehaviour is a coroutine function that is given a connection on which a client has begun to speak. The server runs
in a thread of its own, or in a process of its own (`elsewhere`) where its work is not to be counted with the client's.
"""

import asyncio
import gzip
import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HOST = "127.0.0.1"
DRIP = 0.2

# Of nobody, for 127.0.0.1, valid from 2020 to 2120.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBazCCARKgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAkxMjcuMC4w
LjEwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CTEyNy4wLjAuMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABH5x2zXazN4OdX7u
D167ioj3oVzvWmWyL7aIG8bn0MsHHYJYOSnYJYMBu/ulRRbdhNsRgkMAFTPNa+nb
vSVrVVWjUzBRMA8GA1UdEQQIMAaHBH8AAAEwDwYDVR0TAQH/BAUwAwEB/zAOBgNV
HQ8BAf8EBAMCAoQwHQYDVR0OBBYEFKdv/KY82DA0AGV3dCDLlFlmC7M0MAoGCCqG
SM49BAMCA0cAMEQCIG4L7YJ1OKpm4zk7H4+yS8aGc3g3ZAag2WcIfBDrDre3AiBH
C1HZRRKw0/0C+cZKnTK0a4DSUkW/3RpmMwl3Oxl2Zg==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgRaRp/GdGZehLO6KI
HP4gE1rSEYO1poeyeQB+INW5QgehRANCAAR+cds12szeDnV+7g9eu4qI96Fc71pl
si+2iBvG59DLBx2CWDkp2CWDAbv7pUUW3YTbEYJDABUzzWvp270la1VV
-----END PRIVATE KEY-----
"""


@dataclass
class Wire:
    """One connection, from its first byte on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    calls: list[str]
    begun: bytes = b""

    async def request(self) -> str:
        """Read a request to its end, and return its path."""
        head = self.begun + await self.reader.readuntil(b"\r\n\r\n")
        line, *headers = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (h.partition(": ") for h in headers)}
        await self.reader.readexactly(int(fields.get("content-length", 0)))
        self.calls.append(line)
        return line.split(" ")[1]

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hung_up(self) -> None:
        """Wait until the client is gone."""
        while await self.reader.read(65_536):
            pass

    def reset(self) -> None:
        """End with RST instead of FIN, as a crashed peer or an overloaded balancer does."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour = Callable[[Wire], Awaitable[None]]


def head(status: int = 200, /, **fields: str | int) -> bytes:
    """Write status line and header fields; `content_length` is not checked against any body."""
    named = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in fields.items()}}
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def answering(body: bytes = b"{}", status: int = 200, **fields: str | int) -> Behaviour:
    """Answer every request with this, in one piece."""
    answer = head(status, **{"content_length": len(body), **fields}) + body

    async def answers(wire: Wire) -> None:
        await wire.request()
        await wire.send(answer)

    return answers


def _chat(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10_000, "completion_tokens": 100, "total_tokens": 10_100}
    named = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
    return json.dumps({**named, "choices": [choice], "usage": usage}).encode()


def _message(text: str) -> bytes:
    parts = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 10_000, "output_tokens": 100}
    named = {"id": "c", "type": "message", "role": "assistant", "model": "m"}
    return json.dumps({**named, **parts, "usage": usage}).encode()


def grading(n: int, **fields: str | int) -> Behaviour:
    """Answer at once, as whichever vendor the path belongs to, that the first of `n` chunks is needed."""
    text = json.dumps({"grades": [[label, 5 if label == 1 else 1] for label in range(1, n + 1)]})
    bodies = {"/completions": _chat(text), "/messages": _message(text)}
    answers = {end: head(content_length=len(body), **fields) + body for end, body in bodies.items()}

    async def grades(wire: Wire) -> None:
        path = await wire.request()
        await wire.send(next(answer for end, answer in answers.items() if path.partition("?")[0].endswith(end)))

    return grades


healthy = grading(3)


_NO = {"token": "No", "logprob": -0.01}
_LLAMA = {
    "/apply-template": {"prompt": "<<system>><<user>>"},
    "/tokenize": {"tokens": [1, 2, 3]},
    "/completion": {"completion_probabilities": [{"top_logprobs": [_NO]}], "timings": {"cache_n": 0}},
}


async def llama(wire: Wire) -> None:
    """Answer at once, as the embedded model's server does, that no chunk is needed."""
    path = await wire.request()
    body = next(json.dumps(body).encode() for end, body in _LLAMA.items() if path.endswith(end))
    await wire.send(head(content_length=len(body)) + body)


async def hang(wire: Wire) -> None:
    await wire.request()
    await wire.hung_up()


async def mute(wire: Wire) -> None:
    """Never say anything: to a client that begins with TLS, a handshake without end."""
    await wire.hung_up()


async def hang_within(wire: Wire) -> None:
    await wire.request()
    await wire.send(head(content_length=100) + b'{"choices":')
    await wire.hung_up()


async def close(wire: Wire) -> None:
    await wire.request()
    wire.writer.close()


async def close_within(wire: Wire) -> None:
    await wire.request()
    await wire.send(head(content_length=100) + b'{"choices":')
    wire.writer.close()


async def reset(wire: Wire) -> None:
    await wire.request()
    wire.reset()


async def reset_unread(wire: Wire) -> None:
    wire.reset()


async def reset_within(wire: Wire) -> None:
    await wire.request()
    await wire.send(head(content_length=100) + b'{"choices":')
    await asyncio.sleep(0.02)  # An RST overtakes what the client has not read yet.
    wire.reset()


async def garbage(wire: Wire) -> None:
    await wire.request()
    await wire.send(bytes(range(256)) * 4 + b"\r\n\r\n")


async def plain_text(wire: Wire) -> None:
    """Answer whatever came, TLS too, with plain HTTP, as a web server does on the wrong port."""
    await wire.send(head(400, content_length=0))
    wire.writer.close()


async def _drip(wire: Wire, data: bytes) -> None:
    for byte in data:
        await wire.send(bytes([byte]))
        with suppress(TimeoutError):
            async with asyncio.timeout(DRIP):
                await wire.hung_up()
                return


async def drip(wire: Wire) -> None:
    await wire.request()
    await wire.send(head(content_length=1000))
    await _drip(wire, b" " * 1000)


async def drip_headers(wire: Wire) -> None:
    await wire.request()
    await wire.send(b"HTTP/1.1 200 OK\r\n")
    await _drip(wire, b"x-slow: " + b"y" * 1000)


async def _flood(wire: Wire, opening: bytes, block: bytes) -> None:
    await wire.request()
    await wire.send(opening)
    while True:
        await wire.send(block)


async def flood(wire: Wire) -> None:
    """Send a body without end, as fast as it is taken."""
    block = b" " * 65_536
    await _flood(wire, head(transfer_encoding="chunked"), b"%x\r\n%s\r\n" % (len(block), block))


async def flood_headers(wire: Wire) -> None:
    await _flood(wire, b"HTTP/1.1 200 OK\r\n", b"x-more: %s\r\n" % (b"y" * 10_000))


async def flood_interim(wire: Wire) -> None:
    """Say without end that the answer is to come."""
    await _flood(wire, b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)


async def flood_chunks(wire: Wire) -> None:
    """Send a body without end, in chunks of one byte."""
    await _flood(wire, head(transfer_encoding="chunked"), b"1\r\n \r\n" * 10_000)


@cache
def _packed(size: int, times: int) -> bytes:
    return gzip.compress(_packed(size, times - 1), 9) if times else b" " * size


def bomb(size: int, *, times: int = 1, status: int = 200) -> Behaviour:
    """Answer with `size` spaces in a thousandth of the bytes, packed again in a thousandth of these, and so on."""
    return answering(_packed(size, times), status, content_encoding=", ".join(["gzip"] * times))


@dataclass
class Faulty:
    """What a server does, and has seen so far.

    Attributes:
        behaviours: what it does on the first, the second, … request; the last one from then on.
        calls: the first lines of the requests that were read to their end.
        opened: connections so far.
        busy: set once a client has begun to speak.
        idle: set while no connection is open.
    """

    behaviours: list[Behaviour]
    url: str = ""
    calls: list[str] = field(default_factory=list)
    opened: int = 0
    busy: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)
    _begun: int = 0
    _open: int = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count(1)
        try:
            while begun := await reader.read(1):
                self._begun += 1
                self.busy.set()
                behaviour = self.behaviours[min(self._begun, len(self.behaviours)) - 1]
                await behaviour(Wire(reader, writer, self.calls, begun))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client is gone, or the test is over.
        finally:
            self._count(-1)
            writer.close()

    def _count(self, change: int) -> None:
        self._open += change
        self.opened += change > 0
        (self.idle.clear if self._open else self.idle.set)()


@contextmanager
def faulty(*behaviours: Behaviour, certificate: Path | None = None) -> Iterator[Faulty]:
    """Serve on a free port of this machine; over TLS when given a file with certificate and key."""
    state = Faulty(list(behaviours))
    state.idle.set()
    started: Future[asyncio.Task[None]] = Future()
    thread = threading.Thread(target=_run, args=(state, certificate, started), daemon=True)
    thread.start()
    task = started.result(10)
    try:
        yield state
    finally:
        task.get_loop().call_soon_threadsafe(task.cancel)
        thread.join(10)


def _run(state: Faulty, certificate: Path | None, started: "Future[asyncio.Task[None]]") -> None:
    async def main() -> None:
        server = await asyncio.start_server(state.connected, HOST, 0, ssl=_tls(certificate), backlog=512)
        scheme = "https" if certificate else "http"
        state.url = f"{scheme}://{HOST}:{server.sockets[0].getsockname()[1]}/v1"
        task = asyncio.current_task()
        assert task is not None
        started.set_result(task)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()

    with suppress(asyncio.CancelledError):
        asyncio.run(main())


def _tls(certificate: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@contextmanager
def elsewhere(behaviour: str) -> Iterator[str]:
    """Serve `healthy`, `hang`, … or a number of chunks to grade in another process; its URL."""
    command = [sys.executable, "-m", "tests.faulty", behaviour]
    folder = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


if __name__ == "__main__":
    [name] = sys.argv[1:]
    with faulty(grading(int(name)) if name.isdecimal() else globals()[name]) as served:
        sys.stdout.write(f"{served.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
