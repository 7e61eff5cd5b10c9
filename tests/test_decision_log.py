import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from pruner.decision_log import DecisionLog
from pruner.errors import ConfigError


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def numbers(folder: Path) -> list[int]:
    files = sorted(folder.glob("log.jsonl*"))
    return sorted(line["i"] for file in files if file.suffix != ".lock" for line in read(file))


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    for i in range(2):
        with DecisionLog(tmp_path / "log.jsonl") as log:
            log.put(lambda i=i: {"i": i})  # type: ignore[misc]
    assert read(tmp_path / "log.jsonl") == [{"i": 0}, {"i": 1}]


def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "new" / "log.jsonl") as log:
        log.put(lambda: {"i": 1})
    assert numbers(tmp_path / "new") == [1]


def test_a_path_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="decision log"):
        DecisionLog(tmp_path / "file" / "log.jsonl")


def test_a_full_file_is_turned_over_and_the_oldest_goes(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "log.jsonl", max_bytes=40, keep=2) as log:
        for i in range(10, 30):
            log.put(lambda i=i: {"i": i})  # type: ignore[misc]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.jsonl", "log.jsonl.1", "log.jsonl.2", "log.jsonl.lock"]
    assert all(p.stat().st_size <= 40 for p in tmp_path.iterdir())
    assert numbers(tmp_path) == list(range(18, 30))


def test_a_line_longer_than_a_file_is_written_all_the_same(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "log.jsonl", max_bytes=10) as log:
        log.put(lambda: {"i": 1, "text": "x" * 50})
        log.put(lambda: {"i": 2, "text": "x" * 50})
    assert numbers(tmp_path) == [1, 2]


def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with DecisionLog(path) as log:
        log.put(lambda: {"i": 1})
        _wait_until(lambda: log.written == 1)
        path.rename(tmp_path / "elsewhere")
        log.put(lambda: {"i": 2})
    assert read(path) == [{"i": 2}]


def test_a_line_left_half_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"i": 0}\n{"i"', encoding="utf-8")
    with DecisionLog(path) as log:
        log.put(lambda: {"i": 1})
    assert path.read_text(encoding="utf-8").splitlines() == ['{"i": 0}', '{"i"', '{"i":1}']


def test_a_line_that_another_process_left_half_does_not_swallow_the_next(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "log.jsonl") as log:
        with (tmp_path / "log.jsonl").open("ab") as other:
            other.write(b'{"half":')
        log.put(lambda: {"i": 1})
    assert (tmp_path / "log.jsonl").read_bytes() == b'{"half":\n{"i":1}\n'


def test_a_file_that_cannot_be_turned_over_grows_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log.jsonl.lock").mkdir()
    with DecisionLog(tmp_path / "log.jsonl", max_bytes=30) as log:
        for i in range(20):
            log.put(lambda i=i: {"i": i})  # type: ignore[misc]
    assert (log.written, log.dropped) == (20, 0)
    assert read(tmp_path / "log.jsonl") == [{"i": i} for i in range(20)]
    assert [record.getMessage() for record in caplog.records if "grows on" in record.getMessage()] == [ANY]


def test_a_file_that_is_moved_away_while_it_is_turned_over_loses_no_line(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "log.jsonl", max_bytes=30) as log:
        turn_over = log._file._rename_all

        def moved() -> None:
            (tmp_path / "log.jsonl").rename(tmp_path / f"log.jsonl.moved{len(list(tmp_path.iterdir()))}")
            turn_over()

        log._file._rename_all = moved  # type: ignore[method-assign]
        for i in range(10):
            log.put(lambda i=i: {"i": i})  # type: ignore[misc]
    assert numbers(tmp_path) == list(range(10))


def test_what_a_link_points_to_is_turned_over_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "volume" / "real.jsonl")
    with DecisionLog(tmp_path / "log.jsonl", max_bytes=30) as log:
        for i in range(9):
            log.put(lambda i=i: {"i": i})  # type: ignore[misc]
    assert (tmp_path / "log.jsonl").is_symlink()
    assert len(list((tmp_path / "volume").glob("real.jsonl.[0-9]"))) > 1


def test_closing_waits_for_a_disk_that_hangs_no_longer_than_some_seconds_and_counts_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pruner.decision_log._PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    log = DecisionLog(tmp_path / "pipe")
    for _ in range(3):
        log.put(lambda: {"long": "x" * 1_000_000})  # More than a pipe holds that nobody reads.
    log.close()
    assert "the last 3 are lost" in caplog.text
    with (tmp_path / "pipe").open("rb") as pipe:
        pipe.read(1_000_000)
    log._thread.join(10)
    assert not log._thread.is_alive()
    assert (log.written, log.dropped) == (0, 3)


