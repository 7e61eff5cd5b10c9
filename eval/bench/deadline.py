"""How late a result comes when the provider never answers: `python eval/bench/deadline.py`.

Servers in another process hang, before an answer, within it or within the TLS handshake, drip a byte every 200 ms, or
never stop to send next to nothing: interim responses, chunks of one byte.
`prune()` is called with a short timeout; lateness is what its result takes beyond that. The first row is
`asyncio.timeout` around nothing: how late this machine is by itself.
"""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import quantiles

from tqdm import tqdm

from pruner import Pruner, PrunerConfig
from tests.faulty import elsewhere

SERVERS = ("hang", "hang_within", "drip", "drip_headers", "mute over TLS", "flood_interim", "flood_chunks")
CHUNKS = [f"Chunk {label} is about nothing in particular, at some length. " * 20 for label in range(25)]

Call = Callable[[], Awaitable[object]]


async def lateness(call: Call, allowed: float) -> float:
    """Return seconds beyond the timeout."""
    started = time.perf_counter()
    await call()
    return time.perf_counter() - started - allowed


async def staggered(call: Call, options: argparse.Namespace, bar: "tqdm[None]") -> list[float]:
    """Measure some calls at a time, begun one after the other so that none ends just when another does."""
    turns = iter(range(options.runs))
    late: list[float] = []

    async def worker(place: int) -> None:
        await asyncio.sleep(place * options.timeout / options.at_once)
        for _ in turns:
            late.append(await lateness(call, options.timeout))
            bar.update()

    await asyncio.gather(*(worker(place) for place in range(options.at_once)))
    return late


async def against(name: str, options: argparse.Namespace, bar: "tqdm[None]") -> list[float]:
    """Measure `prune()` against a server."""
    behaviour, _, tls = name.partition(" over ")
    with elsewhere(behaviour) as url:
        url = url.replace("http:", "https:") if tls else url
        async with Pruner(PrunerConfig(model="openai:m", base_url=url, timeout=options.timeout)) as pruner:

            async def call() -> None:
                result = await pruner.prune("What is it about?", CHUNKS)
                assert result.status == "fallback", result.status

            return await staggered(call, options, bar)


async def nothing(options: argparse.Namespace, bar: "tqdm[None]") -> list[float]:
    """Measure the machine by itself."""

    async def call() -> None:
        try:
            async with asyncio.timeout(options.timeout):
                await asyncio.Event().wait()
        except TimeoutError:
            pass

    return await staggered(call, options, bar)


def row(name: str, late: list[float]) -> str:
    """Write milliseconds of lateness."""
    cuts = quantiles(late, n=100, method="inclusive")
    return f"{name:<18}{len(late):>6}" + "".join(f"{1000 * value:>9.1f}" for value in (cuts[49], cuts[98], max(late)))


async def measure(options: argparse.Namespace) -> None:
    """Print a row per server."""
    sys.stdout.write(f"{'ms late':<18}{'runs':>6}{'p50':>9}{'p99':>9}{'max':>9}\n")
    with tqdm(total=options.runs * (1 + len(SERVERS)), unit="call", disable=None) as bar:
        rows = [row("asyncio.timeout", await nothing(options, bar))]
        rows += [row(name, await against(name, options, bar)) for name in SERVERS]
    sys.stdout.write("\n".join(rows) + "\n")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="calls per server")
    parser.add_argument("--timeout", type=float, default=0.5, help="seconds")
    parser.add_argument("--at-once", type=int, default=10, help="calls at a time")
    logging.disable()  # Each fallback is a warning.
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
