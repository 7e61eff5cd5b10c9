"""The file that the paid step appends to: what is in it is paid for, whatever killed the run that wrote it."""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from eval.errors import EvalError
from eval.records import Record, read_records, to_line

__all__ = ["RecordFile", "open_records"]

# Every line begins so; what does not is no record that broke off.
_START = b'{"dataset"'


class RecordFile:
    """Appends records, a line each, at once.

    Attributes:
        records: those that were in the file before.
    """

    def __init__(self, file: IO[bytes], records: list[Record]) -> None:
        self._file = file
        self.records = records

    def append(self, record: Record) -> None:
        """Write a record so that it outlives this process."""
        self._file.write(to_line(record).encode())
        self._file.flush()


@contextlib.contextmanager
def open_records(path: Path) -> Iterator[RecordFile]:
    """Open a file to go on where the last run stopped; half a last line, from a run that was killed, is mended.

    Raises:
        EvalError: another run is writing to it, or it holds something else than records.
    """
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EvalError(f"{path}: another run is writing to it; wait for it, or give another --out") from None
        _mend(file, path)
        file.seek(0)
        has_records = bool(file.read(1))
        yield RecordFile(file, [record for _, record in read_records(path)] if has_records else [])


def _mend(file: IO[bytes], path: Path) -> None:
    """Bring the file to end with a whole line: half a record was not written, so it will be graded again."""
    file.seek(0)
    content = file.read()
    last = content[content.rfind(b"\n") + 1 :]
    if not last:
        return
    if not _START.startswith(last[: len(_START)]):
        raise EvalError(f"{path}: ends in something that is no record; give a file of records, or a new one")
    if _is_whole(last):
        file.write(b"\n")
    else:
        file.truncate(len(content) - len(last))
    file.flush()


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
