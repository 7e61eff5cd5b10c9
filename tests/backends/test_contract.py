"""What holds for every backend that speaks to a server, over whatever SDK and wire format."""

import asyncio
import gc
import importlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from pruner import BackendError, ConfigError, Pruner, PrunerConfig, Reason
from pruner.backends import ClosableBackend, make_backend
from pruner.prompting import reply_schema
from pruner.schema import GradingRequest, RawGrading
from tests import faulty
from tests.provider import HANG, Provider, Reply, as_json, chat, message, serve

pytestmark = pytest.mark.anyio

REQUEST = GradingRequest("system text", "user text", 2, schema=reply_schema("pairs", 2), max_output_tokens=99)
PAIRS = '{"grades":[[1,5],[2,1],[3,1]]}'


def openai_error(text: str) -> Any:
    return {"error": {"message": text, "type": "some_error", "code": None}}


def anthropic_error(text: str) -> Any:
    return {"type": "error", "error": {"type": "some_error", "message": text}, "request_id": "r"}


@dataclass(frozen=True)
class Wire:
    """A backend and the format that its server speaks.

    Attributes:
        model: prefix and name.
        answer: an answer with that reply.
        error: the body of an error with that message.
        schema: where a body holds the schema of the reply.
        keys: what a body holds.
    """

    model: str
    answer: Callable[[str], Reply]
    error: Callable[[str], Any]
    schema: Callable[[dict[str, Any]], Any]
    keys: frozenset[str]

    def make(self, url: str, **dials: Any) -> ClosableBackend:
        backend = make_backend(PrunerConfig(model=self.model, base_url=url, **dials))
        assert isinstance(backend, ClosableBackend)
        return backend


def anthropic_answer(text: str) -> Reply:
    return message({"type": "text", "text": text})


def in_response_format(body: dict[str, Any]) -> Any:
    assert body["response_format"]["json_schema"]["strict"] is True
    return body["response_format"]["json_schema"]["schema"]


CHAT = frozenset({"model", "messages", "max_tokens", "response_format"})
MESSAGE = frozenset({"model", "messages", "max_tokens", "output_config", "system"})

WIRES = {
    "openai": Wire("openai:m", chat, openai_error, in_response_format, CHAT),
    "anthropic": Wire(
        "anthropic:m",
        anthropic_answer,
        anthropic_error,
        lambda body: body["output_config"]["format"]["schema"],
        MESSAGE,
    ),
    # One vendor that litellm asks through OpenAI's SDK, one that it asks itself, in another format.
    "litellm-sdk": Wire("litellm:openai/m", chat, openai_error, in_response_format, CHAT),
    "litellm-own": Wire(
        "litellm:anthropic/claude-haiku-4-5",
        anthropic_answer,
        anthropic_error,
        lambda body: body.get("output_config", {}).get("format", body.get("output_format"))["schema"],
        MESSAGE,
    ),
}
NO_LITELLM = pytest.mark.skipif(find_spec("litellm") is None, reason="the extra litellm is not installed")


def of(name: str) -> Any:
    return pytest.param(WIRES[name], id=name, marks=NO_LITELLM if "litellm" in name else ())


@pytest.fixture(params=[of(name) for name in WIRES])
def wire(request: pytest.FixtureRequest) -> Wire:
    found = request.param
    assert isinstance(found, Wire)
    return found


async def ask(wire: Wire, answer: Any, request: GradingRequest = REQUEST, **dials: Any) -> tuple[RawGrading, Provider]:
    with serve(answer) as provider:
        backend = wire.make(provider.url, **dials)
        try:
            return await backend.grade(request), provider
        finally:
            await backend.aclose()


async def fault(wire: Wire, answer: Any) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await ask(wire, answer)
    return caught.value


