import asyncio
import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from openai import APIStatusError, AsyncAzureOpenAI, AsyncOpenAI

from pruner import BackendError, ConfigError, Pruner, PrunerConfig, Reason
from pruner.backends.openai import OpenAIBackend, thinks
from pruner.prompting import reply_schema
from pruner.schema import GradingRequest, RawGrading
from tests.provider import Provider, Reply, as_json, chat, completion, serve

pytestmark = pytest.mark.anyio

REQUEST = GradingRequest("system text", "user text", 2, schema=reply_schema("pairs", 2), max_output_tokens=99)


async def ask(answer: Any, request: GradingRequest = REQUEST, **options: Any) -> tuple[RawGrading, Provider]:
    with serve(answer) as provider:
        backend = OpenAIBackend("m", base_url=provider.url, **options)
        try:
            return await backend.grade(request), provider
        finally:
            await backend.aclose()


async def fault(answer: Any) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await ask(answer)
    return caught.value


async def test_the_body_holds_the_prompt_the_strict_schema_and_the_cap_and_no_temperature() -> None:
    _, provider = await ask(chat("{}"))
    (body,) = provider.requests
    assert body["messages"] == [
        {"role": "system", "content": "system text"},
        {"role": "user", "content": "user text"},
    ]
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"] == REQUEST.schema
    assert body["max_tokens"] == 99
    assert set(body) == {"model", "messages", "max_tokens", "response_format"}


async def test_token_probabilities_are_asked_for_only_when_wanted() -> None:
    request = GradingRequest("s", "u", 2, logprobs=True)
    _, provider = await ask(chat("{}"), request)
    assert provider.requests[0]["logprobs"] is True
    assert provider.requests[0]["top_logprobs"] > 5


async def test_the_key_is_sent_and_a_server_of_ones_own_needs_none() -> None:
    _, with_key = await ask(chat("{}"), api_key="k")
    _, without = await ask(chat("{}"))
    assert with_key.headers[0]["authorization"] == "Bearer k"
    assert without.headers[0]["authorization"] == "Bearer none"


async def test_the_environment_of_the_sdk_does_not_redirect_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
    raw, _ = await ask(chat("x"))
    assert raw.text == "x"


SDK_VARIABLES = {
    "OPENAI_ORG_ID": "org-mine",
    "OPENAI_PROJECT_ID": "proj-mine",
    "OPENAI_CUSTOM_HEADERS": "x-mine: 1\nAuthorization: Bearer OTHER\nuser-agent: mine",
}


@pytest.fixture
def _sdk_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SDK_VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_sdk_variables")
async def test_a_server_of_ones_own_is_sent_nothing_of_the_sdks_variables() -> None:
    _, provider = await ask(chat("{}"), api_key="k")
    (headers,) = provider.headers
    assert headers["authorization"] == "Bearer k"
    assert "mine" not in str(headers)
    assert "x-mine" not in headers


@pytest.mark.usefixtures("_sdk_variables")
async def test_the_vendor_is_sent_organization_project_and_ones_headers_but_no_other_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve(chat("{}")) as provider:
        monkeypatch.setattr("pruner.backends.openai._VENDOR_URL", provider.url)
        backend = OpenAIBackend("m", api_key="k")
        await backend.grade(REQUEST)
        await backend.aclose()
    (headers,) = provider.headers
    names = ("authorization", "openai-organization", "openai-project", "x-mine", "user-agent")
    assert [headers[name] for name in names] == ["Bearer k", "org-mine", "proj-mine", "1", "mine"]


