"""The load script's figures mean what they say."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import islice, pairwise
from typing import Any

import pytest

from eval.bench.load import faults, report
from eval.bench.load_figures import Met, Seen, percentile
from eval.bench.load_processes import Memory
from eval.bench.load_provider import CHUNKS, Provider, numbered
from eval.bench.load_traffic import NO_ANSWER, Connections, arrivals, met_of, press, read_answer
from pruner.backends.scripted import ScriptedBackend
from pruner.config import PrunerConfig
from pruner.pipeline import Pruner
from pruner.schema import GradingRequest, RawGrading

pytestmark = pytest.mark.anyio

FIRST, RETRIED, SHED = Met("ok", 1, 0.3), Met("ok", 2, 0.9), Met("fallback overloaded", 0, 0.0)
LATE = Met("fallback timeout", 1, None)


def seen_of(*requests: tuple[float, Met], took: float = 1.0, **processor: float) -> Seen:
    seen = Seen(took=took, processor=processor)
    for seconds, met in requests:
        seen.add(seconds, met)
    return seen


def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed() -> None:
    values = [float(n) for n in range(200, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (100, 198, 7)


def test_what_a_retry_waited_for_the_provider_is_not_counted_as_added() -> None:
    figures = seen_of((0.31, FIRST), (0.92, RETRIED)).report()
    assert figures["all_ms"]["p99"] == 920
    assert figures["first_attempt_ms"] == {"p50": 310, "p99": 310, "n": 1}
    assert figures["added_ms"] == {"p50": 10, "p99": 20, "n": 2}


def test_all_of_an_answer_without_the_provider_is_added() -> None:
    figures = seen_of((0.05, SHED)).report()
    assert (figures["added_ms"]["p99"], figures["first_attempt_ms"]) == (50, None)


def test_what_the_provider_never_answered_is_in_the_outcomes_and_in_all_only() -> None:
    figures = seen_of((5.0, LATE), (0.31, FIRST)).report()
    assert figures["outcomes"] == {"fallback timeout": 1, "ok": 1}
    assert (figures["all_ms"]["n"], figures["added_ms"]["n"]) == (2, 1)


def test_processor_time_is_of_one_request() -> None:
    figures = seen_of((0.3, FIRST), (0.3, FIRST), service=0.01, clients=0.001).report()
    assert figures["processor_ms_a_request"] == {"service": 5.0, "clients": 0.5}


def answer(**usage: int) -> bytes:
    return json.dumps({"status": "ok", "reason": None, "usage": usage}).encode()


def test_an_answer_tells_its_attempts_and_the_providers_time() -> None:
    assert read_answer(200, answer(calls=2, output_tokens=900_000)) == RETRIED
    assert read_answer(503, b"") == Met("503", 0, 0.0)
    assert met_of("fallback", "timeout", 1, 0) == LATE


def test_requests_are_due_at_random_moments_as_many_a_second_as_told() -> None:
    dues = list(islice(arrivals(100), 10_000))
    gaps = [later - earlier for earlier, later in pairwise(dues)]
    assert 90 < len(dues) / (dues[-1] - dues[0]) < 110
    assert min(gaps) >= 0
    assert max(gaps) > 0.03


async def test_pressing_asks_with_another_query_each_time_and_notes_what_came() -> None:
    queries: list[str] = []

    async def ask(query: str) -> Met:
        queries.append(query)
        await asyncio.sleep(0)
        return FIRST

    seen = Seen()
    await press(ask, 3, 0.02, None, seen)
    assert len(set(queries)) == len(queries) == len(seen.seconds) > 3
    assert seen.took >= 0.02


def report_of(service: Seen, library: Seen, rate: float | None) -> dict[str, Any]:
    return report(service, library, (100.0, 105.0), {"rate": rate})


def test_the_ratios_are_of_one_request() -> None:
    service = seen_of((0.3, FIRST), (0.3, FIRST), took=1, service=0.02, provider=1.0)
    library = seen_of((0.3, FIRST), (0.3, FIRST), took=0.5, library=0.01)
    found = report_of(service, library, None)
    assert (found["throughput_ratio"], found["processor_ratio"]) == (0.5, 2.0)
    assert found["faults"] == []
    assert report_of(service, library, 40.0)["throughput_ratio"] is None


@pytest.mark.parametrize(
    ("seconds", "met", "memory", "said"),
    [
        (0.31, Met("503", 0, 0.0), (100.0, 100.0), "answers 5xx"),
        (0.31, FIRST, (100.0, 111.0), "memory grew"),
        (0.41, FIRST, (100.0, 100.0), "what was added"),
    ],
)
def test_a_promise_that_is_not_held_is_said(seconds: float, met: Met, memory: tuple[float, float], said: str) -> None:
    found = faults(seen_of((seconds, met)), memory)
    assert said in found[0]


async def test_memory_is_read_from_the_first_moment_on() -> None:
    memory = Memory(os.getpid())
    watching = asyncio.ensure_future(memory.watch(60))
    await asyncio.sleep(0)
    watching.cancel()
    early, late = memory.quarters()
    assert early == late > 10


async def body_sent(query: str) -> bytes:
    """What the library sends for a query."""
    caught: list[GradingRequest] = []

    def catch(request: GradingRequest) -> RawGrading:
        caught.append(request)
        return RawGrading(text="{}")

    await Pruner(PrunerConfig(), backend=ScriptedBackend(catch)).prune(query, ["a"] * CHUNKS)
    return json.dumps({"messages": [caught[0].system, caught[0].user]}).encode()


def micros(response: bytes) -> int:
    head, _, body = response.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length
    assert int(length[1]) == len(body)
    return int(json.loads(body)["usage"]["completion_tokens"])


async def test_the_provider_says_how_long_ago_a_request_first_came_whatever_its_attempts() -> None:
    provider = Provider(faults=1.0, delay=0.02)
    first, other = await body_sent(numbered(1)), await body_sent(numbered(2))
    assert b" 500 " in await provider.answer(first)
    provider.faults = 0.0
    assert micros(await provider.answer(first)) >= 40_000
    assert 20_000 <= micros(await provider.answer(other)) < 10_000_000


@asynccontextmanager
async def connected_to(*answers: bytes, sent: list[Any]) -> AsyncIterator[Connections]:
    """One connection to a server that gives these answers in turn; an empty one closes the connection."""
    left, serving = iter(answers), list[Any]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        with suppress(EOFError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                sent.append((id(writer), json.loads(await reader.readexactly(length))))
                writer.write(content := next(left))
                if not content or b"connection: close" in content:
                    break
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connections = await Connections(server.sockets[0].getsockname()[1], ["ä", "b"]).open(1)
    try:
        yield connections
    finally:
        await connections.aclose()
        await asyncio.gather(*serving)
        server.close()
        await server.wait_closed()


def response(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


GOOD = response("200 OK", answer(calls=1, output_tokens=300_000))


async def test_a_connection_frames_its_requests_and_is_used_again() -> None:
    sent: list[Any] = []
    async with connected_to(GOOD, GOOD, sent=sent) as connections:
        assert [await connections.ask(numbered(n)) for n in (1, 2)] == [FIRST, FIRST]
    assert [body for _, body in sent] == [{"query": numbered(n), "chunks": ["ä", "b"]} for n in (1, 2)]
    assert sent[0][0] == sent[1][0]


@pytest.mark.parametrize(
    ("ending", "met"),
    [(response("503 Busy", b"{}", "connection: close"), Met("503", 0, 0.0)), (b"", NO_ANSWER)],
)
async def test_a_connection_that_ends_is_replaced_and_its_request_counted(ending: bytes, met: Met) -> None:
    async with connected_to(ending, GOOD, sent=[]) as connections:
        assert [await connections.ask(numbered(n)) for n in (1, 2)] == [met, FIRST]


def test_a_request_without_an_answer_is_an_error_of_the_service() -> None:
    assert seen_of((0.1, NO_ANSWER), (0.1, Met("429", 0, 0.0))).errors() == 1