async def test_a_good_reply_is_read_with_its_usage(wire: Wire) -> None:
    raw, provider = await ask(wire, wire.answer(PAIRS))
    assert (raw.text, raw.finish, raw.usage.calls) == (PAIRS, "stop", 1)
    assert (raw.usage.input_tokens, raw.usage.output_tokens, raw.usage.cached_tokens) == (100, 10, 0)
    assert len(provider.requests) == 1


async def test_instructions_and_chunks_are_sent_in_turns_of_their_own(wire: Wire) -> None:
    _, provider = await ask(wire, wire.answer("{}"))
    (body,) = provider.requests
    turns = {turn["role"]: turn["content"] for turn in body["messages"]}
    assert "user text" in json.dumps(turns["user"])
    assert "system text" in json.dumps(turns.get("system", body.get("system")))
    assert "system text" not in json.dumps(turns["user"])
    assert 99 in (body.get("max_tokens"), body.get("max_completion_tokens"))


async def test_nothing_else_is_sent_than_what_was_asked_for(wire: Wire) -> None:
    _, provider = await ask(wire, wire.answer("{}"))
    older_names = {"output_format": "output_config"}
    assert {older_names.get(key, key) for key in provider.requests[0]} == wire.keys


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from objects(part)


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize("reply_format", ["pairs", "listed", "keyed"])
async def test_the_schema_is_closed_requires_every_key_and_has_no_ranges(
    wire: Wire, reply_format: str, reasons: bool
) -> None:
    schema = reply_schema(reply_format, 3, reasons=reasons)
    _, provider = await ask(wire, wire.answer("{}"), GradingRequest("s", "u", 3, schema=schema))
    sent = wire.schema(provider.requests[0])
    assert sent == schema
    ranges = {"minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern", "multipleOf"}
    for part in objects(sent):
        assert not ranges & part.keys()
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])


async def test_no_form_is_asked_for_where_none_is_wanted(wire: Wire) -> None:
    _, provider = await ask(wire, wire.answer("x"), GradingRequest("s", "u", 2))
    assert not {"response_format", "output_config", "output_format", "tools"} & provider.requests[0].keys()


async def test_a_temperature_is_sent_only_if_set(wire: Wire) -> None:
    _, without = await ask(wire, wire.answer("{}"))
    _, given = await ask(wire, wire.answer("{}"), temperature=0.5)
    assert "temperature" not in without.requests[0]
    assert given.requests[0]["temperature"] == 0.5


async def test_a_server_of_ones_own_gets_its_key_and_never_that_of_the_vendor(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "of-the-vendor")
    _, without = await ask(wire, wire.answer("{}"))
    _, with_key = await ask(wire, wire.answer("{}"), api_key="mine")
    assert "of-the-vendor" not in json.dumps(without.headers)
    assert "mine" in json.dumps(with_key.headers)


async def test_the_environment_of_the_sdk_does_not_redirect_us(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/elsewhere")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "authorization: Bearer foreign\nx-api-key: foreign")
    raw, provider = await ask(wire, wire.answer("x"), api_key="mine")
    assert raw.text == "x"
    assert "foreign" not in json.dumps(provider.headers)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", "ftp://127.0.0.1:1"),
        ("http_proxy", "http://h:abc"),
        ("ALL_PROXY", "http://[::1"),
        ("SSL_CERT_FILE", "/nowhere/certificates.pem"),
        ("SSL_CERT_FILE", __file__),
    ],
)
def test_a_proxy_or_certificates_of_the_environment_that_cannot_be_used_are_told_when_it_is_made(
    wire: Wire, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match="proxy or the certificates of the environment") as caught:
        wire.make("http://127.0.0.1:1/v1")
    assert "\n" not in str(caught.value)


