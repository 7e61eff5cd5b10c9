"""Clients that belong to an event loop, and are closed when that loop ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import finalize

from pruner.errors import BackendError, ConfigError, Reason

__all__ = ["PerLoop"]

_A_MOMENT = 0.1

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One `T` per event loop, so that one pruner serves several `asyncio.run()` and threads.

    Each is closed by `aclose()`, when its loop shuts down its asynchronous generators, as `asyncio.run()` does, or, by
    its loop, when this is gone: a connection of a dead loop can be neither used nor closed.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._held: dict[asyncio.AbstractEventLoop, _Held[T]] = {}

    async def get(self) -> T:
        """Return the running loop's own.

        Raises:
            BackendError: it cannot be made any more, as the environment has changed; other loops' may go on.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            self._forget_closed()
            try:
                held = _Held(self._make(), self._close)
            except ConfigError as error:
                raise BackendError(Reason.PROVIDER_ERROR, str(error)) from error
            self._held[loop] = held
            # Until then it is held from without: a garbage collector would do away with its sockets, and complain.
            held.let_go = finalize(self, _close_later, loop, held.keeper)
            await anext(held.keeper)
        return self._held[loop].made

    async def aclose(self) -> None:
        """Close the running loop's own; the others are closed by their loops."""
        if held := self._held.pop(asyncio.get_running_loop(), None):
            held.let_go.detach()
            await held.keeper.aclose()

    def _forget_closed(self) -> None:
        for loop in [loop for loop in list(self._held) if loop.is_closed()]:
            if held := self._held.pop(loop, None):
                held.let_go.detach()


class _Held(Generic[T]):
    let_go: "finalize[..., object]"

    def __init__(self, made: T, close: Callable[[T], Awaitable[None]]) -> None:
        self.made = made
        self.keeper = _keep(made, close)


async def _keep(made: T, close: Callable[[T], Awaitable[None]]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await close(made)


def _close_later(loop: asyncio.AbstractEventLoop, keeper: AsyncGenerator[None]) -> None:
    """Have the loop close it in a moment; a loop that ends before does so itself, and waits until it is done."""
    with suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(loop.call_later, _A_MOMENT, lambda: loop.create_task(keeper.aclose()))
