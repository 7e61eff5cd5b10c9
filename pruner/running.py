"""Asynchronous work run to its end from synchronous code."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["run_sync"]

R = TypeVar("R")


def run_sync(make: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run to its end what `make` returns, in a thread of its own where this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(make())
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: context.run(lambda: _run(make()))).result()


def _run(work: Coroutine[Any, Any, R]) -> R:
    """Do as `asyncio.run()`, but do not wait for the loop's threads: one may hang for minutes in looking up a name."""
    with asyncio.Runner() as runner:
        try:
            return runner.run(work)
        finally:
            loop = runner.get_loop()
            if executor := getattr(loop, "_default_executor", None):
                executor.shutdown(wait=False)
                loop._default_executor = None  # type: ignore[attr-defined]
