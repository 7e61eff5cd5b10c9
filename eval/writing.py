"""Write JSON lines so that a kill at any moment leaves the old file or the new one, never half of one."""

import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from eval.errors import EvalError

__all__ = ["write_objects"]


def write_objects(path: Path, entries: Iterable[Mapping[str, Any]]) -> int:
    """Write one JSON object a line, gzip when the name ends in `.gz`; the file appears when it is complete.

    Args:
        path: the file; one that is there is replaced at the end, and stays when `entries` raises.
        entries: consumed one by one, so that a long stream needs no memory.

    Returns:
        How many there were.

    Raises:
        EvalError: there is no such folder, or none that may be written to.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise EvalError(f"{path}: cannot be written into its folder: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            count = _write(file, entries, packed=path.suffix == ".gz")
            file.flush()
            os.fsync(file.fileno())
        _take_mode(Path(name), path)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    return count


def _write(file: IO[bytes], entries: Iterable[Mapping[str, Any]], *, packed: bool) -> int:
    count = 0
    # Neither name nor time in the gzip header, so that the same rows are the same bytes.
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) if packed else contextlib.nullcontext(file) as out:
        for entry in entries:
            line = json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n"
            # What UTF-8 cannot hold, half a surrogate pair, becomes the escape that JSON has for it.
            out.write(line.encode("utf-8", "backslashreplace"))
            count += 1
    return count


def _take_mode(new: Path, old: Path) -> None:
    """Give the file the permissions of the one that it replaces, or those that any new file gets."""
    if old.exists():
        mode = old.stat().st_mode & 0o7777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    new.chmod(mode)
