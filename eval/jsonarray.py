"""A JSON array of objects read as a stream: public sets are one array of some hundred megabytes on a single line."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from eval.errors import EvalError

__all__ = ["read_array"]

_BLOCK = 1 << 20
# No object of the known sets is near that size; a broken file shall not be read into memory as one.
_LARGEST = 64 << 20


def read_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number from 1, object) for each entry of a file, plain or gzip, that holds one JSON array.

    Raises:
        EvalError: the file cannot be read, holds no array or breaks off, or an entry is no object.
    """
    try:
        with _open(path) as file:
            yield from _entries(_Window(file), path)
    except UnicodeDecodeError as error:
        raise EvalError(f"{path}: not UTF-8 ({error.reason})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise EvalError(f"{path}: the gzip data break off or are damaged ({error})") from None
    except OSError as error:
        raise EvalError(f"{path}: {error.strerror or error}") from None


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8-sig") if packed else path.open(encoding="utf-8-sig")


@dataclass
class _Window:
    """The part of a file that is in memory.

    Attributes:
        file: where more comes from.
        text: what is there and not yet used.
    """

    file: IO[str]
    text: str = ""

    def more(self, size: int = _BLOCK) -> bool:
        """Read on; False at the end of the file."""
        block = self.file.read(size)
        self.text += block
        return bool(block)

    def next_sign(self, skipped: str = "") -> str:
        """Return the first character that is neither blank nor skipped, and forget those before; "" at the end."""
        self.text = self.text.lstrip(f" \t\r\n{skipped}")
        while not self.text and self.more():
            self.text = self.text.lstrip(f" \t\r\n{skipped}")
        return self.text[:1]

    def take_object(self) -> dict[str, Any]:
        """Return the object that begins here.

        Raises:
            ValueError: it does not end, or is no JSON.
        """
        while True:
            try:
                value, end = json.JSONDecoder().raw_decode(self.text)
            except json.JSONDecodeError as error:
                # Each time as much again as is there already, or a long object would be parsed over and over.
                if len(self.text) > _LARGEST or not self.more(max(_BLOCK, len(self.text))):
                    raise ValueError(error.msg) from None
            else:
                self.text = self.text[end:]
                return dict(value)


def _entries(window: _Window, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if window.next_sign() != "[":
        raise EvalError(f"{path}: must be one JSON array, as the data set is published")
    window.text = window.text[1:]
    number = 0
    while (sign := window.next_sign("," if number else "")) != "]":
        number += 1
        if sign != "{":
            what = "the array breaks off here" if not sign else "must be an object"
            raise EvalError(f"{path}: entry {number}: {what}")
        try:
            entry = window.take_object()
        except (ValueError, RecursionError) as error:
            raise EvalError(f"{path}: entry {number}: no JSON: {error}") from None
        yield number, entry
    if not number:
        raise EvalError(f"{path}: the array is empty")
