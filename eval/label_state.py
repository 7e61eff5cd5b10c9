"""The labels of one list while someone works on them: a frozen value, and what each command makes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval.datasets import Row

__all__ = ["HELPFUL", "NEEDED", "Sheet", "change", "labelled", "sheet_of"]

NEEDED, HELPFUL = "needed", "helpful"


@dataclass(frozen=True)
class Sheet:
    """Labels of a list, and where the reader is.

    Attributes:
        marks: of each chunk: needed, helpful or "".
        at: the chunk that is shown.
        page: the part of it that is shown.
        nothing: the reader said that the list holds no answer.
        note: a line for later.
    """

    marks: tuple[str, ...]
    at: int = 0
    page: int = 0
    nothing: bool = False
    note: str = ""

    @property
    def settled(self) -> bool:
        """Whether something is said: a chunk is needed, or none is."""
        return self.nothing or NEEDED in self.marks

    def moved(self, to: int) -> "Sheet":
        """Show another chunk, the first or last one if there is none at that place."""
        return replace(self, at=min(max(to, 0), len(self.marks) - 1), page=0)

    def marked(self, what: str) -> "Sheet":
        """Mark the chunk and go on to the next."""
        marks = (*self.marks[: self.at], what, *self.marks[self.at + 1 :])
        return replace(self, marks=marks, nothing=self.nothing and what != NEEDED).moved(self.at + 1)

    def without_answer(self) -> "Sheet":
        """Say that nothing in the list is needed."""
        return replace(self, nothing=True, marks=tuple("" if mark == NEEDED else mark for mark in self.marks))


def change(sheet: Sheet, key: str, argument: str, pages: int) -> Sheet:
    """Carry out a command on the list.

    Args:
        sheet: as it is.
        key: one that changes a sheet; another leaves it.
        argument: of `j` (a place from 1) and `t` (a note).
        pages: of the chunk that is shown.
    """
    commands: dict[str, Callable[[], Sheet]] = {
        "n": lambda: sheet.marked(NEEDED),
        "h": lambda: sheet.marked(HELPFUL),
        "x": lambda: sheet.marked(""),
        "0": sheet.without_answer,
        "": lambda: replace(sheet, page=sheet.page + 1) if sheet.page + 1 < pages else sheet.moved(sheet.at + 1),
        "b": lambda: replace(sheet, page=sheet.page - 1) if sheet.page else sheet.moved(sheet.at - 1),
        "j": lambda: sheet.moved(int(argument) - 1) if argument.isdecimal() else sheet,
        "t": lambda: replace(sheet, note=" ".join(argument.split())),
    }
    return commands[key]() if key in commands else sheet


def sheet_of(row: Row, entry: Mapping[str, Any]) -> Sheet:
    """Start with the labels that a row has, if it has any."""
    marks = [NEEDED if i in row.needed else HELPFUL if i in row.helping else "" for i in range(len(row.chunks))]
    nothing = "gold" in entry and not row.needed
    return Sheet(tuple(marks), nothing=nothing, note=str(row.meta.get("note", "")))


def labelled(entry: Mapping[str, Any], row: Row, sheet: Sheet, by: str) -> dict[str, Any]:
    """Return the entry with its labels, as a row of the labelled form."""
    names = [str(chunk.id) for chunk in row.chunks]
    # What a source says of chunks that were not retrieved stays true.
    missing = [name for name in row.gold if name not in names]
    meta = {key: value for key, value in row.meta.items() if key != "note"} | {"labelled_by": by}
    rest = {key: value for key, value in entry.items() if key not in ("gold_retrieved", "gold_missing")}
    return {
        **rest,
        "gold": _named(names, sheet, NEEDED) + missing,
        **({"gold_missing": missing} if missing else {}),
        "helpful": _named(names, sheet, HELPFUL),
        "meta": meta | ({"note": sheet.note} if sheet.note else {}),
    }


def _named(names: Sequence[str], sheet: Sheet, what: str) -> list[str]:
    return [name for name, mark in zip(names, sheet.marks, strict=True) if mark == what]
