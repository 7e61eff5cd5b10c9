"""Health, metrics, logs and spans."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import SecretStr

from pruner.backends.scripted import ScriptedBackend
from pruner.config import PrunerConfig
from pruner.errors import BackendError, Reason
from pruner.pipeline import Pruner
from pruner.schema import Grading, GradingRequest, RawGrading, Status, Usage
from pruner.service.app import make_app
from pruner.service.errors import Code, Refusal
from pruner.service.health import Health, provider_address
from pruner.service.limits import Admission
from pruner.service.logs import JsonFormatter, configure
from pruner.service.settings import ServiceSettings
from pruner.service.tracing import Tracing
from tests.faulty import answering, faulty
from tests.provider import Reply, serve
from tests.service.served import KEY, KEYS, THREE, app_of, client, first_needed, post

pytestmark = pytest.mark.anyio
SECRET = {"query": "secret question", "chunks": ["secret passage", {"text": "other secret", "title": "secret title"}]}


def failing(reason: Reason) -> Any:
    def answer(request: GradingRequest) -> RawGrading:
        raise BackendError(reason, "no")

    return answer


# Health


async def test_the_process_lives_whatever_the_provider_does() -> None:
    async with client(app_of(failing(Reason.PROVIDER_ERROR))) as http:
        await http.post("/v1/prune", json=THREE)
        assert (await http.get("/healthz")).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.PROVIDER_ERROR, 503),
        (Reason.TIMEOUT, 503),
        (Reason.AUTH, 503),
        (Reason.RATE_LIMITED, 200),
        (Reason.REFUSED, 200),
    ],
)
async def test_readiness_follows_what_the_last_grading_met(reason: Reason, code: int) -> None:
    async with client(app_of(failing(reason))) as http:
        await http.post("/v1/prune", json=THREE)
        response = await http.get("/readyz")
    assert response.status_code == code
    if code == 503:
        assert (response.json()["error"]["code"], response.headers["retry-after"]) == ("not_ready", "1")


async def test_readiness_is_answered_before_any_grading() -> None:
    with serve(Reply()) as provider:
        config = PrunerConfig(base_url=provider.url)
        async with client(app_of(config=config)) as http:
            assert (await http.get("/readyz")).json() == {"status": "ok"}
    async with client(app_of(config=config)) as http:
        assert (await http.get("/readyz")).status_code == 503


async def test_without_a_grading_lately_a_connection_is_tried() -> None:
    with serve(Reply()) as provider:
        address = provider_address(PrunerConfig(base_url=provider.url))
        assert await Health(address).trouble() is None
    assert await Health(address).trouble() == "no connection to the provider could be opened"


@pytest.mark.parametrize("host", ["a" * 70, "two..dots", "no\0host"])
async def test_a_host_that_can_have_no_address_is_not_reached(host: str) -> None:
    assert await Health((f"{host}.test", 443)).trouble()


def met(reason: Reason | None) -> Grading:
    return Grading((None,), (None,), Status.FALLBACK if reason else Status.OK, reason, usage=Usage(0, 0, 0, 1))


@pytest.mark.parametrize(
    ("reason", "told", "forgotten"),
    [
        (Reason.PROVIDER_ERROR, "the last grading met a fault of the provider or of the network", 3.1),
        (Reason.TIMEOUT, "the last grading got no answer in time", 3.1),
        (Reason.AUTH, "the provider refused the key", 30.1),
    ],
)
async def test_what_a_grading_met_is_told_and_soon_looked_at_again(reason: Reason, told: str, forgotten: float) -> None:
    now = [0.0]
    with serve(Reply()) as provider:
        health = Health(provider_address(PrunerConfig(base_url=provider.url)), clock=lambda: now[0])
        health.grading(met(reason))
        for now[0] in (0.0, forgotten - 0.2):
            assert await health.trouble() == told
        now[0] = forgotten
        assert await health.trouble() is None


async def test_a_provider_that_could_not_be_reached_is_soon_tried_again_by_one_connection_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, tried = [0.0], [0]

    async def connect(*address: Any) -> Any:
        tried[0] += 1
        raise ConnectionRefusedError

    monkeypatch.setattr("pruner.service.health.asyncio.open_connection", connect)
    health = Health(("provider.test", 443), clock=lambda: now[0])
    for now[0], expected in ((0.0, 1), (2.9, 1), (3.1, 2)):
        assert all(await asyncio.gather(*(health.trouble() for _ in range(20))))
        assert tried == [expected]


async def test_a_good_grading_ends_the_trouble_at_once() -> None:
    health = Health(("provider.test", 443))
    health.grading(met(Reason.AUTH))
    health.grading(met(None))
    assert await health.trouble() is None


@pytest.mark.parametrize(
    ("dials", "address"),
    [
        ({"model": "openai:m"}, ("api.openai.com", 443)),
        ({"model": "anthropic:m"}, ("api.anthropic.com", 443)),
        ({"base_url": "http://own:8080/v1"}, ("own", 8080)),
        ({"base_url": "https://own/v1"}, ("own", 443)),
        ({"model": "local:m"}, None),
        ({"model": "litellm:vendor/m"}, None),
    ],
)
def test_the_address_of_the_provider_is_known(
    dials: dict[str, Any], address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert provider_address(PrunerConfig(**dials)) == address
    monkeypatch.setenv("https_proxy", "http://proxy:1")
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    assert provider_address(PrunerConfig(**dials)) is None


# Metrics


async def metrics_after(app: Any, *bodies: Any, path: str = "/v1/prune") -> dict[str, float]:
    async with client(app) as http:
        for body in bodies:
            await http.post(path, json=body)
        response = await http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = (line.rpartition(" ") for line in response.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


async def test_metrics_count_requests_results_chunks_tokens_and_gradings() -> None:
    found = await metrics_after(app_of(), THREE, THREE, {"query": 3})
    expected = {
        'pruner_requests_total{code="200",path="/v1/prune"}': 2,
        'pruner_requests_total{code="422",path="/v1/prune"}': 1,
        'pruner_results_total{arm="pruner",reason="",status="ok"}': 2,
        'pruner_chunks_total{which="given"}': 6,
        'pruner_chunks_total{which="kept"}': 2,
        'pruner_tokens_total{kind="input"}': 200,
        'pruner_tokens_total{kind="output"}': 20,
        'pruner_tokens_total{kind="cached"}': 80,
        "pruner_grading_seconds_count": 2,
        "pruner_in_flight": 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert "pruner_cost_dollars_total" in found


async def test_the_default_model_is_named_and_priced_wherever_the_library_does(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pruner.service.app.make_backend", lambda config: ScriptedBackend(first_needed))
    config, decisions = PrunerConfig(keep_top_k=0, api_key=SecretStr("k")), tmp_path / "decisions.jsonl"
    library = Pruner(config)
    cost = library._price(Usage(100, 10, 40, 1))
    assert cost
    with caplog.at_level("INFO", "pruner"):
        async with client(make_app(ServiceSettings(decision_log=decisions, ab_salt="s"), config)) as http:
            answer = (await http.post("/v1/prune", json={**THREE, "trace": True})).json()
            text = (await http.get("/metrics")).text
    [line] = [written(record) for record in caplog.records if record.getMessage() == "request"][:1]
    decision = json.loads(decisions.read_text(encoding="utf-8"))
    assert {library.model, answer["trace"]["model"], decision["model"]} == {"openai:gpt-4o-mini"}
    assert {answer["usage"]["cost"], decision["usage"]["cost"], line["cost"]} == {cost}
    assert f"pruner_cost_dollars_total {cost}" in text
    await library.aclose()


async def test_a_backend_of_the_operators_own_is_not_taken_for_the_default_model() -> None:
    async with client(make_app(ServiceSettings(), PrunerConfig(), backend=ScriptedBackend(first_needed))) as http:
        answer = (await http.post("/v1/prune", json={**THREE, "trace": True})).json()
    assert (answer["trace"]["model"], answer["usage"]["cost"]) == ("ScriptedBackend", None)


async def test_metrics_count_fallbacks_by_reason() -> None:
    found = await metrics_after(app_of(failing(Reason.RATE_LIMITED)), THREE)
    assert found['pruner_results_total{arm="pruner",reason="rate_limited",status="fallback"}'] == 1


async def test_paths_that_there_are_not_make_no_series_of_their_own() -> None:
    async with client(app_of()) as http:
        for n in range(3):
            await http.get(f"/nothing/{n}")
        text = (await http.get("/metrics")).text
    assert 'pruner_requests_total{code="404",path="other"} 3.0' in text
    assert "nothing" not in text


@pytest.mark.parametrize("path", ["/v1/prune", "/v1/rerank", "/rerank"])
@pytest.mark.parametrize(
    ("settings", "headers", "code"),
    [
        ({"api_keys": KEYS}, {}, 401),
        ({}, {"host": "foreign.example"}, 403),
        ({"max_body": 1}, {}, 413),
        ({}, {"content-type": "text/plain"}, 415),
        ({"api_keys": KEYS, "max_per_key": 1}, {"authorization": f"Bearer {KEY}"}, 429),
        ({"max_in_flight": 1}, {}, 503),
    ],
)
async def test_what_is_refused_unread_counts_for_its_path(
    path: str, settings: dict[str, Any], headers: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code in (429, 503):
        refusal = Refusal(Code.TOO_MANY_REQUESTS if code == 429 else Code.TOO_BUSY, "full")
        monkeypatch.setattr(Admission, "request", Mock(side_effect=refusal))
    app = app_of(metrics_public=True, **settings)
    async with client(app) as http:
        assert (await http.post(path, json=THREE, headers=headers)).status_code == code
        text = (await http.get("/metrics")).text
    assert f'pruner_requests_total{{code="{code}",path="{path}"}} 1.0' in text


async def test_a_wrong_method_counts_for_its_path() -> None:
    async with client(app_of()) as http:
        await http.get("/v1/prune")
        text = (await http.get("/metrics")).text
    assert 'pruner_requests_total{code="405",path="/v1/prune"} 1.0' in text


# Logs


def written(record: logging.LogRecord, *, content: bool = False) -> dict[str, Any]:
    line = JsonFormatter(content=content).format(record)
    assert "\n" not in line
    parsed: dict[str, Any] = json.loads(line)
    return parsed


async def logged(caplog: pytest.LogCaptureFixture, app: Any, body: Any, **headers: str) -> list[dict[str, Any]]:
    with caplog.at_level("DEBUG"):
        await post(app, "/v1/prune", body, **headers)
    return [written(record) for record in caplog.records if record.name.startswith("pruner")]


async def test_a_request_is_one_json_line(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"x-request-id": "abc", "authorization": f"Bearer {KEY}"}
    [line] = await logged(caplog, app_of(api_keys=KEYS), THREE, **headers)
    assert {name: line[name] for name in ("message", "method", "path", "code", "key", "status", "chunks", "kept")} == {
        "message": "request",
        "method": "POST",
        "path": "/v1/prune",
        "code": 200,
        "key": "team-a",
        "status": "ok",
        "chunks": 3,
        "kept": 1,
    }


async def test_every_line_of_a_request_has_its_id(caplog: pytest.LogCaptureFixture) -> None:
    ids = []
    handler = logging.Handler()
    handler.emit = lambda record: ids.append(written(record)["request_id"])  # type: ignore[method-assign]
    logging.getLogger("pruner").addHandler(handler)
    try:
        with caplog.at_level("INFO"):
            await post(app_of(failing(Reason.AUTH)), "/v1/prune", THREE, **{"x-request-id": "abc"})
    finally:
        logging.getLogger("pruner").removeHandler(handler)
    assert ids == ["abc", "abc"]  # The library's warning, and the request.


@pytest.mark.parametrize("answer", [first_needed, failing(Reason.TIMEOUT), lambda _: RawGrading(text="secret reply")])
async def test_no_text_is_in_any_line(caplog: pytest.LogCaptureFixture, answer: Any) -> None:
    for body in (SECRET, {**SECRET, "secret": 1, "query": 3}):
        lines = await logged(caplog, app_of(answer), body)
        assert lines
        assert "secret" not in json.dumps(lines)


async def test_text_is_logged_where_the_operator_says_so(caplog: pytest.LogCaptureFixture) -> None:
    line = (await logged(caplog, app_of(log_content=True), SECRET))[-1]
    assert (line["query"], line["texts"]) == ("secret question", ["secret passage", "other secret"])


@pytest.mark.parametrize("content", [False, True])
def test_an_exceptions_own_words_are_logged_with_content_only(content: bool) -> None:
    try:
        raise ValueError("secret words")
    except ValueError as error:
        raised = (ValueError, error, error.__traceback__)
    line = written(logging.LogRecord("pruner", 40, "", 0, "a bug", None, raised), content=content)
    assert (line["error"], "secret" in json.dumps(line)) == ("ValueError", content)
    assert "test_system.py" in line["at"][0]


def test_vendors_do_not_log_whole_requests() -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    vendors = [logging.getLogger(name) for name in ("openai", "anthropic", "httpx2")]
    levels = [vendor.level for vendor in vendors]
    try:
        configure("debug", content=False)
        assert not any(vendor.isEnabledFor(logging.INFO) for vendor in vendors)
        assert logging.getLogger("pruner.service").isEnabledFor(logging.DEBUG)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        for vendor, old in zip(vendors, levels, strict=True):
            vendor.setLevel(old)


# Spans


def traced(answer: Any = first_needed) -> tuple[Any, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    config = PrunerConfig(model="openai:small", keep_top_k=0, base_url="http://127.0.0.1:9/v1")
    tracing = Tracing(SimpleSpanProcessor(exporter), config)
    return make_app(ServiceSettings(), config, backend=ScriptedBackend(answer), tracing=tracing), exporter


async def test_a_request_is_a_span_below_the_callers_and_above_the_models() -> None:
    app, exporter = traced()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await post(app, "/v1/prune", SECRET, traceparent=parent)
    call, request = exporter.get_finished_spans()
    assert (request.name, request.kind, call.name, call.kind) == (
        "POST /v1/prune",
        SpanKind.SERVER,
        "chat small",
        SpanKind.CLIENT,
    )
    assert request.context is not None
    assert request.parent is not None
    assert call.parent is not None
    assert f"{request.context.trace_id:x}" == parent.split("-")[1].lstrip("0")
    assert (request.parent.span_id, call.parent.span_id) == (int(parent.split("-")[2], 16), request.context.span_id)


async def test_the_models_span_follows_the_genai_conventions() -> None:
    app, exporter = traced()
    await post(app, "/v1/prune", SECRET)
    assert dict(exporter.get_finished_spans()[0].attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 40,
    }


async def test_a_failed_call_is_a_failed_span_and_no_text_is_in_any() -> None:
    app, exporter = traced(failing(Reason.AUTH))
    await post(app, "/v1/prune", SECRET)
    call, request = exporter.get_finished_spans()
    assert (call.status.status_code, (call.attributes or {})["error.type"]) == (StatusCode.ERROR, "auth")
    assert request.status.status_code is StatusCode.UNSET  # It was answered: by the reranker's order.
    assert (request.attributes or {})["pruner.reason"] == "auth"
    assert "secret" not in "".join(span.to_json() for span in (call, request))


async def test_spans_arrive_at_an_otlp_endpoint() -> None:
    with faulty(answering(b"")) as collector:
        settings = ServiceSettings(otlp_endpoint=collector.url.removesuffix("/v1"))
        app = make_app(settings, PrunerConfig(keep_top_k=0), backend=ScriptedBackend(first_needed))
        await post(app, "/v1/prune", THREE)
    assert collector.calls == ["POST /v1/traces HTTP/1.1"]
