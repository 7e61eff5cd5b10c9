"""Whatever a provider or the network does, the result is there in time and nothing is left behind."""

import asyncio
import gc
import socket
import threading
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr
from tenacity import wait_fixed

from pruner import Pruner, PrunerConfig, PruneResult, grading
from pruner.backends import ClosableBackend, local, make_backend
from pruner.config import PREFIXES
from tests import faulty
from tests.faulty import Behaviour, Faulty, answering

pytestmark = pytest.mark.anyio

CHUNKS = ["alpha", "beta", "gamma"]
TIMEOUT = 0.15
AMPLE = 10.0
SLACK = 0.5  # This machine may be busy; eval/bench/deadline.py measures.
NEEDS = {"anthropic": "anthropic", "litellm": "litellm"}


def _runs(prefix: str) -> bool:
    return prefix in PREFIXES and find_spec(NEEDS.get(prefix, prefix)) is not None


@pytest.fixture(params=[prefix for prefix in ("openai", "anthropic", "litellm") if _runs(prefix)])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _only_what_is_new_is_looked_through() -> Iterator[None]:
    gc.freeze()
    yield
    gc.unfreeze()


@asynccontextmanager
async def nothing_left_behind() -> AsyncIterator[None]:
    tasks = asyncio.all_tasks()
    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(leak.message) for leak in leaks] == []
    for _ in range(20):  # The loop closes the generators that were just collected.
        await asyncio.sleep(0)
    assert asyncio.all_tasks() <= tasks


def config_for(prefix: str, url: str, seconds: float = TIMEOUT) -> PrunerConfig:
    # litellm wants to know whose wire format a server of one's own speaks.
    model = f"{prefix}:openai/m" if prefix == "litellm" else f"{prefix}:m"
    return PrunerConfig(model=model, base_url=url, api_key=SecretStr("k"), timeout=seconds)


@asynccontextmanager
async def pruning(prefix: str, url: str, seconds: float = TIMEOUT) -> AsyncIterator[Pruner]:
    async with nothing_left_behind(), Pruner(config_for(prefix, url, seconds)) as pruner:
        yield pruner


async def in_time(pruner: Pruner) -> PruneResult[str]:
    """Prune, and check what holds whatever happens."""
    started = time.monotonic()
    result = await pruner.prune("q", CHUNKS)
    assert time.monotonic() - started <= pruner.config.timeout + SLACK
    assert result.chunks == (CHUNKS if result.status == "fallback" else CHUNKS[:2])
    return result


async def closes(server: Faulty) -> bool:
    """Whether the server sees all of its connections closed."""
    return await asyncio.to_thread(server.idle.wait, 2)


FAULTS: dict[str, tuple[Behaviour, str]] = {
    "hang": (faulty.hang, "timeout"),
    "hang within the body": (faulty.hang_within, "timeout"),
    "drip": (faulty.drip, "timeout"),
    "drip within the headers": (faulty.drip_headers, "timeout"),
    "interim responses without end": (faulty.flood_interim, "timeout"),
    "chunks of one byte without end": (faulty.flood_chunks, "timeout"),
    "close": (faulty.close, "provider_error"),
    "close within the body": (faulty.close_within, "provider_error"),
    "reset": (faulty.reset, "provider_error"),
    "reset before the request is read": (faulty.reset_unread, "provider_error"),
    "reset within the body": (faulty.reset_within, "provider_error"),
    "garbage": (faulty.garbage, "provider_error"),
    "headers without end": (faulty.flood_headers, "provider_error"),
    "10 MB of blanks": (answering(b" " * 10_000_000), "provider_error"),
    "10 MB of brackets": (answering(b"[" * 10_000_000), "provider_error"),
    "10 MB of blanks, packed": (faulty.bomb(10_000_000), "provider_error"),
    "packed in a way not asked for": (answering(content_encoding="br"), "provider_error"),
    "packed as said, but not packed": (answering(content_encoding="gzip"), "provider_error"),
    "cut JSON": (answering(b'{"choices":[{"mess'), "provider_error"),
    "cut JSON and a greater length": (answering(b'{"choices":[{"mess', content_length=900), "timeout"),
    "no text in any charset": (answering(b'{"choices":"\xff\xfe\xfa"}', content_type="text/plain"), "provider_error"),
    "another charset": (answering('{"choices":"ü"}'.encode("utf-16-be")), "provider_error"),
    "nothing": (answering(b""), "provider_error"),
    "no content": (answering(b"", status=204), "provider_error"),
    "500": (answering(status=500), "provider_error"),
    "503": (answering(status=503), "provider_error"),
    "429": (answering(status=429), "rate_limited"),
    "500 without end": (answering(b"x", status=500, content_length=900), "timeout"),
}


