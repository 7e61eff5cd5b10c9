"""The labeller, fed with lines, and once in a real terminal."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from eval.__main__ import main
from eval.datasets import Row, read_rows
from eval.label_screen import Screen
from eval.label_state import Sheet

ROOT = Path(__file__).parents[2]
LONG = "\n".join(f"line {i}" for i in range(1, 60))
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202eback"
LISTS: list[dict[str, Any]] = [
    {"id": "a", "query": "why?", "chunks": [{"id": f"a{i}", "text": f"text {i}"} for i in range(1, 5)]},
    {"id": "b", "query": "how?", "chunks": [{"id": "b1", "text": LONG}, {"id": "b2", "text": HOSTILE}]},
]

Label = Callable[..., list[Row]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "lists.jsonl", LISTS)


@pytest.fixture
def label(file: Path, monkeypatch: pytest.MonkeyPatch) -> Label:
    """Label with the given lines as input, and return what is saved."""

    def work(*typed: str, by: str = "me") -> list[Row]:
        monkeypatch.setattr(sys, "stdin", StringIO("".join(f"{line}\n" for line in typed)))
        assert main(["label", str(file), "--by", by]) == 0
        out = file.with_name("lists.labelled.jsonl")
        return list(read_rows(out)) if out.exists() else []

    return work


def typed_until(end: type[BaseException], *lines: str) -> MagicMock:
    """Stand in for an input that breaks off with an exception."""

    def read() -> Iterator[str]:
        yield from lines
        raise end

    stdin = MagicMock()
    stdin.isatty.return_value = False
    stdin.__iter__.return_value = read()
    return stdin


def written(path: Path, entries: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["label", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_chunks_are_marked_as_needed_and_helpful(label: Label) -> None:
    [row] = label("n", "", "h", "d")
    assert (row.id, row.dataset, row.gold, row.helpful) == ("a", "lists", ("a1",), ("a3",))


def test_who_labelled_is_kept(label: Label) -> None:
    [row] = label("n", "d", by="Ada")
    assert row.meta["labelled_by"] == "Ada"


def test_a_mark_can_be_taken_back(label: Label) -> None:
    [row] = label("n", "n", "b", "x", "d")
    assert row.gold == ("a1",)


def test_undo_goes_back_mark_by_mark(label: Label) -> None:
    [row] = label("n", "n", "n", "u", "u", "d")
    assert row.gold == ("a1",)


def test_undo_reaches_into_the_list_before(label: Label) -> None:
    [row] = label("n", "h", "d", "u", "d")
    assert (row.id, row.gold, row.helpful) == ("a", ("a1",), ())


def test_a_jump_goes_to_a_chunk(label: Label) -> None:
    [row] = label("j 3", "n", "d")
    assert row.gold == ("a3",)


def test_a_list_may_hold_no_answer(label: Label) -> None:
    [row] = label("n", "h", "0", "d")
    assert (row.gold, row.helpful) == ((), ("a2",))


def test_a_needed_chunk_takes_no_answer_back(label: Label) -> None:
    [row] = label("0", "n", "d")
    assert row.gold == ("a1",)


def test_a_list_of_which_nothing_is_said_is_not_saved(label: Label, capsys: pytest.CaptureFixture[str]) -> None:
    assert label("h", "d") == []
    assert "press 0 if the list holds no answer" in capsys.readouterr().out


def test_a_note_is_kept(label: Label) -> None:
    [row] = label("t ask   Bo", "n", "d")
    assert row.meta["note"] == "ask Bo"


def test_the_next_call_goes_on_where_the_last_one_ended(label: Label, capsys: pytest.CaptureFixture[str]) -> None:
    label("n", "d", "q")
    rows = label("0", "d")
    assert [(row.id, row.gold) for row in rows] == [("a", ("a1",)), ("b", ())]
    assert "2 of 2 in" in capsys.readouterr().out


def test_a_list_that_is_done_can_be_labelled_again(label: Label) -> None:
    label("n", "t look again", "d")
    [row] = label("g 1", "x", "n", "d")
    assert (row.gold, row.meta["note"]) == (("a2",), "look again")


def test_lists_can_be_left_and_returned_to(label: Label) -> None:
    [row] = label("]", "n", "[", "j2", "n", "d")
    assert (row.id, row.gold) == ("a", ("a2",))


def test_the_end_of_the_input_keeps_what_is_saved(label: Label) -> None:
    assert [row.id for row in label("n", "d", "n")] == ["a"]


def test_every_list_is_saved_at_once(label: Label, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", typed_until(MemoryError, "n", "d", "n"))
    with pytest.raises(MemoryError):
        main(["label", str(file)])
    assert [row.id for row in read_rows(file.with_name("lists.labelled.jsonl"))] == ["a"]


def test_an_interrupt_keeps_what_is_saved(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", typed_until(KeyboardInterrupt, "n", "d"))
    assert main(["label", str(file)]) == 0
    assert "interrupted" in capsys.readouterr().out


@pytest.mark.parametrize("typed", ["j 99", "j x", "g 9", "g", "?", "u", "é", "]]]"])
def test_odd_input_breaks_nothing(label: Label, typed: str) -> None:
    [row] = label(typed, "g 1", "j 1", "n", "d")
    assert row.gold == ("a1",)


def test_texts_alone_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "bare.jsonl", [{"query": "q", "chunks": ["one", {"text": "two"}]}])
    monkeypatch.setattr(sys, "stdin", StringIO("\nn\nd\n"))
    assert main(["label", str(path), "--out", str(tmp_path / "out.jsonl.gz")]) == 0
    [row] = read_rows(tmp_path / "out.jsonl.gz")
    assert (row.id, row.dataset, row.gold) == ("1", "bare", ("2",))


def test_labels_that_are_there_already_are_shown_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = LISTS[0] | {"dataset": "d", "gold": ["a2", "far"], "gold_missing": ["far"], "gold_retrieved": False}
    path = written(tmp_path / "old.jsonl", [entry | {"helpful": ["a3"], "meta": {"lang": "en"}}])
    monkeypatch.setattr(sys, "stdin", StringIO("n\nd\n"))
    assert main(["label", str(path), "--by", "me"]) == 0
    [row] = read_rows(tmp_path / "old.labelled.jsonl")
    assert (row.gold, row.helpful) == (("a1", "a2", "far"), ("a3",))
    assert row.meta == {"lang": "en", "labelled_by": "me"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "empty"),
        ([{"query": "q"}], ":1: chunks: must be a list"),
        ([{"chunks": ["a"]}], ":1: query: must be a text"),
        ([{"query": "q", "chunks": [{"id": "x"}]}], ":1: chunks: chunk 0: text"),
        ([LISTS[0], LISTS[0]], ":2: id: 'a' of 'odd' stands in line 1 already"),
        ([{"query": "q", "chunks": ["a"], "gold": ["z"]}], ":1: gold: 'z' is not in the list"),
    ],
)
def test_rows_that_cannot_be_labelled_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: list[object], message: str
) -> None:
    assert message in refused(capsys, written(tmp_path / "odd.jsonl", entries))


def test_labels_of_another_list_are_not_taken_over(
    label: Label, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label("n", "d")
    written(file, [LISTS[0] | {"query": "another"}])
    assert "has labels for another list 'a'" in refused(capsys, file)


def test_the_input_is_never_overwritten(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "would be overwritten" in refused(capsys, file, "--out", file)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_screen_fits_into_the_terminal(file: Path, columns: int) -> None:
    screen = Screen(columns, 24)
    row = Row("i", "d", "why " * 200, tuple(read_chunks(file)), ())
    sheet = Sheet(("needed", "helpful") * 3, note="n" * 200)
    for page in range(len(screen.pages(row, sheet))):
        lines = screen.draw(row, Sheet(sheet.marks, page=page, note=sheet.note), "head " * 40).split("\n")
        assert len(lines) <= 24
        assert max(map(len, lines)) <= columns


def test_long_chunks_are_read_page_by_page(file: Path) -> None:
    row = Row("i", "d", "why?", tuple(read_chunks(file)), ())
    pages = Screen().pages(row, Sheet(("",) * 6, at=4))
    assert [line for page in pages for line in page] == LONG.split("\n")
    assert len(pages) > 3


def test_control_characters_of_a_chunk_do_not_reach_the_terminal(file: Path) -> None:
    row = Row("i", "d", HOSTILE, tuple(read_chunks(file)), ())
    shown = Screen().draw(row, Sheet(("",) * 6, at=5), HOSTILE)
    assert not set(shown) & set("\x1b\x07\u202e")


def read_chunks(file: Path) -> list[Any]:
    from pruner.preparation import to_chunks

    return to_chunks([chunk for line in file.read_text().splitlines() for chunk in json.loads(line)["chunks"]])


class Terminal:
    """The labeller in a pseudo-terminal of 80 columns and 24 lines."""

    def __init__(self, *arguments: str) -> None:
        self.shown = ""
        self.handle, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = os.environ | {"COLUMNS": "", "LINES": "", "PYTHONIOENCODING": "utf-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eval", "label", *arguments],
            stdin=child, stdout=child, stderr=child, cwd=ROOT, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(child)

    def until(self, text: str) -> str:
        """Return what the terminal shows up to a text, from where the last call ended."""
        end = time.monotonic() + 60
        while text not in self.shown and time.monotonic() < end:
            if not select.select([self.handle], [], [], 1)[0]:
                continue
            try:
                self.shown += os.read(self.handle, 65536).decode("utf-8", "replace")
            except OSError:  # The other side is closed.
                break
        assert text in self.shown
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, keys: str) -> None:
        os.write(self.handle, keys.encode())

    def close(self) -> int:
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            os.close(self.handle)


def test_in_a_terminal_single_keys_label(file: Path) -> None:
    terminal = Terminal(str(file), "--by", "me")
    assert "list 1 of 2" in terminal.until("q quit")
    terminal.type("n")
    terminal.until("1N [2.]")
    terminal.type("\x1b[C")
    terminal.until("1N 2. [3.]")
    terminal.type("j4\n")
    terminal.until("[4.]")
    terminal.type("h")
    terminal.until("4h")
    terminal.type("d")
    terminal.until("list 2 of 2")
    terminal.type("q")
    terminal.until("1 of 2 in")
    assert terminal.close() == 0
    [row] = read_rows(file.with_name("lists.labelled.jsonl"))
    assert (row.gold, row.helpful) == (("a1",), ("a4",))


def test_in_a_terminal_a_screen_is_80_by_24_and_holds_no_escape_of_a_chunk(file: Path) -> None:
    terminal = Terminal(str(file))
    terminal.until("q quit")
    terminal.type("]j2\n")
    screen = (terminal.until("[2.]") + terminal.until("q quit")).rpartition("\x1b[2J\x1b[H")[2]
    terminal.type("q")
    terminal.until("0 of 2 in")
    assert terminal.close() == 0
    assert "\x1b" not in screen
    assert "\u202e" not in screen
    assert len(screen.split("\n")) <= 24
    assert max(len(line.rstrip("\r")) for line in screen.split("\n")) <= 80


def test_in_a_terminal_keys_typed_ahead_are_not_lost(file: Path) -> None:
    terminal = Terminal(str(file))
    terminal.until("q quit")
    terminal.type("nt a note\nhd0d")
    terminal.until("2 of 2 in")
    assert terminal.close() == 0
    rows = list(read_rows(file.with_name("lists.labelled.jsonl")))
    assert [(row.gold, row.helpful, row.meta.get("note")) for row in rows] == [
        (("a1",), ("a2",), "a note"),
        ((), (), None),
    ]
