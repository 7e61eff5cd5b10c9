"""A provider on this machine that answers what a test tells it to, over a real socket."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


HANG = Reply(status=0)

Answer = Callable[[dict[str, Any]], Reply]


def chat(content: str | None, finish: str = "stop", **message: Any) -> Reply:
    return completion({"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish})


def completion(choice: dict[str, Any], usage: dict[str, Any] | None = None) -> Reply:
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, **choice}],
        "usage": usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }
    return as_json(body)


def message(*blocks: dict[str, Any], stop: str = "end_turn", usage: Any = None) -> Reply:
    """An answer of Anthropic's Messages API."""
    body = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 100, "output_tokens": 10},
    }
    return as_json(body)


def as_json(body: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(body).encode(), {"content-type": "application/json", **headers})


@dataclass
class Provider:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    connections: int = 0
    asked: threading.Event = field(default_factory=threading.Event)
    hung_up: threading.Event = field(default_factory=threading.Event)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider
    answer: Answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.provider.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.provider.requests.append(body)
        self.server.provider.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.server.provider.paths.append(self.path)
        self.server.provider.asked.set()
        reply = self.server.answer(body)
        if reply is HANG:
            self._wait_for_the_end()
        else:
            self._send(reply)

    def do_CONNECT(self) -> None:
        """A proxy is asked for a way to another host."""
        self._send(self.server.answer({}))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def _wait_for_the_end(self) -> None:
        self.close_connection = True
        with suppress(ConnectionError):
            self.rfile.read(1)
        self.server.provider.hung_up.set()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serve(answer: Answer | Reply) -> Iterator[Provider]:
    """Answer every POST on a free port of this machine."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.provider = Provider(f"http://127.0.0.1:{server.server_port}/v1")
    server.answer = answer if callable(answer) else lambda body: answer
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.provider
    finally:
        server.shutdown()
        server.server_close()
