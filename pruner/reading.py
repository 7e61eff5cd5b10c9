"""What the commands read: files, or standard input."""

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

from pruner.errors import RequestError
from pruner.preparation import to_chunks

__all__ = ["read_chunks", "read_text"]

Rows = list[str | dict[str, Any]]


def read_text(name: str) -> str:
    """Read a file, or standard input for `-`.

    Raises:
        RequestError: it cannot be read.
    """
    shown = "standard input" if name == "-" else name
    if name == "-" and sys.stdin is None:
        raise RequestError("cannot read standard input: it is closed")
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise RequestError(f"cannot read {shown}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown} is not UTF-8: {error.reason} at byte {error.start}") from None


def read_chunks(name: str) -> Rows:
    """Read JSON lines: strings, or objects with a text.

    Raises:
        RequestError: the file or a line of it is unusable; the message names it.
    """
    shown = "standard input" if name == "-" else name
    lines = read_text(name).split("\n")
    rows = [_read_line(f"{shown} line {n}", line) for n, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise RequestError(f"no chunks in {shown}")
    return rows


def _read_line(where: str, line: str) -> str | dict[str, Any]:
    try:
        row = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        fault = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise RequestError(f"{where} is not JSON: {fault}; give one string or object a line") from None
    match row:
        case str() | {"text": str()}:
            return _checked(where, row)
    raise RequestError(f'{where}: give a string, or an object with a "text" that is a string, one a line')


def _no_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON has not, and which nobody could read in our output."""
    raise ValueError(f"{name} is no number of JSON")


def _checked(where: str, row: str | dict[str, Any]) -> str | dict[str, Any]:
    try:
        to_chunks([row])
    except RequestError as error:
        raise RequestError(f"{where}: {str(error).removeprefix('chunk 0').lstrip(': ')}") from None
    return row
