"""Plain text for a terminal: tables that stay aligned and harmless whatever is in them, and how they are written."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pruner.errors import RequestError

__all__ = ["clean", "not_written", "note", "say", "table", "wrap"]

GAP = "  "
ELLIPSIS = "…"
JOINERS = "\u200c\u200d"  # parts of words and emoji, and invisible
UNSEEN = {"Mn", "Me", "Cf"}
# Escape sequences begin with a control character, overrides of the writing direction are format characters, and a lone
# surrogate cannot be encoded.
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def say(text: str) -> None:
    """Write a line, or several, to standard output, as what a terminal of any encoding can show.

    Raises:
        RequestError: it cannot be written.
        BrokenPipeError: its reader has gone.
    """
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer is not to be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise not_written(error) from None


def not_written(error: OSError) -> OSError | RequestError:
    """Return what to raise when standard output takes no more; that its reader has gone is told from the rest."""
    if isinstance(error, BrokenPipeError):
        return error
    return RequestError(f"cannot write to standard output: {error.strerror}")


def note(text: str) -> None:
    """Write a line to standard error, if that is open."""
    with suppress(AttributeError, OSError):
        sys.stderr.write(text + "\n")


def table(
    rows: Sequence[Sequence[object]],
    header: Sequence[str],
    align: str = "",
    *,
    flexible: str | None = None,
    columns: int | None = None,
) -> str:
    """Lay out rows under a header, in columns as wide as their widest cell.

    Args:
        rows: the cells; whatever would move the cursor or break the line is neutralised.
        header: names of the columns.
        align: one of `<` and `>` for each column; those not said are `<`.
        flexible: name of the column that is shortened when the table is wider than the terminal.
        columns: width to fit into; by default the terminal's, or 100 where there is none.

    Raises:
        ValueError: a row has more or fewer cells than the header, or `flexible` is no column.
    """
    cells = [[clean(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    if flexible is not None:
        room = columns or shutil.get_terminal_size((100, 24)).columns
        at = header.index(flexible)
        others = sum(widths) - widths[at] + len(GAP) * (len(widths) - 1)
        widths[at] = min(widths[at], max(room - others, len(ELLIPSIS)))
    cells.insert(1, ["-" * size for size in widths])
    return "\n".join(_line(row, widths, align.ljust(len(widths), "<")) for row in cells)


def clean(text: str) -> str:
    """Make untrusted text safe to print on one line: no breaks, and a replacement character for each control."""
    return "".join(map(_harmless, " ".join(text.split())))


def wrap(text: str, columns: int) -> list[str]:
    """Break untrusted text into lines that fit, where it has blanks if it has any; indentation and line breaks stay.

    Args:
        text: any text; whatever would move the cursor is neutralised as in `clean`.
        columns: of the terminal; at least 2.
    """
    return [line for given in text.expandtabs(4).splitlines() or [""] for line in _wrap_line(given, columns)]


def _wrap_line(given: str, columns: int) -> Iterator[str]:
    indent = " " * min(len(given) - len(given.lstrip(" ")), columns // 2)
    rest = clean(given)
    while _width(indent + rest) > columns:
        fitting = _cut(rest, columns - len(indent))
        at = rest.rfind(" ", 1, len(fitting) + 1)
        yield (indent + (rest[:at] if at > 0 else fitting)).rstrip()
        rest = rest[at if at > 0 else len(fitting) :].lstrip(" ")
    yield (indent + rest).rstrip()


def _harmless(character: str) -> str:
    unsafe = unicodedata.category(character) in UNSAFE and character not in JOINERS
    return "\N{REPLACEMENT CHARACTER}" if unsafe else character


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide East Asian characters two, combining marks none."""
    return sum(map(_advance, text))


def _advance(character: str) -> int:
    if unicodedata.category(character) in UNSEEN:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _line(row: Sequence[str], widths: Sequence[int], align: str) -> str:
    return GAP.join(map(_fit, row, widths, align)).rstrip()


def _fit(text: str, size: int, side: str) -> str:
    """Shorten or pad a text to a number of columns."""
    if _width(text) > size:
        text = _cut(text, size - len(ELLIPSIS)) + ELLIPSIS
    padding = " " * (size - _width(text))
    return padding + text if side == ">" else text + padding


def _cut(text: str, size: int) -> str:
    """Return as much of a text as `size` columns hold, marks with their letters."""
    taken = 0
    for i, character in enumerate(text):
        taken += _advance(character)
        if taken > size:
            return text[:i]
    return text
