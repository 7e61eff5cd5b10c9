from collections.abc import Callable
from typing import Any

import pytest

from pruner.config import PrunerConfig
from pruner.schema import GradingRequest, RawGrading
from tests.provider import HANG, Provider, Reply, as_json, serve
from tests.service.served import app_of, first_needed, grades, post

pytestmark = pytest.mark.anyio
BODY = {"model": "rerank-x", "query": "which?", "documents": ["useless", "needed", "of no use", "also needed"]}
ORDER = {"results": [{"index": i, "relevance_score": s} for i, s in ((3, 0.9), (1, 0.8), (0, 0.3), (2, 0.1))]}


def needed(*texts: str) -> Callable[[GradingRequest], RawGrading]:
    """Grade as essential the chunks of these texts, wherever they stand."""

    def answer(request: GradingRequest) -> RawGrading:
        places = sorted((request.user.index(f"\n{text}\n"), text) for text in map(str, BODY["documents"]))
        labels = [label for label, (_, text) in enumerate(places, 1) if text in texts]
        return RawGrading(text=grades(request.n, *labels))

    return answer


async def rerank(answer: Any = None, *, config: PrunerConfig | None = None, **body: Any) -> dict[str, Any]:
    app = app_of(answer or needed("needed", "also needed"), config=config)
    response = await post(app, "/v1/rerank", {**BODY, **body})
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def indices(answer: dict[str, Any]) -> list[int]:
    return [result["index"] for result in answer["results"]]


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
async def test_the_documents_that_are_needed_come_back_in_reranker_order(path: str) -> None:
    answer = (await post(app_of(needed("needed", "also needed")), path, BODY)).json()
    assert (indices(answer), answer["model"], answer["object"]) == ([1, 3], "rerank-x", "list")
    assert answer["meta"]["pruner"]["status"] == "ok"
    assert (answer["meta"]["pruner"]["documents"], answer["meta"]["pruner"]["kept"]) == (4, 2)


