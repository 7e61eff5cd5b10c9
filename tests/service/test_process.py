"""`pruner serve` as a process: how it starts, how it ends, and several workers."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import httpx2
import psutil
import pytest

from pruner.cli import main
from tests.provider import HANG, Reply, chat, serve
from tests.service.served import THREE, Process, grades, sending, serving

REPLY = chat(grades(3, 1))


def dials(url: str, timeout: str = "30") -> list[str]:
    return ["--model", "openai:m", "--base-url", url, "--timeout", timeout, "--keep-top-k", "0"]


def ask(url: str) -> httpx2.Response:
    return httpx2.post(f"{url}/v1/prune", json=THREE, timeout=60)


@pytest.fixture
def slow() -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """A provider that answers when it is let; its URL, whether it was asked, and what lets it."""
    let = threading.Event()

    def answer(body: object) -> Reply:
        let.wait(60)
        return REPLY

    with serve(answer) as provider:
        yield provider.url, provider.asked, let


def test_sigterm_ends_an_idle_service_with_0() -> None:
    with serve(REPLY) as provider, serving(*dials(provider.url)) as process:
        assert ask(process.url).json()["kept"] == [0]
        assert process.stop() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_lets_what_was_begun_finish_and_takes_nothing_new(
    workers: str,
    slow: tuple[str, threading.Event, threading.Event],
) -> None:
    url, asked, let = slow
    with serving("--workers", workers, *dials(url)) as process, sending(process.url, "/v1/prune", THREE) as begun:
        assert asked.wait(60)
        process.popen.terminate()
        _wait_until_closed(process)
        let.set()
        answer = whole(begun)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b'"status":"ok"' in answer
        assert process.popen.wait(60) == 0


def test_sigterm_waits_no_longer_than_the_deadline() -> None:
    with (
        serve(lambda _: HANG) as provider,
        serving(*dials(provider.url, "2")) as process,
        sending(process.url, "/v1/prune", THREE) as begun,
    ):
        assert provider.asked.wait(60)
        process.popen.terminate()
        started = time.monotonic()
        assert b'"reason":"timeout"' in whole(begun)
        assert process.popen.wait(60) == 0
        assert time.monotonic() - started < 15


def test_sigterm_while_starting_ends_it_with_0() -> None:
    folder = Path(__file__).parents[2]
    code = (
        "import os, signal, pruner.service.app as app\n"
        "app.make_app = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n"
        "from pruner.cli import main\n"
        "main(['serve', '--port', '0', '--base-url', 'http://127.0.0.1:9'])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, timeout=120, check=False).returncode == 0


FROZEN = """
import gc, os, signal
from pruner.config import PrunerConfig
from pruner.service.app import make_app
from pruner.service.serve import run
from pruner.service.settings import ServiceSettings

def make(settings, config):
    app = make_app(settings, config)

    async def begun(scope, receive, send):
        async def tell(message):
            print(gc.get_freeze_count(), len(gc.get_objects()))
            await send(message)
            os.kill(os.getpid(), signal.SIGTERM)

        await app(scope, receive, tell)

    return begun

run(ServiceSettings(port=0), PrunerConfig(base_url="http://127.0.0.1:9/v1"), make)
"""


def test_the_garbage_collector_leaves_out_what_a_start_has_made() -> None:
    folder = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", FROZEN], cwd=folder, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    frozen, left = map(int, ended.stdout.splitlines()[0].split())
    assert frozen > 10 * left


def test_several_workers_answer_and_count_together_and_end_with_0() -> None:
    with serve(REPLY) as provider, serving("--workers", "2", *dials(provider.url)) as process:
        for _ in range(20):
            with httpx2.Client() as fresh:
                assert fresh.post(f"{process.url}/v1/prune", json=THREE, timeout=60).json()["status"] == "ok"
        text = httpx2.get(f"{process.url}/metrics").text
        assert 'pruner_results_total{arm="pruner",reason="",status="ok"} 20.0' in text
        assert process.stop() == 0


def test_what_a_killed_worker_had_in_flight_is_not_counted_for_ever(
    slow: tuple[str, threading.Event, threading.Event],
) -> None:
    url, asked, let = slow
    with serving("--workers", "2", *dials(url)) as process, sending(process.url, "/v1/prune", THREE):
        assert asked.wait(60)
        for child in psutil.Process(process.popen.pid).children():
            if any("spawn_main" in word for word in child.cmdline()):
                child.kill()
        let.set()
        assert "pruner_in_flight 0.0" in httpx2.get(f"{process.url}/metrics", timeout=60).text
        assert process.stop() == 0


SLOW_TO_LOAD = """
import sys, time
if "--multiprocessing-fork" in sys.argv:
    time.sleep(8)