@pytest.mark.parametrize("name", ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
@pytest.mark.parametrize("value", ["\u00f6rg", "org\nx", "org ", "org\r"])
def test_a_variable_that_cannot_be_sent_is_refused_and_only_for_the_vendor(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^the header 'openai-[a-z]+' of OPENAI_ORG_ID.*unset it$"):
        OpenAIBackend("m", api_key="k")
    OpenAIBackend("m", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize("value", ["x-a: \u00e9", "x y: 1", ": 1", "x-\u00e9: 1"])
def test_headers_that_cannot_be_sent_are_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", value)
    with pytest.raises(ConfigError, match="OPENAI_CUSTOM_HEADERS"):
        OpenAIBackend("m", api_key="k")


async def test_an_empty_variable_of_the_sdk_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "")
    with serve(chat("{}")) as provider:
        monkeypatch.setattr("pruner.backends.openai._VENDOR_URL", provider.url)
        backend = OpenAIBackend("m", api_key="k")
        await backend.grade(REQUEST)
        await backend.aclose()
    assert "openai-organization" not in provider.headers[0]


async def test_usage_is_what_the_server_counted() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
    raw, _ = await ask(completion({"message": {"content": "x"}, "finish_reason": "stop"}, usage))
    assert (raw.usage.input_tokens, raw.usage.output_tokens, raw.usage.cached_tokens) == (7, 3, 5)


@pytest.mark.parametrize(
    ("told", "cached", "written"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 4}}, 5, 4),
        ({"prompt_tokens_details": {"cached_tokens": 5, "cache_creation_tokens": 4}}, 5, 4),
        ({"prompt_tokens_details": {"cached_tokens": None}, "cache_creation_input_tokens": 4}, 0, 4),
        ({"prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 2}, 5, 0),
        ({"cached_tokens": 5}, 5, 0),
    ],
)
async def test_what_a_cache_held_and_took_is_read_by_any_of_its_names(
    told: dict[str, Any], cached: int, written: int
) -> None:
    answer = completion({"message": {"content": "x"}, "finish_reason": "stop"}, {"prompt_tokens": 9, **told})
    raw, _ = await ask(answer)
    assert (raw.usage.input_tokens, raw.usage.cached_tokens, raw.usage.written_tokens) == (9, cached, written)


@pytest.mark.parametrize(
    "usage",
    [[], "many", {"prompt_tokens": None}, {"prompt_tokens": -3}, {"prompt_tokens": True}, {"prompt_tokens_details": 5}],
)
async def test_senseless_usage_is_none(usage: Any) -> None:
    raw, _ = await ask(as_json({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage}))
    assert (raw.usage.input_tokens, raw.usage.cached_tokens) == (0, 0)


async def test_token_alternatives_are_kept_and_senseless_ones_dropped() -> None:
    tokens = [
        {"token": "5", "logprob": -0.1, "top_logprobs": [{"token": "5", "logprob": -0.1}, {"token": 3}, None]},
        {"token": None},
        {"token": "]", "logprob": 0, "top_logprobs": None},
    ]
    choice = {"message": {"content": "5]"}, "finish_reason": "stop", "logprobs": {"content": tokens}}
    raw, _ = await ask(completion(choice))
    assert [(t.text, t.top) for t in raw.tokens] == [("5", (("5", -0.1),)), ("]", ())]


def token(text: str, given: Any = None) -> dict[str, Any]:
    return {"token": text, "logprob": 0, "bytes": given, "top_logprobs": [{"token": text, "logprob": -0.1}]}


@pytest.mark.parametrize("split", ["🎉", "世", "👩‍🔬", "é"])
async def test_a_character_spread_over_tokens_loses_no_mean_level(split: str) -> None:
    bits = [token(f"bytes:\\x{byte:02x}", [byte]) for byte in split.encode()]
    reply = [token(text, list(text.encode())) for text in ('{"grades":[[1,', "5", "],[2,", "1", "],[3,", "2", "]]}")]
    text = f"<think>{split}</think>{PAIRS.replace('3,1', '3,2')}"
    tokens = [token("<think>", None), *bits, token("</think>", None), *reply]
    choice = {"message": {"content": text}, "finish_reason": "stop", "logprobs": {"content": tokens}}
    with serve(completion(choice)) as provider:
        async with Pruner(PrunerConfig(model="openai:m", base_url=provider.url, scoring="expected")) as pruner:
            result = await pruner.prune("q", ["a", "b", "c"])
    assert [decision.expected for decision in result.decisions] == [5.0, 1.0, 2.0]


@pytest.mark.parametrize("given", [None, [], [300], [-1], [True], ["x"], "x", 5, [240, 159]])
async def test_senseless_bytes_of_a_token_break_nothing(given: Any) -> None:
    choice = {"message": {"content": "5"}, "finish_reason": "stop", "logprobs": {"content": [token("5", given)]}}
    raw, _ = await ask(completion(choice))
    assert [found.top for found in raw.tokens] == [(("5", -0.1),)]
    assert raw.tokens[0].text == ("" if given == [240, 159] else "5")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": [{"type": "text", "text": "pa"}, {"type": "text", "text": "rts"}, {"type": "image"}, 5]}, "parts"),
        ({"content": None, "tool_calls": [{"function": {"arguments": "{}"}}, {"function": None}, 7]}, "{}"),
        ({"content": "I call it.", "tool_calls": [{"function": {"arguments": '{"1":5}'}}]}, 'I call it.\n{"1":5}'),
        ({"content": "{}", "tool_calls": [{"function": {"arguments": {"1": 5}}}]}, '{}\n{"1": 5}'),
        ({"content": None, "function_call": {"name": "g", "arguments": "{}"}}, "{}"),
        ({"content": "", "function_call": {"arguments": {"1": 5}}, "tool_calls": 5}, '{"1": 5}'),
        ({"content": "x", "function_call": None}, "x"),
        ({"content": "", "tool_calls": []}, None),
        ({"content": 5}, None),
        ({}, None),
    ],
)
async def test_the_reply_is_found_where_it_is(message: dict[str, Any], text: str | None) -> None:
    raw, _ = await ask(completion({"message": message, "finish_reason": "stop"}))
    assert raw.text == text