def test_lines_go_to_standard_output_where_that_is_asked_for() -> None:
    code = (
        "from pathlib import Path\nfrom pruner.decision_log import DecisionLog\n"
        "with DecisionLog(Path('/dev/stdout')) as log:\n    log.put(lambda: {'i': 1})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == '{"i":1}\n'


def test_closing_waits_for_a_disk_that_is_slow_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pruner.decision_log._PATIENCE", 0.3)
    written = threading.Event()
    with DecisionLog(tmp_path / "log.jsonl") as log:
        for i in range(20):
            log.put(lambda i=i: {"i": i, "waited": written.wait(0.05)})  # type: ignore[misc]
    assert numbers(tmp_path) == list(range(20))


def test_a_full_disk_drops_lines_and_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = DecisionLog(tmp_path / "log.jsonl")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        log.put(lambda: {"i": 1})
        _wait_until(lambda: log.dropped == 1)
    log.put(lambda: {"i": 2})
    log.close()
    assert (log.written, log.dropped) == (1, 1)
    assert numbers(tmp_path) == [2]


def test_a_real_device_without_room_drops_lines_and_counts_them() -> None:
    with DecisionLog(Path("/dev/full")) as log:
        log.put(lambda: {"i": 1})
    assert (log.written, log.dropped) == (0, 1)


def test_a_write_cut_short_is_counted_and_does_not_swallow_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    log = DecisionLog(tmp_path / "log.jsonl")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda handle, data: real(handle, data[:4]))
        log.put(lambda: {"i": 1})
        _wait_until(lambda: log.dropped == 1)
    log.put(lambda: {"i": 2})
    log.close()
    assert (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()[1:] == ['{"i":2}']


@pytest.mark.parametrize("line", [{"i": float("nan")}, {"i": object()}, ZeroDivisionError])
def test_a_line_that_cannot_be_made_is_dropped_and_the_next_one_written(tmp_path: Path, line: Any) -> None:
    def make() -> Mapping[str, Any]:
        if line is ZeroDivisionError:
            raise ZeroDivisionError
        return line  # type: ignore[no-any-return]

    with DecisionLog(tmp_path / "log.jsonl") as log:
        log.put(make)
        log.put(lambda: {"i": 2})
    assert log.dropped == 1
    assert numbers(tmp_path) == [2]


def test_any_text_is_written_as_plain_ascii(tmp_path: Path) -> None:
    text = "\ud800\0\u2028 line\nbreak"
    with DecisionLog(tmp_path / "log.jsonl") as log:
        log.put(lambda: {"t": text})
    assert (tmp_path / "log.jsonl").read_bytes().count(b"\n") == 1
    assert read(tmp_path / "log.jsonl") == [{"t": text}]


@pytest.mark.parametrize("size", [10_000, 1_000_000, 30_000_000])
def test_lines_that_come_faster_than_they_are_written_are_dropped_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    gate = threading.Event()
    log = DecisionLog(tmp_path / "log.jsonl")
    log.put(lambda: {"i": gate.wait(30)}, size)
    room = 100_000_000 // size
    for _ in range(room + 9):
        log.put(lambda: {"i": 0}, size)
    gate.set()
    log.close()
    assert (log.written, log.dropped) == (room, 10)
    assert len(caplog.records) == 1


def test_a_line_larger_than_all_the_room_is_taken_where_none_waits(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "log.jsonl") as log:
        log.put(lambda: {"i": 1}, 200_000_000)
    assert numbers(tmp_path) == [1]


def test_it_is_behind_while_much_waits(tmp_path: Path) -> None:
    gate = threading.Event()
    with DecisionLog(tmp_path / "log.jsonl") as log:
        log.put(lambda: {"i": gate.wait(30)}, 20_000_000)
        assert not log.behind
        log.put(lambda: {"behind": log.behind}, 20_000_000)
        assert log.behind
        gate.set()
    assert read(tmp_path / "log.jsonl")[1] == {"behind": False}


def test_room_is_given_back_whether_a_line_was_written_or_not(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "log.jsonl") as log:
        for i in range(4):
            log.put(lambda i=i: {"i": i if i % 2 else object()}, 100_000_000)  # type: ignore[misc]
            _wait_until(lambda: log._waiting == 0)
    assert numbers(tmp_path) == [1, 3]


def test_the_fate_of_each_line_is_told(tmp_path: Path) -> None:
    told: list[bool] = []
    with DecisionLog(tmp_path / "log.jsonl", tell=told.append) as log:
        log.put(lambda: {"i": 1})
        log.put(lambda: {"i": object()})
    log.put(lambda: {"i": 3})
    assert told == [True, False, False]


def test_a_closed_log_drops_and_counts(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "log.jsonl")
    log.close()
    log.close()
    log.put(lambda: {"i": 1})
    assert log.dropped == 1


def _append(path: Path, first: int) -> None:
    with DecisionLog(path, max_bytes=2_000, keep=100) as log:
        for i in range(first, first + 200):
            log.put(lambda i=i: {"i": i})  # type: ignore[misc]


def test_several_processes_lose_no_line_while_files_turn_over(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_append, args=(tmp_path / "log.jsonl", 1_000 * n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert numbers(tmp_path) == [1_000 * n + i for n in range(3) for i in range(200)]


def _append_long(path: Path) -> None:
    with DecisionLog(path) as log:
        for i in range(500):
            log.put(lambda i=i: {"i": i, "long": "x" * 9_000})  # type: ignore[misc]


def test_several_processes_take_no_line_of_another_for_one_left_half(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_append_long, args=(tmp_path / "log.jsonl",)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    assert (len(lines), lines.count(b"")) == (2_000, 0)


KILLED = """
import sys
from pathlib import Path
from pruner.decision_log import DecisionLog
log = DecisionLog(Path(sys.argv[1]))
i = 0
while True:
    log.put(lambda i=i: {"i": i})
    i += 1
    if i % 100 == 0:
        while log.written < i:
            pass
        print(i, flush=True)
"""


def test_a_killed_process_leaves_every_line_it_had_written(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(3)][-1]
        process.send_signal(signal.SIGKILL)
    lines = path.read_bytes().split(b"\n")[:-1]
    assert [json.loads(line)["i"] for line in lines] == list(range(len(lines)))
    assert len(lines) >= told


def _wait_until(done: Any) -> None:
    for _ in range(3_000):
        if done():
            return
        time.sleep(0.001)
    raise AssertionError("it did not happen")