@pytest.fixture
def one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the back-off so long that there is no time to ask again."""
    monkeypatch.setattr(grading, "_BACKOFF", wait_fixed(60))


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_falls_back_in_time_with_its_reason_and_its_connection_closed(prefix: str, fault: str) -> None:
    behaviour, reason = FAULTS[fault]
    late = reason == "timeout"
    with faulty.faulty(behaviour) as server:
        async with pruning(prefix, server.url, TIMEOUT if late else AMPLE) as pruner:
            result = await in_time(pruner)
            assert not late or await closes(server)
        assert (result.status, result.reason, result.usage.calls) == ("fallback", reason, 1)
        assert server.opened == 1
        assert await closes(server)


PROXIES: dict[str, Behaviour] = {
    "wants a name": answering(status=407, proxy_authenticate="Basic"),
    "is busy": answering(status=503),
    "hangs": faulty.hang,
    "closes": faulty.close,
    "resets": faulty.reset,
    "speaks something else": faulty.garbage,
    "never ends its headers": faulty.flood_headers,
    "opens a tunnel to nowhere": answering(b"", content_length=""),
}


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("fault", PROXIES)
async def test_a_proxy_that_misbehaves_is_a_fallback_in_time(
    prefix: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty.faulty(PROXIES[fault]) as proxy:
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        async with pruning(prefix, "https://provider.test/v1", 1.0) as pruner:
            result = await in_time(pruner)
        assert result.status == "fallback"
        assert proxy.opened
        assert await closes(proxy)


@pytest.mark.usefixtures("one_call")
async def test_a_body_without_end_is_not_read_on_until_the_deadline(prefix: str) -> None:
    with faulty.faulty(faulty.flood) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            assert (await in_time(pruner)).reason == "provider_error"
        assert await closes(server)


@pytest.mark.usefixtures("one_call")
async def test_a_body_packed_twice_is_not_unpacked(prefix: str) -> None:
    packed_twice = faulty.bomb(100_000_000, times=2)  # Which a client that unpacks it works on for most of a second.
    with faulty.faulty(packed_twice) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            before = time.thread_time()
            assert (await in_time(pruner)).reason == "provider_error"
            assert time.thread_time() - before < 0.2


@pytest.mark.parametrize("flood", [faulty.flood_interim, faulty.flood_chunks])
async def test_a_flood_of_next_to_nothing_does_not_hold_up_the_event_loop(prefix: str, flood: Behaviour) -> None:
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()  # Of this thread, as the machine may be busy.
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)

    with faulty.faulty(flood) as server:
        async with pruning(prefix, server.url, 4 * TIMEOUT) as pruner:
            await pruner.prune("q", CHUNKS[:1] * 2)  # Nobody is asked.
            ticking = asyncio.create_task(tick())
            assert (await in_time(pruner)).reason == "timeout"
            ticking.cancel()
            await asyncio.wait([ticking])
        assert server.opened == 1
    assert longest < 0.03


async def test_a_body_in_an_unknown_charset_is_read_all_the_same(prefix: str) -> None:
    with faulty.faulty(faulty.grading(3, content_type="application/json; charset=klingon")) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            assert (await in_time(pruner)).status == "ok"


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("charset", ["utf-16", "hex", "undefined"])
async def test_an_error_in_a_charset_that_cannot_be_decoded_is_a_fault_like_others(prefix: str, charset: str) -> None:
    broken = answering(b'{"error":"\xff"}', status=500, content_type=f"application/json; charset={charset}")
    with faulty.faulty(broken) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            assert (await in_time(pruner)).reason == "provider_error"


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_a_redirect_is_not_followed(prefix: str, status: int) -> None:
    with faulty.faulty(faulty.healthy) as elsewhere:
        with faulty.faulty(answering(status=status, location=f"{elsewhere.url}/chat/completions")) as server:
            async with pruning(prefix, server.url, AMPLE) as pruner:
                result = await in_time(pruner)
        assert (result.status, result.reason) == ("fallback", "provider_error")
        assert (len(server.calls), elsewhere.opened) == (1, 0)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "certificate.pem"
    file.write_text(faulty.CERTIFICATE, encoding="ascii")
    return file


@pytest.mark.usefixtures("one_call")
async def test_plain_bytes_where_tls_is_spoken_are_a_fault_of_the_provider(prefix: str) -> None:
    with faulty.faulty(faulty.plain_text) as server:
        async with pruning(prefix, server.url.replace("http:", "https:"), AMPLE) as pruner:
            result = await in_time(pruner)
        assert (result.status, result.reason) == ("fallback", "provider_error")
        assert await closes(server)


@pytest.mark.usefixtures("one_call")
async def test_a_certificate_of_nobody_is_not_trusted(prefix: str, certificate: Path) -> None:
    with faulty.faulty(faulty.healthy, certificate=certificate) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            result = await in_time(pruner)
        assert (result.status, result.reason) == ("fallback", "provider_error")
        assert server.calls == []


async def test_a_tls_handshake_without_end_is_given_up(prefix: str) -> None:
    with faulty.faulty(faulty.mute) as server:
        async with pruning(prefix, server.url.replace("http:", "https:")) as pruner:
            assert (await in_time(pruner)).reason == "timeout"
            assert await closes(server)


@pytest.mark.parametrize(
    ("behaviour", "seconds", "reason"),
    [(faulty.healthy, AMPLE, None), (faulty.hang, 0.3, "timeout"), (faulty.drip, 0.3, "timeout")],
)
async def test_time_holds_over_tls_too(
    prefix: str,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: Behaviour,
    seconds: float,
    reason: str | None,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with faulty.faulty(behaviour, certificate=certificate) as server:
        async with pruning(prefix, server.url, seconds) as pruner:
            assert (await in_time(pruner)).reason == reason
            assert reason is None or await closes(server)
        assert len(server.calls) == 1


class Resolver:
    """Stands in for the machine's: one that cannot find a host, or is out of reach until told otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answers: bool) -> None:
        self.asked: list[str] = []
        self.reached = threading.Event()
        if answers:
            self.reached.set()
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host: Any, *_: Any, **__: Any) -> Any:
        self.asked.append(host.decode() if isinstance(host, bytes) else host)
        self.reached.wait(5)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize(
    ("answers", "seconds", "reason"), [(True, AMPLE, "provider_error"), (False, TIMEOUT, "timeout")]
)
async def test_a_host_without_an_address_is_a_fault_and_a_dead_resolver_is_not_waited_for(
    prefix: str, monkeypatch: pytest.MonkeyPatch, answers: bool, seconds: float, reason: str
) -> None:
    resolver = Resolver(monkeypatch, answers=answers)
    async with pruning(prefix, "http://nowhere.invalid/v1", seconds) as pruner:
        result = await in_time(pruner)
    resolver.reached.set()
    assert (result.status, result.reason) == ("fallback", reason)
    assert set(resolver.asked) == {"nowhere.invalid"}