async def test_a_proxy_that_becomes_unusable_later_is_a_fault_of_the_provider(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = wire.make("http://127.0.0.1:1/v1")
    monkeypatch.setenv("HTTP_PROXY", "ftp://127.0.0.1:1")
    with pytest.raises(BackendError) as caught:
        await backend.grade(REQUEST)
    assert (caught.value.reason, caught.value.retryable) == (Reason.PROVIDER_ERROR, False)
    await backend.aclose()


TOO_LONG = (Reason.CONTEXT_OVERFLOW, False)


@pytest.mark.parametrize(
    ("status", "text", "reason", "retryable"),
    [
        (400, "This model's maximum context length is 8192 tokens", Reason.CONTEXT_OVERFLOW, False),
        (400, "prompt is too long: 200001 tokens > 200000 maximum", Reason.CONTEXT_OVERFLOW, False),
        (401, "key", Reason.AUTH, False),
        (403, "key", Reason.AUTH, False),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed", *TOO_LONG),
        (402, "pay", Reason.BAD_REQUEST, False),
        (404, "no model", Reason.BAD_REQUEST, False),
        (407, "proxy", Reason.BAD_REQUEST, False),
        (413, "large", Reason.BAD_REQUEST, False),
        (413, "request_too_large", *TOO_LONG),
        (429, "rate", Reason.RATE_LIMITED, True),
        (500, "boom", Reason.PROVIDER_ERROR, True),
        (503, "overloaded", Reason.PROVIDER_ERROR, True),
        (529, "overloaded", Reason.PROVIDER_ERROR, True),
    ],
)
async def test_each_status_has_its_reason(wire: Wire, status: int, text: str, reason: Reason, retryable: bool) -> None:
    error = await fault(wire, as_json(wire.error(text), status))
    assert (error.reason, error.retryable) == (reason, retryable)


async def asked_once(wire: Wire, status: int, **error: Any) -> BackendError:
    """Return the fault that a provider's error ends in, after the one call that it is worth."""
    body = {"type": "error", "error": {"type": "some_error", "message": "m", **error}}
    with serve(as_json(body, status)) as provider:
        async with Pruner(PrunerConfig(model=wire.model, base_url=provider.url, timeout=30)) as pruner:
            result = await pruner.prune("q", ["a", "b", "c"])
        backend = wire.make(provider.url)
        with pytest.raises(BackendError) as caught:
            await backend.grade(REQUEST)
        await backend.aclose()
    assert (result.status, result.reason, len(provider.requests)) == ("fallback", caught.value.reason, 2)
    return caught.value


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "content_filter", "message": "filtered"}),
        (400, {"message": "m", "innererror": {"code": "ResponsibleAIPolicyViolation"}}),
        (400, {"message": "The prompt triggered Azure OpenAI's content management policy."}),
        (400, {"code": "invalid_prompt", "message": "Invalid prompt"}),
        (400, {"message": "your prompt was flagged as potentially violating our usage policy."}),
        (400, {"message": "Output blocked by content filtering policy"}),
        (400, {"code": "data_inspection_failed"}),
        (400, {"message": "<400> InternalError.Algo.DataInspectionFailed: Input text data may …"}),
        (400, {"code": "invalid_request_error", "message": "Content Exists Risk"}),
        (403, {"message": "m", "metadata": {"reasons": ["violence"], "flagged_input": "…"}}),
    ],
)
async def test_a_filter_refuses_and_is_asked_once(wire: Wire, status: int, error: dict[str, Any]) -> None:
    assert (await asked_once(wire, status, **error)).reason is Reason.REFUSED


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota"}),
        (429, {"type": "exceeded_current_quota_error"}),
        (429, {"code": "billing_not_active"}),
        (400, {"code": "billing_hard_limit_reached"}),
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}),
        (402, {"message": "Payment"}),
        (403, {"message": "Insufficient credits"}),
    ],
)
async def test_an_account_that_may_not_spend_more_is_told_so_and_asked_once(
    wire: Wire, status: int, error: dict[str, Any]
) -> None:
    found = await asked_once(wire, status, **error)
    assert found.reason is {402: Reason.BAD_REQUEST, 429: Reason.RATE_LIMITED}.get(status, Reason.AUTH)
    assert re.fullmatch(
        rf"HTTP {status}( [a-z_]+)?: the account may not spend more; check its plan and billing", str(found)
    )


