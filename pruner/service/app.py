"""The app: routes, what they work with, and what stands before them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Response, Security
from fastapi.middleware.cors import CORSMiddleware
from fastapi.security import HTTPBearer
from starlette.routing import Route

from pruner.backends import Backend, ClosableBackend, make_backend
from pruner.config import PrunerConfig
from pruner.decision_log import DecisionLog
from pruner.pipeline import Pruner
from pruner.rollout import Rollout
from pruner.schema import GradingRequest, RawGrading
from pruner.service import page, prune, rerank
from pruner.service.bounded import BoundedPruner
from pruner.service.errors import Code, Problem, Refusal, handle_errors
from pruner.service.front import Front
from pruner.service.gateway import Gateway
from pruner.service.health import Health, provider_address
from pruner.service.limits import Admission
from pruner.service.logs import log as service_log
from pruner.service.metrics import Metrics
from pruner.service.parts import Parts, parts_of
from pruner.service.settings import ServiceSettings
from pruner.service.tracing import Tracing, make_tracing
from pruner.service.upstream import Upstream

__all__ = ["make_app"]

system = APIRouter()

# Seconds beyond its deadline that a grading may take to end.
_MARGIN = 1
_CORS_HEADERS = ["authorization", "content-type", "x-prune-key", "x-request-id"]
_CORS_HEADERS += ["mcp-protocol-version", "mcp-method", "mcp-name"]  # What a page must send to `/mcp`.


@system.head("/healthz", include_in_schema=False)
@system.get("/healthz", summary="Whether this process lives")
async def _healthz() -> dict[str, str]:
    return {"status": "ok"}


@system.head("/readyz", include_in_schema=False)
@system.get(
    "/readyz",
    summary="Whether the provider answered lately, or can be reached",
    responses={503: {"model": Problem, "description": "`not_ready`"}},
)
async def _readyz(parts: Annotated[Parts, Depends(parts_of)]) -> dict[str, str]:
    if trouble := await parts.health.trouble():
        raise Refusal(Code.NOT_READY, f"{trouble}; lists are answered in reranker order while this lasts")
    return {"status": "ok"}


@system.get(
    "/metrics",
    summary="What Prometheus reads",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
async def _metrics(parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    return Response(parts.metrics.render(), media_type="text/plain; version=0.0.4")


_ROUTERS = (prune.router, rerank.router, system, page.router)
# By which requests are counted that are refused before their route is looked for.
_PATHS = {"/mcp"} | {route.path for router in _ROUTERS for route in router.routes if isinstance(route, Route)}


def make_app(
    settings: ServiceSettings,
    config: PrunerConfig,
    *,
    backend: Backend | None = None,
    tracing: Tracing | None = None,
) -> FastAPI:
    """Make the service.

    Args:
        settings: of the service.
        config: of the pruner.
        backend: whom to ask, instead of the one `config.model` names; its owner closes it.
        tracing: where spans go, instead of the endpoint in the settings; closed with the app.

    Raises:
        ConfigError: a key, an extra, a prompt or a model is missing, or the log of decisions cannot be written.
    """
    tracing = tracing or make_tracing(settings.otlp_endpoint, config)
    admission = Admission(settings.max_concurrent, settings.max_in_flight, settings.max_per_key)
    metrics, health = Metrics(), Health(None if settings.mode == "off" else provider_address(config))
    asked = backend or (_Nobody() if settings.mode == "off" else make_backend(config))
    config = config if backend else _naming_the_model(config)
    pruner = BoundedPruner(config, tracing.around(asked) if tracing else asked, admission, metrics, health)
    upstream = Upstream(settings.upstream, settings) if settings.upstream else None
    log = DecisionLog(settings.decision_log, tell=metrics.line) if settings.decision_log else None
    rollout = _rollout(pruner, settings, log)
    parts = Parts(settings, config, Gateway(pruner, rollout, metrics), metrics, health, upstream)
    app = _bare_app(_lifespan(rollout, config.timeout, log, None if backend else asked, upstream, tracing))
    app.state.parts = parts
    app.state.settings = settings
    app.state.paths = _PATHS
    secured = [Security(HTTPBearer(auto_error=False))] if settings.api_keys else []
    app.include_router(prune.router, tags=["prune"], dependencies=secured)
    app.include_router(rerank.router, tags=["rerank"], dependencies=secured)
    app.include_router(system, tags=["system"])
    app.include_router(page.router)
    handle_errors(app)
    app.add_middleware(Front, settings=settings, admission=admission, metrics=metrics, tracing=tracing)
    if settings.cors_origins:
        allowed: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": _CORS_HEADERS}
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **allowed)
    return app


class _Nobody:
    """Stands for the model where none is asked: no key, SDK or model file is needed."""

    async def grade(self, request: GradingRequest) -> RawGrading:
        raise AssertionError("mode 'off' asks no model")


def _naming_the_model(config: PrunerConfig) -> PrunerConfig:
    """Return the dials with the model set, if only by default: a pruner given a backend takes that for another's."""
    return config.model_copy(update={"model": config.model})


def _rollout(pruner: Pruner, settings: ServiceSettings, log: DecisionLog | None) -> Rollout:
    return Rollout(
        pruner,
        settings.mode,
        ab_share=settings.ab_share,
        ab_salt=settings.ab_salt,
        log=log,
        log_content=settings.log_content,
        max_shadows=settings.max_concurrent,
    )


def _bare_app(lifespan: Any) -> FastAPI:
    return FastAPI(
        title="pruner",
        summary="Drops the retrieved chunks an answer does not need.",
        version=version("listwise-pruner"),
        lifespan=lifespan,
        docs_url=None,  # Their scripts would come from another host.
        redoc_url=None,
        redirect_slashes=False,  # It would name any Host, and by http: a body would be sent again in clear.
    )


def _lifespan(
    rollout: Rollout,
    longest: float,
    log: DecisionLog | None,
    owned: Backend | None,
    upstream: Upstream | None,
    tracing: Tracing | None,
) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        _warn_of_keys(app.state.settings)
        async with AsyncExitStack() as last:  # From the last line here to the first.
            if tracing:
                last.callback(tracing.close)
            if upstream:
                last.push_async_callback(upstream.aclose)
            if isinstance(owned, ClosableBackend):
                last.push_async_callback(owned.aclose)
            if log:
                last.push_async_callback(asyncio.to_thread, log.close)
            last.push_async_callback(_drain, rollout, longest + _MARGIN)
            yield

    return lifespan


def _warn_of_keys(settings: ServiceSettings) -> None:
    """Say so where a key that is logged can be found by trying names."""
    if settings.decision_log and not settings.ab_salt:
        service_log.warning("names can be found from the decision log's hashes of keys, as ab_salt is empty: set it")


async def _drain(rollout: Rollout, patience: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await rollout.drain()
