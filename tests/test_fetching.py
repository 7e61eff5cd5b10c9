import asyncio
import gc
import logging
import threading
from typing import Any

import pytest

from pruner import Chunk
from pruner.fetching import fetch_parents

pytestmark = pytest.mark.anyio


async def test_sync_and_async_callables_may_give_a_text_a_chunk_a_mapping_or_nothing() -> None:
    known: dict[Any, Any] = {1: "one", 2: Chunk(text="two"), 3: {"text": "three"}, 4: None}

    async def later(name: Any) -> Any:
        return known[name]

    for fetch in (known.__getitem__, later, lambda name: later(name)):
        found = await fetch_parents(fetch, [1, 2, 3, 4, 1], 5)
        assert {name: parent.text for name, parent in found.items()} == {1: "one", 2: "two", 3: "three"}


async def test_each_parent_is_asked_for_once() -> None:
    asked: list[Any] = []
    await fetch_parents(lambda name: asked.append(name), ["a", "b", "a"], 5)
    assert sorted(asked) == ["a", "b"]


async def test_a_failure_leaves_the_others_and_is_logged_without_text(caplog: pytest.LogCaptureFixture) -> None:
    def fetch(name: Any) -> Any:
        if name == "broken":
            raise KeyError("secret")
        return {"txt": "secret"} if name == "odd" else "fine"

    with caplog.at_level(logging.DEBUG, logger="pruner"):
        found = await fetch_parents(fetch, ["broken", "odd", "good"], 5)
    assert list(found) == ["good"]
    (record,) = caplog.records
    assert record.getMessage() == "2 of 3 parents could not be fetched: KeyError, no text"


async def test_a_lookup_that_finds_nothing_is_one_failure_at_once(caplog: pytest.LogCaptureFixture) -> None:
    assert await fetch_parents(lambda name: next(iter([])), ["a"], 60) == {}
    assert [record.getMessage() for record in caplog.records] == ["1 of 1 parents could not be fetched: LookupError"]


async def test_what_is_late_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def fetch(name: Any) -> Any:
        if name == "quick":
            return "here"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    assert list(await fetch_parents(fetch, ["never", "quick"], 0.05)) == ["quick"]
    await asyncio.wait_for(cancelled.wait(), 5)


async def refuse(_: Any) -> Any:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ValueError("secret") from None


async def dawdle(_: Any) -> Any:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.05)
        raise ValueError("secret")


def block(_: Any) -> Any:
    threading.Event().wait(0.1)
    raise ValueError("secret")


@pytest.mark.parametrize("fetch", [refuse, dawdle, block])
@pytest.mark.parametrize("cancelled", [False, True])
def test_what_fails_after_the_deadline_leaves_no_word_of_it_in_the_log(
    fetch: Any, cancelled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def late() -> None:
        found = fetch_parents(fetch, ["a", "b"], 60 if cancelled else 0.02)
        await asyncio.wait([asyncio.ensure_future(found)], timeout=0.04)

    asyncio.run(late())
    gc.collect()
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_cancelled_caller_cancels_the_fetching() -> None:
    cancelled = asyncio.Event()

    async def fetch(_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(fetch_parents(fetch, ["a"], 60))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 5)