async def test_without_an_upstream_scores_fall_with_the_rank() -> None:
    scores = [result["relevance_score"] for result in (await rerank())["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


async def test_documents_come_back_as_given_where_asked_for() -> None:
    documents = ["useless", {"text": "needed", "url": "x"}, "of no use", "also needed"]
    answer = await rerank(documents=documents, return_documents=True)
    assert [r["document"] for r in answer["results"]] == [{"text": "needed", "url": "x"}, {"text": "also needed"}]
    assert "document" not in (await rerank())["results"][0]


@pytest.mark.parametrize(
    ("fields", "document", "read"),
    [
        (["title", "body"], {"title": "Backups", "body": "14 days", "url": "x"}, "title: Backups\nbody: 14 days"),
        (["body", "title"], {"title": "Backups", "body": None}, "title: Backups"),
        (["body"], {"title": "Backups", "body": "14 days"}, "14 days"),
        (["title", "body"], "14 days", "14 days"),
        ([], {"text": "14 days", "title": "Backups"}, "14 days"),
        (["model_dump", "text"], {"model_dump": "odd", "text": "14 days"}, "model_dump: odd\ntext: 14 days"),
    ],
)
async def test_the_rank_fields_of_a_document_are_what_is_read(fields: list[str], document: Any, read: str) -> None:
    with serve(as_json({"results": [{"index": 0, "relevance_score": 1.0}]})) as provider:
        asked: dict[str, Any] = {"documents": [document], "rank_fields": fields, "return_documents": True}
        code, answer = await through(provider, first_needed, **asked)
    assert code == 200, answer
    assert provider.requests[0]["documents"] == [read]
    given = {"text": document} if isinstance(document, str) else document
    assert answer["results"][0]["document"] == given


@pytest.mark.parametrize(
    ("document", "field"),
    [({"text": "x", "url": "y"}, "documents[1].title"), ({"title": 3}, "documents[1].title")],
)
async def test_a_document_without_text_in_its_rank_fields_is_refused(document: Any, field: str) -> None:
    body = {**BODY, "documents": [{"title": "a"}, document], "rank_fields": ["title"]}
    response = await post(app_of(), "/v1/rerank", body)
    assert (response.status_code, response.json()["error"]["field"]) == (422, field)


@pytest.mark.parametrize(("top_n", "kept"), [(1, [1]), (2, [1, 3]), (9, [1, 3])])
async def test_top_n_answers_at_most_so_many(top_n: int, kept: list[int]) -> None:
    assert indices(await rerank(top_n=top_n)) == kept


async def test_top_n_below_the_operators_keep_top_k_keeps_the_rerankers_first() -> None:
    config = PrunerConfig(keep_top_k=3, base_url="http://127.0.0.1:9/v1")
    assert indices(await rerank(config=config, top_n=2)) == [0, 1]


async def test_a_failing_model_leaves_the_rerankers_order() -> None:
    answer = await rerank(lambda request: RawGrading(text="no idea"))
    assert (indices(answer), answer["meta"]["pruner"]["reason"]) == ([0, 1, 2, 3], "unparseable")


async def test_no_documents_are_no_fault() -> None:
    assert (await rerank(documents=[]))["results"] == []


async def through(
    provider: Provider, answer: Any = None, settings: dict[str, Any] | None = None, **body: Any
) -> tuple[int, dict[str, Any]]:
    settings = {"upstream": provider.url + "/rerank", **(settings or {})}
    response = await post(app_of(answer or needed("needed", "also needed"), **settings), "/v1/rerank", {**BODY, **body})
    return response.status_code, response.json()


async def test_with_an_upstream_its_order_is_pruned_and_its_scores_are_kept() -> None:
    with serve(as_json(ORDER)) as provider:
        code, answer = await through(provider)
    assert (code, indices(answer)) == (200, [3, 1])
    assert [r["relevance_score"] for r in answer["results"]] == [0.9, 0.8]


async def test_the_upstream_is_asked_with_the_operators_key_and_model() -> None:
    with serve(as_json(ORDER)) as provider:
        await through(provider, settings={"upstream_key": "secret", "upstream_model": "theirs"})
    [asked] = provider.requests
    assert asked == {
        "model": "theirs",
        "query": "which?",
        "documents": BODY["documents"],
        "top_n": 4,
        "return_documents": False,
    }
    assert provider.headers[0]["authorization"] == "Bearer secret"


async def test_the_callers_key_does_not_reach_the_upstream() -> None:
    with serve(as_json(ORDER)) as provider:
        app = app_of(upstream=provider.url + "/rerank")
        await post(app, "/v1/rerank", BODY, authorization="Bearer of-the-caller")
    assert "authorization" not in provider.headers[0]


async def test_documents_the_upstream_leaves_out_are_left_out() -> None:
    with serve(as_json({"results": ORDER["results"][:2]})) as provider:
        code, answer = await through(provider, lambda request: RawGrading(text=grades(request.n, 1, 2)))
    assert (code, indices(answer), answer["meta"]["pruner"]["documents"]) == (200, [3, 1], 4)


@pytest.mark.parametrize(
    ("scores", "order"),
    [([0.25, 0.5, 0.75, 1.0], [3, 2]), ([0.1, 0.9, 0.1, 0.9], [1, 3]), ([-8.0, -2.5, -9.0, -2.5], [1, 3])],
)
async def test_an_upstream_that_answers_in_the_order_of_the_documents_is_read_by_its_scores(
    scores: list[float], order: list[int]
) -> None:
    results = [{"index": place, "relevance_score": score} for place, score in enumerate(scores)]
    with serve(as_json({"results": results})) as provider:
        _, answer = await through(provider, lambda request: RawGrading(text="no idea"), top_n=2)
    assert (indices(answer), answer["meta"]["pruner"]["status"]) == (order, "fallback")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500),
        Reply(200, b"<html>"),
        Reply(302, headers={"location": "http://127.0.0.1:9/"}),
        as_json({"results": [{"index": 7, "relevance_score": 1}]}),
        as_json({"results": [{"index": 1, "relevance_score": 1}] * 2}),
        as_json({"results": [{"index": -1, "relevance_score": 1}]}),
        as_json({"data": []}),
        Reply(200, b'{"results": [{"index": 1, "relevance_score": NaN}]}'),
        Reply(200, b" " * 3_000_000),
    ],
)
async def test_a_faulty_upstream_is_said_to_be_one(reply: Reply) -> None:
    with serve(reply) as provider:
        code, answer = await through(provider)
    assert (code, answer["error"]["code"]) == (502, "upstream_failed")
    assert answer["error"]["message"].startswith("the reranker ")


async def test_an_upstream_that_is_not_there_or_too_slow_is_said_to_be() -> None:
    with serve(lambda _: HANG) as provider:
        code, answer = await through(provider, settings={"upstream_timeout": 0.2})
    assert (code, answer["error"]["message"]) == (502, "the reranker gave no answer in 0.2 s")
    code, answer = await through(provider)
    assert (code, answer["error"]["code"]) == (502, "upstream_failed")


async def test_an_upstream_that_is_too_busy_is_to_be_asked_again_later() -> None:
    with serve(Reply(429)) as provider:
        code, answer = await through(provider)
    assert (code, answer["error"]["code"]) == (503, "too_busy")