async def test_a_limit_by_the_minute_that_speaks_of_plan_and_billing_is_waited_for() -> None:
    said = "You exceeded your current quota, please check your plan and billing details. Please retry in 4s."
    error = await fault(WIRES["openai"], as_json([{"error": {"message": said, "status": "RESOURCE_EXHAUSTED"}}], 429))
    assert (error.reason, error.retryable) == (Reason.RATE_LIMITED, True)


async def test_a_key_that_is_told_as_a_bad_request_is_asked_with_once(wire: Wire) -> None:
    found = await asked_once(wire, 400, message="API key not valid. Please pass a valid API key.")
    assert (found.reason, str(found)) == (Reason.AUTH, "HTTP 400: the key is not valid")


async def test_room_for_the_answer_that_does_not_fit_beside_the_prompt_is_told(wire: Wire) -> None:
    said = "'max_tokens' or 'max_completion_tokens' is too large: 4232. This model's maximum context length is 4096"
    found = await asked_once(wire, 400, message=said)
    assert (found.reason, "the room for the answer" in str(found)) == (Reason.CONTEXT_OVERFLOW, True)


async def test_a_cap_that_is_too_large_for_the_model_alone_is_no_overflow() -> None:
    said = "max_tokens is too large: 99999. This model supports at most 16384 completion tokens."
    assert (await fault(WIRES["openai"], as_json(openai_error(said), 400))).reason is Reason.BAD_REQUEST


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_credentials_is_named_and_asked_once(
    wire: Wire, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Reply(407, b"", {"proxy-authenticate": "Basic"})) as proxy:
        monkeypatch.setenv(f"{scheme.upper()}_PROXY", proxy.url.removesuffix("/v1"))
        backend = wire.make(f"{scheme}://nobody.example/v1", api_key="secret")
        with pytest.raises(BackendError) as caught:
            await backend.grade(REQUEST)
        await backend.aclose()
    assert (caught.value.reason, caught.value.retryable) == (Reason.BAD_REQUEST, False)
    assert str(caught.value).startswith("HTTP 407: the proxy")


async def test_a_request_refused_in_every_form_falls_back_as_bad_request(wire: Wire) -> None:
    with serve(as_json(wire.error("no"), 400)) as provider:
        async with Pruner(PrunerConfig(model=wire.model, base_url=provider.url, timeout=30)) as pruner:
            result = await pruner.prune("q", ["a", "b", "c"])
    at_last_without_a_cap = not wire.model.startswith("anthropic")
    assert (result.reason, len(provider.requests)) == ("bad_request", 3 + at_last_without_a_cap)


async def test_a_temperature_the_model_refuses_is_given_up_and_not_sent_again(wire: Wire) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        refused = as_json(wire.error("temperature: Extra inputs are not permitted"), 400)
        return refused if "temperature" in body else wire.answer(PAIRS)

    with serve(answer) as provider:
        config = PrunerConfig(model=wire.model, base_url=provider.url, temperature=0.5, timeout=30)
        async with Pruner(config) as pruner:
            statuses = [(await pruner.prune("q", ["a", "b", "c"])).status for _ in range(2)]
    assert (statuses, len(provider.requests)) == (["ok", "ok"], 3)
    assert wire.schema(provider.requests[-1])


async def test_the_wait_it_asks_for_is_read(wire: Wire) -> None:
    error = await fault(wire, as_json(wire.error("slow down"), 429, **{"retry-after": "7"}))
    assert error.retry_after == 7


