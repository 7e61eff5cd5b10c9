"""Where the labeller's commands come from: single keys of a terminal, or lines of anything else."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

__all__ = ["Command", "key_commands", "line_commands"]

Command = tuple[str, str]  # key and argument

# Keys that ask for something more.
ASKING = {"j": "chunk number: ", "g": "list number: ", "t": "note: "}
# What terminals send for the arrow keys.
ARROWS = {"\x1b[C": "", "\x1b[B": "", "\x1b[D": "b", "\x1b[A": "b", "\x1bOC": "", "\x1bOD": "b"}
END = "\x04"


@contextlib.contextmanager
def line_commands(file: TextIO) -> Iterator[Iterator[Command]]:
    """Give a command for each line: its first character, and what follows it."""
    yield ((line.strip()[:1], line.strip()[1:].strip()) for line in file)


@contextlib.contextmanager
def key_commands(file: TextIO) -> Iterator[Iterator[Command]]:
    """Give a command for each key of a terminal, which is left as it was found."""
    import termios
    import tty

    handle = file.fileno()
    before = termios.tcgetattr(handle)
    # Not the default, which throws away what was typed ahead.
    tty.setcbreak(handle, termios.TCSADRAIN)
    try:
        yield _keys(handle, before)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _keys(handle: int, before: list[Any]) -> Iterator[Command]:
    pending = ""
    while (pending := pending or _read(handle)) and pending[0] != END:
        key, pending = _key(pending)
        argument = ""
        if key in ASKING:
            argument, pending = _asked(handle, before, ASKING[key], pending)
        yield key, argument


def _read(handle: int) -> str:
    """Read what was typed; a terminal sends a character or an arrow key in one piece, and fast typing in one too."""
    return os.read(handle, 4096).decode("utf-8", "replace")


def _key(typed: str) -> Command:
    """Return the first key and the rest; blank and line end are the same key."""
    for arrow, key in ARROWS.items():
        if typed.startswith(arrow):
            return key, typed[len(arrow) :]
    return "" if typed[0] in "\r\n " else typed[0], typed[1:]


def _asked(handle: int, before: list[Any], prompt: str, typed: str) -> Command:
    """Return the line that answers the prompt, and what was typed after it."""
    import termios
    import tty

    # For the line to be seen and edited, the terminal goes back to lines meanwhile.
    termios.tcsetattr(handle, termios.TCSADRAIN, before)
    sys.stdout.write(f"\r{prompt}{typed}")
    sys.stdout.flush()
    if "\n" not in typed:
        typed += _read(handle)
    tty.setcbreak(handle, termios.TCSADRAIN)
    line, _, rest = typed.partition("\n")
    return line.strip(), rest
