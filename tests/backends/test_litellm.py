import asyncio
import gc
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from typing import Any

import pytest

from pruner import BackendError, ConfigError, Pruner, PrunerConfig, Reason
from pruner.backends.litellm import LiteLLMBackend
from pruner.prices import context_window, make_pricer
from pruner.prompting import reply_schema
from pruner.schema import GradingRequest, RawGrading, Usage
from tests.provider import Provider, Reply, as_json, chat, completion, message, serve

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(find_spec("litellm") is None, reason="the extra litellm is not installed"),
]

REQUEST = GradingRequest("system text", "user text", 2, schema=reply_schema("pairs", 2), max_output_tokens=99)
PAIRS = '{"grades":[[1,5],[2,1],[3,1]]}'


async def ask(
    answer: Any, request: GradingRequest = REQUEST, model: str = "openai/m", **options: Any
) -> tuple[RawGrading, Provider]:
    with serve(answer) as provider:
        backend = LiteLLMBackend(model, base_url=provider.url, **options)
        try:
            return await backend.grade(request), provider
        finally:
            await backend.aclose()


async def fault(answer: Any, **options: Any) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await ask(answer, **options)
    return caught.value


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ConfigError, match=r"pip install 'listwise-pruner\[litellm\]'"):
        LiteLLMBackend("openai/m")


def test_a_vendor_it_does_not_know_is_told_when_the_backend_is_made() -> None:
    with pytest.raises(ConfigError, match="write litellm:vendor/model"):
        LiteLLMBackend("nobody/m")


async def test_without_an_address_litellm_goes_by_the_vendors_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(chat("x")) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "of-the-vendor")
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        backend = LiteLLMBackend("openai/m")
        await backend.grade(REQUEST)
        await backend.aclose()
    assert provider.headers[0]["authorization"] == "Bearer of-the-vendor"


async def test_what_litellm_knows_a_vendor_not_to_take_is_given_up_without_a_request() -> None:
    with serve(message({"type": "text", "text": PAIRS})) as provider:
        config = PrunerConfig(
            model="litellm:anthropic/claude-haiku-4-5", base_url=provider.url, scoring="expected", timeout=30
        )
        async with Pruner(config) as pruner:
            result = await pruner.prune("q", ["a", "b", "c"])
    assert (result.status, len(provider.requests)) == ("ok", 1)


async def test_retries_that_litellm_turns_on_for_a_vendor_stay_off() -> None:
    with serve(as_json({}, 500)) as provider:
        backend = LiteLLMBackend("nvidia_nim/m", base_url=provider.url)
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        await backend.aclose()
    assert len(provider.requests) == 1


@pytest.mark.parametrize("status", [200, 500])
async def test_a_large_body_that_is_of_no_use_does_not_hold_up_the_event_loop(status: int) -> None:
    large = Reply(status, b'{"a":"' + b"x" * 1_900_000, {"content-type": "application/json"})
    with serve(large) as provider:
        backend = LiteLLMBackend("anthropic/claude-haiku-4-5", base_url=provider.url)
        started = time.process_time()
        with pytest.raises(BackendError):
            await backend.grade(REQUEST)
        assert time.process_time() - started < 0.5
        await backend.aclose()


async def test_calls_given_up_before_litellm_speaks_leave_nothing_behind() -> None:
    before = asyncio.all_tasks()
    with serve(chat("{}")) as provider:
        backend = LiteLLMBackend("openai/m", base_url=provider.url)
        for rounds in range(30):
            call = asyncio.create_task(backend.grade(REQUEST))
            for _ in range(rounds % 5):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await backend.aclose()
    gc.collect()
    assert asyncio.all_tasks() == before


def test_connections_that_litellm_makes_itself_are_closed_with_the_event_loop() -> None:
    """In a process of its own: litellm holds on to them to the end."""
    code = """
import asyncio
from tests.backends.test_litellm import BackendError, GradingRequest, LiteLLMBackend, as_json, serve
with serve(as_json({})) as provider:
    backend = LiteLLMBackend("cohere_chat/command-r", base_url=provider.url)
    for _ in range(2):
        try:
            asyncio.run(backend.grade(GradingRequest("s", "u", 2)))
        except BackendError:
            print(len(provider.requests))
"""
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["1", "2"], "")


async def test_token_alternatives_are_kept() -> None:
    token = {"token": "5", "logprob": -0.1, "bytes": [53]}
    choice = {
        "message": {"role": "assistant", "content": "5"},
        "finish_reason": "stop",
        "logprobs": {"content": [{**token, "top_logprobs": [token]}], "refusal": None},
    }
    raw, provider = await ask(completion(choice), GradingRequest("s", "u", 2, logprobs=True))
    assert [(t.text, t.top) for t in raw.tokens] == [("5", (("5", -0.1),))]
    assert provider.requests[0]["top_logprobs"] > 5


