"""Whatever a caller sends is answered in the one shape, naming what is wrong."""

import json
from typing import Any

import httpx2
import pytest

from pruner.schema import RawGrading
from tests.service.served import THREE, app_of, client, grades, post

pytestmark = pytest.mark.anyio
RERANK = {"query": "which?", "documents": ["needed", "useless"]}
ASSEMBLE = {"chunks": ["needed", "useless"], "grading": {"grades": [5, 1]}}


async def send(content: bytes, **headers: str) -> httpx2.Response:
    async with client(app_of(), **{"content-type": "application/json", **headers}) as http:
        return await http.post("/v1/prune", content=content)


def fault(response: httpx2.Response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    assert set(error) == {"code", "message", "field", "request_id"}
    assert error["message"]
    assert error["request_id"] == response.headers["x-request-id"]
    return response.status_code, error["code"], error["field"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/prune", {**THREE, "chunkz": []}, "chunkz"),
        ("/v1/prune", {**THREE, "chunks": ["a", {"text": "b", "scroe": 1}]}, "chunks[1].scroe"),
        ("/v1/prune", {**THREE, "dials": {"treshold": 1}}, "dials.treshold"),
        ("/v1/rerank", {**RERANK, "topn": 1}, "topn"),
        ("/v1/assemble", {**ASSEMBLE, "history": []}, "history"),
        ("/v1/assemble", {**ASSEMBLE, "grading": {"grades": [1, 1], "reply": "x"}}, "grading.reply"),
    ],
)
async def test_an_unknown_field_is_refused_by_name(path: str, body: Any, field: str) -> None:
    response = await post(app_of(), path, body)
    assert fault(response) == (422, "invalid_request", field)
    assert response.json()["error"]["message"] == "unknown field"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/prune", {"chunks": []}, "query"),
        ("/v1/prune", {"query": 3, "chunks": []}, "query"),
        ("/v1/prune", {"query": "q"}, None),
        ("/v1/prune", {**THREE, "chunks": "text"}, "chunks"),
        ("/v1/prune", {**THREE, "chunks": ["a", 3]}, "chunks[1]"),
        ("/v1/prune", {**THREE, "chunks": [{"id": 1}]}, "chunks[0].text"),
        ("/v1/prune", {**THREE, "chunks": [{"text": "a", "id": 1.5}]}, "chunks[0].id"),
        ("/v1/prune", {**THREE, "chunks": [{"text": "a", "id": True}]}, "chunks[0].id"),
        ("/v1/prune", {**THREE, "chunks": [{"text": "a", "score": "0.5"}]}, "chunks[0].score"),
        ("/v1/prune", {**THREE, "chunks": [{"text": "a", "heading_path": [1]}]}, "chunks[0].heading_path[0]"),
        ("/v1/prune", {**THREE, "dials": {"threshold": "5"}}, "dials.threshold"),
        ("/v1/prune", {**THREE, "dials": {"keep_top_k": True}}, "dials.keep_top_k"),
        ("/v1/prune", {**THREE, "dials": {"scoring": "worst"}}, "dials.scoring"),
        ("/v1/prune", {**THREE, "history": "q"}, "history"),
        ("/v1/prune", {**THREE, "documents": []}, None),
        ("/v1/prune", {"query": "q", "results": [{"index": 0, "relevance_score": 1.0}]}, "results[0].document"),
        ("/v1/prune", [], None),
        ("/v1/prune", "text", None),
        ("/v1/rerank", {**RERANK, "top_n": 0}, "top_n"),
        ("/v1/rerank", {**RERANK, "documents": [{"url": "x"}]}, "documents[0].text"),
        ("/v1/assemble", {**ASSEMBLE, "grading": {"grades": [6, 1]}}, "grading.grades[0]"),
        ("/v1/assemble", {**ASSEMBLE, "grading": {"grades": [1, 1], "status": "good"}}, "grading.status"),
    ],
)
async def test_a_wrong_value_is_refused_by_its_field(path: str, body: Any, field: str | None) -> None:
    assert fault(await post(app_of(), path, body)) == (422, "invalid_request", field)


@pytest.mark.parametrize(
    ("results", "field"),
    [
        ([{"index": 0, "relevance_score": 1.0}, {"index": 0, "relevance_score": 0.5}], "results[1].index"),
        ([{"index": 1, "relevance_score": 1.0}], "results[0].index"),
        ([{"index": -1, "relevance_score": 1.0}], "results[0].index"),
    ],
)
async def test_results_that_do_not_fit_their_documents_are_refused(results: Any, field: str) -> None:
    body = {"query": "q", "documents": ["only one"], "results": results}
    assert fault(await post(app_of(), "/v1/prune", body)) == (422, "invalid_request", field)


@pytest.mark.parametrize("path", ["/v1/prune", "/v1/assemble"])
async def test_an_id_that_is_there_twice_is_refused_as_it_would_name_two(path: str) -> None:
    chunks = [{"text": "a", "id": "x"}, {"text": "b"}, {"text": "c"}, {"text": "d", "id": "x"}]
    body = {**(THREE if path == "/v1/prune" else {"grading": {"grades": [1] * 4}}), "chunks": chunks}
    response = await post(app_of(), path, body)
    assert fault(response) == (422, "invalid_request", "chunks[3].id")
    assert "chunks[0].id" in response.json()["error"]["message"]


