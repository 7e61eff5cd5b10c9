"""`prune()` as one line in somebody's pipeline, over a real socket."""

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pruner import ConfigError, Pruner, PrunerConfig, prune, prune_sync, shared
from tests.provider import Provider, chat, serve

CHUNKS = ["a", "b", "c", "d"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shared, "_kept", {})
    with serve(chat('{"grades":[[1,1],[2,1],[3,5],[4,1]]}')) as running:
        monkeypatch.setenv("PRUNER_BASE_URL", running.url)
        yield running


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Pruner]:
    """The pruners that were made."""
    pruners: list[Pruner] = []

    class Noted(Pruner):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            pruners.append(self)

    monkeypatch.setattr(shared, "Pruner", Noted)
    return pruners


def test_it_reads_the_environment(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "0")
    monkeypatch.setenv("PRUNER_MODEL", "openai:some-model")
    assert asyncio.run(prune("q", CHUNKS)).chunks == ["c"]
    assert provider.requests[0]["model"] == "some-model"


def test_an_argument_wins_over_the_environment(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "0")
    assert asyncio.run(prune("q", CHUNKS, keep_top_k=1)).chunks == ["a", "c"]


def test_calls_that_differ_in_selection_dials_only_share_one_pruner(provider: Provider, made: list[Pruner]) -> None:
    for level in (1, 2, 5):
        assert len(asyncio.run(prune("q", CHUNKS, threshold=level, keep_top_k=0)).chunks) == (4 if level == 1 else 1)
    assert len(made) == 1


def test_what_the_grading_needs_makes_another_pruner(provider: Provider, made: list[Pruner]) -> None:
    for instructions in ("of ships", "of cats", "of ships"):
        asyncio.run(prune("q", CHUNKS, instructions=instructions))
    assert len(made) == 2


def test_a_pruner_is_made_once_however_many_threads_ask(provider: Provider, made: list[Pruner]) -> None:
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait(5)
        return str(prune_sync("q", CHUNKS).status)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(8))) == ["ok"] * 8
    assert len(made) == 1


def test_a_pruner_is_made_off_the_event_loop(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def make(config: PrunerConfig) -> Pruner:
        threads.append(threading.current_thread())
        return Pruner(config)

    monkeypatch.setattr(shared, "_make", make)
    assert asyncio.run(prune("q", CHUNKS)).status == "ok"
    assert threading.current_thread() not in threads


def test_pruners_let_go_close_their_connections(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_KEPT", 2)

    async def many() -> list[str]:
        calls = (prune("q", CHUNKS, instructions=f"of {i}") for i in range(6))
        found = [str(result.status) for result in await asyncio.gather(*calls)]
        gc.collect()
        return found

    assert asyncio.run(many()) == ["ok"] * 6  # A connection left open is a warning, and so an error.
    gc.collect()
    assert len(shared._kept) == 2


def test_calls_with_the_time_they_have_left_share_one_pruner(provider: Provider) -> None:
    for left in (5.0, 4.5, 4.25):
        assert prune_sync("q", CHUNKS, timeout=left).status == "ok"
    assert len(shared._kept) == 1


def test_what_an_extra_is_missing_for_is_told_before_the_call(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(ConfigError, match=r"\[sentences\]"):
        asyncio.run(prune("q", CHUNKS, extract=True))
    assert provider.requests == []


def test_a_changed_environment_is_seen(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(asyncio.run(prune("q", CHUNKS)).chunks) == 3
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "0")
    assert len(asyncio.run(prune("q", CHUNKS)).chunks) == 1


def test_one_event_loop_after_another_leaves_no_connection_open(provider: Provider) -> None:
    for _ in range(3):
        assert asyncio.run(prune("q", CHUNKS)).status == "ok"
        gc.collect()
    assert len(provider.requests) == 3


def test_sync_code_calls_it_with_and_without_a_running_loop(provider: Provider) -> None:
    async def inside() -> str:
        return str(prune_sync("q", CHUNKS).status)

    assert prune_sync("q", CHUNKS).status == "ok"
    assert asyncio.run(inside()) == "ok"


def test_many_calls_at_once_share_the_pruner(provider: Provider) -> None:
    async def many() -> list[str]:
        results = await asyncio.gather(*(prune("q", CHUNKS) for _ in range(20)))
        return [str(result.status) for result in results]

    assert asyncio.run(many()) == ["ok"] * 20


def test_without_a_key_it_says_which_variable_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        asyncio.run(prune("q", CHUNKS))
