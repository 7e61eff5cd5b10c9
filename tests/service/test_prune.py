from typing import Any

import pytest
from fastapi import FastAPI

from pruner.schema import Grade, GradingRequest, RawGrading
from tests.service.served import THREE, app_of, grades, post, prune

pytestmark = pytest.mark.anyio

RANKED = {
    "query": "which?",
    "documents": ["useless", {"text": "needed", "url": "x"}, "of no use"],
    "results": [
        {"index": 1, "relevance_score": 0.9},
        {"index": 2, "relevance_score": 0.5},
        {"index": 0, "relevance_score": 0.1},
    ],
}


async def test_an_answer_names_the_kept_by_index_and_id_and_says_why() -> None:
    answer = await prune(app_of(), chunks=[{"text": "needed", "id": "a"}, "useless", {"text": "x", "id": 3}])
    assert (answer["kept"], answer["ids"], answer["status"], answer["reason"]) == ([0], ["a"], "ok", None)
    assert [(d["index"], d["id"], d["grade"], d["kept"], d["by"]) for d in answer["decisions"]] == [
        (0, "a", 5, True, "grade"),
        (1, None, 1, False, "below_threshold"),
        (2, 3, 1, False, "below_threshold"),
    ]


async def test_an_answer_holds_usage_and_timings() -> None:
    answer = await prune(app_of())
    assert answer["usage"] == {
        "input_tokens": 100,
        "output_tokens": 10,
        "cached_tokens": 40,
        "calls": 1,
        "cost": None,
        "written_tokens": 0,
    }
    assert 0 <= answer["timings"]["grading"] <= answer["timings"]["total"] < 60


async def test_texts_tokens_and_trace_come_on_request_only() -> None:
    plain = await prune(app_of())
    assert (plain["texts"], plain["tokens"], plain["trace"]) == (None, None, None)
    full = await prune(app_of(), texts=True, tokens=True, trace=True)
    assert full["texts"] == ["needed"]
    assert full["tokens"]["before"] == sum(full["tokens"]["chunks"]) > full["tokens"]["after"] > 0
    assert full["trace"]["stages"][0]["kept"] == [0]


async def test_a_rerankers_own_answer_is_taken_and_its_indices_are_answered() -> None:
    answer = await prune(app_of(), chunks=None, **{k: RANKED[k] for k in ("documents", "results")})
    assert answer["kept"] == [1]
    assert [d["index"] for d in answer["decisions"]] == [1, 2, 0]


async def test_a_rerankers_answer_may_hold_the_documents_itself() -> None:
    results = [{"index": 4, "relevance_score": 0.9, "document": {"text": "needed"}}]
    answer = await prune(app_of(), chunks=None, results=results, texts=True)
    assert (answer["kept"], answer["texts"]) == ([4], ["needed"])


async def test_history_reaches_the_model() -> None:
    seen = []

    def answer(request: GradingRequest) -> RawGrading:
        seen.append(request.user)
        return RawGrading(text=grades(request.n, 1))

    await prune(app_of(answer), history=["an earlier question"])
    assert "an earlier question" in seen[0]


@pytest.mark.parametrize(
    ("dials", "kept"),
    [({}, [0]), ({"keep_top_k": 2}, [0, 1]), ({"threshold": "UNRELATED"}, [0, 1, 2]), ({"threshold": 1.0}, [0, 1, 2])],
)
async def test_dials_hold_for_the_one_request(dials: dict[str, Any], kept: list[int]) -> None:
    app = app_of()
    assert (await prune(app, dials=dials))["kept"] == kept
    assert (await prune(app))["kept"] == [0]


@pytest.mark.parametrize(
    ("dials", "field", "message"),
    [
        ({"threshold": 1}, "dials.threshold", "must be from 2 to 4"),
        ({"threshold": "ESSENTIAL"}, "dials.threshold", "must be from 2 to 4"),
        ({"scoring": "expected"}, "dials.scoring", "must be one of grade"),
    ],
)
async def test_a_dial_beyond_the_operators_limit_is_refused(dials: dict[str, Any], field: str, message: str) -> None:
    response = await post(_limited(), "/v1/prune", {**THREE, "dials": dials})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (422, "invalid_request", field)
    assert error["message"] == message