@pytest.mark.parametrize(
    ("message", "reason", "finish"),
    [
        ({"content": "x"}, "stop", "stop"),
        ({"content": "x"}, None, "stop"),
        ({"content": "x"}, "length", "length"),
        ({"content": ""}, "content_filter", "refused"),
        ({"content": None, "refusal": "no"}, "stop", "refused"),
        ({"content": ""}, "sensitive", "refused"),
        ({"content": None}, "SAFETY", "refused"),
        ({"content": None}, "content_filter: PROHIBITED_CONTENT", "refused"),
        ({"content": "x"}, "MAX_TOKENS", "length"),
        ({"content": "x"}, "network_error", "length"),
        ({"content": "x"}, "error", "length"),
        ({"content": "x"}, "a new one", "stop"),
        ({"content": "x"}, ["senseless"], "stop"),
    ],
)
async def test_the_way_it_ended_is_told(message: dict[str, Any], reason: str | None, finish: str) -> None:
    raw, _ = await ask(completion({"message": message, "finish_reason": reason}))
    assert raw.finish == finish


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": "error", "message": {"content": ""}},
        {"finish_reason": "network_error", "message": {"content": None}},
        {"finish_reason": "insufficient_system_resource", "message": {"content": ""}},
        {"finish_reason": "error", "message": {"content": ""}, "error": {"code": 502, "message": "m"}},
        {"finish_reason": "error", "message": {"content": "half"}, "error": {"message": "m"}},
        {"finish_reason": "error", "error": {"code": "server_error"}},
    ],
)
async def test_an_answer_that_the_server_broke_off_is_asked_for_again(choice: dict[str, Any]) -> None:
    error = await fault(completion(choice))
    assert (error.reason, error.retryable) == (Reason.PROVIDER_ERROR, True)


