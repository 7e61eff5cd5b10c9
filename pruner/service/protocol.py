"""The HTTP protocol of the server, which lets go of clients that do not read."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Protocol"]

# Seconds in which a client must have read on, once a piece of its answer waits.
_PATIENCE = 10.0


class Protocol(H11Protocol):
    """Cuts the connection of a client that stopped reading, so that its answer is held no longer."""

    _cutting: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Begin to wait for the client."""
        super().pause_writing()
        self._cutting = self.loop.call_later(_PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """Be done with waiting."""
        self._wait_no_more()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Be done with waiting."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait_no_more(self) -> None:
        if self._cutting:
            self._cutting.cancel()
            self._cutting = None
