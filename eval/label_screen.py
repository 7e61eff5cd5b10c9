"""One screen of the labeller: question, one chunk page by page, the marks so far, the keys."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval.datasets import Row
from eval.label_state import HELPFUL, NEEDED, Sheet
from pruner.console import clean, wrap

__all__ = ["Screen"]

KEYS = (
    "n needed  h helpful  x neither  ENTER on  b back  j jump  0 no answer here",
    "d done, save  u undo  t note  [ ] list before, after  g go to list  q quit",
)
# Lines that are there besides question and text: head, chunk head, two rules, marks, note or message, keys.
FIXED = 9
QUERY_LINES = 4


@dataclass(frozen=True)
class Screen:
    """Lays a list out for a terminal of some size.

    Attributes:
        columns: of the terminal.
        lines: of the terminal.
    """

    columns: int = 80
    lines: int = 24

    def pages(self, row: Row, sheet: Sheet) -> list[list[str]]:
        """Return the shown chunk's lines, page by page."""
        room = max(self.lines - FIXED - len(self._query(row)), 3)
        text = wrap(row.chunks[sheet.at].text, self.columns)
        return [text[start : start + room] for start in range(0, len(text), room)]

    def draw(self, row: Row, sheet: Sheet, head: str, message: str = "") -> str:
        """Return the whole screen.

        Args:
            row: the list.
            sheet: its labels.
            head: which list it is.
            message: what the last command led to.
        """
        pages = self.pages(row, sheet)
        page = pages[min(sheet.page, len(pages) - 1)]
        rule = "-" * self.columns
        shown = [
            self._line(head),
            *self._query(row),
            rule,
            self._line(_chunk_head(row, sheet, len(pages))),
            "",
            *page,
            rule,
            *_marks(sheet, self.columns),
            *([self._line(f"note: {sheet.note}")] if sheet.note else []),
            *(keys[: self.columns] for keys in KEYS),
            self._line(message),
        ]
        return "\n".join(shown)

    def _query(self, row: Row) -> list[str]:
        lines = wrap(f"Q: {' '.join(row.query.split())}", self.columns)
        return lines if len(lines) <= QUERY_LINES else [*lines[: QUERY_LINES - 1], "   …"]

    def _line(self, text: str) -> str:
        return wrap(clean(text), self.columns)[0]


def _chunk_head(row: Row, sheet: Sheet, pages: int) -> str:
    chunk = row.chunks[sheet.at]
    page = f"page {min(sheet.page, pages - 1) + 1} of {pages}" if pages > 1 else ""
    parts = (f"chunk {sheet.at + 1} of {len(row.chunks)}", page, sheet.marks[sheet.at].upper(), chunk.title)
    return " | ".join(part for part in parts if part)


def _marks(sheet: Sheet, columns: int) -> Sequence[str]:
    """Return the marks of all chunks, the shown one in brackets."""
    letters = {NEEDED: "N", HELPFUL: "h", "": "."}
    cells = [f"{place}{letters[mark]}" for place, mark in enumerate(sheet.marks, 1)]
    cells[sheet.at] = f"[{cells[sheet.at]}]"
    return wrap(" ".join(cells) + (" | NO ANSWER IN THE LIST" if sheet.nothing else ""), columns)
