"""Asynchronous work run to its end from synchronous code."""

import asyncio
import atexit
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Thread, current_thread, local
from typing import Any, TypeVar
from weakref import finalize

from pruner.errors import ConfigError

__all__ = ["run_sync"]

R = TypeVar("R")

# Seconds after which a wait looks up: an endless one cannot be interrupted on Windows, nor by `asyncio.run()`.
_GLANCE = 0.5
_ENDING = 2.0


def run_sync(make: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run to its end what `make` returns, whether this thread has a running loop or not; an interrupt cancels it.

    Raises:
        ConfigError: gevent has replaced half of what a loop and its thread are made of.
    """
    if gevent := _gevent():
        return _run_beside(gevent.get_original("_thread", "start_new_thread"), make)
    future = asyncio.run_coroutine_threadsafe(make(), _loop())
    try:
        _await(future)
        return future.result()
    finally:
        future.cancel()


def _gevent() -> Any:
    """Return `gevent.monkey` where it has made greenlets of threads, and a selector of its own for them."""
    monkey = sys.modules.get("gevent.monkey")
    patched = {name: bool(monkey and monkey.is_module_patched(name)) for name in ("threading", "selectors")}
    if len(set(patched.values())) > 1:
        raise ConfigError("with gevent, prune_sync needs both threads and selectors patched: monkey.patch_all()")
    return monkey if patched["threading"] else None


def _run_beside(start: Callable[..., object], make: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run in a thread of the operating system made for this call: that of the greenlets can run one loop only."""
    done: Future[R] = Future()

    async def call() -> None:
        done.set_result(await make())

    def run() -> None:
        try:
            asyncio.run(call())
        except BaseException as error:  # noqa: BLE001 - it is the caller's.
            if not done.done():
                done.set_exception(error)

    start(copy_context().run, (run,))
    _await(done)
    return done.result()


class _Worker:
    """An event loop in a thread of its own, for one thread's calls: the connections of one serve the next.

    It ends with the thread that it works for, and with the process. A forked process has none of it left.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        end = asyncio.Event()
        self.thread = Thread(target=_serve, args=[self.loop, end], name="pruner", daemon=True)
        stop = _serving[self.thread] = partial(_stop, self.pid, self.loop, end)
        self.thread.start()
        finalize(self, stop).atexit = False


_own = local()
_serving: dict[Thread, Callable[[], None]] = {}


def _loop() -> asyncio.AbstractEventLoop:
    worker: _Worker | None = getattr(_own, "worker", None)
    if worker is None or worker.pid != os.getpid() or not worker.thread.is_alive():
        worker = _own.worker = _Worker()
    return worker.loop


def _serve(loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
    while not end.is_set():
        # A call that ends in one of these stops the loop; the caller is to get it, and the next call a loop.
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_until_complete(end.wait())
    loop.run_until_complete(_finish())
    # Without waiting for the loop's threads: one may hang for minutes in looking up a name.
    loop.close()
    _serving.pop(current_thread(), None)


async def _finish() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _stop(pid: int, loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
    """Have a loop end; called where a thread ends too, where threads can no longer be asked or waited for."""
    if pid == os.getpid():
        with suppress(RuntimeError):  # It is closed.
            loop.call_soon_threadsafe(end.set)


@atexit.register
def _end() -> None:
    serving = dict(_serving)
    for stop in serving.values():
        stop()
    for thread in serving:
        thread.join(_ENDING)


def _await(future: "Future[Any]") -> None:
    """Wait, until the task that waits is cancelled: that is how `asyncio.run()` takes the first interrupt."""
    task = _current_task()
    before = task.cancelling() if task else 0
    while not future.done():
        wait([future], _GLANCE)
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
