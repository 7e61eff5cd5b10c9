import logging
from typing import Any

import pytest

from pruner.config import PrunerConfig
from pruner.schema import GradingRequest, RawGrading
from tests.service.served import KEY, KEYS, OTHER_KEY, THREE, app_of, client, post

pytestmark = pytest.mark.anyio


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize("key", [KEY, OTHER_KEY])
async def test_each_of_several_keys_lets_in(key: str) -> None:
    assert (await post(app_of(api_keys=KEYS), "/v1/prune", THREE, **bearer(key))).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer(""),
        bearer("wrong"),
        bearer(KEY[:-1]),
        bearer(KEY + "x"),
        bearer(KEYS["team-a"]),
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
        {"authorization": "Bearer \xe9"},
        {"x-api-key": KEY},
    ],
)
@pytest.mark.parametrize(
    "path", ["/v1/prune", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/assemble", "/v1/new", "/metrics"]
)
async def test_nobody_else_is_let_in_anywhere_work_is_done(path: str, headers: dict[str, str]) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with client(app_of(api_keys=KEYS)) as http:
        response = await http.request("GET" if path == "/metrics" else "POST", path, json=THREE, headers=raw)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_a_key_is_looked_at_before_the_body() -> None:
    response = await post(app_of(api_keys=KEYS, max_body=10), "/v1/prune", THREE)
    assert response.status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
async def test_health_and_documentation_need_no_key(path: str) -> None:
    async with client(app_of(api_keys=KEYS)) as http:
        assert (await http.get(path)).status_code in (200, 503)


async def test_metrics_can_be_opened() -> None:
    async with client(app_of(api_keys=KEYS, metrics_public=True)) as http:
        assert (await http.get("/metrics")).status_code == 200


@pytest.mark.parametrize("host", ["rebound.example", "rebound.example:8000", "10.0.0.1", "127.0.0.1.evil.example", ""])
async def test_without_keys_only_a_loopback_host_is_answered(host: str) -> None:
    response = await post(app_of(), "/v1/prune", THREE, host=host)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
async def test_every_loopback_name_is_answered(host: str) -> None:
    assert (await post(app_of(), "/v1/prune", THREE, host=host)).status_code == 200


async def test_with_keys_any_host_is_answered_unless_some_are_named() -> None:
    headers = {"host": "pruner.internal", **bearer(KEY)}
    assert (await post(app_of(api_keys=KEYS), "/v1/prune", THREE, **headers)).status_code == 200
    named = app_of(api_keys=KEYS, allowed_hosts=("other.internal",))
    assert (await post(named, "/v1/prune", THREE, **headers)).status_code == 403


@pytest.mark.parametrize(
    "settings",
    [{"api_keys": KEYS}, {"api_keys": KEYS, "metrics_public": True}, {"allow_unauthenticated": True}],
)
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_may_call_by_the_address_of_a_pod(path: str, settings: dict[str, Any]) -> None:
    app = app_of(allowed_hosts=("pruner.prod",), **settings)
    async with client(app, host="10.2.3.4:8000", **bearer(KEY)) as http:
        assert (await http.get(path)).status_code in (200, 503)
        assert (await http.get("/")).status_code == 403


@pytest.mark.parametrize(("path", "code"), [("/healthz", 200), ("/metrics", 403)])
async def test_without_keys_a_page_that_names_us_by_its_own_reads_no_numbers(path: str, code: int) -> None:
    async with client(app_of(), host="rebound.example") as http:
        assert (await http.get(path)).status_code == code


async def test_health_says_nothing_of_the_operators() -> None:
    app = app_of(config=PrunerConfig(base_url="http://127.0.0.1:9/v1", model="openai:secret-model"))
    async with client(app) as http:
        told = [(await http.get(path)).text for path in ("/healthz", "/readyz")]
    assert not [text for text in told if "secret-model" in text or "127.0.0.1" in text or "openai" in text]


@pytest.mark.parametrize("allowed", ["pruner.prod", "Pruner.Prod", "pruner.prod:9203"])
@pytest.mark.parametrize("host", ["pruner.prod", "PRUNER.prod:8000"])
async def test_a_host_is_allowed_whatever_its_case_and_port(allowed: str, host: str) -> None:
    app = app_of(api_keys=KEYS, allowed_hosts=(allowed,))
    assert (await post(app, "/v1/prune", THREE, host=host, **bearer(KEY))).status_code == 200


@pytest.mark.parametrize("allowed", ["::1", "[::1]", "[::1]:8000"])
async def test_an_address_is_allowed_with_and_without_brackets(allowed: str) -> None:
    assert (await post(app_of(allowed_hosts=(allowed,)), "/v1/prune", THREE, host="[::1]:8000")).status_code == 200


@pytest.mark.parametrize("path", ["/v1/prune/", "/v1/rerank/", "/v2/rerank/", "/rerank/", "/healthz/", "/metrics/"])
async def test_no_path_sends_a_client_elsewhere(path: str) -> None:
    async with client(app_of(api_keys=KEYS), host="foreign.example", **bearer(KEY)) as http:
        response = await http.request("GET" if path in ("/healthz/", "/metrics/") else "POST", path, json=THREE)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    assert "location" not in response.headers


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
async def test_head_is_answered_as_get(path: str) -> None:
    async with client(app_of()) as http:
        assert (await http.head(path)).status_code == (await http.get(path)).status_code


async def test_the_callers_request_id_comes_back() -> None:
    response = await post(app_of(), "/v1/prune", THREE, **{"x-request-id": "abc-123"})
    assert response.headers["x-request-id"] == response.json()["request_id"] == "abc-123"


@pytest.mark.parametrize("given", ["", "a b", 'a"b', "x" * 129, "é"])
async def test_an_odd_request_id_is_replaced(given: str) -> None:
    async with client(app_of()) as http:
        response = await http.post("/v1/prune", json=THREE, headers=[(b"x-request-id", given.encode())])
    assert response.headers["x-request-id"] not in ("", given)
    assert response.headers["x-request-id"].isalnum()


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/v1/prune"])
async def test_every_answer_has_the_security_headers(path: str) -> None:
    async with client(app_of()) as http:
        headers = (await http.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["cache-control"] == "no-store"


async def test_cors_is_off() -> None:
    preflight = {"origin": "https://a.example", "access-control-request-method": "POST"}
    async with client(app_of()) as http:
        response = await http.options("/v1/prune", headers=preflight)
        answered = await http.post("/v1/prune", json=THREE, headers=preflight)
    for headers in (response.headers, answered.headers):
        assert not [name for name in headers if name.startswith("access-control")]


async def test_cors_is_on_for_the_origins_that_are_named() -> None:
    preflight = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,x-prune-key"}
    async with client(app_of(cors_origins=("https://a.example",), api_keys=KEYS)) as http:
        good = await http.options("/v1/prune", headers={"origin": "https://a.example", **preflight})
        bad = await http.options("/v1/prune", headers={"origin": "https://b.example", **preflight})
    assert (good.status_code, good.headers["access-control-allow-origin"]) == (200, "https://a.example")
    assert "access-control-allow-origin" not in bad.headers


async def test_a_bug_is_answered_in_the_one_shape_and_logged_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: GradingRequest) -> RawGrading:
        raise ZeroDivisionError("secret words")

    response = await post(app_of(broken), "/v1/prune", THREE)
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in response.text
    [record] = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "secret" not in record.getMessage()


async def test_the_documentation_says_a_key_is_needed_only_where_it_is() -> None:
    for keys in ({}, KEYS):
        async with client(app_of(api_keys=keys)) as http:
            operation = (await http.get("/openapi.json")).json()["paths"]["/v1/prune"]["post"]
        assert ("security" in operation) is bool(keys)
