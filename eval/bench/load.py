"""Load on the service: many clients, a provider on this machine that takes 300 ms and fails now and then.

    python -m eval.bench.load [--minutes 10] [--clients 200] [--workers 1] [--rate …]

Everything runs on this machine: the provider, the service and the clients in processes of their own. All clients
together begin --rate requests a second, at random moments, and the time of a request counts from when it was due.
Without --rate each client sends a list, waits for the answer, and sends the next. In turns with the service, the
library alone is called in the same way by as many tasks, for the ratio.

Prints one JSON object, of the service and the library each:

- all_ms: of every request; attempts that failed and the waits before the next are in it.
- first_attempt_ms: of those the provider answered at the first attempt.
- added_ms: of every answered request, less the time from its first arrival at the provider to the provider's last answer.
- processor_ms_a_request: processor time of each process.

Exit code 1 when there was a 5xx, when the memory of the service grew by more than a tenth after the first quarter, or
when the p99 of what was added is above 100 ms.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil
import uvloop

from eval.bench.load_figures import Seen, percentile
from eval.bench.load_provider import CHUNKS
from eval.bench.load_traffic import Ask, Connections, Met, met_of, press
from pruner.config import PrunerConfig
from pruner.pipeline import Pruner

WORDS = 180
LIST = [f"passage {i} " + "word " * WORDS for i in range(CHUNKS)]
TURNS = 8
SERVICE_SHARE = 0.75  # Of the time; the library gets the rest.
WARM_UP = 2.0
ADDED, GROWTH = 0.1, 1.1


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


def wait_for(port: int) -> None:
    """Wait until something listens."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the service did not start")


@dataclass
class Processes:
    """The processes of a run, by what they are called in the report."""

    of: dict[str, int]
    memory: list[float] = field(default_factory=list)

    def processor(self) -> dict[str, float]:
        """Seconds of processor time that each has used."""
        return {name: sum(_seconds(p) for p in _with_children(pid, name)) for name, pid in self.of.items()}

    async def watch(self, every: float) -> None:
        """Read the MB of the service until cancelled."""
        while True:
            await asyncio.sleep(every)
            self.memory.append(sum(p.memory_info().rss for p in _with_children(self.of["service"], "service")) / 1e6)

    def memory_report(self) -> dict[str, float]:
        """The most MB in the first and the last quarter."""
        quarter = max(len(self.memory) // 4, 1)
        early, late = max(self.memory[:quarter]), max(self.memory[-quarter:])
        return {"first_quarter": round(early, 1), "last_quarter": round(late, 1)}


def _with_children(pid: int, name: str) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)] if name == "service" else [process]


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def measured(ask: Ask, seconds: float, options: argparse.Namespace, processes: Processes, seen: Seen) -> None:
    """Press, and count the processor time of it."""
    before = processes.processor()
    await press(ask, options.clients, seconds, options.rate, seen)
    for name, spent in processes.processor().items():
        seen.processor[name] += spent - before[name]


def asking(pruner: Pruner) -> Ask:
    """Return what asks the library itself."""

    async def ask(query: str) -> Met:
        result = await pruner.prune(query, LIST)
        return met_of(result.status, result.reason, result.usage.calls, result.usage.output_tokens)

    return ask


async def in_turns(
    provider: str, port: int, processes: Processes, options: argparse.Namespace
) -> tuple[Seen, Seen]:
    """Press the service and the library, now the one and now the other."""
    service, library = Seen(), Seen()
    turn = options.minutes * 60 / TURNS
    connections = await Connections(port, LIST).open(options.clients)
    async with Pruner(PrunerConfig(model="openai:m", base_url=provider, timeout=5)) as pruner:
        ask_library = asking(pruner)
        for ask in (connections.ask, ask_library):
            await press(ask, options.clients, WARM_UP, options.rate, Seen())
        watching = asyncio.ensure_future(processes.watch(turn * TURNS / 40))
        for _ in range(TURNS):
            await measured(connections.ask, turn * SERVICE_SHARE, options, processes, service)
            await measured(ask_library, turn * (1 - SERVICE_SHARE), options, processes, library)
        watching.cancel()
    return service, library


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run it, and return the report."""
    with ExitStack() as stack:
        command = [sys.executable, "-m", "eval.bench.load_provider", "--faults", str(options.faults)]
        provider = stack.enter_context(running(command))
        assert provider.stdout is not None
        address, port = f"http://127.0.0.1:{int(provider.stdout.readline())}/v1", free_port()
        room = {"PRUNER_SERVICE_MAX_CONCURRENT": str(options.max_concurrent or options.clients)}
        serving = stack.enter_context(running(service_command(address, port, options.workers), **room))
        wait_for(port)
        processes = Processes({"service": serving.pid, "provider": provider.pid, "clients": os.getpid()})
        service, library = uvloop.run(in_turns(address, port, processes, options))
    return report(service, library, processes.memory_report(), options)


def report(service: Seen, library: Seen, memory: dict[str, float], options: argparse.Namespace) -> dict[str, Any]:
    """Put the figures together."""
    alone = library.report()
    # The service is idle while the library is called, and the caller is the library.
    alone["processor_ms_a_request"] = {
        "library": alone["processor_ms_a_request"]["clients"],
        "provider": alone["processor_ms_a_request"]["provider"],
    }
    of_service = service.report()
    spent = of_service["processor_ms_a_request"]["service"], alone["processor_ms_a_request"]["library"]
    return {
        "options": vars(options),
        "service": {**of_service, "memory_mb": memory},
        "library": alone,
        "throughput_ratio": round(of_service["a_second"] / alone["a_second"], 2),
        "processor_ratio": round(spent[0] / spent[1], 2),
        "faults": faults(service, memory),
    }


def faults(service: Seen, memory: dict[str, float]) -> list[str]:
    """Say what is not as it should be."""
    found = []
    if service.errors():
        found.append(f"{service.errors()} answers 5xx")
    if memory["last_quarter"] > GROWTH * memory["first_quarter"]:
        found.append("the memory grew")
    if percentile(service.added, 99) > ADDED:
        found.append(f"p99 of what was added is above {1000 * ADDED:.0f} ms")
    return found


def main() -> int:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--faults", type=float, default=0.05, help="share of the provider's answers that are 500")
    parser.add_argument("--rate", type=float, help="requests a second over all clients (default: as fast as answered)")
    parser.add_argument("--max-concurrent", type=int, help="gradings at once (default: the clients, so none is shed)")
    found = run(parser.parse_args())
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 1 if found["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