@pytest.mark.parametrize(
    ("code", "reason"), [(429, Reason.RATE_LIMITED), (402, Reason.BAD_REQUEST), ("content_filter", Reason.REFUSED)]
)
async def test_the_error_of_a_choice_has_the_reason_it_names(code: Any, reason: Reason) -> None:
    error = await fault(completion({"finish_reason": "error", "message": {"content": ""}, "error": {"code": code}}))
    assert error.reason is reason


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [], "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": True}}}]},
        {"choices": [{"finish_reason": "content_filter", "content_filter_results": {"hate": {"filtered": True}}}]},
    ],
)
async def test_a_prompt_that_azure_filters_is_refused_though_there_is_no_message(body: dict[str, Any]) -> None:
    raw, _ = await ask(as_json(body))
    assert raw.finish == "refused"


@pytest.mark.parametrize("results", [[{"content_filter_results": {"hate": {"filtered": False}}}], [5], [{}], 5])
async def test_no_choice_without_a_filter_is_a_fault_of_the_provider(results: Any) -> None:
    error = await fault(as_json({"choices": [], "prompt_filter_results": results}))
    assert (error.reason, error.retryable) == (Reason.PROVIDER_ERROR, True)


@pytest.mark.parametrize(
    ("status", "body", "reason", "retryable"),
    [
        (400, "This model's maximum context length is 8192 tokens", Reason.CONTEXT_OVERFLOW, False),
        (401, "key", Reason.AUTH, False),
        (403, "key", Reason.AUTH, False),
        (404, "no model", Reason.BAD_REQUEST, False),
        (408, "slow", Reason.PROVIDER_ERROR, True),
        (409, "conflict", Reason.BAD_REQUEST, False),
        (413, "large", Reason.BAD_REQUEST, False),
        (429, "rate", Reason.RATE_LIMITED, True),
        (500, "boom", Reason.PROVIDER_ERROR, True),
        (503, "overloaded", Reason.PROVIDER_ERROR, True),
        (529, "overloaded", Reason.PROVIDER_ERROR, True),
    ],
)
async def test_each_status_has_its_reason(status: int, body: str, reason: Reason, retryable: bool) -> None:
    error = await fault(as_json({"error": {"message": body}}, status))
    assert (error.reason, error.retryable) == (reason, retryable)


class Picky:
    """Takes only what a test says it takes, and explains itself or not."""

    def __init__(self, refusal: str, takes: Callable[[dict[str, Any]], bool], status: int = 400) -> None:
        self.refusal, self.takes, self.status = refusal, takes, status

    def __call__(self, body: dict[str, Any]) -> Reply:
        return chat(PAIRS) if self.takes(body) else as_json({"error": {"message": self.refusal}}, self.status)


PAIRS = '{"grades":[[1,5],[2,1],[3,1]]}'


