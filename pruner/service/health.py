"""Whether the provider could be reached lately, by what the gradings met, else by opening a connection."""

import asyncio
import math
import time
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

from pruner.config import PrunerConfig
from pruner.errors import Reason
from pruner.schema import Grading

__all__ = ["Health", "provider_address"]

_VENDORS = {"openai": ("api.openai.com", 443), "anthropic": ("api.anthropic.com", 443)}
# After any other reason a provider is there, whatever it answered.
_TROUBLES = {
    Reason.TIMEOUT: "the last grading got no answer in time",
    Reason.PROVIDER_ERROR: "the last grading met a fault of the provider or of the network",
    Reason.AUTH: "the provider refused the key",
}
_UNREACHED = "no connection to the provider could be opened"
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
        retry: seconds after which a connection is tried when something failed; not for a refused key, of which a
            connection tells nothing.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        address: tuple[str, int] | None,
        *,
        window: float = 30.0,
        retry: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._window, self._retry, self._clock = address, window, retry, clock
        self._trouble: str | None = None
        self._until = -math.inf  # Until then it is known.
        self._trying = asyncio.Lock()

    def grading(self, grading: Grading) -> None:
        """Learn from a grading."""
        if grading.usage.calls:
            self._learn(_TROUBLES.get(grading.reason) if grading.reason else None)

    async def trouble(self) -> str | None:
        """Say what went wrong lately with the provider; None if nothing did."""
        async with self._trying:  # One connection is tried, however many ask.
            if self._clock() > self._until:
                self._learn(None if await self._reach() else _UNREACHED)
        return self._trouble

    def _learn(self, trouble: str | None) -> None:
        lasting = trouble is None or trouble == _TROUBLES[Reason.AUTH]
        self._trouble = trouble
        self._until = self._clock() + (self._window if lasting else self._retry)

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
