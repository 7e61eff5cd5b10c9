from collections.abc import Callable
from typing import Any

import pytest
import respx
from anthropic import AsyncAnthropic

from pruner import BackendError, Pruner, PrunerConfig, Reason
from pruner.backends.anthropic import AnthropicBackend, thinks
from pruner.prompting import reply_schema
from pruner.schema import GradingRequest, RawGrading
from tests.provider import Provider, Reply, as_json, message, serve

pytestmark = pytest.mark.anyio

REQUEST = GradingRequest("system text", "user text", 2, schema=reply_schema("pairs", 2), max_output_tokens=99)
PAIRS = '{"grades":[[1,5],[2,1],[3,1]]}'
OLD = "claude-haiku-4-5"


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


async def ask(
    answer: Any, request: GradingRequest = REQUEST, model: str = OLD, **options: Any
) -> tuple[RawGrading, Provider]:
    with serve(answer) as provider:
        backend = AnthropicBackend(model, base_url=provider.url, **options)
        try:
            return await backend.grade(request), provider
        finally:
            await backend.aclose()


async def test_the_body_holds_the_cap_the_schema_and_the_instructions_to_be_remembered() -> None:
    _, provider = await ask(message(text("{}")))
    assert provider.requests == [
        {
            "model": OLD,
            "max_tokens": 99,
            "system": [{"type": "text", "text": "system text", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "user text"}],
            "output_config": {"format": {"type": "json_schema", "schema": REQUEST.schema}},
        }
    ]


async def test_a_request_without_instructions_has_no_system_turn() -> None:
    _, provider = await ask(message(text("{}")), GradingRequest(" ", "u", 2))
    assert "system" not in provider.requests[0]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_the_address_may_end_in_the_version_or_not(suffix: str) -> None:
    with serve(message(text("{}"))) as provider:
        backend = AnthropicBackend("m", base_url=provider.url.removesuffix("/v1") + suffix)
        await backend.grade(REQUEST)
        await backend.aclose()
    assert provider.paths == ["/v1/messages"]


async def test_without_an_address_it_asks_anthropic_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/elsewhere")
    backend = AnthropicBackend("m", api_key="k")
    with respx.mock(using="httpcore2") as network:
        route = network.post("https://api.anthropic.com/v1/messages").respond(json={"content": [text("x")]})
        assert (await backend.grade(REQUEST)).text == "x"
    await backend.aclose()
    assert route.called


async def test_a_temperature_is_sent_in_the_last_version_of_the_api_that_takes_it() -> None:
    _, without = await ask(message(text("{}")))
    _, given = await ask(message(text("{}")), temperature=0.0)
    assert without.headers[0]["anthropic-version"] > "2023-06-01"
    assert (given.requests[0]["temperature"], given.headers[0]["anthropic-version"]) == (0.0, "2023-06-01")


@pytest.mark.parametrize(
    ("model", "does"),
    [
        ("claude-haiku-5-5", True),
        ("claude-sonnet-5", True),
        ("claude-opus-5-5", True),
        ("claude-fable-5-2", True),
        ("claude-mythos-preview", True),
        ("claude-opus-4-8", True),
        ("claude-opus-4-5-20251101", True),
        ("claude-sonnet-4-6", True),
        ("anthropic.claude-haiku-5-5-v1:0", True),
        ("claude-haiku-4-5", False),
        ("claude-haiku-4-5-20251001", False),
        ("claude-sonnet-4-5-20250929", False),
        ("claude-opus-4-1-20250805", False),
        ("claude-opus-4-20250514", False),
        ("claude-3-5-haiku-20241022", False),
        ("m", False),
    ],
)
def test_it_is_known_which_models_think(model: str, does: bool) -> None:
    assert thinks(model) is does


async def test_a_model_that_thinks_gets_little_effort_and_room_for_it() -> None:
    _, provider = await ask(message(text("{}")), model="claude-haiku-5-5")
    assert provider.requests[0]["output_config"]["effort"] == "low"
    assert provider.requests[0]["max_tokens"] > REQUEST.max_output_tokens + 1_000


async def test_a_model_that_is_to_be_retired_warns_nobody_within_a_call() -> None:
    raw, _ = await ask(message(text("x")), model="claude-sonnet-4-5")
    assert raw.text == "x"


Body = dict[str, Any]


@pytest.mark.parametrize(
    ("refusal", "takes", "calls"),
    [
        ("output_config.format: Extra inputs are not permitted", lambda body: "format" not in body["output_config"], 2),
        ("output_config: Extra inputs are not permitted", lambda body: "output_config" not in body, 3),
        ("output_config.effort: Extra inputs are not permitted", lambda body: "effort" not in body["output_config"], 2),
        ("no", lambda body: "output_config" not in body, 4),
        ('tool_choice: type "tool" and "any" are not supported for this model.', lambda body: "tools" not in body, 3),
        ("This model does not support the effort parameter.", lambda body: "effort" not in body["output_config"], 2),
        ("temperature: Extra inputs are not permitted", lambda body: "temperature" not in body, 2),
    ],
)
async def test_what_a_model_refuses_is_given_up_and_not_asked_again(
    refusal: str, takes: Callable[[Body], bool], calls: int
) -> None:
    def answer(body: Body) -> Reply:
        schema_too = "tool_choice" in refusal and "format" in body.get("output_config", {})
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": refusal}}
        return message(text(PAIRS)) if takes(body) and not schema_too else as_json(error, 400)

    with serve(answer) as provider:
        config = PrunerConfig(
            model="anthropic:claude-haiku-5-5", base_url=provider.url, temperature=0.5, timeout=30, keep_top_k=1
        )
        async with Pruner(config) as pruner:
            for _ in range(2):  # What is refused without naming what was sent is asked for once more.
                assert (await pruner.prune("q", ["a", "b", "c"])).status == "ok"
            asked = len(provider.requests)
            assert (await pruner.prune("q", ["a", "b", "c"])).status == "ok"
    again = 2 if refusal == "no" or "tool_choice" in refusal else 1
    assert (asked, len(provider.requests)) == (calls + again, calls + again + 1)