async def test_reasoning_and_tokens_from_a_cache_are_told_apart() -> None:
    usage = {
        "prompt_tokens": 70,
        "completion_tokens": 3,
        "total_tokens": 73,
        "prompt_tokens_details": {"cached_tokens": 50},
    }
    answer = {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    raw, _ = await ask(completion({"message": answer, "finish_reason": "length"}, usage))
    assert (raw.text, raw.reasoning, raw.finish) == ("x", "hm", "length")
    assert (raw.usage.input_tokens, raw.usage.cached_tokens) == (70, 50)


@pytest.mark.parametrize(("model", "thinks"), [("openai/gpt-5-nano", True), ("openai/gpt-4o-mini", False)])
async def test_a_model_that_reasons_gets_little_effort_and_room_for_it(model: str, thinks: bool) -> None:
    _, provider = await ask(chat("{}"), model=model)
    (body,) = provider.requests
    assert (body.get("reasoning_effort") == "low") is thinks
    assert (body.get("max_completion_tokens", body.get("max_tokens", 0)) > 1_000) is thinks


async def test_a_model_of_claude_that_need_not_think_is_not_made_to() -> None:
    _, provider = await ask(message({"type": "text", "text": "{}"}), model="anthropic/claude-haiku-4-5")
    assert "thinking" not in provider.requests[0]


async def test_a_prompt_against_a_vendors_policy_is_refused_and_not_sent_in_another_form() -> None:
    said = "Your request was rejected as a result of the safety system."
    error = await fault(as_json({"error": {"message": said}}, 400))
    assert (error.reason, error.retryable) == (Reason.REFUSED, False)


VENDORS = ["openai/m", "groq/llama-3.1-8b-instant", "openrouter/x/y", "hosted_vllm/m", "azure/m"]


@pytest.mark.parametrize("model", VENDORS)
@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (400, {"code": "content_filter", "message": "filtered"}, Reason.REFUSED),
        (400, {"code": "invalid_prompt", "message": "Invalid"}, Reason.REFUSED),
        (429, {"code": "insufficient_quota", "message": "m"}, Reason.RATE_LIMITED),
        (402, {"message": "Insufficient credits"}, Reason.BAD_REQUEST),
        (413, {"message": "large"}, Reason.BAD_REQUEST),
        (503, {"message": "down"}, Reason.PROVIDER_ERROR),
    ],
)
async def test_what_a_server_says_is_told_whatever_litellm_makes_of_it(
    model: str, status: int, error: dict[str, Any], reason: Reason
) -> None:
    found = await fault(as_json({"error": error}, status), model=model, api_key="k")
    assert (found.reason, f"HTTP {status}" in str(found)) == (reason, True)
    assert found.retryable is (status == 503)


@pytest.mark.parametrize("model", VENDORS)
async def test_a_plain_text_that_names_the_length_is_an_overflow(model: str) -> None:
    plain = Reply(400, b"This model's maximum context length is 4096 tokens", {"content-type": "text/plain"})
    assert (await fault(plain, model=model, api_key="k")).reason is Reason.CONTEXT_OVERFLOW


@pytest.mark.parametrize("model", [model for model in VENDORS if "azure" not in model])
async def test_an_answer_in_our_format_is_read_as_it_came(model: str) -> None:
    choice = {"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    raw, _ = await ask(as_json({"choices": [choice], "usage": {"prompt_tokens": 7}}), model=model)
    assert (raw.text, raw.usage.input_tokens) == ("x", 7)
    broken = as_json({"choices": [{"error": {"code": 429}, "message": {"content": ""}, "finish_reason": "error"}]})
    assert (await fault(broken, model=model)).reason is Reason.RATE_LIMITED


async def test_an_answer_that_litellm_cannot_read_is_told_with_the_status_that_was_sent() -> None:
    error = await fault(as_json({"secret": "text"}), model="anthropic/claude-haiku-4-5")
    assert (error.reason, error.retryable) == (Reason.PROVIDER_ERROR, True)
    assert re.fullmatch(r"HTTP 200, but litellm cannot read the answer: \w+", str(error))


async def test_a_status_that_litellm_has_another_name_for_is_told_as_it_was_sent() -> None:
    error = await fault(as_json({"error": {"type": "overloaded_error"}}, 529), model="anthropic/claude-haiku-4-5")
    assert str(error) == "HTTP 529 overloaded_error"


async def test_what_litellm_says_of_a_cache_is_read() -> None:
    usage = {
        "input_tokens": 1_000,
        "cache_creation_input_tokens": 8_000,
        "cache_read_input_tokens": 50,
        "output_tokens": 100,
    }
    raw, _ = await ask(message({"type": "text", "text": "x"}, usage=usage), model="anthropic/claude-haiku-4-5")
    assert (raw.usage.input_tokens, raw.usage.cached_tokens, raw.usage.written_tokens) == (9_050, 50, 8_000)


def test_a_price_and_a_size_are_those_of_the_vendors_model() -> None:
    pytest.importorskip("genai_prices")
    usage = Usage(input_tokens=1_000_000)
    assert make_pricer("litellm", "openai/gpt-4o-mini")(usage) == make_pricer("openai", "gpt-4o-mini")(usage)
    assert make_pricer("litellm", "gpt-4o-mini")(usage) == make_pricer("openai", "gpt-4o-mini")(usage)
    assert context_window("litellm", "openai/gpt-4o-mini") == context_window("openai", "gpt-4o-mini")
    assert make_pricer("litellm", "nobody/knows")(usage) is None