async def test_the_number_1_and_the_text_1_are_two_ids() -> None:
    response = await post(
        app_of(), "/v1/prune", {**THREE, "chunks": [{"text": "a", "id": 1}, {"text": "b", "id": "1"}]}
    )
    assert response.json()["ids"] == [1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"hello",
        b'{"query": "q", "chunks": [{"text": "a", "score": NaN}]}',
        b'{"query": "q", "chunks": [{"text": "a", "metadata": {"x": Infinity}}]}',
        b'{"query": "\\ud800", "chunks": []}',
        b'{"query": "q", "chunks": [{"text": "a", "metadata": {"\\udfff": 1}}]}',
        b'{"query": "\xff\xfe", "chunks": []}',
        b"[" * 100_000,
        b'{"query": "q", "chunks": []} trailing',
        "{}".encode("utf-16"),
    ],
)
async def test_what_is_no_json_is_refused_as_such(content: bytes) -> None:
    assert fault(await send(content)) in ((400, "invalid_json", None), (422, "invalid_request", None))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b'{"query": "q", "chunks": [{"text": "secret", "acl": ["boss"], "acl": null}]}', "acl"),
        (b'{"query": "q", "chunks": [], "chunks": ["a"]}', "chunks"),
        (b'{"query": "q", "chunks": ["a"], "qu\\u0065ry": "r"}', "query"),
        (b'{"query": "q", "chunks": [{"text": "a", "metadata": {"x": [{"y": 1, "y": 1}]}}]}', "y"),
    ],
)
async def test_a_name_that_is_there_twice_in_an_object_is_refused(content: bytes, name: str) -> None:
    response = await send(content)
    assert fault(response) == (422, "invalid_request", name)
    assert "twice" in response.json()["error"]["message"]


async def test_a_name_may_be_in_many_objects() -> None:
    content = (
        b'{"query": "q", "chunks": [{"text": "a", "metadata": {"text": 1}}, {"text": "b", "metadata": {"text": 1}}]}'
    )
    assert (await send(content)).status_code == 200


async def test_an_empty_body_is_said_to_be_empty() -> None:
    response = await send(b"")
    assert fault(response) == (422, "invalid_request", None)
    assert response.json()["error"]["message"] == "the body is empty: send a JSON object, see /openapi.json"


async def test_a_number_too_large_for_a_float_is_refused_by_its_field() -> None:
    response = await send(b'{"query": "q", "chunks": [{"text": "a", "score": 1e999}]}')
    assert fault(response) == (422, "invalid_request", "chunks[0].score")


@pytest.mark.parametrize("name", ["x" * 100_000, "\x00\r\n", "‮", "a.b[3]"])
async def test_an_unknown_field_of_any_name_is_answered_shortly(name: str) -> None:
    response = await post(app_of(), "/v1/prune", {**THREE, name: 1})
    assert fault(response)[:2] == (422, "invalid_request")
    assert len(response.content) < 1000


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
async def test_another_content_type_is_refused(kind: str) -> None:
    response = await send(json.dumps(THREE).encode(), **{"content-type": kind})
    assert fault(response) == (415, "unsupported_media_type", None)


async def test_json_with_a_charset_is_taken() -> None:
    response = await send(json.dumps(THREE).encode(), **{"content-type": "Application/JSON; charset=utf-8"})
    assert response.status_code == 200


async def test_a_compressed_body_is_refused() -> None:
    response = await send(b"\x1f\x8b", **{"content-encoding": "gzip"})
    assert fault(response) == (415, "unsupported_media_type", None)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/prune", {"query": "q", "chunks": ["a"] * 10_000}, "chunks"),
        ("/v1/rerank", {"query": "q", "documents": ["a"] * 10_000}, "documents"),
        ("/v1/assemble", {"chunks": ["a"] * 10_000, "grading": {"grades": [1] * 10_000}}, "chunks"),
    ],
)
async def test_ten_thousand_chunks_are_refused_with_the_limit(path: str, body: Any, field: str) -> None:
    response = await post(app_of(), path, body)
    assert fault(response) == (422, "invalid_request", field)
    assert "at most 1000" in response.json()["error"]["message"]


async def test_ten_thousand_chunks_are_pruned_where_the_operator_allows_them() -> None:
    app = app_of(lambda request: RawGrading(text=grades(request.n, 1)), chunk_limit=10_000)
    response = await post(app, "/v1/prune", {"query": "q", "chunks": ["a"] * 10_000})
    assert response.json()["kept"] == [0]


@pytest.mark.parametrize(("path", "code"), [("/nothing", 404), ("/v1/nothing", 404), ("/v1/prune", 405)])
async def test_another_path_or_method_is_refused_in_the_same_shape(path: str, code: int) -> None:
    async with client(app_of()) as http:
        assert fault(await http.get(path))[0] == code
