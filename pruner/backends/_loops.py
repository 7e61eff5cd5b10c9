"""Clients that belong to an event loop, and are closed when that loop ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from pruner.errors import BackendError, ConfigError, Reason

__all__ = ["PerLoop"]

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One `T` per event loop, so that one pruner serves several `asyncio.run()` and threads.

    Each is closed by `aclose()`, when its loop shuts down its asynchronous generators, as `asyncio.run()` does, or, by
    its loop, when this is gone: a connection of a dead loop can be neither used nor closed.
    """

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None]]] = WeakKeyDictionary()

    async def get(self) -> T:
        """Return the running loop's own.

        Raises:
            BackendError: it cannot be made any more, as the environment has changed; other loops' may go on.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            try:
                made = self._make()
            except ConfigError as error:
                raise BackendError(Reason.PROVIDER_ERROR, str(error)) from error
            keeper = _keep(made, self._close)
            self._held[loop] = made, keeper
            await anext(keeper)
        return self._held[loop][0]

    async def aclose(self) -> None:
        """Close the running loop's own; the others are closed by their loops."""
        _, keeper = self._held.pop(asyncio.get_running_loop(), (None, None))
        if keeper is not None:
            await keeper.aclose()


async def _keep(made: T, close: Callable[[T], Awaitable[None]]) -> AsyncGenerator[None]:
    """Close `made` when the loop ends, or when nobody holds this any more."""
    try:
        yield
    finally:
        await close(made)
