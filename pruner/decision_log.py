"""An append-only log of decisions: JSON lines, turned over by size, written beside the requests."""

import fcntl
import json
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pruner.errors import ConfigError

__all__ = ["DecisionLog"]

_log = logging.getLogger("pruner")
# Bytes that may wait, and those of a line whose size nobody tells.
_ROOM = 100_000_000
_SIZE = 10_000
_PATIENCE = 5

Line = Mapping[str, Any]
Tell = Callable[[bool], None]


def _nobody(written: bool) -> None:
    """Tell nobody."""


class DecisionLog:
    """A file that lines are appended to by a thread of its own; several processes may write to it.

    A line is written whole, at once and without a buffer, so that a killed process loses only what it had not got to.
    What cannot be written is dropped and counted.

    Args:
        path: of the file; when it is full it becomes `path.1`, and `path.1` becomes `path.2`.
        max_bytes: size at which a file is full.
        keep: how many full files stay.

        tell: is called with each line's fate, written (True) or dropped, from any thread.

    Attributes:
        written: lines, by this process.
        dropped: lines that the disk did not take, that came faster than they could be written, that
            were left when it was closed, or that were no JSON.

    Raises:
        ConfigError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, max_bytes: int = 100_000_000, keep: int = 10, tell: Tell = _nobody) -> None:
        self.written = self.dropped = 0
        self._tell = tell
        self._file = _File(path, max_bytes, keep)
        self._lines: queue.SimpleQueue[tuple[Callable[[], Line], int] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._closed = self._given_up = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._write_all, name="decision-log", daemon=True)
        self._thread.start()

    def put(self, make: Callable[[], Line], size: int = _SIZE) -> None:
        """Log what `make` returns. It is called in the log's thread, so that counting tokens delays nobody.

        Never waits and never raises: a line that finds no room is dropped.

        Args:
            make: makes the line.
            size: about the bytes that `make` holds until then.
        """
        with self._lock:
            full = self._waiting > 0 and self._waiting + size > _ROOM
            taken = not full and not self._closed
            if taken:
                self._waiting += size
                self._lines.put((make, size))
        if not taken:
            self._drop("too many wait to be written" if full else "the log is closed")

    @property
    def behind(self) -> bool:
        """Whether so much waits that lines should be made in haste."""
        return self._waiting > _ROOM // 4

    def close(self) -> None:
        """Write what waits, unless the disk takes nothing for some seconds, and give back the file.

        Can be called again.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._lines.put(None)
        before = -1
        while self._thread.is_alive() and (left := self._lines.qsize()) != before:
            before = left
            self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            self._give_up()
        else:
            self._file.close()

    def _give_up(self) -> None:
        """Count what was not written, the line that hangs among it."""
        self._given_up = True
        lost = 1
        with suppress(queue.Empty):
            while self._lines.get_nowait() is not None:
                lost += 1
        self._lines.put(None)
        _log.warning("the decision log takes no more lines; the last %d are lost", lost)
        for _ in range(lost):
            self._count(False)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _write_all(self) -> None:
        while (waiting := self._lines.get()) is not None:
            make, size = waiting
            fault = self._write(make)
            del waiting, make
            with self._lock:
                self._waiting -= size
            if self._given_up:
                return
            if fault is None:
                self._count(True)
            else:
                self._drop(fault)

    def _write(self, make: Callable[[], Line]) -> Exception | None:
        """Write a line; returns what kept it from that."""
        try:
            self._file.append(_encode(make()))
        except Exception as error:  # noqa: BLE001 - the log must outlive whatever a line or a disk brings.
            return error
        return None

    def _drop(self, why: object) -> None:
        if not self.dropped:
            _log.warning("a decision could not be logged (%s); further ones are counted in silence", why)
        self._count(False)

    def _count(self, written: bool) -> None:
        self.written += written
        self.dropped += not written
        self._tell(written)


def _encode(line: Line) -> bytes:
    return json.dumps(line, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class _File:
    """The file that is written now."""

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        # What a link points to is turned over where it is; a pipe such as /dev/stdout has no other name.
        self._path = Path(os.path.realpath(path)) if path.is_file() or not path.exists() else path
        self._max_bytes, self._keep = max_bytes, keep
        self._handle, self._warned = -1, False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(f"cannot write the decision log {path}: {error.strerror}") from None

    def append(self, line: bytes) -> None:
        """Write a line.

        Raises:
            OSError: the disk does not take it.
        """
        if not self._is_current():
            self._turn_over(len(line))
        elif os.fstat(self._handle).st_size + len(line) > self._max_bytes:
            self._try_to_turn_over(len(line))
        with self._alone():
            # What a full disk or a killed process left of a line must not swallow this one.
            whole = b"\n" + line if self._is_torn() else line
            written = os.write(self._handle, whole)
        if written != len(whole):
            raise OSError(f"only {written} of {len(whole)} bytes were taken")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from writing meanwhile: half of what they write looks like a line left half."""
        handle = self._handle
        with suppress(OSError):  # Some file systems have no locks.
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._handle)

    def _open(self) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = handle

    def _is_torn(self) -> bool:
        """Say whether the last line has no end, whoever wrote it."""
        size = os.fstat(self._handle).st_size
        return size > 0 and os.pread(self._handle, 1, size - 1) != b"\n"

    def _is_current(self) -> bool:
        """Say whether the file is still there by its name: another process may have turned it over."""
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except FileNotFoundError:
            return False

    def _try_to_turn_over(self, room: int) -> None:
        try:
            self._turn_over(room)
        except OSError as error:
            if not self._warned:
                _log.warning("the decision log cannot be turned over and grows on: %s", error)
            self._warned = True

    def _turn_over(self, room: int) -> None:
        """Make room, unless another process just did."""
        lock = os.open(self._numbered("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current() and 0 < os.fstat(self._handle).st_size > self._max_bytes - room:
                self._rename_all()
            self._open()
        finally:
            os.close(lock)

    def _rename_all(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._numbered(number).replace(self._numbered(number + 1))
        with suppress(FileNotFoundError):  # Another program may have moved it away just now.
            if self._keep:
                self._path.replace(self._numbered(1))
            else:
                self._path.unlink()

    def _numbered(self, number: int | str) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
