import re
from typing import Any

import pytest

from pruner import Pruner, PrunerConfig
from tests.provider import Provider, Reply, as_json, completion, serve

pytestmark = pytest.mark.anyio

CHUNKS = ["alpha", "beta", "gamma", "delta"]


def digit(probabilities: dict[str, float]) -> Reply:
    top = [{"token": text, "logprob": logprob} for text, logprob in probabilities.items()]
    first = {**top[0], "top_logprobs": top}
    choice = {"message": {"content": top[0]["token"]}, "finish_reason": "length", "logprobs": {"content": [first]}}
    return completion(choice, {"prompt_tokens": 100, "completion_tokens": 1})


def label(body: dict[str, Any]) -> int:
    found = re.findall(r"is chunk (\d+)", body["messages"][1]["content"])
    return int(found[-1])


async def ask(answer: Any, **dials: Any) -> tuple[Any, Provider]:
    with serve(answer) as provider:
        config = PrunerConfig(model="openai:m", base_url=provider.url, readout="probe", keep_top_k=0, **dials)
        async with Pruner(config) as pruner:
            return await pruner.prune("q", CHUNKS), provider


async def test_each_chunk_is_graded_by_the_mean_of_its_digit() -> None:
    half = -0.6931471805599453

    def answer(body: dict[str, Any]) -> Reply:
        return digit({"5": half, "4": half} if label(body) == 3 else {"1": -0.01, " 1": -9.0, "x": -4.0})

    result, provider = await ask(answer)
    assert result.chunks == ["gamma"]
    assert [d.expected for d in result.decisions] == pytest.approx([1, 1, 4.5, 1])
    assert result.usage.input_tokens == 400
    assert len(provider.requests) == 4


async def test_the_list_comes_first_so_that_the_server_reads_it_once() -> None:
    _, provider = await ask(lambda body: digit({"1": -0.1} if label(body) > 1 else {"5": -0.1}))
    users = [body["messages"][1]["content"] for body in provider.requests]
    shared = users[0][: users[0].index("Which level")]
    assert all(user.startswith(shared) for user in users)
    assert all(text in shared for text in CHUNKS)
    assert label(provider.requests[0]) == 1


async def test_only_one_token_with_its_alternatives_is_asked_for() -> None:
    _, provider = await ask(lambda body: digit({str(label(body)): -0.1}))
    assert all(body["max_tokens"] == 1 and body["logprobs"] for body in provider.requests)
    assert not any("response_format" in body for body in provider.requests)


async def test_a_server_without_token_probabilities_is_a_visible_fallback() -> None:
    result, _ = await ask(completion({"message": {"content": "5"}, "finish_reason": "length"}))
    assert (result.status, result.reason) == ("fallback", "schema_mismatch")


NO_ALTERNATIVES = {"content": [{"token": "5", "logprob": -0.1, "top_logprobs": []}]}


@pytest.mark.parametrize("logprobs", [None, {"content": None}, NO_ALTERNATIVES])
async def test_a_server_without_token_probabilities_is_asked_once_and_told_by_name(
    logprobs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    choice = {"message": {"content": "5"}, "finish_reason": "length", "logprobs": logprobs}
    result, provider = await ask(completion(choice, {"prompt_tokens": 100}))
    assert (len(provider.requests), result.usage.calls, result.usage.input_tokens) == (1, 1, 100)
    assert "use readout='json' if the server gives no logprobs" in caplog.text


async def test_a_first_question_without_an_answer_does_not_speak_for_the_others() -> None:
    silent = completion({"message": {"content": ""}, "finish_reason": "stop", "logprobs": {"content": []}})
    result, _ = await ask(lambda body: silent if label(body) == 1 else digit({"4": -0.1}))
    assert [d.grade for d in result.decisions] == [None, 4, 4, 4]


async def test_each_question_is_a_call() -> None:
    result, _ = await ask(lambda body: digit({str(label(body)): -0.1}))
    assert result.usage.calls == len(CHUNKS)


async def test_a_server_that_refuses_probabilities_by_name_is_asked_twice() -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "logprobs" in body:
            return as_json({"error": {"message": "You are not allowed to request logprobs from this model."}}, 403)
        return completion({"message": {"content": "5"}, "finish_reason": "length"})

    result, provider = await ask(answer)
    assert (result.reason, len(provider.requests)) == ("schema_mismatch", 2)


async def test_questions_are_asked_in_the_dialect_that_the_first_was_answered_in() -> None:
    def answer(body: dict[str, Any]) -> Reply:
        return as_json({"error": "temperature"}, 400) if "temperature" in body else digit({str(label(body)): -0.1})

    result, provider = await ask(answer, temperature=0.5)
    assert (result.status, len(provider.requests)) == ("ok", 1 + len(CHUNKS))


async def test_a_chunk_without_a_digit_is_ungraded() -> None:
    result, _ = await ask(lambda body: digit({"I": -0.1} if label(body) == 2 else {str(label(body)): -0.1}))
    assert (result.status, [d.grade for d in result.decisions]) == ("partial", [1, None, 3, 4])


async def test_a_fault_of_one_question_is_a_fault_of_the_grading() -> None:
    result, _ = await ask(lambda body: as_json({}, 401) if label(body) == 4 else digit({"1": -0.1}))
    assert (result.status, result.reason) == ("fallback", "auth")


@pytest.mark.local_model
async def test_a_real_server_that_speaks_the_same_wire_is_probed() -> None:
    from pruner.backends.local import start_server
    from pruner.backends.modelstore import DEFAULT_MODEL, model_path

    server = start_server(model_path(DEFAULT_MODEL))
    url = f"{server.listening_address}/v1"
    config = PrunerConfig(model="openai:any", base_url=url, readout="probe", timeout=120, keep_top_k=0)
    async with Pruner(config) as pruner:
        result = await pruner.prune(
            "Where do the keys hang?", ["The keys hang by the door.", "Rice is boiled.", "Snow fell."]
        )
    assert result.status == "ok"
    assert all(1 <= (d.expected or 0) <= 5 for d in result.decisions)
    assert result.usage.cached_tokens > 0