async def test_a_forced_tool_stands_in_for_a_schema() -> None:
    def answer(body: Body) -> Reply:
        if "tools" not in body:
            return as_json({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, 400)
        called = {"type": "tool_use", "id": "t", "name": body["tools"][0]["name"], "input": {"grades": [[1, 5]]}}
        return message(text("I call it."), called, stop="tool_use")

    with serve(answer) as provider:
        backend = AnthropicBackend("m", base_url=provider.url)
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        raw = await backend.grade(REQUEST)
        await backend.aclose()
    assert (raw.text, raw.finish) == ('I call it.\n{"grades": [[1, 5]]}', "stop")
    (tool,) = provider.requests[1]["tools"]
    assert tool["input_schema"] == REQUEST.schema
    assert provider.requests[1]["tool_choice"] == {"type": "tool", "name": tool["name"]}
    assert "output_config" not in provider.requests[1]


@pytest.mark.parametrize(
    ("blocks", "said", "thought"),
    [
        ([text("pa"), text("rts")], "parts", None),
        ([{"type": "thinking", "thinking": "hm", "signature": "s"}, text("x")], "x", "hm"),
        ([{"type": "redacted_thinking", "data": "…"}, text("x")], "x", None),
        (
            [{"type": "tool_use", "input": {"1": 5}}, {"type": "tool_use", "input": {"2": 1}}],
            '{"1": 5}\n{"2": 1}',
            None,
        ),
        ([text('{"1": 5}'), {"type": "tool_use", "input": {}}], '{"1": 5}\n{}', None),
        ([{"type": "text"}, {"type": "text", "text": 5}, 7, None, text("x")], "x", None),
        ([{"type": "tool_use", "input": 5}], None, None),
        ([], None, None),
    ],
)
async def test_the_reply_is_found_where_it_is(blocks: list[Any], said: str | None, thought: str | None) -> None:
    raw, _ = await ask(message(*blocks))
    assert (raw.text, raw.reasoning) == (said, thought)


async def test_a_tool_called_with_a_nest_of_lists_is_a_fault_or_a_text() -> None:
    nest = "[" * 980 + "]" * 980
    body = f'{{"content":[{{"type":"tool_use","input":{{"grades":{nest}}}}}]}}'
    with serve(Reply(200, body.encode(), {"content-type": "application/json"})) as provider:
        async with Pruner(PrunerConfig(model="anthropic:m", base_url=provider.url, timeout=1)) as pruner:
            assert (await pruner.prune("q", ["a", "b", "c"])).status == "fallback"


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("a new one", "stop"),
    ],
)
async def test_the_way_it_ended_is_told(stop: str, finish: str) -> None:
    raw, _ = await ask(message(text("x"), stop=stop))
    assert raw.finish == finish


async def test_what_was_cached_is_input_too() -> None:
    usage = {
        "input_tokens": 7,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1_000,
        "output_tokens": 3,
    }
    raw, _ = await ask(message(text("x"), usage=usage))
    assert (raw.usage.input_tokens, raw.usage.output_tokens, raw.usage.cached_tokens) == (1_107, 3, 1_000)
    assert raw.usage.written_tokens == 100


@pytest.mark.parametrize("usage", [["a"], "many", {"input_tokens": None}, {"input_tokens": -3}])
async def test_senseless_usage_is_none(usage: Any) -> None:
    raw, _ = await ask(message(text("x"), usage=usage))
    assert (raw.usage.input_tokens, raw.usage.cached_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "reason", "retryable"),
    [
        ("overloaded_error", Reason.PROVIDER_ERROR, True),
        ("api_error", Reason.PROVIDER_ERROR, True),
        ("rate_limit_error", Reason.RATE_LIMITED, True),
        ("authentication_error", Reason.AUTH, False),
        ("permission_error", Reason.AUTH, False),
        ("invalid_request_error", Reason.BAD_REQUEST, False),
        ("a new one", Reason.PROVIDER_ERROR, True),
    ],
)
async def test_an_error_in_a_good_answer_is_an_error(kind: str, reason: Reason, retryable: bool) -> None:
    with pytest.raises(BackendError) as caught:
        await ask(as_json({"type": "error", "error": {"type": kind, "message": "m"}}))
    assert (caught.value.reason, caught.value.retryable) == (reason, retryable)


async def test_a_client_of_ones_own_is_used_without_its_retries_and_left_open() -> None:
    with serve(as_json({}, 529)) as provider:
        client = AsyncAnthropic(api_key="mine", base_url=provider.url.removesuffix("/v1"), max_retries=5)
        backend = AnthropicBackend("m", client=client)
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        await backend.aclose()
        assert len(provider.requests) == 1
        assert provider.headers[0]["authorization"] == "Bearer mine"
        assert not client.is_closed()
        await client.close()
