"""Bodies over a real socket: how large they may be, how slowly they may come, and what they cost while they do."""

import json
import os
import socket
import time
from collections.abc import Iterator

import httpx2
import psutil
import pytest

from tests.service.served import THREE, app_of, sending, served, wait_until

MB = 1_000_000
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with served(app_of(max_body=3 * MB)) as url:
        yield url


def blanks(megabytes: int) -> Iterator[bytes]:
    for _ in range(megabytes):
        yield b" " * MB


def answer_to(url: str, megabytes: int, head: str) -> bytes:
    """Send a body for as long as it is taken, then read what was answered."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(
            f"POST /v1/prune HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{head}\r\n\r\n".encode()
        )
        try:
            for block in blanks(megabytes):
                connection.sendall(b"%x\r\n%s\r\n" % (len(block), block) if "chunked" in head else block)
        except OSError:
            pass  # It was refused meanwhile.
        try:
            return connection.recv(65_536)
        except ConnectionResetError:
            return b""


def test_a_body_of_50_mb_that_says_its_length_is_refused_unread() -> None:
    with served(app_of()) as url:
        before = psutil.Process(os.getpid()).memory_info().rss
        response = httpx2.post(f"{url}/v1/prune", content=b" " * 50 * MB, headers=JSON)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")
        assert psutil.Process(os.getpid()).memory_info().rss - before < 80 * MB  # Ours of 50 MB among it.


def test_a_body_without_a_length_is_refused_while_it_comes_in_bounded_memory() -> None:
    with served(app_of()) as url:
        answer_to(url, 3, "transfer-encoding: chunked")
        before = psutil.Process(os.getpid()).memory_info().rss
        for _ in range(5):
            answer = answer_to(url, 50, "transfer-encoding: chunked")
            assert answer.startswith(b"HTTP/1.1 413 ") or answer == b""
        assert psutil.Process(os.getpid()).memory_info().rss - before < 20 * MB


def test_a_body_without_a_length_just_above_the_limit_is_answered_in_the_one_shape() -> None:
    with served(app_of(max_body=1000)) as url:
        response = httpx2.post(f"{url}/v1/prune", content=iter([b" " * 600, b" " * 600]), headers=JSON)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")


def test_a_body_at_the_limit_is_taken() -> None:
    body = json.dumps(THREE).encode()
    with served(app_of(max_body=len(body))) as url:
        assert httpx2.post(f"{url}/v1/prune", content=body, headers=JSON).status_code == 200
        assert httpx2.post(f"{url}/v1/prune", content=body + b" ", headers=JSON).status_code == 413


def test_a_body_that_does_not_arrive_is_waited_for_in_vain_only_so_long() -> None:
    with served(app_of(body_timeout=0.2)) as url:
        started = time.monotonic()
        answer = answer_to(url, 0, "content-length: 100")
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"body_timeout" in answer
        assert time.monotonic() - started < 5


def test_headers_without_end_are_refused_in_bounded_memory() -> None:
    with served(app_of()) as url:
        host, port = url.removeprefix("http://").split(":")
        sent = 0
        with socket.create_connection((host, int(port)), 10) as connection:
            try:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nx: ")
                while sent < 50 * MB:
                    sent += connection.send(b"y" * 65_536)
            except OSError:
                pass
        assert sent < 10 * MB


def filled(entry: str) -> str:
    """As many entries as a body of 2 MB holds."""
    return ", ".join([entry] * (2 * MB // (len(entry) + 2)))


@pytest.mark.parametrize("entry", ['""', "{}", "-1"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("prune", '{"query": "q", "chunks": [%s]}'),
        ("prune", '{"query": "q", "documents": [%s], "results": [{"index": 0, "relevance_score": 1.0}]}'),
        ("prune", '{"query": "q", "documents": ["a"], "results": [%s]}'),
        ("prune", '{"query": "q", "chunks": ["a"], "history": [%s]}'),
        ("prune", '{"query": "q", "chunks": ["a"], "principals": [%s]}'),
        ("prune", '{"query": "q", "chunks": [{"text": "a", "embedding": [%s]}]}'),
        ("prune", '{"query": "q", "chunks": [{"text": "a", "acl": [%s]}]}'),
        ("assemble", '{"chunks": ["a"], "grading": {"grades": [%s]}}'),
        ("assemble", '{"chunks": ["a"], "grading": {"grades": [1], "expected": [%s]}}'),
        ("assemble", '{"chunks": ["a"], "grading": {"grades": [1], "left_out": [%s]}}'),
        ("rerank", '{"query": "q", "documents": [%s]}'),
    ],
)
def test_a_body_full_of_entries_costs_no_more_than_reading_it(service: str, path: str, body: str, entry: str) -> None:
    content = body.replace("%s", filled(entry))
    started, before = time.process_time(), psutil.Process(os.getpid()).memory_info().rss
    response = httpx2.post(f"{service}/v1/{path}", content=content, headers=JSON, timeout=60)
    assert response.status_code in (200, 422)
    assert time.process_time() - started < 3
    assert psutil.Process(os.getpid()).memory_info().rss - before < 80 * MB


LONG = {"query": "q", "chunks": ["word " * 380_000], "texts": True, "evidence": True, "dials": {"keep_top_k": 1}}


def said(url: str, sample: str) -> bool:
    return sample in httpx2.get(f"{url}/metrics").text


def test_a_request_is_in_flight_until_its_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pruner.service.protocol._PATIENCE", 600)
    with served(app_of()) as url:
        with sending(url, "/v1/prune", LONG):
            wait_until(lambda: said(url, "pruner_results_total{"))
            assert said(url, "pruner_in_flight 1.0")
        wait_until(lambda: said(url, "pruner_in_flight 0.0"))


def test_a_client_that_does_not_read_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pruner.service.protocol._PATIENCE", 0.1)
    with served(app_of()) as url, sending(url, "/v1/prune", LONG) as unread:
        wait_until(lambda: said(url, 'pruner_requests_total{code="200",path="/v1/prune"}'))
        assert said(url, "pruner_in_flight 0.0")
        assert len(b"".join(iter(lambda: unread.recv(MB), b""))) < MB  # Of nearly four.


def test_an_answer_in_pieces_is_whole() -> None:
    with served(app_of()) as url:
        answer = httpx2.post(f"{url}/v1/prune", json=LONG).json()
    assert answer["texts"] == LONG["chunks"]