async def test_a_dial_that_the_operator_has_not_opened_is_forbidden() -> None:
    response = await post(_limited(), "/v1/prune", {**THREE, "dials": {"keep_top_k": 3}})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (403, "dial_not_open", "dials.keep_top_k")


def _limited() -> FastAPI:
    return app_of(dials={"threshold": (2, 4), "scoring": ("grade",)})


async def test_dials_that_disagree_are_refused_before_anything_is_paid() -> None:
    def never(request: GradingRequest) -> RawGrading:
        raise AssertionError("asked")

    response = await post(app_of(never), "/v1/prune", {**THREE, "dials": {"keep_top_k": 3, "max_chunks": 2}})
    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, "dials")
    assert "below keep_top_k=3" in error["message"]


@pytest.mark.parametrize("name", ["model", "base_url", "api_key", "timeout", "prompt"])
async def test_model_address_and_key_never_come_from_a_request(name: str) -> None:
    for body, field in (({**THREE, name: "x"}, name), ({**THREE, "dials": {name: "x"}}, f"dials.{name}")):
        response = await post(app_of(), "/v1/prune", body)
        assert (response.status_code, response.json()["error"]["field"]) == (422, field)


async def test_a_failing_provider_is_a_fallback_and_no_error() -> None:
    answer = await prune(app_of(lambda request: RawGrading(text="no idea")))
    assert (answer["status"], answer["reason"], answer["kept"]) == ("fallback", "unparseable", [0, 1, 2])


async def test_an_empty_list_is_answered_with_an_empty_one() -> None:
    answer = await prune(app_of(), chunks=[])
    assert (answer["status"], answer["kept"], answer["decisions"]) == ("skipped", [], [])


async def test_recorded_grades_are_assembled_anew_without_a_call() -> None:
    def never(request: GradingRequest) -> RawGrading:
        raise AssertionError("asked")

    body = {"chunks": THREE["chunks"], "grading": {"grades": [1, 4, None]}, "dials": {"threshold": 4}}
    answer = (await post(app_of(never), "/v1/assemble", body)).json()
    assert (answer["kept"], answer["status"], answer["usage"]["calls"]) == ([1, 2], "partial", 0)
    assert answer["decisions"][1]["grade"] == Grade.CONTRIBUTING


async def test_a_recorded_fallback_is_assembled_as_one() -> None:
    grading = {"grades": [None] * 3, "status": "fallback", "reason": "timeout"}
    body = {"chunks": THREE["chunks"], "grading": grading, "dials": {"fallback_top_n": 1}}
    answer = (await post(app_of(), "/v1/assemble", body)).json()
    assert (answer["kept"], answer["status"], answer["reason"]) == ([0], "fallback", "timeout")


async def test_what_prune_answers_can_be_assembled_to_the_same_answer() -> None:
    app = app_of()
    pruned = await prune(app)
    grading = {"grades": [d["grade"] for d in pruned["decisions"]], "status": pruned["status"]}
    again = (await post(app, "/v1/assemble", {"chunks": THREE["chunks"], "grading": grading})).json()
    assert (again["kept"], again["decisions"]) == (pruned["kept"], pruned["decisions"])


async def test_what_was_left_out_of_the_prompt_is_assembled_by_the_rule_of_the_fallback() -> None:
    grading = {"grades": [5, None, None], "left_out": [1, 2]}
    body = {"chunks": THREE["chunks"], "grading": grading, "dials": {"fallback_top_n": 2}}
    answer = (await post(app_of(), "/v1/assemble", body)).json()
    assert (answer["kept"], answer["status"]) == ([0, 1], "partial")


async def test_a_place_left_out_that_is_not_in_the_list_is_refused() -> None:
    body = {"chunks": THREE["chunks"], "grading": {"grades": [5, None, None], "left_out": [3]}}
    response = await post(app_of(), "/v1/assemble", body)
    assert (response.status_code, response.json()["error"]["field"]) == (422, "grading.left_out")


@pytest.mark.parametrize("field", ["grades", "expected"])
async def test_grades_of_another_list_are_refused(field: str) -> None:
    grading: dict[str, Any] = {"grades": [5, 1, 1], field: [5.0] if field == "expected" else [5]}
    response = await post(app_of(), "/v1/assemble", {"chunks": THREE["chunks"], "grading": grading})
    assert (response.status_code, response.json()["error"]["field"]) == (422, f"grading.{field}")