async def test_the_message_of_an_error_quotes_no_text(wire: Wire) -> None:
    error = await fault(wire, as_json(wire.error("secret"), 400))
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b"{}", b'"x"', b"[" * 100_000, b"\xff\xfe", b" " * 10_000_000],
    ids=["empty", "html", "list", "null", "object", "string", "deep", "bytes", "endless"],
)
async def test_any_other_body_is_a_fault_of_the_provider(wire: Wire, body: bytes) -> None:
    error = await fault(wire, Reply(200, body, {"content-type": "application/json"}))
    assert error.reason is Reason.PROVIDER_ERROR


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"null", b'{"error":5}', b'{"error":{"details":[5]}}', b"\xff"]
)
@pytest.mark.parametrize(("status", "reason"), [(500, Reason.PROVIDER_ERROR), (401, Reason.AUTH)])
async def test_an_error_is_told_by_its_status_whatever_its_body(
    wire: Wire, status: int, reason: Reason, body: bytes
) -> None:
    error = await fault(wire, Reply(status, body, {"content-type": "application/json"}))
    assert error.reason is reason


async def test_a_refused_connection_may_be_tried_again(wire: Wire) -> None:
    backend = wire.make("http://127.0.0.1:1/v1")
    with pytest.raises(BackendError) as caught:
        await backend.grade(REQUEST)
    await backend.aclose()
    assert (caught.value.reason, caught.value.retryable) == (Reason.PROVIDER_ERROR, True)


@contextmanager
def nothing_listens(_: Path, __: pytest.MonkeyPatch) -> Iterator[str]:
    yield "http://127.0.0.1:1/v1"


