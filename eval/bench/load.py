"""Load on the service: many clients, a provider on this machine that takes 300 ms and fails now and then.

    python -m eval.bench.load [--minutes 10] [--clients 200] [--workers 1] [--rate …] [--max-concurrent …]

Everything runs on this machine: the provider, the service and the clients in processes of their own. All clients
together begin --rate requests a second, at random moments, and the time of a request counts from when it was due.
Without --rate each client sends a list, waits for the answer, and sends the next. In turns with the service, the
library alone is called in the same way by as many tasks, for the ratio.

Prints one JSON object, with these of the service and of the library:

- all_ms: of every request; attempts that failed and the waits before the next are in it.
- first_attempt_ms: of those the provider answered at the first attempt.
- added_ms: of every answer, less the time from the request's first arrival at the provider to the provider's last
  answer; of what the service answers without asking the provider, all of it.
- processor_ms_a_request: processor time of each process.

Exit code 1 when there was a 5xx, when the memory of the service grew by more than a tenth after the first quarter, or
when the p99 of what was added is above 100 ms.
"""

import argparse
import asyncio
import gc
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import uvloop

from eval.bench.load_figures import Met, Seen, percentile
from eval.bench.load_processes import (
    Memory,
    free_port,
    processor_seconds,
    provider_command,
    running,
    service_command,
    wait_for,
)
from eval.bench.load_provider import CHUNKS
from eval.bench.load_traffic import Ask, Connections, met_of, press
from pruner.config import PrunerConfig
from pruner.pipeline import Pruner

WORDS = 180
LIST = [f"passage {i} " + "word " * WORDS for i in range(CHUNKS)]
TURNS = 8
SERVICE_SHARE = 0.75  # Of the time; the library gets the rest.
WARM_UP = 2.0
ADDED, GROWTH = 0.1, 1.1


@dataclass
class Side:
    """The service, or the library.

    Attributes:
        ask: asks it once.
        pids: the processes that work for it, by their names in the report.
        share: of the time.
        seen: what its requests met.
    """

    ask: Ask
    pids: Mapping[str, int]
    share: float
    seen: Seen

    async def turn(self, seconds: float, options: argparse.Namespace) -> None:
        """Press it for its share of the time."""
        before = processor_seconds(self.pids)
        await press(self.ask, options.clients, seconds * self.share, options.rate, self.seen)
        for name, spent in processor_seconds(self.pids).items():
            self.seen.processor[name] = self.seen.processor.get(name, 0.0) + spent - before[name]


def asking(pruner: Pruner) -> Ask:
    """Return what asks the library itself."""

    async def ask(query: str) -> Met:
        result = await pruner.prune(query, LIST)
        return met_of(result.status, result.reason, result.usage.calls, result.usage.output_tokens)

    return ask


async def in_turns(sides: list[Side], memory: Memory, options: argparse.Namespace) -> None:
    """Press the sides, now the one and now the other."""
    for side in sides:
        await press(side.ask, options.clients, WARM_UP, options.rate, Seen())
    gc.collect()
    gc.freeze()  # As the service does.
    seconds = options.minutes * 60
    watching = asyncio.ensure_future(memory.watch(seconds / 40))
    for _ in range(TURNS):
        for side in sides:
            await side.turn(seconds / TURNS, options)
    watching.cancel()


async def measure(provider: int, at: str, service: int, port: int, options: argparse.Namespace) -> dict[str, Any]:
    """Press both sides and return the report; `provider` and `service` are process ids."""
    connections = await Connections(port, LIST).open(options.clients)
    me, memory = os.getpid(), Memory(service)
    async with Pruner(PrunerConfig(model="openai:m", base_url=at, timeout=5)) as pruner:
        pids = {"service": service, "provider": provider, "clients": me}
        sides = [
            Side(connections.ask, pids, SERVICE_SHARE, Seen()),
            Side(asking(pruner), {"library": me, "provider": provider}, 1 - SERVICE_SHARE, Seen()),
        ]
        await in_turns(sides, memory, options)
    await connections.aclose()
    return report(sides[0].seen, sides[1].seen, memory.quarters(), vars(options))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Start the processes, measure, and end them."""
    with ExitStack() as stack:
        provider = stack.enter_context(running(provider_command(options.faults)))
        assert provider.stdout is not None
        at, port = f"http://127.0.0.1:{int(provider.stdout.readline())}/v1", free_port()
        room = {"PRUNER_SERVICE_MAX_CONCURRENT": str(options.max_concurrent or options.clients)}
        service = stack.enter_context(running(service_command(at, port, options.workers), **room))
        wait_for(port)
        return uvloop.run(measure(provider.pid, at, service.pid, port, options))


def report(service: Seen, library: Seen, memory: tuple[float, float], options: Mapping[str, Any]) -> dict[str, Any]:
    """Put the figures together."""
    a_second = [len(seen.seconds) / seen.took for seen in (service, library)]
    spent = service.processor["service"] / len(service.seconds), library.processor["library"] / len(library.seconds)
    quarters = dict(zip(("first_quarter", "last_quarter"), (round(mb, 1) for mb in memory), strict=True))
    return {
        "options": dict(options),
        "service": {**service.report(), "memory_mb": quarters},
        "library": library.report(),
        # At a given rate both answer as many.
        "throughput_ratio": None if options["rate"] else round(a_second[0] / a_second[1], 2),
        "processor_ratio": round(spent[0] / spent[1], 2),
        "faults": faults(service, memory),
    }


def faults(service: Seen, memory: tuple[float, float]) -> list[str]:
    """Say what is not as it should be."""
    found = []
    if service.errors():
        found.append(f"{service.errors()} answers 5xx")
    if memory[1] > GROWTH * memory[0]:
        found.append(f"the memory grew from {memory[0]:.0f} to {memory[1]:.0f} MB")
    if service.added and percentile(service.added, 99) > ADDED:
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
