"""What the routes work with, made once for each worker."""

from dataclasses import dataclass

from fastapi import Request

from pruner.config import PrunerConfig
from pruner.service.gateway import Gateway
from pruner.service.health import Health
from pruner.service.metrics import Metrics
from pruner.service.settings import ServiceSettings
from pruner.service.upstream import Upstream

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True)
class Parts:
    """The service behind its routes."""

    settings: ServiceSettings
    config: PrunerConfig
    gateway: Gateway
    metrics: Metrics
    health: Health
    upstream: Upstream | None


async def parts_of(request: Request) -> Parts:
    """Return the parts of the app that a request came to."""
    parts = request.app.state.parts
    assert isinstance(parts, Parts)
    return parts