def is_user_turn_alone(body: dict[str, Any]) -> bool:
    return [message["role"] for message in body["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("refusal", "takes", "model", "calls"),
    [
        ("no", lambda body: body.get("response_format", {}).get("type") != "json_schema", "m", 2),
        ("no", lambda body: "response_format" not in body, "m", 3),
        ("no", lambda body: "temperature" not in body, "m", 4),
        ("no", lambda body: "reasoning_effort" not in body, "gpt-5-nano", 4),
        ("no", is_user_turn_alone, "m", 4),
        ("response_format.type: no", lambda body: "response_format" not in body, "m", 3),
        ("'temperature' must be 1", lambda body: "temperature" not in body, "m", 2),
        ("use max_completion_tokens, not max_tokens", lambda body: "max_completion_tokens" in body, "m", 2),
        ("Unknown name reasoning_effort", lambda body: "reasoning_effort" not in body, "gpt-5-nano", 2),
        ("'reasoning.effort' is not supported", lambda body: "reasoning_effort" not in body, "gpt-5-nano", 2),
        ("logprobs are not supported", lambda body: "logprobs" not in body and "top_logprobs" not in body, "m", 2),
        ("System role not supported", is_user_turn_alone, "m", 2),
        ("'messages[0].role' does not support 'system' with this model", is_user_turn_alone, "m", 2),
        ("Conversation roles must alternate user/assistant/user/assistant/...", is_user_turn_alone, "m", 2),
        ("Only user and assistant roles are supported!", is_user_turn_alone, "m", 2),
        ("Developer instruction is not enabled for models/m", is_user_turn_alone, "m", 2),
    ],
)
async def test_what_a_server_refuses_is_given_up_and_not_asked_again(
    refusal: str, takes: Callable[[dict[str, Any]], bool], model: str, calls: int
) -> None:
    """What it refuses without a word is asked for once more: it may have been the request."""
    asked = await requests_of(3, Picky(refusal, takes), model)
    assert asked == [calls, 2 if refusal == "no" else 1, 1]


async def requests_of(calls: int, answer: Any, model: str = "m") -> list[int]:
    """Prune some times, each answered in the end; return how many requests each call took."""
    asked = [0]
    with serve(answer) as provider:
        config = PrunerConfig(model=f"openai:{model}", base_url=provider.url, temperature=0.5, scoring="expected")
        async with Pruner(config) as pruner:
            for _ in range(calls):
                assert (await pruner.prune("q", ["a", "b", "c"])).status == "ok"
                asked.append(len(provider.requests))
    return [after - before for before, after in pairwise(asked)]


async def test_a_parameter_that_a_model_is_forbidden_to_be_asked_with_is_given_up() -> None:
    forbidden = "You are not allowed to request logprobs from this model."
    assert await requests_of(2, Picky(forbidden, lambda body: "logprobs" not in body, 403), "gpt-5-mini") == [2, 1]


async def test_a_schema_that_is_not_implemented_is_given_up() -> None:
    refusal = Picky("not implemented", lambda body: body.get("response_format", {}).get("type") != "json_schema", 501)
    assert await requests_of(1, refusal) == [2]


async def test_one_stray_refusal_does_not_cost_the_schema() -> None:
    answers = iter([as_json({"error": {"message": "Bad Request"}}, 400)])
    with serve(lambda body: next(answers, chat(PAIRS))) as provider:
        async with Pruner(PrunerConfig(model="openai:m", base_url=provider.url)) as pruner:
            for _ in range(3):
                await pruner.prune("q", ["a", "b", "c"])
    forms = [body["response_format"]["type"] for body in provider.requests]
    assert forms == ["json_schema", "json_object", "json_schema", "json_schema"]


async def test_a_list_that_is_refused_in_every_form_changes_nothing_for_the_next() -> None:
    with serve(Picky("filtered", lambda body: "secret" not in body["messages"][-1]["content"])) as provider:
        async with Pruner(PrunerConfig(model="openai:m", base_url=provider.url)) as pruner:
            assert (await pruner.prune("q", ["secret", "b", "c"])).reason == "bad_request"
            asked = len(provider.requests)
            assert (await pruner.prune("q", ["a", "b", "c"])).status == "ok"
    assert [body["response_format"]["type"] for body in provider.requests[asked:]] == ["json_schema"]


async def test_instructions_without_a_turn_of_their_own_come_before_the_chunks() -> None:
    with serve(Picky("System role not supported", is_user_turn_alone)) as provider:
        backend = OpenAIBackend("m", base_url=provider.url)
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        await backend.grade(REQUEST)
        await backend.aclose()
    assert provider.requests[1]["messages"] == [{"role": "user", "content": "system text\n\nuser text"}]
    assert provider.requests[1]["response_format"] == provider.requests[0]["response_format"]


@pytest.mark.parametrize(
    ("model", "does"),
    [
        *((model, True) for model in ("o1", "o3-mini-2025-01-31", "o4-mini", "gpt-5", "gpt-5-nano", "gpt-5.4-mini")),
        *((model, True) for model in ("gpt-6-luna", "gpt-6.2-astra", "gpt-10", "openai/gpt-6-sol", "gpt-oss-20b")),
        *((model, False) for model in ("gpt-4o-mini", "gpt-4.1", "gpt-3.5-turbo", "gpt-35-turbo", "chatgpt-4o-latest")),
        *((model, False) for model in ("gpt-5-chat-latest", "gpt-5.3-chat-latest", "m", "o1labs", "olmo-2", "gpt-50x")),
    ],
)
def test_it_is_known_which_models_think(model: str, does: bool) -> None:
    assert thinks(model) is does


async def test_a_model_that_reasons_gets_little_effort_and_room_for_it() -> None:
    with serve(chat(PAIRS)) as provider:
        backend = OpenAIBackend("gpt-5-nano", base_url=provider.url)
        await backend.grade(REQUEST)
        await backend.aclose()
    assert provider.requests[0]["reasoning_effort"] == "low"
    assert provider.requests[0]["max_tokens"] > REQUEST.max_output_tokens + 1_000


@pytest.mark.parametrize(
    "message",
    [
        {"content": "<think>" + "hm " * 300},
        {"content": "", "reasoning_content": "hm " * 300},
        {"content": None},
        {"content": "Okay, the user asks about three chunks. " * 9},
    ],
)
async def test_a_model_that_thinks_whatever_its_name_has_room_after_a_reply_that_was_cut_off(
    message: dict[str, Any],
) -> None:
    def thinker(body: dict[str, Any]) -> Reply:
        return (
            chat(PAIRS) if body["max_tokens"] > 1_000 else completion({"message": message, "finish_reason": "length"})
        )

    with serve(thinker) as provider:
        async with Pruner(PrunerConfig(model="openai:my-deployment", base_url=provider.url)) as pruner:
            results = [await pruner.prune("q", ["a", "b", "c"]) for _ in range(3)]
    assert [(result.reason, result.usage.calls) for result in results] == [("truncated", 1), (None, 1), (None, 1)]


async def test_the_cap_on_the_reply_is_a_dial() -> None:
    with serve(chat(PAIRS)) as provider:
        config = PrunerConfig(model="openai:m", base_url=provider.url, max_output_tokens=7_000)
        async with Pruner(config) as pruner:
            await pruner.prune("q", ["a", "b", "c"])
    assert provider.requests[0]["max_tokens"] == 7_000


async def test_a_request_refused_in_every_form_falls_back_as_bad_request() -> None:
    with serve(as_json({"error": {"message": "no"}}, 400)) as provider:
        async with Pruner(PrunerConfig(model="openai:m", base_url=provider.url)) as pruner:
            result = await pruner.prune("q", ["a", "b", "c"])
    assert (result.reason, len(provider.requests)) == ("bad_request", 4)


async def test_an_endless_body_is_a_fault_of_the_provider() -> None:
    error = await fault(Reply(200, b" " * 10_000_000, {"content-type": "application/json"}))
    assert error.reason is Reason.PROVIDER_ERROR


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("charset", ["hex", "idna", "undefined", "rot13", "punycode", "utf-16", "no-such"])
async def test_a_charset_of_no_text_is_ignored(status: int, charset: str) -> None:
    reply = Reply(status, b'{"error":{"message":"no"}}', {"content-type": f"application/json; charset={charset}"})
    with serve(reply) as provider:
        async with Pruner(PrunerConfig(model="openai:m", base_url=provider.url, timeout=0.5)) as pruner:
            result = await pruner.prune("q", ["a", "b", "c"])
    assert result.status == "fallback"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(200, Reason.PROVIDER_ERROR), (400, Reason.BAD_REQUEST), (401, Reason.AUTH), (503, Reason.PROVIDER_ERROR)],
)
async def test_a_long_body_is_not_read_to_its_end_whatever_its_status(status: int, reason: Reason) -> None:
    error = await fault(Reply(status, b"[" * 5_000_000, {"content-type": "application/json"}))
    assert error.reason is reason


