import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import close_session

from pruner.backends.modelsources import HubFile, bytes_under, reason
from pruner.errors import ConfigError
from tests.backends.tiny import CONTENT, TINY


class Hub(ThreadingHTTPServer):
    """A loopback hub with one file; notes what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = CONTENT
        self.path = "/nobody/tiny-GGUF/resolve/main/tiny.gguf"
        self.knows_ranges = True
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()

    @property
    def source(self) -> HubFile:
        return HubFile(endpoint=f"http://127.0.0.1:{self.server_port}", patience=30)


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.server.asked.append("HEAD")
        self.server.tokens.add(self.headers["Authorization"])
        self.server.may_answer.wait(30)
        self._start(200, self.server.content)

    def do_GET(self) -> None:
        wanted = self.headers["Range"] if self.server.knows_ranges else None
        first = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        self.server.asked.append(f"GET from {first}")
        self.server.tokens.add(self.headers["Authorization"])
        self._start(206 if wanted else 200, self.server.content[first:])
        self.wfile.write(self.server.content[first:])

    def _start(self, status: int, body: bytes) -> None:
        self.send_response(status if self.path == self.server.path else 404)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"0"')
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.may_answer.set()
        server.shutdown()
        thread.join()
    close_session()


def test_the_hub_delivers_the_file_whole(hub: Hub, tmp_path: Path) -> None:
    assert hub.source(TINY, tmp_path).read_bytes() == CONTENT
    assert hub.asked == ["HEAD", "GET from 0"]


def test_an_interrupted_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT[:700])
    assert hub.source(TINY, tmp_path).read_bytes() == CONTENT
    assert hub.asked == ["HEAD", "GET from 700"]


def test_a_file_that_is_whole_already_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT)
    assert hub.source(TINY, tmp_path).read_bytes() == CONTENT
    assert hub.asked == ["HEAD"]


def test_a_file_that_is_too_long_is_fetched_anew(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(CONTENT + b"!")
    assert hub.source(TINY, tmp_path).read_bytes() == CONTENT
    assert hub.asked == ["HEAD", "GET from 0"]


def test_a_server_that_knows_no_ranges_sends_all_of_it_again(hub: Hub, tmp_path: Path) -> None:
    hub.knows_ranges = False
    (tmp_path / "model.gguf").write_bytes(b"x" * 700)
    assert hub.source(TINY, tmp_path).read_bytes() == CONTENT


def test_the_users_token_is_not_sent(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "outdated")
    hub.source(TINY, tmp_path)
    assert hub.tokens == {None}


def test_another_file_there_is_refused_before_it_is_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.content = b"<html>log in to the airport's network</html>"
    with pytest.raises(ConfigError, match=rf"has {len(hub.content)} bytes, not {len(CONTENT)}"):
        hub.source(TINY, tmp_path)
    assert hub.asked == ["HEAD"]


def test_a_file_the_hub_does_not_have_is_one_line(hub: Hub, tmp_path: Path) -> None:
    hub.path = "/elsewhere"
    with pytest.raises(ConfigError, match="404") as caught:
        hub.source(TINY, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_hub_that_does_not_answer_is_given_up(hub: Hub, tmp_path: Path) -> None:
    hub.may_answer.clear()
    with pytest.raises(ConfigError, match=r"no answer within 0\.01 s"):
        HubFile(endpoint=hub.source.endpoint, patience=0.01)(TINY, tmp_path)


def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(ConfigError, match="refused") as caught:
        HubFile(endpoint="http://127.0.0.1:1", patience=30)(TINY, tmp_path)
    assert "\n" not in str(caught.value)
    close_session()


def test_without_huggingface_hub_the_next_source_has_its_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub.file_download", None)
    with pytest.raises(ConfigError, match="huggingface_hub cannot be used"):
        HubFile()(TINY, tmp_path)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device", "/x"), "No space left on device"),
        (ValueError("first\nsecond"), "first"),
        (EOFError(), "EOFError"),
    ],
)
def test_the_reason_of_an_error_is_one_line(error: Exception, line: str) -> None:
    assert reason(error) == line


def test_bytes_are_counted_below_folders_and_absent_ones_hold_none(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"12345")
    (tmp_path / "d").write_bytes(b"123")
    assert (bytes_under(tmp_path), bytes_under(tmp_path / "d"), bytes_under(tmp_path / "absent")) == (8, 3, 0)
