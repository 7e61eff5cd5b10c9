"""The service in a test: as an app, over a real loopback socket in this process, or as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI

from pruner.backends.scripted import ScriptedBackend
from pruner.config import PrunerConfig
from pruner.schema import GradingRequest, RawGrading, Usage
from pruner.service.app import make_app
from pruner.service.auth import hash_key
from pruner.service.protocol import Protocol
from pruner.service.settings import ServiceSettings

KEY, OTHER_KEY = "key-of-team-a-0123456789", "key-of-team-b-0123456789"
KEYS = {"team-a": hash_key(KEY), "team-b": hash_key(OTHER_KEY)}
THREE = {"query": "which?", "chunks": ["needed", "useless", "of no use"]}


def grades(n: int, *needed: int) -> str:
    """A reply that finds the given labels essential and all others unrelated."""
    return json.dumps({"grades": [[label, 5 if label in needed else 1] for label in range(1, n + 1)]})


def first_needed(request: GradingRequest) -> RawGrading:
    return RawGrading(text=grades(request.n, 1), usage=Usage(100, 10, 40, 1))


def app_of(
    answer: Callable[[GradingRequest], RawGrading] | None = None,
    *,
    config: PrunerConfig | None = None,
    **settings: Any,
) -> FastAPI:
    config = config or PrunerConfig(keep_top_k=0, base_url="http://127.0.0.1:9/v1")
    return make_app(ServiceSettings(**settings), config, backend=ScriptedBackend(answer or first_needed))


@asynccontextmanager
async def client(app: FastAPI, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http,
    ):
        yield http


async def post(app: FastAPI, path: str, body: Any, **headers: str) -> httpx2.Response:
    async with client(app, **headers) as http:
        return await http.post(path, json=body)


async def prune(app: FastAPI, **changes: Any) -> dict[str, Any]:
    response = await post(app, "/v1/prune", {**THREE, **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app on a free port of this machine; its URL."""
    config = uvicorn.Config(app, port=0, log_config=None, ws="none", http=Protocol, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    # Inherited by each connection: the system itself would hold megabytes for a client that does not read.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def sending(url: str, path: str, body: Any) -> Iterator[socket.socket]:
    """Send a request and leave its answer in the socket."""
    host, port = url.removeprefix("http://").split(":")
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(content)}"
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode() + content)
        yield connection


def wait_until(true: Callable[[], bool], patience: float = 30) -> None:
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@dataclass
class Process:
    popen: subprocess.Popen[str]
    url: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(30)


@contextmanager
def serving(*arguments: str, as_command: Sequence[str] = ("serve",), **environment: str) -> Iterator[Process]:
    """Run `pruner serve` on a free port, until it listens."""
    command = [sys.executable, "-m", "pruner.cli", *as_command, "--port", "0", *arguments]
    folder = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(folder), **environment}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=folder, env=env, start_new_session=True
    ) as popen:
        process = Process(popen)
        reader = threading.Thread(target=_read, args=(process,), daemon=True)
        reader.start()
        try:
            wait_until(lambda: bool(process.url) or popen.poll() is not None, 120)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(popen.pid, signal.SIGKILL)  # Its workers too.
            reader.join(10)


def _read(process: Process) -> None:
    assert process.popen.stderr is not None
    for line in process.popen.stderr:
        parsed = json.loads(line) if line.startswith("{") else {"message": line}
        process.lines.append(parsed)
        if "running on" in parsed["message"]:
            process.url = parsed["message"].split()[3]