async def test_of_the_body_of_an_error_no_more_than_its_beginning_is_looked_at() -> None:
    cause = (await fault(Reply(400, b"<html>" + b"z" * 100_000))).__cause__
    assert isinstance(cause, APIStatusError)
    assert 10_000 < len(str(cause.body or cause.message)) <= 16_100


async def test_a_compressed_answer_is_read_and_one_that_unpacks_without_end_is_not() -> None:
    zipped = {"content-type": "application/json", "content-encoding": "gzip"}
    raw, _ = await ask(Reply(200, gzip.compress(chat("x").body), zipped))
    assert raw.text == "x"
    error = await fault(Reply(200, gzip.compress(b" " * 100_000_000), zipped))
    assert error.reason is Reason.PROVIDER_ERROR


async def test_numbers_of_any_size_are_survived() -> None:
    token = '{"token":"5","logprob":-%s,"top_logprobs":[{"token":"5","logprob":-%s}]}' % (("9" * 400,) * 2)
    body = '{"choices":[{"message":{"content":"5"},"logprobs":{"content":[%s]}}],"usage":{"prompt_tokens":%s}}'
    raw, _ = await ask(Reply(200, (body % (token, "9" * 400)).encode(), {"content-type": "application/json"}))
    assert raw.tokens[0].top == (("5", -1000.0),)
    assert raw.usage.input_tokens == 0


