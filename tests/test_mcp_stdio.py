"""`pruner mcp` as a process that its host writes lines to: any lines, and any end."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.provider import HANG, Reply, chat, serve
from tests.service.served import THREE, grades, wait_until

ROOT = Path(__file__).parents[1]
NOBODY = "http://127.0.0.1:9/v1"
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}


def call(arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": "prune_context", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


class Host:
    """The process, as its host sees it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.process, self.stdin, self.stdout, self.stderr = process, process.stdin, process.stdout, process.stderr

    def send(self, *lines: bytes | dict[str, Any]) -> None:
        for line in lines:
            self.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self.stdout.readline())

    def begin(self) -> None:
        self.send(BEGIN, READY)
        assert self.answer()["id"] == 1

    def end(self) -> tuple[int, list[Any]]:
        """Wait for the end; returns the exit code and the lines of the log."""
        code = self.process.wait(60)
        return code, [json.loads(line) for line in self.stderr]


@contextmanager
def hosted(url: str = NOBODY, **environment: str) -> Iterator[Host]:
    command = [sys.executable, "-m", "pruner.cli", "mcp", "--model", "openai:m", "--base-url", url]
    command += ["--keep-top-k", "0"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, env=env) as process:
        try:
            yield Host(process)
        finally:
            process.kill()


def test_standard_output_holds_nothing_but_the_protocol_and_the_end_of_input_ends_it_with_0() -> None:
    with serve(chat(grades(3, 1))) as provider, hosted(provider.url) as host:
        host.begin()
        host.send(call(THREE))
        assert host.answer()["id"] == 2
        host.stdin.close()
        assert host.stdout.read() == b""
        code, logs = host.end()
    assert code == 0
    [line] = [line for line in logs if line["message"] == "call"]
    assert (line["tool"], line["status"]) == ("prune_context", "ok")
    assert "useless" not in json.dumps(logs)


def test_half_a_character_leaves_no_call_without_an_answer() -> None:
    with serve(chat(grades(3, 1))) as provider, hosted(provider.url) as host:
        host.begin()
        host.send(call({**THREE, "chunks": ["cut \ud83d", "b", "c"]}))
        answer = host.answer()
    assert (answer["id"], answer["result"]["structuredContent"]["texts"][0]) == (2, "cut ?")


def test_no_line_is_left_without_an_answer_and_the_next_one_is_read() -> None:
    chunk = json.dumps(call({"query": "q", "chunks": [{"text": "a", "id": 5}]})).encode()
    refused = {
        b"no json": -32700,
        b"[": -32700,
        b"\xff\xfe": -32700,
        chunk.replace(b"5}", b"1" * 9000 + b"}"): -32700,
        chunk.replace(b"5}", b"[" * 5000 + b"]" * 5000 + b"}"): -32700,
        b"{}": -32600,
        b"3": -32600,
        b"[]": -32600,
        json.dumps([PING]).encode(): -32600,
        b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}': -32600,
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "\\ud83d"}': -32600,
    }
    with hosted() as host:
        host.begin()
        for line, code in refused.items():
            host.send(line, PING)
            answer, pong = host.answer(), host.answer()
            assert (answer["id"], answer["error"]["code"]) == (None, code), line[:60]
            assert "\n" not in answer["error"]["message"]
            assert pong["id"] == 9


def test_a_byte_order_mark_and_empty_lines_are_passed_over() -> None:
    with hosted() as host:
        host.begin()
        for start in (b"\xef\xbb\xbf", b"\n\n", b" \n", b"\r\n"):
            host.send(start + json.dumps(PING).encode())
            assert host.answer() == {"jsonrpc": "2.0", "id": 9, "result": {}}


@pytest.mark.parametrize("calling", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_at_once_and_quietly_though_the_input_is_open(
    number: signal.Signals, code: int, calling: bool
) -> None:
    with serve(HANG) as provider, hosted(provider.url) as host:
        host.begin()
        if calling:
            host.send(call(THREE))
            wait_until(lambda: len(provider.requests) == 1)
        host.process.send_signal(number)
        ended, logs = host.end()
    assert ended == code
    assert all(line["level"] == "info" for line in logs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_starts_ends_it_quietly(number: signal.Signals) -> None:
    with hosted() as host:
        host.send(BEGIN)
        host.process.send_signal(number)
        assert host.process.wait(60) in (130, 0, -number)  # The last before Python is up.
        assert b"Traceback" not in host.stderr.read()


def test_sigterm_waits_for_a_shadow_that_is_being_graded_and_logs_it(tmp_path: Path) -> None:
    asked, let = threading.Event(), threading.Event()

    def answer(body: object) -> Reply:
        asked.set()
        let.wait(60)
        return chat(grades(3, 1))

    path = tmp_path / "log.jsonl"
    settings = {"PRUNER_SERVICE_MODE": "shadow", "PRUNER_SERVICE_DECISION_LOG": str(path)}
    with serve(answer) as provider, hosted(provider.url, **settings) as host:
        host.begin()
        host.send(call(THREE))
        assert host.answer()["result"]["structuredContent"]["arm"] == "baseline"
        assert asked.wait(60)
        host.process.send_signal(signal.SIGTERM)
        let.set()
        code, _ = host.end()
    assert code == 0
    [line] = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["grades"] == [5, 1, 1]


@pytest.mark.parametrize("input_ends", [False, True])
def test_a_host_that_reads_no_more_ends_it_quietly(input_ends: bool) -> None:
    with hosted() as host:
        host.begin()
        host.stdout.close()
        host.send(PING)
        if input_ends:
            host.stdin.close()
        assert host.end() == (0, [])
