"""The command line: `pruner prune | explain | serve | mcp | demo | model | prompt | config`."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from pruner import commands
from pruner.config import PrunerConfig
from pruner.console import clean, note, say
from pruner.errors import PrunerError

__all__ = ["main"]

EXIT_USAGE, EXIT_INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Returns:
        0 when done; 2 when the command, a dial or the input is wrong, or nothing can be written; 3 when a list was
        pruned by fallback.
    """
    if sys.stdout is None:  # Told before a call is paid for.
        return _fail("cannot write to standard output: it is closed")
    try:
        options = _parser().parse_args(arguments)
        code: int = options.run(options)
    except PrunerError as error:
        return _fail(str(error))
    except BrokenPipeError:  # Whoever read our output has gone.
        return commands.EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _fail(message: str) -> int:
    note(f"pruner: {clean(message)}")
    return EXIT_USAGE


class _Parser(argparse.ArgumentParser):
    def _print_message(self, message: str, file: Any = None) -> None:
        """Tell when the help or the version cannot be written, as of any other output."""
        if file is sys.stdout:
            say(message.removesuffix("\n"))
        else:
            note(message.removesuffix("\n"))

    def error(self, message: str) -> NoReturn:
        """Exit with one line that says what to do, not with the whole usage."""
        self.exit(EXIT_USAGE, f"{self.prog}: {clean(message)}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pruner", description="Drop the retrieved chunks an answer does not need.")
    parser.add_argument("--version", action="version", version=f"pruner {version('listwise-pruner')}")
    parsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    _add_prune(parsers)
    _add_explain(parsers)
    _add_serve(parsers)
    _add_mcp(parsers)
    _add_demo(parsers)
    _add_model(parsers)
    _add_prompt(parsers)
    config = parsers.add_parser("config", help="show the dials in force and where each comes from")
    _add_dials(config)
    config.set_defaults(run=commands.show_config)
    return parser


def _add_prune(parsers: Any) -> None:
    parser = parsers.add_parser(
        "prune",
        help="prune one list",
        description="Prune one list of chunks, given in reranker order. Exit code 3: pruned by fallback.",
    )
    parser.add_argument("--query", required=True, help="the question")
    parser.add_argument(
        "--chunks", required=True, metavar="FILE|-", help='JSON lines: strings, or objects with a "text"; - is stdin'
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument(
        "--principal", action="append", default=[], metavar="NAME", help="whom to read for, where chunks have an acl"
    )
    parser.add_argument(
        "--require", action="append", default=[], metavar="ID", help="a sub-query that must be covered, by its id"
    )
    _add_dials(parser)
    parser.set_defaults(run=commands.prune)


def _add_explain(parsers: Any) -> None:
    parser = parsers.add_parser("explain", help="show a trace as a table", description=commands.explain.__doc__)
    parser.add_argument(
        "trace",
        metavar="TRACE.json|-",
        help="a trace, what `pruner prune --json` prints, or a line of the decision log of `pruner serve`",
    )
    parser.set_defaults(run=commands.explain)


def _add_serve(parsers: Any) -> None:
    parser = parsers.add_parser(
        "serve",
        help="serve over HTTP",
        description="Serve over HTTP until SIGTERM. All settings: docs/service.md. Needs the extra `service`.",
    )
    _add_listening(parser)
    parser.add_argument(
        "--hash-key", action="store_true", help="print the hash of a key read from standard input, or of a new one"
    )
    _add_dials(parser)
    parser.set_defaults(run=commands.serve)


def _add_mcp(parsers: Any) -> None:
    parser = parsers.add_parser(
        "mcp",
        help="serve the tool prune_context to agents",
        description="Serve the tool prune_context over MCP, on standard input and output. Needs the extra `mcp`.",
    )
    parser.add_argument("--http", action="store_true", help="over HTTP instead: what `serve` serves, and /mcp")
    _add_listening(parser)
    _add_dials(parser)
    parser.set_defaults(run=commands.mcp)


def _add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on; 0 takes a free one (default: 8000)")
    parser.add_argument("--workers", help="processes (default: 1)")
    parser.add_argument(
        "--allow-unauthenticated", action="store_true", default=None, help="listen on any host without keys"
    )


def _add_demo(parsers: Any) -> None:
    about = "ask the standard library's documentation"
    parser = parsers.add_parser("demo", help=about, description=commands.demo.__doc__)
    parser.add_argument("--query", help="another question than the built-in one")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="how many chunks to retrieve (default: 15)")
    _add_dials(parser)
    parser.set_defaults(run=commands.demo)


def _add_model(parsers: Any) -> None:
    parser = parsers.add_parser("model", help="fetch, list or find the embedded model")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    for name, run, text in [
        ("pull", commands.model_pull, "fetch it, checked by its hash"),
        ("path", commands.model_path, "print where it lies"),
    ]:
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "name", nargs="?", default=commands.DEMO_MODEL.partition(":")[2], help="which model (default: %(default)s)"
        )
        action.set_defaults(run=run)
    actions.add_parser("list", help="list the known models").set_defaults(run=commands.model_list)


def _add_prompt(parsers: Any) -> None:
    parser = parsers.add_parser("prompt", help="read the shipped prompts")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    show = actions.add_parser("show", help="print a prompt's source")
    show.add_argument("name", nargs="?", help="which prompt (default: list their names)")
    show.set_defaults(run=commands.prompt_show)


def _add_dials(parser: argparse.ArgumentParser) -> None:
    """Add a flag per dial. No flag for the key: a command line can be read by others."""
    group = parser.add_argument_group("dials", "they win over PRUNER_* variables and pruner.toml")
    for name, field in PrunerConfig.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        if field.annotation is bool:
            action = argparse.BooleanOptionalAction if field.default else "store_true"
            group.add_argument(flag, action=action, default=None, help=field.description)
        elif name != "api_key":
            group.add_argument(flag, metavar="…", help=field.description)


if __name__ == "__main__":
    sys.exit(main())