@contextmanager
def nobody_by_that_name(_: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    def look_up(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield "http://nobody.example/v1"


@contextmanager
def nobodys_certificate(folder: Path, _: pytest.MonkeyPatch) -> Iterator[str]:
    certificate = folder / "certificate.pem"
    certificate.write_text(faulty.CERTIFICATE)
    with faulty.faulty(faulty.healthy, certificate=certificate) as server:
        yield server.url


@contextmanager
def plain_text_where_tls_is_spoken(_: Path, __: pytest.MonkeyPatch) -> Iterator[str]:
    with faulty.faulty(faulty.plain_text) as server:
        yield server.url.replace("http:", "https:")


@contextmanager
def dead_proxy(_: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@127.0.0.1:1")
    yield "http://nobody.example/v1"


UNREACHABLE = {
    "connection refused": nothing_listens,
    "name or service not known": nobody_by_that_name,
    "self-signed certificate": nobodys_certificate,
    "wrong version number": plain_text_where_tls_is_spoken,
    "Error: connection refused": dead_proxy,
}


@pytest.mark.parametrize("why", UNREACHABLE)
async def test_why_there_was_no_connection_is_told_in_one_line(
    wire: Wire, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with UNREACHABLE[why](tmp_path, monkeypatch) as url:
        backend = wire.make(url, api_key="secret")
        with pytest.raises(BackendError) as caught:
            await backend.grade(REQUEST)
        await backend.aclose()
    assert (caught.value.reason, caught.value.retryable) == (Reason.PROVIDER_ERROR, True)
    assert re.fullmatch(r"\w+Error: \w+Error: [a-z -]+", str(caught.value))
    assert str(caught.value).endswith(why)


async def test_a_connection_that_ends_without_an_answer_is_told_from_an_answer(wire: Wire) -> None:
    with faulty.faulty(faulty.close) as server:
        backend = wire.make(server.url)
        with pytest.raises(BackendError, match=r"^\w+Error: RemoteProtocolError$"):
            await backend.grade(REQUEST)
        await backend.aclose()


@pytest.mark.parametrize("backend", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("behaviours", "wait"),
    [
        ([faulty.healthy, faulty.reset], 0),
        ([faulty.healthy, faulty.reset_unread], 0),
        ([faulty.healthy, faulty.close], 0),
        ([faulty.healthy, faulty.reset_within], None),
        ([faulty.reset], None),
        ([faulty.close], None),
    ],
)
async def test_what_an_idle_connection_did_not_answer_may_be_asked_again_at_once(
    backend: str, behaviours: list[faulty.Behaviour], wait: float | None
) -> None:
    with faulty.faulty(*behaviours) as server:
        made = WIRES[backend].make(server.url)
        for _ in behaviours[1:]:
            await made.grade(REQUEST)
        with pytest.raises(BackendError) as caught:
            await made.grade(REQUEST)
        await made.aclose()
    assert (caught.value.retryable, caught.value.retry_after) == (True, wait)
    assert server.opened == 1


async def test_a_path_or_model_that_there_is_not_is_told_as_such(wire: Wire) -> None:
    error = await fault(wire, as_json(wire.error("secret"), 404))
    assert str(error) == "HTTP 404: no such path or model"


@pytest.mark.parametrize("name", ["code", "type"])
@pytest.mark.parametrize("backend", ["openai", "anthropic"])
async def test_of_the_names_that_a_body_gives_its_error_those_we_know_are_told(backend: str, name: str) -> None:
    for given, told in (("rate_limit_exceeded", "HTTP 429 rate_limit_exceeded"), ("of_my_own", "HTTP 429")):
        error = await fault(WIRES[backend], as_json({"error": {"message": "secret", name: given}}, 429))
        assert str(error) == told


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"code": 429}, Reason.RATE_LIMITED),
        ({"code": "429"}, Reason.RATE_LIMITED),
        ({"code": "rate_limit_exceeded"}, Reason.RATE_LIMITED),
        ({"type": "insufficient_quota", "code": None}, Reason.RATE_LIMITED),
        ({"code": 402}, Reason.BAD_REQUEST),
        ({"code": "content_filter"}, Reason.REFUSED),
        ({"code": "401"}, Reason.AUTH),
        ({"code": "invalid_api_key"}, Reason.AUTH),
        ({"type": "authentication_error"}, Reason.AUTH),
        ({"code": "model_not_found"}, Reason.BAD_REQUEST),
        ({"code": "context_length_exceeded"}, Reason.CONTEXT_OVERFLOW),
        ({"code": "503"}, Reason.PROVIDER_ERROR),
        ({"code": "٤٢٩"}, Reason.PROVIDER_ERROR),
        ({"code": "of_my_own"}, Reason.PROVIDER_ERROR),
        ({"code": {}, "type": []}, Reason.PROVIDER_ERROR),
    ],
)
async def test_an_error_in_a_good_answer_has_the_reason_it_names(told: dict[str, Any], reason: Reason) -> None:
    assert (await fault(WIRES["openai"], as_json({"error": {"message": "m", **told}}))).reason is reason


async def test_a_redirect_is_not_followed(wire: Wire) -> None:
    with serve(wire.answer("{}")) as elsewhere:
        error = await fault(wire, Reply(307, b"", {"location": elsewhere.url}))
    assert (error.reason, elsewhere.requests) == (Reason.PROVIDER_ERROR, [])


async def test_no_sdk_asks_again_by_itself(wire: Wire) -> None:
    with serve(as_json(wire.error("boom"), 500)) as provider:
        backend = wire.make(provider.url)
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        await backend.aclose()
    assert len(provider.requests) == 1


async def test_a_cancelled_call_ends_its_connection_and_leaves_no_task(wire: Wire) -> None:
    before = asyncio.all_tasks()
    with serve(HANG) as provider:
        backend = wire.make(provider.url)
        call = asyncio.create_task(backend.grade(REQUEST))
        assert await asyncio.to_thread(provider.asked.wait, 60)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(provider.hung_up.wait, 60)
        await backend.aclose()
    assert asyncio.all_tasks() == before


