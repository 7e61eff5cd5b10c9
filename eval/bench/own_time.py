"""What `prune()` costs above the bare SDK call: `python eval/bench/own_time.py`.

The bare call is `AsyncOpenAI.chat.completions.create` of the very body that `prune()` sends for the same list: 25
distinct chunks of 250 tokens. Both go in turns to a provider in another process that answers at once, so that what
differs is what `prune()` does itself.

- time: each call alone; wall clock, and processor time of this thread, which a busy machine disturbs less.
- throughput: calls per second with many at once.
- memory: growth per call, of the process and of what Python allocates, over the calls after the first fifth.
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import random
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle
from pathlib import Path
from statistics import linear_regression, median, quantiles
from typing import Any, NamedTuple

import httpx2
from openai import AsyncOpenAI
from tqdm import tqdm

from pruner import Pruner, PrunerConfig
from pruner.backends.openai import OpenAIBackend
from pruner.tokens import TokenCounter
from tests.faulty import elsewhere

QUERY = "How long does the server wait before it asks again?"
CHUNKS, TOKENS, LISTS = 25, 250, 20
WORDS = ("the", "of", "to", "that", "server", "waits", "request", "answer", "limit", "budget", "chunk", "retry")

Call = Callable[[], Awaitable[object]]


class Sample(NamedTuple):
    """Milliseconds of one call."""

    wall: float
    processor: float


class Pair(NamedTuple):
    """The same request, by the SDK alone and by `prune()`."""

    bare: Call
    pruned: Call


def some_lists() -> list[list[dict[str, Any]]]:
    """Make lists of distinct chunks."""
    rng, counter = random.Random(7), TokenCounter()
    return [[_chunk(f"{n}-{place}", rng, counter) for place in range(CHUNKS)] for n in range(LISTS)]


def _chunk(name: str, rng: random.Random, counter: TokenCounter) -> dict[str, Any]:
    words = [f"Section {name}."]
    while counter.count(" ".join(words)) < TOKENS:
        words += rng.choices(WORDS, k=10)
    return {"id": name, "text": " ".join(words), "score": rng.random()}


async def body_for(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what `prune()` sends for a list, by catching it on its way."""
    caught: list[bytes] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        caught.append(request.content)
        return httpx2.Response(401)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(refuse))
    async with AsyncOpenAI(api_key="k", base_url="http://127.0.0.1/v1", http_client=http) as client:
        backend = OpenAIBackend("m", base_url="http://127.0.0.1/v1", client=client)
        await Pruner(PrunerConfig(model="openai:m"), backend=backend).prune(QUERY, chunks)
    return dict(json.loads(caught[0]))


async def pairs(client: AsyncOpenAI, pruner: Pruner) -> Iterator[Pair]:
    """Return the lists as pairs of calls, over and over."""

    async def pruned(chunks: list[dict[str, Any]]) -> None:
        result = await pruner.prune(QUERY, chunks)
        assert result.status == "ok", (result.status, result.reason)

    def pair(chunks: list[dict[str, Any]], body: dict[str, Any]) -> Pair:
        return Pair(lambda: client.chat.completions.create(**body), lambda: pruned(chunks))

    return cycle([pair(chunks, await body_for(chunks)) for chunks in some_lists()])


async def timed(call: Call) -> Sample:
    """Measure one call."""
    wall, processor = time.perf_counter(), time.thread_time()
    await call()
    return Sample(1000 * (time.perf_counter() - wall), 1000 * (time.thread_time() - processor))


async def one_by_one(todo: Iterator[Pair], calls: int) -> list[tuple[Sample, Sample]]:
    """Measure both calls of each pair, now the one first and now the other."""
    taken = []
    for turn in tqdm(range(calls), desc="time", disable=None):
        pair = next(todo)
        if turn % 2:
            bare, pruned = await timed(pair.bare), await timed(pair.pruned)
        else:
            pruned, bare = await timed(pair.pruned), await timed(pair.bare)
        taken.append((bare, pruned))
    return taken


