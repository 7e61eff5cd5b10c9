"""Load on the service: many clients, a provider on this machine that takes 300 ms and fails now and then.

    python -m eval.bench.load [--minutes 10] [--clients 200] [--workers 1] [--rate …]

Everything runs on this machine: the provider, the service and the clients in processes of their own. Each client sends
a list, waits for the answer, and sends the next; with --rate, all of them together begin so many requests a second, and
the time counts from when a request was due. Afterwards the library alone is called by as many tasks in the same way,
for the ratio. Prints one JSON object; exit code 1 when there was a 5xx, or the memory grew by more than a tenth after
the first quarter.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psutil

from pruner.config import PrunerConfig
from pruner.pipeline import Pruner

CHUNKS, WORDS = 15, 180
DELAY = 0.3
LIST = {"query": "How long are backups kept?", "chunks": [f"passage {i} " + "word " * WORDS for i in range(CHUNKS)]}
SERVICE_SHARE = 0.75  # Of the time; the library gets the rest.

Ask = Callable[[], Awaitable[str]]


@dataclass
class Seen:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    took: float = 0.0

    def report(self) -> dict[str, Any]:
        """Figures of it."""
        cuts = statistics.quantiles(self.seconds, n=100)
        return {
            "requests": len(self.seconds),
            "a_second": round(len(self.seconds) / self.took, 1),
            "p50_ms": round(cuts[49] * 1000),
            "p99_ms": round(cuts[98] * 1000),
            "outcomes": dict(self.outcomes),
        }


async def press(ask: Ask, clients: int, seconds: float, rate: float | None) -> Seen:
    """Ask from many tasks until the time is over."""
    seen, begun, started = Seen(), 0, time.perf_counter()

    async def client() -> None:
        nonlocal begun
        while (now := time.perf_counter()) < started + seconds:
            due = now
            if rate:
                due = max(started + begun / rate, started)
                begun += 1
                await asyncio.sleep(max(due - now, 0))
            seen.outcomes[await ask()] += 1
            seen.seconds.append(time.perf_counter() - due)

    await asyncio.gather(*(client() for _ in range(clients)))
    seen.took = time.perf_counter() - started
    return seen


async def provide(faults: float) -> None:
    """Be the provider: answer after the delay, fail as often as told."""
    text = json.dumps({"grades": [[label, 5 if label <= 3 else 1] for label in range(1, CHUNKS + 1)]})
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 4000, "completion_tokens": 80, "total_tokens": 4080}
    body = json.dumps(
        {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    )
    good = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    bad = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(DELAY)
                writer.write(bad if random.random() < faults else good)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process for as long as it is needed."""
    env = {**os.environ, **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def service_command(provider: str, port: int, workers: int) -> list[str]:
    """The command that serves."""
    dials = ["--model", "openai:m", "--base-url", provider, "--timeout", "5"]
    return [sys.executable, "-m", "pruner.cli", "serve", "--port", str(port), "--workers", str(workers), *dials]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_for(url: str) -> None:
    """Wait until the service answers."""
    for _ in range(600):
        try:
            httpx2.get(f"{url}/healthz")
        except httpx2.ConnectError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the service did not start")


def memory(pid: int) -> float:
    """MB of a process and its children."""
    process = psutil.Process(pid)
    return float(sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])) / 1e6


async def watch(pid: int, readings: list[float], every: float) -> None:
    """Read the memory until cancelled."""
    while True:
        await asyncio.sleep(every)
        readings.append(memory(pid))


async def load_service(url: str, pid: int, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Press the service, and watch its memory."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    body, headers = json.dumps(LIST).encode(), {"content-type": "application/json"}
    async with httpx2.AsyncClient(limits=limits, timeout=60) as http:

        async def ask() -> str:
            response = await http.post(f"{url}/v1/prune", content=body, headers=headers)
            if response.status_code != 200:
                return str(response.status_code)
            answer = response.json()
            return f"{answer['status']} {answer['reason'] or ''}".strip()

        readings: list[float] = []
        watching = asyncio.ensure_future(watch(pid, readings, seconds / 40))
        seen = await press(ask, options.clients, seconds, options.rate)
        watching.cancel()
    early, late = max(readings[: len(readings) // 4]), max(readings[-len(readings) // 4 :])
    return {**seen.report(), "memory_mb": {"first_quarter": round(early, 1), "last_quarter": round(late, 1)}}


async def load_library(provider: str, options: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Press the library itself."""
    async with Pruner(PrunerConfig(model="openai:m", base_url=provider, timeout=5)) as pruner:

        async def ask() -> str:
            result = await pruner.prune(str(LIST["query"]), LIST["chunks"])
            return f"{result.status} {result.reason or ''}".strip()

        return (await press(ask, options.clients, seconds, options.rate)).report()


def main() -> int:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--faults", type=float, default=0.05, help="share of the provider's answers that are 500")
    parser.add_argument("--rate", type=float, help="requests a second over all clients (default: as fast as answered)")
    parser.add_argument("--provide", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.provide:
        asyncio.run(provide(options.faults))
    seconds = options.minutes * 60
    with running([sys.executable, "-m", "eval.bench.load", "--provide", "--faults", str(options.faults)]) as provider:
        assert provider.stdout is not None
        address = f"http://127.0.0.1:{int(provider.stdout.readline())}/v1"
        port = free_port()
        room = {"PRUNER_SERVICE_MAX_CONCURRENT": str(options.clients)}  # What is measured is work, not its shedding.
        with running(service_command(address, port, options.workers), **room) as process:
            wait_for(f"http://127.0.0.1:{port}")
            load = load_service(f"http://127.0.0.1:{port}", process.pid, options, seconds * SERVICE_SHARE)
            service = asyncio.run(load)
        library = asyncio.run(load_library(address, options, seconds * (1 - SERVICE_SHARE)))
    errors = sum(count for outcome, count in service["outcomes"].items() if outcome.startswith("5"))
    kept = service["memory_mb"]
    report = {
        "service": service,
        "library": library,
        "throughput_ratio": round(service["a_second"] / library["a_second"], 2),
        "errors_5xx": errors,
    }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return 1 if errors or kept["last_quarter"] > 1.1 * kept["first_quarter"] else 0


if __name__ == "__main__":
    sys.exit(main())
