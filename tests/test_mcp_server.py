"""The tool over MCP, called by the SDK's own client: in memory, over standard input and output, over HTTP."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import MCPError, StdioServerParameters, stdio_client
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from pruner.backends.scripted import ScriptedBackend
from pruner.cli import main
from pruner.config import PrunerConfig
from pruner.errors import BackendError, Reason
from pruner.mcp_server import make_mcp_app, make_server
from pruner.schema import GradingRequest, RawGrading
from pruner.service.settings import ServiceSettings
from tests.provider import chat, serve
from tests.service.served import KEY, KEYS, THREE, first_needed, grades, post, served, serving, wait_until

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[1]
CONFIG = PrunerConfig(keep_top_k=0, base_url="http://127.0.0.1:9/v1")
TOOL = "prune_context"


def mcp_app(answer: Callable[[GradingRequest], RawGrading] = first_needed, **settings: Any) -> FastAPI:
    return make_mcp_app(ServiceSettings(**settings), CONFIG, backend=ScriptedBackend(answer))


@asynccontextmanager
async def in_memory(app: FastAPI) -> AsyncIterator[Client]:
    async with Client(make_server(app.state.parts)) as client:
        yield client


@asynccontextmanager
async def over_http(url: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    http = httpx2.AsyncClient(headers=headers, timeout=60)
    async with http, Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client:
        yield client


@asynccontextmanager
async def over_stdio(url: str, *arguments: str, mode: str = "auto", **environment: str) -> AsyncIterator[Client]:
    """Run `pruner mcp` before a provider at a URL."""
    dials = ["--model", "openai:m", "--base-url", url, "--keep-top-k", "0", *arguments]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pruner.cli", "mcp", *dials],
        env={"PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
    )
    async with Client(stdio_client(server), mode=mode) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert content.type == "text"
    return content.text


async def asked(app: FastAPI, **changes: Any) -> Any:
    async with in_memory(app) as client:
        result = await client.call_tool(TOOL, {**THREE, **changes})
    assert not result.is_error, result.content
    return result.structured_content


async def refused(app: FastAPI, arguments: dict[str, Any]) -> str:
    async with in_memory(app) as client:
        result = await client.call_tool(TOOL, arguments)
    assert result.is_error
    line = text_of(result)
    assert "\n" not in line
    return line


def lasting(answer: dict[str, Any]) -> dict[str, Any]:
    """What of an answer is the same the next time."""
    return {name: value for name, value in answer.items() if name not in ("request_id", "timings")}


async def test_the_tool_says_what_it_takes_and_answers() -> None:
    async with in_memory(mcp_app()) as client:
        [tool] = (await client.list_tools()).tools
    assert tool.name == TOOL
    assert tool.input_schema["required"] == ["query"]
    assert {"query", "chunks", "results", "principals", "parents", "evidence", "dials"} <= tool.input_schema[
        "properties"
    ].keys()
    assert tool.input_schema["additionalProperties"] is False
    assert tool.output_schema is not None
    assert {
        "kept",
        "texts",
        "decisions",
        "status",
        "conflicts",
        "uncovered_query_ids",
        "evidence",
    } <= tool.output_schema["properties"].keys()


async def test_the_kept_texts_are_answered_with_the_decisions() -> None:
    answer = await asked(mcp_app())
    assert (answer["kept"], answer["texts"], answer["status"]) == ([0], ["needed"], "ok")
    assert [decision["by"] for decision in answer["decisions"]] == ["grade", "below_threshold", "below_threshold"]


async def test_the_text_of_the_answer_is_its_structure_as_json() -> None:
    async with in_memory(mcp_app()) as client:
        result = await client.call_tool(TOOL, THREE)
    assert json.loads(text_of(result)) == result.structured_content


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dials": {"keep_top_k": 2}},
        {"chunks": ["a", {"text": "b", "id": "x", "score": 0.5}], "tokens": True, "trace": True},
        {"chunks": None, "documents": ["a", "b"], "results": [{"index": 1, "relevance_score": 0.5}]},
        {"chunks": []},
        {"history": ["before"], "key": "someone"},
        {"chunks": [{"text": "a", "acl": ["staff"]}, "b", {"text": "c", "query_ids": ["x"]}], "principals": ["guest"]},
        {"required_query_ids": ["x", "y"], "evidence": True},
        {
            "chunks": [{"text": "a", "parent_id": 1}, "b"],
            "parents": {"1": "a and more"},
            "dials": {"expand": "section"},
        },
    ],
)
async def test_the_answer_is_that_of_the_service(changes: dict[str, Any]) -> None:
    app = mcp_app()
    over_mcp = await asked(app, **changes)
    over_rest = (await post(mcp_app(), "/v1/prune", {**THREE, "texts": True, **changes})).json()
    assert lasting(over_mcp) == lasting(over_rest)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "query"),
        ({"query": "q"}, "give `chunks`"),
        ({"query": "q", "chunks": "one text"}, "chunks"),
        ({"query": "q", "chunks": ["a", 3]}, "chunks[1]"),
        ({"query": "q", "chunks": [{"txt": "a"}]}, "chunks[0]"),
        ({"query": "q", "chunks": [{"text": "a", "id": 1}, {"text": "b", "id": 1}]}, "chunks[1].id"),
        ({"query": "q", "chunks": [{"text": "a", "score": "high"}]}, "chunks[0].score"),
        ({"query": "q", "chunks": ["\ud800"]}, "the body is no JSON"),
        ({"query": "q", "chunks": ["a"], "dials": {"threshold": 9}}, "dials.threshold"),
        ({"query": "q", "chunks": ["a"], "dials": {"model": "m"}}, "dials.model"),
        ({"query": "q", "chunks": ["a"], "api_key": "k"}, "api_key"),
        ({"query": "q", "chunks": ["a"], "two\nlines\x1b[31m": 1}, "two lines"),
    ],
)
async def test_bad_arguments_are_an_error_of_the_tool_in_one_line(arguments: dict[str, Any], field: str) -> None:
    line = await refused(mcp_app(), arguments)
    assert line.startswith(field)
    assert "\x1b" not in line


async def test_the_limits_are_those_of_the_service() -> None:
    assert "at most 2 are taken" in await refused(mcp_app(chunk_limit=2), THREE)
    assert "at most 60 bytes" in await refused(mcp_app(max_body=60), THREE)
    dials = {**THREE, "dials": {"keep_top_k": 1}}
    assert "not opened this dial" in await refused(mcp_app(dials={"threshold": (1, 5)}), dials)


async def test_the_mode_of_the_service_holds() -> None:
    answer = await asked(mcp_app(mode="off"))
    assert (answer["arm"], answer["reason"], answer["kept"]) == ("baseline", "baseline", [0, 1, 2])


async def test_past_the_limit_of_gradings_the_rankings_order_answers() -> None:
    begun, let = asyncio.Event(), asyncio.Event()
    async with in_memory(make_mcp_app(ServiceSettings(max_concurrent=1), CONFIG, backend=Slow(begun, let))) as client:
        first = asyncio.create_task(client.call_tool(TOOL, THREE))
        await begun.wait()
        second = await client.call_tool(TOOL, THREE)
        let.set()
        assert (await first).structured_content["kept"] == [0]
    answer = second.structured_content
    assert (answer["kept"], answer["reason"]) == ([0, 1, 2], "overloaded")


class Slow(ScriptedBackend):
    """Says when it is asked, and answers when it is let; or says that it was cancelled."""

    def __init__(self, begun: asyncio.Event, let: asyncio.Event) -> None:
        super().__init__(first_needed)
        self.begun, self.let, self.cancelled = begun, let, asyncio.Event()

    async def grade(self, request: GradingRequest) -> RawGrading:
        self.begun.set()
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().grade(request)


def fails(request: GradingRequest) -> RawGrading:
    raise BackendError(Reason.PROVIDER_ERROR)


@pytest.mark.parametrize(
    ("model", "reason"),
    [(fails, "provider_error"), (lambda _: RawGrading(text="nonsense"), "unparseable")],
)
async def test_a_fault_of_the_provider_is_an_answer(model: Callable[[GradingRequest], RawGrading], reason: str) -> None:
    answer = await asked(mcp_app(model))
    assert (answer["status"], answer["reason"], answer["kept"]) == ("fallback", reason, [0, 1, 2])


async def test_a_tool_of_another_name_is_refused() -> None:
    async with in_memory(mcp_app()) as client:
        with pytest.raises(MCPError, match="prune_context"):
            await client.call_tool("prune", {})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_standard_input_and_output(mode: str) -> None:
    with serve(chat(grades(3, 1))) as provider:
        async with over_stdio(provider.url, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [TOOL]
            results = await asyncio.gather(*(client.call_tool(TOOL, THREE) for _ in range(5)))
            bad = await client.call_tool(TOOL, {"query": 1})
    answers = [result.structured_content for result in results]
    assert [answer["texts"] for answer in answers] == [["needed"]] * 5
    assert len({answer["request_id"] for answer in answers}) == 5
    assert (bad.is_error, text_of(bad)) == (True, "query: Input should be a valid string")


async def test_a_dead_provider_is_an_answer_over_standard_input_and_output() -> None:
    async with over_stdio("http://127.0.0.1:9/v1") as client:
        result = await client.call_tool(TOOL, THREE)
    assert not result.is_error
    assert result.structured_content["reason"] == "provider_error"


async def test_settings_of_the_service_hold_over_standard_input_and_output() -> None:
    async with over_stdio("http://127.0.0.1:9/v1", PRUNER_SERVICE_CHUNK_LIMIT="2") as client:
        result = await client.call_tool(TOOL, THREE)
    assert text_of(result) == "chunks: holds 3, and at most 2 are taken"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http(mode: str) -> None:
    with served(mcp_app()) as url:
        async with over_http(url, mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [TOOL]
            results = await asyncio.gather(*(client.call_tool(TOOL, THREE) for _ in range(5)))
            bad = await client.call_tool(TOOL, {"query": 1})
        assert (await ask(url)).status_code == 200
    assert [result.structured_content["texts"] for result in results] == [["needed"]] * 5
    assert (bad.is_error, text_of(bad)) == (True, "query: Input should be a valid string")


async def test_over_http_it_wants_a_key_of_the_service() -> None:
    with served(mcp_app(api_keys=KEYS)) as url:
        async with over_http(url, authorization=f"Bearer {KEY}") as client:
            assert not (await client.call_tool(TOOL, THREE)).is_error
        async with httpx2.AsyncClient() as http:
            response = await http.post(f"{url}/mcp", json={})
    assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthorized")


async def ask(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{url}/v1/prune", json=THREE)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://elsewhere.test"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://known.test"}, 200),
        ({"host": "elsewhere.test"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
async def test_over_http_pages_from_elsewhere_are_refused(headers: dict[str, str], status: int) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with served(mcp_app(cors_origins=("https://known.test",))) as url:
        async with httpx2.AsyncClient() as http:
            response = await http.post(f"{url}/mcp", content=json.dumps(call), headers={**accept, **headers})
    assert response.status_code == status


async def test_over_http_a_page_that_is_named_may_send_what_the_protocol_wants() -> None:
    asks = {
        "origin": "https://known.test",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name",
    }
    with served(mcp_app(cors_origins=("https://known.test",))) as url:
        async with httpx2.AsyncClient() as http:
            response = await http.options(f"{url}/mcp", headers=asks)
    assert response.status_code == 200


async def test_over_http_a_large_body_and_other_methods_are_refused() -> None:
    with served(mcp_app(max_body=1000)) as url:
        async with httpx2.AsyncClient() as http:
            large = await http.post(f"{url}/mcp", json={"x": "y" * 2000})
            get = await http.get(f"{url}/mcp", headers={"accept": "text/event-stream"})
    assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")
    assert (get.status_code, get.json()["error"]["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize("score", [b"NaN", b"Infinity", b'"\\ud800"', b"[" * 5000])
async def test_over_http_what_is_no_json_is_refused_and_nothing_breaks(score: bytes) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call |= {"params": {"name": TOOL, "arguments": {"query": "q", "chunks": [{"text": "a", "score": 0.5}]}}}
    content = json.dumps(call).encode().replace(b"0.5", score)
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    with served(mcp_app()) as url:
        async with httpx2.AsyncClient() as http:
            response = await http.post(f"{url}/mcp", content=content, headers=headers)
    assert response.status_code in (200, 400)
    answer = response.json()
    assert "error" in answer or answer["result"]["isError"]


@pytest.mark.parametrize("version", [None, "2025-06-18", "2026-07-28"])
async def test_over_http_a_client_that_leaves_cancels_its_call(version: str | None) -> None:
    slow = Slow(asyncio.Event(), asyncio.Event())
    with served(make_mcp_app(ServiceSettings(), CONFIG, backend=slow)) as url:
        call = asyncio.create_task(_call_raw(url, version))
        await asyncio.to_thread(wait_until, slow.begun.is_set)
        call.cancel()
        await asyncio.to_thread(wait_until, slow.cancelled.is_set, 4)  # Its deadline, at 5 s, would cancel it too.


async def test_over_http_a_client_of_the_latest_protocol_that_cancels_a_call_cancels_its_grading() -> None:
    slow = Slow(asyncio.Event(), asyncio.Event())
    with served(make_mcp_app(ServiceSettings(), CONFIG, backend=slow)) as url:
        async with over_http(url, "2026-07-28") as client:
            call = asyncio.create_task(client.call_tool(TOOL, THREE))
            await asyncio.to_thread(wait_until, slow.begun.is_set)
            call.cancel()
            await asyncio.to_thread(wait_until, slow.cancelled.is_set, 4)  # Its deadline, at 5 s, would cancel it too.


async def _call_raw(url: str, version: str | None) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": TOOL, "arguments": THREE, **({"_meta": meta} if version == "2026-07-28" else {})}
    headers = {"accept": "application/json, text/event-stream", "mcp-method": "tools/call", "mcp-name": TOOL}
    headers |= {"mcp-protocol-version": version} if version else {}
    async with httpx2.AsyncClient(timeout=60) as http:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await http.post(f"{url}/mcp", json=call, headers=headers)
        raise AssertionError(response.text)


async def test_over_http_the_metrics_name_the_route() -> None:
    with served(mcp_app()) as url:
        async with over_http(url) as client:
            await client.call_tool(TOOL, THREE)
        async with httpx2.AsyncClient() as http:
            text = (await http.get(f"{url}/metrics")).text
    assert 'path="/mcp"' in text
    assert re.search(r'pruner_results_total\{.*status="ok".*\} 1.0', text)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_over_http_as_a_process_until_sigterm(workers: str) -> None:
    with serve(chat(grades(3, 1))) as provider:
        dials = ["--model", "openai:m", "--base-url", provider.url, "--keep-top-k", "0", "--workers", workers]
        with serving(*dials, as_command=("mcp", "--http")) as process:
            assert process.url.startswith("http://127.0.0.1:")
            async with over_http(process.url) as client:
                results = [await client.call_tool(TOOL, THREE) for _ in range(4)]
            assert process.stop() == 0
    assert [result.structured_content["kept"] for result in results] == [[0]] * 4


def test_another_host_without_keys_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--http", "--host", "0.0.0.0"]) == 2
    assert "no key is set" in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pruner.mcp_server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    assert main(["mcp"]) == 2
    assert "pip install 'listwise-pruner[mcp]'" in capsys.readouterr().err
