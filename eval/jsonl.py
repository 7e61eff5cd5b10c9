"""JSON lines, plain or gzip, read as a stream; whatever is wrong with a file is said in one line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from eval.errors import EvalError

__all__ = ["parse_object", "read_lines", "read_objects"]

_GZIP = b"\x1f\x8b"


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for each line that is not blank.

    Raises:
        EvalError: `file:line: what`, when the file cannot be read or a line is no JSON object; and `file: empty`.
    """
    found = False
    for number, line in read_lines(path):
        found = True
        yield number, parse_object(line, f"{path}:{number}")
    if not found:
        raise EvalError(f"{path}: empty; give a file with one JSON object a line")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line) for each line that is not blank.

    Raises:
        EvalError: the file cannot be read.
    """
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                if stripped := line.strip():
                    yield number, stripped
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EvalError(f"{path}: the gzip data break off or are damaged after line {number} ({error})") from None
    except OSError as error:
        raise EvalError(f"{path}: {error.strerror or error}") from None


def _open(path: Path) -> IO[bytes]:
    """Tell gzip by its first bytes, whatever the file is called."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def parse_object(line: bytes, where: str) -> dict[str, Any]:
    """Read a line.

    Args:
        line: JSON.
        where: of the line, for messages.

    Raises:
        EvalError: it is no JSON object.
    """
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EvalError(f"{where}: not UTF-8 ({error.reason} at byte {error.start}){_hint(line)}") from None
    except json.JSONDecodeError as error:
        raise EvalError(f"{where}: no JSON: {error.msg} at character {error.colno}{_hint(line)}") from None
    except (RecursionError, ValueError):
        raise EvalError(f"{where}: no JSON: nested too deep, or a number too long") from None
    if not isinstance(value, dict):
        raise EvalError(f"{where}: must be a JSON object, not {type(value).__name__}{_hint(line)}")
    return value


def _hint(line: bytes) -> str:
    """Say what to do about files that people often have instead."""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line[:2]:
        return "; this is UTF-16: save it as UTF-8"
    if line.startswith(b"["):
        return "; this is a JSON array: write one object a line, as `jq -c '.[]'` does"
    if line.endswith(b","):
        return "; a line is one whole object, without a comma after it"
    return ""
