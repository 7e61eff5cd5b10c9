"""OpenTelemetry spans by the GenAI conventions: one for each request, one for each call of the model; without text."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pruner.backends import Backend
from pruner.config import PrunerConfig
from pruner.errors import ConfigError, GradingError
from pruner.schema import GradingRequest, RawGrading

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

__all__ = ["Tracing", "make_tracing", "otlp_processor"]

_ATTEMPT = {"gen_ai.operation.name": "chat"}


class Tracing:
    """Writes spans.

    Args:
        processor: takes the finished spans.
        config: whom the spans say was asked.

    Raises:
        ConfigError: the extra `otel` is not installed.
    """

    def __init__(self, processor: "SpanProcessor", config: PrunerConfig) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace import SpanKind, StatusCode

        self._provider = TracerProvider(resource=Resource.create({"service.name": "pruner"}))
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("pruner")
        self._extract, self._kind, self._failed = extract, SpanKind, StatusCode.ERROR
        named = {"gen_ai.provider.name": config.prefix, "gen_ai.request.model": config.model_name}
        self._model, self._attributes = config.model_name, {**_ATTEMPT, **named}

    @contextmanager
    def request(self, method: str, path: str, headers: Mapping[str, str], note: Mapping[str, Any]) -> Iterator[None]:
        """Write the span of a request, below the caller's own where it names one; `note` is read at the end."""
        context = self._extract(headers)
        with self._tracer.start_as_current_span(
            f"{method} {path}", context, self._kind.SERVER, {"http.request.method": method, "http.route": path}
        ) as span:
            yield
            span.set_attributes({name: value for name, value in _attributes(note).items() if value is not None})
            if note.get("code", 0) >= 500:
                span.set_status(self._failed)

    async def call(self, backend: Backend, request: GradingRequest) -> RawGrading:
        """Ask once, and write the span of it."""
        with self._tracer.start_as_current_span(
            f"chat {self._model}",
            kind=self._kind.CLIENT,
            attributes=self._attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                raw = await backend.grade(request)
            except BaseException as error:
                span.set_status(self._failed)
                span.set_attribute("error.type", str(error.reason) if isinstance(error, GradingError) else _name(error))
                raise
            span.set_attribute("gen_ai.usage.input_tokens", raw.usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", raw.usage.output_tokens)
            span.set_attribute("gen_ai.usage.cache_read.input_tokens", raw.usage.cached_tokens)
            return raw

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def around(self, backend: Backend) -> Backend:
        """Return a backend whose calls are traced."""
        return _Traced(backend, self)


class _Traced:
    def __init__(self, backend: Backend, tracing: Tracing) -> None:
        self._backend, self._tracing = backend, tracing

    async def grade(self, request: GradingRequest) -> RawGrading:
        return await self._tracing.call(self._backend, request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def _name(error: BaseException) -> str:
    return type(error).__name__


def _attributes(note: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "http.response.status_code": note.get("code"),
        "pruner.status": note.get("status"),
        "pruner.reason": note.get("reason"),
        "pruner.arm": note.get("arm"),
        "pruner.chunks": note.get("chunks"),
        "pruner.kept": note.get("kept"),
    }


def make_tracing(endpoint: str | None, config: PrunerConfig) -> Tracing | None:
    """Return what sends spans to an OTLP endpoint; None without one.

    Raises:
        ConfigError: the extra `otel` is not installed.
    """
    return None if endpoint is None else Tracing(otlp_processor(endpoint), config)


def otlp_processor(endpoint: str) -> "SpanProcessor":
    """Return what sends spans over HTTP, in batches, from a thread of its own."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ConfigError("an OTLP endpoint needs the extra: pip install 'listwise-pruner[otel]'") from None
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces", timeout=5))