def test_it_serves_one_event_loop_after_another_and_leaves_no_socket(wire: Wire) -> None:
    with serve(wire.answer("{}")) as provider:
        backend = wire.make(provider.url)
        for _ in range(3):
            assert asyncio.run(backend.grade(REQUEST)).finish == "stop"
            gc.collect()
    assert len(provider.requests) == 3


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        pytest.param("litellm:groq/m", "GROQ_API_KEY", marks=NO_LITELLM),
    ],
)
def test_a_missing_key_is_told_by_the_name_of_its_variable(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ConfigError, match=f"no API key for '{model}': set {variable}"):
        make_backend(PrunerConfig(model=model))


@pytest.mark.parametrize("name", [pytest.param(n, marks=NO_LITELLM if "litellm" in n else ()) for n in WIRES])
def test_a_call_imports_nothing(name: str) -> None:
    """In a process of its own: in this one, everything is loaded by now."""
    code = f"""
import asyncio, sys
from tests.backends.test_contract import WIRES, serve
from pruner import Pruner, PrunerConfig
wire = WIRES[{name!r}]
async def call(pruner):
    before = set(sys.modules)
    statuses = [(await pruner.prune("q", ["a", "b", "c"], history=["h"])).status for _ in range(2)]
    return sorted(set(sys.modules) - before), *map(str, statuses)
replies = iter([{PAIRS!r}, "no grades"])
with serve(lambda body: wire.answer(next(replies))) as provider:
    print(*asyncio.run(call(Pruner(PrunerConfig(model=wire.model, base_url=provider.url, timeout=60)))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    # A fallback is a warning.
    assert (done.stdout.strip(), done.stderr.count("\n")) == ("[] ok fallback", 1)


class Raises:
    """A client of any SDK, all of whose calls raise."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> "Raises":
        return self

    def with_options(self, **options: Any) -> "Raises":
        return self

    async def __call__(self, *args: Any, **options: Any) -> None:
        raise self._error


def subclasses(base: type[Exception]) -> Iterator[type[Exception]]:
    for found in base.__subclasses__():
        yield found
        yield from subclasses(found)


def an(error: type[Exception], response: Any) -> Exception:
    """Make an error of that class, however many arguments its constructor wants."""
    made = error.__new__(error)
    known = {"message": "m", "body": None, "response": response, "status_code": response.status_code}
    for name, value in {**known, "max_retries": None, "num_retries": None, "original_exception": None}.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("sdk", "base", "backend", "outside"),
    [
        # A webhook's: nothing that a call could raise.
        ("openai", "OpenAIError", "OpenAIBackend", {"InvalidWebhookSignatureError"}),
        ("anthropic", "AnthropicError", "AnthropicBackend", set()),
    ],
)
async def test_no_exception_of_an_sdk_gets_through(sdk: str, base: str, backend: str, outside: set[str]) -> None:
    module = importlib.import_module(sdk)
    public = [value for value in list(vars(module).values()) if isinstance(value, type)]
    root = getattr(module, base)
    errors = [root, *(e for e in set(subclasses(root)) if e.__module__.partition(".")[0] == sdk)]
    assert {e.__name__ for e in public if issubclass(e, Exception)} - {e.__name__ for e in errors} == outside
    make = getattr(importlib.import_module(f"pruner.backends.{sdk}"), backend)
    for error in errors:
        raised = an(error, httpx2.Response(418))
        with pytest.raises(BackendError):
            await make("m", client=Raises(raised)).grade(REQUEST)


@NO_LITELLM
async def test_no_exception_of_litellm_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = WIRES["litellm-sdk"].make("http://127.0.0.1:1/v1")
    module = importlib.import_module("litellm")
    vendors_own = importlib.import_module("litellm.llms.base_llm.chat.transformation").BaseLLMException
    named = [e for e in vars(module.exceptions).values() if isinstance(e, type) and issubclass(e, Exception)]
    errors = {vendors_own, *subclasses(vendors_own), *(e for e in named if e.__module__.startswith("litellm"))}
    assert len(errors) > 30
    for error in errors:
        monkeypatch.setattr(module, "acompletion", Raises(an(error, httpx.Response(418))))
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
    await backend.aclose()
