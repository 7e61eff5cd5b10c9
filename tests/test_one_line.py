"""`prune()` as one line in somebody's pipeline, over a real socket."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pruner import ConfigError, prune, prune_sync
from pruner.pipeline import _shared
from tests.provider import Provider, chat, serve

CHUNKS = ["a", "b", "c", "d"]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    monkeypatch.chdir(tmp_path)
    _shared.cache_clear()
    with serve(chat('{"grades":[[1,1],[2,1],[3,5],[4,1]]}')) as running:
        monkeypatch.setenv("PRUNER_BASE_URL", running.url)
        yield running
    _shared.cache_clear()


def test_it_reads_the_environment(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "0")
    monkeypatch.setenv("PRUNER_MODEL", "openai:some-model")
    assert asyncio.run(prune("q", CHUNKS)).chunks == ["c"]
    assert provider.requests[0]["model"] == "some-model"


def test_an_argument_wins_over_the_environment(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "0")
    assert asyncio.run(prune("q", CHUNKS, keep_top_k=1)).chunks == ["a", "c"]


def test_the_pruner_of_a_configuration_is_made_once(provider: Provider) -> None:
    for _ in range(3):
        asyncio.run(prune("q", CHUNKS))
    assert _shared.cache_info().misses == 1


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
