"""Measure a pruner on labelled lists: `python -m eval COMMAND --help`. Only `grade` asks a model and costs money."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from pruner.errors import PrunerError

__all__ = ["COMMANDS", "main"]

EXIT_OK, EXIT_USAGE, EXIT_INTERRUPTED = 0, 2, 130

COMMANDS = {
    "convert": ("eval.converters", "bring a public data set into the form of the labelled lists"),
    "label": ("eval.label", "label lists in the terminal"),
    "grade": ("eval.grade", "have an LLM grade labelled lists: the only step that costs money"),
    "curve": ("eval.curve", "recall preserved against compression, for every strategy"),
    "ab": ("eval.ab", "compare two configurations on the same questions"),
    "ways": ("eval.ways", "compare models, prompts, readouts, formats, orders and scorings"),
    "tune": ("eval.tune", "find the most compressing configuration whose recall is shown"),
    "report": ("eval.report", "write one HTML page of it all"),
    "replay": ("eval.replay", "what production logs say of compression, cost and latency"),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its module is the only one that is loaded.

    Returns:
        What the command returns; 2 when arguments or input are wrong, 130 when it was interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = _parser().parse_args(given[:1]).command
    module_name, description = COMMANDS[name]
    module = importlib.import_module(module_name)
    parser = _Parser(prog=f"python -m eval {name}", description=module.__doc__ or description)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    module.add_arguments(parser)
    try:
        code: int = module.run(parser.parse_args(given[1:]))
        sys.stdout.flush()
    except (PrunerError, OSError) as error:
        return _failed(name, error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:8} {description}" for name, (_, description) in COMMANDS.items())
    parser = _Parser(
        prog="python -m eval",
        description=f"{__doc__}\n\ncommands:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those above")
    return parser


def _failed(name: str, error: Exception) -> int:
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has gone; nothing is to be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    message = (
        f"{Path(error.filename)}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    )
    sys.stderr.write(f"{name}: {' '.join(message.split())}\n")
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
