"""Label lists in the terminal: read a question and its chunks, mark which are needed for the answer.

FILE holds rows without labels: {"query", "chunks": [{"text", "id"?, "title"?, "score"?}], "id"?, "dataset"?} a line.
Each list is saved when it is done, and the next call goes on after the last one that is. A chunk is needed when no
complete answer is possible without it, helpful when it makes the answer better. Mark as few as suffice.
"""

import argparse
import getpass
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.datasets import Row, read_rows, to_row
from eval.errors import EvalError
from eval.jsonl import read_objects
from eval.label_keys import Command, key_commands, line_commands
from eval.label_screen import Screen
from eval.label_state import Sheet, change, labelled, sheet_of
from eval.writing import write_objects

__all__ = ["Session", "add_arguments", "run"]

CLEAR = "\x1b[2J\x1b[H"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `label`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="rows to label, JSON lines, plain or gzip")
    parser.add_argument("--out", type=Path, metavar="FILE", help="labelled rows (default: FILE.labelled.jsonl)")
    parser.add_argument("--by", metavar="NAME", help="who labels (default: the user's name), kept in meta.labelled_by")


def run(options: argparse.Namespace) -> int:
    """Label until all is done or the user quits.

    Raises:
        EvalError: a row cannot be used, or the output belongs to other lists.
    """
    out = options.out or options.file.with_name(options.file.name.partition(".jsonl")[0] + ".labelled.jsonl")
    if out.resolve() == options.file.resolve():
        raise EvalError(f"{out}: would be overwritten; give another --out")
    session = Session.open(options.file, out, options.by or _user())
    try:
        _work(session)
    except KeyboardInterrupt:
        session.message = "interrupted; marks of the list on screen are not saved"
    done = len(session.done)
    sys.stdout.write(
        f"\n{session.message + chr(10) if session.message else ''}{done} of {len(session.rows)} in {out}\n"
    )
    return 0


def _work(session: "Session") -> None:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with (key_commands if terminal else line_commands)(sys.stdin) as commands:
        _show(session, terminal)
        for command in commands:
            if not session.take(command, _screen()):
                return
            _show(session, terminal)


def _screen() -> Screen:
    size = shutil.get_terminal_size((80, 24))
    return Screen(max(min(size.columns, 100), 40), max(size.lines, 16))


def _show(session: "Session", terminal: bool) -> None:
    text = session.draw(_screen())
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write((CLEAR if terminal else "\n") + text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


@dataclass
class Session:
    """Lists on their way from unlabelled to labelled.

    Attributes:
        entries: as read, with a data set and an id.
        rows: the same, checked.
        out: where labelled rows go.
        by: who labels.
        sheets: labels so far.
        done: places of the lists that are saved.
        at: the list on screen.
        message: what the last command led to.
    """

    entries: list[dict[str, Any]]
    rows: list[Row]
    out: Path
    by: str
    sheets: list[Sheet] = field(default_factory=list)
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    at: int = 0
    message: str = ""
    _before: list[tuple[int, Sheet]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path, out: Path, by: str) -> "Session":
        """Read the lists, and what of them is labelled already."""
        entries = list(_unlabelled(path))
        rows = [to_row(entry, labelled=False) for entry in entries]
        session = cls(entries, rows, out, by)
        session.sheets = [sheet_of(row, entry) for row, entry in zip(rows, entries, strict=True)]
        if out.exists():
            session._resume()
        session.at = next((place for place in range(len(rows)) if place not in session.done), 0)
        return session

    def _resume(self) -> None:
        places = {(row.dataset, row.id): place for place, row in enumerate(self.rows)}
        for row, (_, entry) in zip(read_rows(self.out), read_objects(self.out), strict=True):
            place = places.get((row.dataset, row.id))
            if place is None or row.sha256 != self.rows[place].sha256:
                raise EvalError(f"{self.out}: has labels for another list {row.id!r}; give another --out")
            self.sheets[place] = sheet_of(row, entry)
            self.done[place] = entry

    def draw(self, screen: Screen) -> str:
        """Return what is to be seen."""
        state = "saved" if self.at in self.done else "not saved"
        head = f"list {self.at + 1} of {len(self.rows)} | {state} | {len(self.done)} done | {self.rows[self.at].id}"
        return screen.draw(self.rows[self.at], self.sheets[self.at], head, self.message)

    def take(self, command: Command, screen: Screen) -> bool:
        """Carry out a command; False when it is the last."""
        key, argument = command
        self.message = ""
        if key == "d":
            return self._finish()
        if key == "u":
            self._undo()
        elif key in ("[", "]", "g"):
            self._go({"[": self.at - 1, "]": self.at + 1}.get(key, int(argument) - 1 if argument.isdecimal() else -1))
        elif key != "q":
            self._change(key, argument, screen)
        return key != "q"

    def _change(self, key: str, argument: str, screen: Screen) -> None:
        sheet = self.sheets[self.at]
        new = change(sheet, key, argument, len(screen.pages(self.rows[self.at], sheet)))
        if new == sheet:
            self.message = "this is the last chunk: d when the list is done" if key == "" else "nothing to do"
        elif (new.marks, new.nothing, new.note) != (sheet.marks, sheet.nothing, sheet.note):
            self._before.append((self.at, sheet))
        self.sheets[self.at] = new

    def _undo(self) -> None:
        if not self._before:
            self.message = "nothing to undo"
            return
        self.at, sheet = self._before.pop()
        self.sheets[self.at] = sheet

    def _go(self, place: int) -> None:
        if 0 <= place < len(self.rows):
            self.at = place
        else:
            self.message = f"there are lists 1 to {len(self.rows)}"

    def _finish(self) -> bool:
        """Save the list, and go to the next that is not saved; False when there is none."""
        if not self.sheets[self.at].settled:
            self.message = "nothing is marked as needed: mark a chunk with n, or press 0 if the list holds no answer"
            return True
        self.done[self.at] = labelled(self.entries[self.at], self.rows[self.at], self.sheets[self.at], self.by)
        write_objects(self.out, (self.done[place] for place in sorted(self.done)))
        following = [*range(self.at + 1, len(self.rows)), *range(self.at)]
        left = next((place for place in following if place not in self.done), None)
        if left is None:
            self.message = "all lists are done"
            return False
        self.at, self.message = left, "saved"
        return True


def _unlabelled(path: Path) -> Iterator[dict[str, Any]]:
    seen: dict[tuple[str, str], int] = {}
    for number, entry in read_objects(path):
        given = {"id": str(number), "dataset": path.name.partition(".")[0], **entry}
        try:
            _number_chunks(given)
            row = to_row(given, labelled=False)
            if (first := seen.setdefault((row.dataset, row.id), number)) != number:
                raise EvalError(f"id: {row.id!r} of {row.dataset!r} stands in line {first} already")
        except EvalError as error:
            raise EvalError(f"{path}:{number}: {error}") from None
        yield given


def _number_chunks(entry: dict[str, Any]) -> None:
    """Give chunks without an id their place as one, and bare texts a chunk around them."""
    if not isinstance(entry.get("chunks"), list):
        return
    chunks = [{"text": chunk} if isinstance(chunk, str) else chunk for chunk in entry["chunks"]]
    named = [chunk if not isinstance(chunk, dict) else {"id": str(i), **chunk} for i, chunk in enumerate(chunks, 1)]
    entry["chunks"] = named