def test_synchronous_code_does_not_wait_for_a_dead_resolver_either(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = Resolver(monkeypatch, answers=False)
    pruner = Pruner(config_for(prefix, "http://nowhere.invalid/v1"))
    threading.Timer(TIMEOUT + 2 * SLACK, resolver.reached.set).start()
    started = time.monotonic()
    assert pruner.prune_sync("q", CHUNKS).reason == "timeout"
    assert time.monotonic() - started <= TIMEOUT + SLACK


@pytest.mark.parametrize(("status", "wait"), [(429, "0.1"), (500, "0"), (503, "Wed, 21 Oct 2015 07:28:00 GMT")])
async def test_a_wait_that_fits_is_waited_and_the_answer_taken(prefix: str, status: int, wait: str) -> None:
    with faulty.faulty(answering(status=status, retry_after=wait), faulty.healthy) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            result = await in_time(pruner)
    assert (result.status, result.usage.calls, len(server.calls)) == ("ok", 2, 2)
    assert result.latency >= (0.1 if wait == "0.1" else 0)


@pytest.mark.parametrize(("status", "wait"), [(429, "30"), (500, "Fri, 31 Dec 2199 23:59:59 GMT"), (503, "9" * 400)])
async def test_a_wait_beyond_the_deadline_falls_back_at_once(prefix: str, status: int, wait: str) -> None:
    with faulty.faulty(answering(status=status, retry_after=wait)) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            result = await in_time(pruner)
    assert result.reason == ("rate_limited" if status == 429 else "provider_error")
    assert result.latency < AMPLE / 2
    assert len(server.calls) == 1


@pytest.mark.parametrize("wait", ["-5", "soon", "nan"])
async def test_a_senseless_wait_is_none_and_our_own_back_off_holds(prefix: str, wait: str) -> None:
    with faulty.faulty(answering(status=503, retry_after=wait), faulty.healthy) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            result = await in_time(pruner)
    assert (result.status, len(server.calls)) == ("ok", 2)
    assert result.latency >= 0.2


async def test_a_server_that_keeps_saying_at_once_is_not_hammered(prefix: str) -> None:
    with faulty.faulty(answering(status=429, retry_after="0")) as server:
        async with pruning(prefix, server.url, seconds=1) as pruner:
            result = await in_time(pruner)
    assert (result.status, result.reason) == ("fallback", "rate_limited")
    assert 2 <= len(server.calls) <= 4


@pytest.mark.parametrize(
    ("first", "then", "seconds", "reason"),
    [
        (429, faulty.hang, 0.6, "rate_limited"),
        (429, answering(status=500, retry_after="60"), AMPLE, "provider_error"),
        (503, answering(status=429, retry_after="60"), AMPLE, "rate_limited"),
        (503, answering(status=401), AMPLE, "auth"),
    ],
)
async def test_the_reason_is_that_of_the_last_error_not_of_the_deadline(
    prefix: str, first: int, then: Behaviour, seconds: float, reason: str
) -> None:
    with faulty.faulty(answering(status=first, retry_after="0"), then) as server:
        async with pruning(prefix, server.url, seconds) as pruner:
            result = await in_time(pruner)
    assert (result.status, result.reason, len(server.calls)) == ("fallback", reason, 2)


async def test_after_two_hundred_timeouts_the_next_healthy_call_works(prefix: str) -> None:
    async with nothing_left_behind():
        with faulty.faulty(faulty.hang) as server:
            backend = make_backend(config_for(prefix, server.url))
            hasty, patient = (Pruner(config_for(prefix, server.url, wait), backend=backend) for wait in (0.02, AMPLE))
            for _ in range(8):
                results = await asyncio.gather(*(hasty.prune("q", CHUNKS) for _ in range(25)))
                assert {result.reason for result in results} == {"timeout"}
            assert await closes(server)
            server.behaviours = [faulty.healthy]
            assert (await in_time(patient)).status == "ok"
            assert isinstance(backend, ClosableBackend)
            await backend.aclose()


async def test_a_connection_that_the_server_closed_meanwhile_costs_no_second_call(prefix: str) -> None:
    async def once(wire: faulty.Wire) -> None:
        await faulty.healthy(wire)
        wire.writer.close()

    with faulty.faulty(once) as server:
        async with pruning(prefix, server.url, AMPLE) as pruner:
            for _ in range(3):
                assert await closes(server)
                assert (await in_time(pruner)).usage.calls == 1


@pytest.mark.parametrize("behaviour", [faulty.hang, faulty.drip, faulty.drip_headers, faulty.mute])
async def test_a_cancelled_caller_gets_the_cancellation_and_the_server_sees_the_end(
    prefix: str, behaviour: Behaviour
) -> None:
    with faulty.faulty(behaviour) as server:
        async with pruning(prefix, server.url, seconds=60) as pruner:
            task = asyncio.create_task(pruner.prune("q", CHUNKS))
            await asyncio.to_thread(server.busy.wait, 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert server.opened == 1
            assert await closes(server)


async def test_a_caller_is_cancelled_while_waiting_to_ask_again(prefix: str) -> None:
    with faulty.faulty(answering(status=503, retry_after="30")) as server:
        async with pruning(prefix, server.url, seconds=60) as pruner:
            task = asyncio.create_task(pruner.prune("q", CHUNKS))
            await asyncio.to_thread(server.busy.wait, 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(task, 0.2)
    assert len(server.calls) == 1


async def test_nothing_stays_open_of_calls_that_connect_while_the_pruner_is_closed(prefix: str) -> None:
    with faulty.faulty(faulty.healthy) as server:
        for rounds in range(0, 60, 3):
            async with nothing_left_behind(), Pruner(config_for(prefix, server.url, AMPLE)) as pruner:
                tasks = [asyncio.create_task(pruner.prune("q", CHUNKS)) for _ in range(3)]
                for _ in range(rounds):
                    await asyncio.sleep(0)
                await pruner.aclose()
                await asyncio.gather(*tasks)
            assert await closes(server)


# the embedded model, whose server is our own and may stall as others do


@asynccontextmanager
async def embedded(
    monkeypatch: pytest.MonkeyPatch, server: Faulty, seconds: float = TIMEOUT
) -> AsyncIterator[tuple[Pruner, Pruner]]:
    """Give a hasty and a patient pruner over one backend, which takes the server for the model's."""
    monkeypatch.setattr(local, "start_server", lambda model: SimpleNamespace(listening_address=server.url))
    async with nothing_left_behind():
        backend = local.LocalBackend(Path("any.gguf"))
        configs = [PrunerConfig(model="local:any", timeout=wait) for wait in (seconds, AMPLE)]
        hasty, patient = (Pruner(config, backend=backend) for config in configs)
        yield hasty, patient
        await backend.aclose()


# Before a list come one request for the chat's frame, and of the list five for words; then two a chunk, two a question.
STEPS = {"the first words": 1, "the first chunk": 7, "the last question": 17}
STALLS = ["hang", "hang within the body", "drip", "drip within the headers"]
BREAKS = ["close", "close within the body", "reset", "reset within the body", "garbage", "cut JSON", "nothing"]


@pytest.mark.usefixtures("one_call")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("fault", [*STALLS, *BREAKS, "no content", "500", "503"])
async def test_a_fault_of_the_embedded_server_falls_back_in_time_and_the_next_list_is_graded(
    monkeypatch: pytest.MonkeyPatch, fault: str, step: str
) -> None:
    behaviour, reason = FAULTS[fault]
    with faulty.faulty(*[faulty.llama] * STEPS[step], behaviour) as server:
        async with embedded(monkeypatch, server) as (hasty, patient):
            result = await in_time(hasty if reason == "timeout" else patient)
            assert (result.status, result.reason, result.usage.calls) == ("fallback", reason, 1)
            assert reason != "timeout" or await closes(server)
            server.behaviours = [faulty.llama]
            assert (await in_time(patient)).status == "ok"
        assert await closes(server)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b'{"tokens":5}', b'{"completion_probabilities":[]}'])
@pytest.mark.parametrize("step", STEPS)
async def test_an_answer_of_another_form_from_the_embedded_server_is_its_fault(
    monkeypatch: pytest.MonkeyPatch, body: bytes, step: str
) -> None:
    with faulty.faulty(*[faulty.llama] * STEPS[step], answering(body)) as server:
        async with embedded(monkeypatch, server) as (_, patient):
            assert (await in_time(patient)).reason == "provider_error"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("behaviour", [faulty.hang, faulty.drip])
async def test_a_cancelled_list_frees_the_embedded_model(
    monkeypatch: pytest.MonkeyPatch, behaviour: Behaviour, step: str
) -> None:
    stalled = threading.Event()

    async def stall(wire: faulty.Wire) -> None:
        stalled.set()
        await behaviour(wire)

    with faulty.faulty(*[faulty.llama] * STEPS[step], stall) as server:
        async with embedded(monkeypatch, server) as (_, patient):
            first, second = (asyncio.create_task(patient.prune("q", CHUNKS)) for _ in range(2))
            assert await asyncio.to_thread(stalled.wait, 5)
            for task in (second, first):  # The one that waits its turn, then the one that is read.
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await closes(server)
            server.behaviours = [faulty.llama]
            assert (await in_time(patient)).status == "ok"


async def test_after_two_hundred_timeouts_of_the_embedded_model_the_next_list_is_graded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with faulty.faulty(faulty.llama, faulty.hang) as server:
        async with embedded(monkeypatch, server, seconds=0.02) as (hasty, patient):
            for _ in range(8):
                results = await asyncio.gather(*(hasty.prune("q", CHUNKS) for _ in range(25)))
                assert {result.reason for result in results} == {"timeout"}
            assert await closes(server)
            server.behaviours = [faulty.llama]
            assert (await in_time(patient)).status == "ok"
