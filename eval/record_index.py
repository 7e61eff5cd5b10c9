"""Gradings found by the list they are about, in a file beside the memory: records may be as many as the log's lines."""

import json
import sqlite3
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from eval.errors import EvalError
from eval.records import LISTWISE, Record, Setup, read_records

__all__ = ["RecordIndex"]


class RecordIndex:
    """The listwise records of some files, by `Row.sha256`; kept in a temporary file until it is closed.

    Args:
        paths: files that `grade` wrote, by one model, prompt and form of reply.

    Raises:
        EvalError: a file cannot be read, or lists were graded in two ways.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._setup: Setup | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="pruner-replay-")
        self._rows = sqlite3.connect(Path(self._folder.name) / "records.sqlite")
        self._rows.execute("PRAGMA journal_mode=OFF")
        self._rows.execute("CREATE TABLE records (list TEXT PRIMARY KEY, record TEXT) WITHOUT ROWID")
        try:
            for path in paths:
                self._add(path)
        except BaseException:
            self.close()
            raise

    def find(self, list_sha256: str) -> Record | None:
        """Return the grading of a list, if there is one."""
        row = self._rows.execute("SELECT record FROM records WHERE list = ?", (list_sha256,)).fetchone()
        return Record(**json.loads(row[0])) if row else None

    def close(self) -> None:
        """Give back the file."""
        self._rows.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _add(self, path: Path) -> None:
        for number, record in read_records(path):
            if record.strategy != LISTWISE:
                continue
            self._setup = self._setup or record.setup
            if record.setup != self._setup:
                raise EvalError(f"{path}:{number}: graded in another way than what is before; give one way at a time")
            known = json.dumps(asdict(record) | {"reply": None})
            self._rows.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (record.list_sha256, known))
