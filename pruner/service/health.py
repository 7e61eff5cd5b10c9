"""Whether the provider could be reached lately, by what the gradings met, else by opening a connection."""

import asyncio
import time
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

from pruner.config import PrunerConfig
from pruner.errors import Reason
from pruner.schema import Grading

__all__ = ["Health", "provider_address"]

_VENDORS = {"openai": ("api.openai.com", 443), "anthropic": ("api.anthropic.com", 443)}
# After these a provider is there, whatever it answered.
_UNREACHED = (Reason.TIMEOUT, Reason.PROVIDER_ERROR, Reason.AUTH)
_PATIENCE = 2.0


def provider_address(config: PrunerConfig) -> tuple[str, int] | None:
    """Return host and port that a grading connects to; None if it connects to nothing, or through a proxy."""
    if config.base_url is None:
        return None if "https" in urllib.request.getproxies() else _VENDORS.get(config.prefix)
    url = urlsplit(config.base_url)
    assert url.hostname  # The configuration saw to it.
    if url.scheme in urllib.request.getproxies():
        return None
    return url.hostname, url.port or (443 if url.scheme == "https" else 80)


class Health:
    """Remembers how the last grading of this worker went.

    Args:
        address: where to try a connection when there was no grading lately; None tries nothing.
        window: seconds that "lately" is.
        clock: seconds that only grow.
    """

    def __init__(
        self, address: tuple[str, int] | None, *, window: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._address, self._window, self._clock = address, window, clock
        self._known: tuple[float, bool] | None = None
        self._trying = asyncio.Lock()

    def grading(self, grading: Grading) -> None:
        """Learn from a grading."""
        if grading.usage.calls:
            self._learn(grading.reason not in _UNREACHED)

    async def ready(self) -> bool:
        """Tell whether the provider could be reached lately."""
        async with self._trying:
            if self._known is None or self._clock() - self._known[0] > self._window:
                self._learn(await self._reach())
        return self._known is None or self._known[1]

    def _learn(self, reached: bool) -> None:
        self._known = (self._clock(), reached)

    async def _reach(self) -> bool:
        if self._address is None:
            return True
        try:
            async with asyncio.timeout(_PATIENCE):
                _, writer = await asyncio.open_connection(*self._address)
        except (OSError, ValueError):  # The second is for what can be no host.
            return False
        writer.close()
        return True