async def test_a_redirect_is_not_followed() -> None:
    error = await fault(Reply(307, b"", {"location": "http://127.0.0.1:1/elsewhere"}))
    assert (error.reason, error.retryable) == (Reason.PROVIDER_ERROR, False)


async def test_the_message_of_an_error_quotes_no_text() -> None:
    error = await fault(as_json({"error": {"message": "secret"}}, 400))
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
async def test_the_wait_it_asks_for_is_read(headers: dict[str, str], seconds: float | None) -> None:
    error = await fault(as_json({}, 429, **headers))
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b"null", b"{}", b'{"choices":[]}', b'{"choices":[null]}', b"[" * 100_000, b"\xff\xfe"],
)
async def test_any_other_body_is_a_fault_of_the_provider(body: bytes) -> None:
    error = await fault(Reply(200, body, {"content-type": "application/json"}))
    assert error.reason is Reason.PROVIDER_ERROR


async def test_a_refused_connection_may_be_tried_again() -> None:
    with pytest.raises(BackendError) as caught:
        await OpenAIBackend("m", base_url="http://127.0.0.1:1/v1").grade(REQUEST)
    assert (caught.value.reason, caught.value.retryable) == (Reason.PROVIDER_ERROR, True)


async def test_a_client_of_ones_own_is_used_without_its_retries_and_left_open() -> None:
    with serve(as_json({}, 503)) as provider:
        client = AsyncOpenAI(api_key="mine", base_url=provider.url, max_retries=5)
        backend = OpenAIBackend("m", client=client)
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        await backend.aclose()
        assert len(provider.requests) == 1
        assert provider.headers[0]["authorization"] == "Bearer mine"
        assert not client.is_closed()
        await client.close()


async def test_a_client_for_azure_asks_the_deployment_that_the_model_names() -> None:
    with serve(chat("{}")) as provider:
        host = provider.url.removesuffix("/v1")
        async with AsyncAzureOpenAI(api_key="mine", azure_endpoint=host, api_version="2024-10-21") as client:
            await OpenAIBackend("my-mini", client=client).grade(REQUEST)
    assert provider.paths == ["/openai/deployments/my-mini/chat/completions?api-version=2024-10-21"]
    assert provider.headers[0]["api-key"] == "mine"


def test_it_serves_one_event_loop_after_another() -> None:
    with serve(chat(json.dumps({"grades": []}))) as provider:
        backend = OpenAIBackend("m", base_url=provider.url)
        for _ in range(3):
            assert asyncio.run(backend.grade(REQUEST)).finish == "stop"
        assert len(provider.requests) == 3
