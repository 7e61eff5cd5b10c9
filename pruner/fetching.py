"""Asking the caller's store for parents, in its own time, and never at the price of the result."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from pruner.candidates import Chunk
from pruner.errors import RequestError
from pruner.preparation import to_chunks

__all__ = ["FetchParent", "fetch_parents"]

# A store takes the names that it gave: those of most are str alone.
FetchParent: TypeAlias = Callable[[Any], object | Awaitable[object]]

_log = logging.getLogger("pruner")


async def fetch_parents(fetch: FetchParent, names: Iterable[str | int], seconds: float) -> dict[str | int, Chunk]:
    """Fetch parents all at once.

    Args:
        fetch: given a parent_id, returns a str, `Chunk` or mapping with a `text`, or None; sync or async. A sync
            one runs in threads.
        names: the parents wanted.
        seconds: for all of them.

    Returns:
        What came in time and can be read. What did not is left out, with one warning that holds no text.
    """
    tasks = {name: asyncio.ensure_future(_fetch(fetch, name)) for name in dict.fromkeys(names)}
    if not tasks:
        return {}
    try:
        await asyncio.wait(tasks.values(), timeout=seconds)
        found = {name: _outcome(task) for name, task in tasks.items()}
    finally:
        for task in tasks.values():
            task.cancel()
    if missing := sum(not isinstance(parent, Chunk | None) for parent in found.values()):
        faults = sorted({str(fault) for fault in found.values() if not isinstance(fault, Chunk | None)})
        _log.warning("%d of %d parents could not be fetched: %s", missing, len(found), ", ".join(faults))
    return {name: parent for name, parent in found.items() if isinstance(parent, Chunk)}


async def _fetch(fetch: FetchParent, name: str | int) -> Chunk | str | None:
    """Return the parent, None where there is none, or in a word what went wrong.

    Nothing is raised that says more: of what comes after the deadline, asyncio would log each word.
    """
    try:
        return _parent(await _call(fetch, name))
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


async def _call(fetch: FetchParent, name: str | int) -> object:
    if inspect.iscoroutinefunction(fetch):
        return await fetch(name)
    answer = await asyncio.to_thread(_in_thread, fetch, name)
    return await answer if inspect.isawaitable(answer) else answer


def _in_thread(fetch: FetchParent, name: str | int) -> object:
    try:
        return fetch(name)
    except StopIteration as error:  # As of `next(found)`; a future cannot hold it.
        raise LookupError("nothing found") from error


def _parent(answer: object) -> Chunk | str | None:
    try:
        return None if answer is None else to_chunks([answer])[0]
    except RequestError:
        return "no text"


def _outcome(task: "asyncio.Future[Chunk | str | None]") -> Chunk | str | None:
    if not task.done():
        return "timeout"
    return "cancelled" if task.cancelled() else task.result()