def report_time(taken: list[tuple[Sample, Sample]]) -> str:
    """Write the percentiles of both, of their difference, and the ratio."""
    lines = [f"{'ms per call':<28}{'bare p50':>10}{'prune p50':>11}{'own p50':>9}{'own p99':>9}{'ratio':>7}"]
    for clock in Sample._fields:
        bare, pruned = ([getattr(pair[side], clock) for pair in taken] for side in (0, 1))
        own = median(pruned) - median(bare)
        numbers = f"{median(bare):>10.2f}{median(pruned):>11.2f}{own:>9.2f}{_p99(pruned) - _p99(bare):>9.2f}"
        lines.append(f"{clock:<28}{numbers}{median(pruned) / median(bare):>7.2f}")
    return "\n".join(lines)


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


async def per_second(calls: list[Call], at_once: int) -> float:
    """Return calls per second with so many at a time."""
    left = iter(calls)

    async def worker() -> None:
        for call in left:
            await call()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return len(calls) / (time.perf_counter() - started)


async def many_at_once(todo: Iterator[Pair], at_once: int, rounds: int) -> str:
    """Measure both in turns, and write the best round of each: what disturbs a round only slows it."""
    rates: dict[str, list[float]] = {"bare": [], "pruned": []}
    for _ in tqdm(range(rounds), desc="throughput", disable=None):
        for kind, found in rates.items():
            found.append(await per_second([getattr(next(todo), kind) for _ in range(5 * at_once)], at_once))
    bare, pruned = (max(found) for found in rates.values())
    line = f"{f'calls/s, {at_once} at once':<28}{bare:>10.0f}{pruned:>11.0f}{'':>18}{pruned / bare:>7.2f}"
    return f"{'':<28}{'bare':>10}{'prune':>11}{'':>18}{'ratio':>7}\n{line}"


def resident() -> float:
    """Return bytes of this process that are in memory; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def traced() -> float:
    """Return bytes that Python has allocated."""
    return tracemalloc.get_traced_memory()[0]


async def growth(todo: Iterator[Pair], calls: int, read: Callable[[], float]) -> str:
    """Write how much a call adds, by a line through twenty readings, those of the first fifth left out."""
    points = []
    for turn in tqdm(range(1, calls + 1), desc=f"memory, {read.__name__}", disable=None):
        await next(todo).pruned()
        if turn > calls // 5 and turn % max(calls // 25, 1) == 0:
            gc.collect()
            points.append((turn, read()))
    slope = linear_regression(*zip(*points, strict=True)).slope
    ends = f"{points[0][1] / 2**20:.1f} to {points[-1][1] / 2**20:.1f} MiB"
    return f"{f'memory {read.__name__}, {calls} calls':<28}{ends:>21}{slope:>16.0f} bytes per call"


async def measure(options: argparse.Namespace) -> None:
    """Print the tables."""
    with elsewhere(str(CHUNKS)) as url:
        config = PrunerConfig(model="openai:m", base_url=url, timeout=60)
        async with AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client, Pruner(config) as pruner:
            todo = await pairs(client, pruner)
            await one_by_one(todo, LISTS)
            sys.stdout.write(report_time(await one_by_one(todo, options.calls)) + "\n\n")
            sys.stdout.write(await many_at_once(todo, options.at_once, options.rounds) + "\n\n")
            sys.stdout.write(await growth(todo, options.memory_calls, resident) + "\n")
            tracemalloc.start()
            sys.stdout.write(await growth(todo, options.memory_calls // 10, traced) + "\n")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000, help="pairs of calls that are timed")
    parser.add_argument("--at-once", type=int, default=100, help="calls at a time for the throughput")
    parser.add_argument("--rounds", type=int, default=5, help="of five times as many calls, for the throughput")
    parser.add_argument("--memory-calls", type=int, default=10_000, help="a tenth of them also with tracemalloc")
    logging.disable()  # The call that is caught falls back, with a warning.
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