"""


def test_a_worker_that_is_slow_to_load_is_not_taken_for_a_dead_one(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_TO_LOAD)
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    with serve(REPLY) as provider, serving("--workers", "2", *dials(provider.url), PYTHONPATH=path) as process:
        assert ask(process.url).json()["kept"] == [0]
        assert not [line for line in process.lines if "died" in line["message"]]
        assert process.stop() == 0


def test_logs_of_a_process_are_json_lines_without_text(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"query": "secret question", "chunks": ["secret passage", "other secret"]}
    with serve(REPLY) as provider, serving(*dials(provider.url), OPENAI_LOG="debug") as process:
        httpx2.post(f"{process.url}/v1/prune", json=body, timeout=60)
        assert process.stop() == 0
    requests = [line for line in process.lines if line["message"] == "request"]
    assert [line["code"] for line in requests] == [200]
    assert all("time" in line for line in process.lines)
    assert "secret" not in json.dumps(process.lines)


def test_a_service_of_kubernetes_that_is_called_pruner_does_not_say_where_to_listen() -> None:
    theirs = {"PRUNER_PORT": "tcp://192.0.2.1:80", "PRUNER_SERVICE_HOST": "192.0.2.1", "PRUNER_SERVICE_PORT": "80"}
    with serve(REPLY) as provider, serving(*dials(provider.url), **theirs) as process:
        assert ask(process.url).json()["kept"] == [0]
        assert process.stop() == 0
    assert [line["message"] for line in process.lines if all(name in line["message"] for name in theirs)]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_cannot_start_says_why_in_one_line_and_exits_with_2(workers: str) -> None:
    with serving("--workers", workers, "--model", "openai:m") as process:
        assert process.popen.wait(30) == 2  # Less than the silence after which a worker counts as dead.
    said = [line["message"] for line in process.lines if line["message"].startswith("pruner: ")]
    assert said[0].startswith("pruner: no API key for 'openai:m'")


def test_a_folder_for_metrics_that_is_missing_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nonexistent/x")
    assert main(["serve", *dials("http://127.0.0.1:9/v1")]) == 2
    told = "pruner: PROMETHEUS_MULTIPROC_DIR is no folder: /nonexistent/x; make it, or unset it\n"
    assert capsys.readouterr().err == told


def test_a_port_that_is_taken_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(REPLY) as provider:
        port = provider.url.split(":")[2].split("/")[0]
        with serving("--port", port, *dials(provider.url)) as process:
            assert process.popen.wait(120) == 2
    assert process.lines[-1]["message"].startswith(f"pruner: cannot listen on 127.0.0.1:{port}")


def test_several_workers_without_a_folder_for_temporary_files_say_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(signal, "signal", mock.Mock())
    assert main(["serve", "--workers", "2", "--port", "0"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "TMPDIR" in line
    assert "emptyDir" in line


def test_another_host_without_keys_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert "no key is set" in capsys.readouterr().err


def test_a_key_read_from_standard_input_is_hashed_and_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    from pruner.service.auth import hash_key

    monkeypatch.setattr("sys.stdin", io.StringIO("a-key-of-twenty-letters\n"))
    assert main(["serve", "--hash-key"]) == 0
    assert capsys.readouterr() == (hash_key("a-key-of-twenty-letters") + "\n", "")


def test_without_a_key_a_new_one_is_made(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from pruner.service.auth import hash_key

    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["serve", "--hash-key"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == hash_key(err.split()[-1])


def whole(connection: socket.socket) -> bytes:
    """Read until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def _wait_until_closed(process: Process) -> None:
    host, port = process.url.removeprefix("http://").split(":")
    for _ in range(600):
        try:
            httpx2.get(f"http://{host}:{port}/healthz", timeout=1)
        except httpx2.ConnectError:
            return
        except httpx2.HTTPError:
            pass
        time.sleep(0.05)
    raise AssertionError("still takes new connections")
