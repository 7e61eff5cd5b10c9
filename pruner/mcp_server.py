"""The tool `prune_context` over MCP: on standard input and output, or as one route more of the service."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import Field, ValidationError
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from pruner.backends import Backend
from pruner.config import PrunerConfig
from pruner.console import clean
from pruner.mcp_stdio import serve_stdio
from pruner.service.app import make_app
from pruner.service.auth import host_name, is_loopback
from pruner.service.errors import Code, Refusal, invalid
from pruner.service.limits import StrictRequest, read_json, while_connected
from pruner.service.logs import configure, log, new_request_id, request_id
from pruner.service.models import PruneRequest, PruneResponse
from pruner.service.parts import Parts
from pruner.service.prune import prune_list
from pruner.service.serve import run
from pruner.service.settings import ServiceSettings

__all__ = ["make_mcp_app", "make_server", "run_http", "run_stdio"]

PATH = "/mcp"
_TELL = (
    "Drops the passages that an answer to the query does not need. Give what a search, a retriever or another tool "
    "returned as `chunks`, best first; get back `texts`, those worth reading, in the same order. One call of a small "
    "model grades the whole list."
)


class PruneContext(PruneRequest):
    """A query, and a list in the order of its ranking: `chunks`, or a reranker's own `results` with the `documents`."""

    texts: bool = Field(default=True, description="answer the kept texts")


TOOL = Tool(
    name="prune_context",
    title="Prune context",
    description=_TELL,
    input_schema=PruneContext.model_json_schema(),
    output_schema=PruneResponse.model_json_schema(mode="serialization"),
    annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
)


def make_server(parts: Parts) -> Server[Any]:
    """Make the server of the tool, with the limits of the service whose parts it uses."""

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[TOOL])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        if params.name != TOOL.name:
            raise MCPError(INVALID_PARAMS, f"there is no tool of this name; the one there is: {TOOL.name}")
        return await _call(params.arguments or {}, parts)

    return Server(
        "pruner",
        version=version("listwise-pruner"),
        instructions=_TELL,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _call(arguments: dict[str, Any], parts: Parts) -> CallToolResult:
    """Prune; what is wrong with the arguments is the tool's answer, so that the agent can mend it."""
    given = request_id.get()
    token = request_id.set(new_request_id("") if given == "-" else given)
    note: dict[str, Any] = {"tool": TOOL.name}
    try:
        answer = await prune_list(_read(arguments, parts.settings), parts, note)
        text = answer.model_dump_json()
        return CallToolResult(content=[TextContent(text=text)], structured_content=answer.model_dump(mode="json"))
    except Refusal as refusal:
        note["refused"] = refusal.code
        fault = refusal.fault()
        line = clean(f"{fault.field}: {fault.message}" if fault.field else fault.message)
        return CallToolResult(content=[TextContent(text=line)], is_error=True)
    finally:
        log.info("call", extra={"fields": note})
        request_id.reset(token)


def _read(arguments: dict[str, Any], settings: ServiceSettings) -> PruneContext:
    """Read arguments as the service reads a body: over standard input, nobody has yet."""
    body = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(body) > settings.max_body:
        raise Refusal(Code.BODY_TOO_LARGE, f"at most {settings.max_body} bytes are taken")
    try:
        return PruneContext.model_validate(read_json(body, settings.chunk_limit))
    except ValidationError as error:
        raise invalid(error.errors()) from None


def run_stdio(settings: ServiceSettings, config: PrunerConfig) -> None:
    """Serve on standard input and output; see `pruner.mcp_stdio.serve_stdio`. Logs go to standard error.

    Raises:
        ConfigError: the server cannot start so.
    """
    app = make_app(settings, config)
    configure(settings.log_level, content=settings.log_content)
    serve_stdio(make_server(app.state.parts), app.router.lifespan_context(app))


def run_http(settings: ServiceSettings, config: PrunerConfig) -> None:
    """Serve over streamable HTTP at `/mcp`, beside all that the service serves; as `pruner.service.serve.run`."""
    run(settings, config, make_mcp_app)


def make_mcp_app(settings: ServiceSettings, config: PrunerConfig, *, backend: Backend | None = None) -> FastAPI:
    """Make the service with the route `/mcp`; see `pruner.service.app.make_app`.

    No session outlives its request, so that any replica answers any of them.
    """
    app = make_app(settings, config, backend=backend)
    sessions = StreamableHTTPSessionManager(
        make_server(app.state.parts), json_response=True, stateless=True, max_request_body_size=settings.max_body
    )
    app.router.routes.append(Route(PATH, _Endpoint(sessions), methods=["POST"]))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with inner(app), sessions.run():
            yield

    app.router.lifespan_context = lifespan
    return app


class _Endpoint:
    """Hands a request on to the sessions, once it is whole and within the limits; cancels it when the client leaves."""

    path = PATH  # For the log line and the metrics.

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        request = StrictRequest(scope, receive)
        _check_origin(request)
        work = self._sessions.handle_request(scope, _replay(await request.body()), send)
        await while_connected(request, work)


def _check_origin(request: StrictRequest) -> None:
    """Refuse pages from elsewhere, as the protocol demands."""
    origin = request.headers.get("origin")
    if origin is None or origin in request.app.state.settings.cors_origins:
        return
    name, host = host_name(origin.partition("://")[2]), host_name(request.headers.get("host", ""))
    if name != host and not (is_loopback(name) and is_loopback(host)):
        raise Refusal(Code.HOST_NOT_ALLOWED, "this service does not answer pages of that Origin; see cors_origins")


def _replay(body: bytes) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        # That the client left is seen outside.
        return waiting.pop() if waiting else await asyncio.get_running_loop().create_future()

    return receive
