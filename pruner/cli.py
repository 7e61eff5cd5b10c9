"""The command line: `pruner prune | explain | serve | mcp | demo | model | prompt | config`."""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import SecretStr, ValidationError

from pruner.config import PrunerConfig, gather
from pruner.console import clean, table
from pruner.errors import ConfigError, PrunerError, RequestError
from pruner.pipeline import Pruner
from pruner.preparation import to_chunks
from pruner.prompting import load_prompt, prompt_names
from pruner.schema import PruneResult, Status, Trace
from pruner.views import decision_table, explanation, summary

if TYPE_CHECKING:
    from pruner.service.settings import ServiceSettings

__all__ = ["main"]

EXIT_OK, EXIT_USAGE, EXIT_FALLBACK, EXIT_INTERRUPTED = 0, 2, 3, 130

DEMO_MODEL = "local:qwen2.5-coder-1.5b"

Rows = list[str | dict[str, Any]]
T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Returns:
        0 when done; 2 when the command, a dial or the input is wrong; 3 when a list was pruned by fallback.
    """
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except PrunerError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # Whoever read our output has gone; nothing is to be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _fail(message: str) -> int:
    sys.stderr.write(f"pruner: {message}\n")
    return EXIT_USAGE


def _say(text: str) -> None:
    """Print what a terminal of any encoding can show."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with one line that says what to do, not with the whole usage."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pruner", description="Drop the retrieved chunks an answer does not need.")
    parser.add_argument("--version", action="version", version=f"pruner {version('listwise-pruner')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    _add_prune(commands)
    _add_explain(commands)
    _add_serve(commands)
    _add_mcp(commands)
    _add_demo(commands)
    _add_model(commands)
    _add_prompt(commands)
    config = commands.add_parser("config", help="show the dials in force and where each comes from")
    _add_dials(config)
    config.set_defaults(run=_config)
    return parser


def _add_prune(commands: Any) -> None:
    parser = commands.add_parser(
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
    parser.set_defaults(run=_prune)


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser("explain", help="show a trace as a table", description=_explain.__doc__)
    parser.add_argument("trace", metavar="TRACE.json|-", help="a trace, or what `pruner prune --json` prints")
    parser.set_defaults(run=_explain)


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve over HTTP",
        description="Serve over HTTP until SIGTERM. All settings: docs/service.md. Needs the extra `service`.",
    )
    _add_listening(parser)
    parser.add_argument(
        "--hash-key", action="store_true", help="print the hash of a key read from standard input, or of a new one"
    )
    _add_dials(parser)
    parser.set_defaults(run=_serve)


def _add_mcp(commands: Any) -> None:
    parser = commands.add_parser(
        "mcp",
        help="serve the tool prune_context to agents",
        description="Serve the tool prune_context over MCP, on standard input and output. Needs the extra `mcp`.",
    )
    parser.add_argument("--http", action="store_true", help="over HTTP instead: what `serve` serves, and /mcp")
    _add_listening(parser)
    _add_dials(parser)
    parser.set_defaults(run=_mcp)


def _add_listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", help="port to listen on; 0 takes a free one (default: 8000)")
    parser.add_argument("--workers", help="processes (default: 1)")
    parser.add_argument(
        "--allow-unauthenticated", action="store_true", default=None, help="listen on any host without keys"
    )


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser("demo", help="ask the standard library's documentation", description=_demo.__doc__)
    parser.add_argument("--query", help="another question than the built-in one")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="how many chunks to retrieve (default: 15)")
    _add_dials(parser)
    parser.set_defaults(run=_demo)


def _add_model(commands: Any) -> None:
    parser = commands.add_parser("model", help="fetch, list or find the embedded model")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    for name, run, text in [
        ("pull", _model_pull, "fetch it, checked by its hash"),
        ("path", _model_path, "print where it lies"),
    ]:
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "name", nargs="?", default=DEMO_MODEL.partition(":")[2], help="which model (default: %(default)s)"
        )
        action.set_defaults(run=run)
    actions.add_parser("list", help="list the known models").set_defaults(run=_model_list)


def _add_prompt(commands: Any) -> None:
    parser = commands.add_parser("prompt", help="read the shipped prompts")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    show = actions.add_parser("show", help="print a prompt's source")
    show.add_argument("name", nargs="?", help="which prompt (default: list their names)")
    show.set_defaults(run=_prompt_show)


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


def _dials(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name in PrunerConfig.model_fields if (value := getattr(options, name, None)) is not None}


def _prune(options: argparse.Namespace) -> int:
    config = PrunerConfig.load(**_dials(options))
    chunks = _read_chunks(options.chunks)
    asked = {"principals": options.principal, "required_query_ids": options.require}
    result = asyncio.run(_run(config, options.query, chunks, **asked))
    if options.json:
        _say(json.dumps(_as_json(result)))
    else:
        _say(decision_table(result, chunks))
        _say(summary(result, config.model))
    return EXIT_FALLBACK if result.status is Status.FALLBACK else EXIT_OK


async def _run(config: PrunerConfig, query: str, chunks: list[T], **asked: Any) -> PruneResult[T]:
    async with _make_pruner(config) as pruner:
        return await pruner.prune(query, chunks, **asked)


def _explain(options: argparse.Namespace) -> int:
    """Show which chunks were kept and dropped, by what, at what scores and costs."""
    shown = "standard input" if options.trace == "-" else options.trace
    try:
        given = json.loads(_read(options.trace))
        trace = Trace.model_validate(given["trace"] if isinstance(given, dict) and "trace" in given else given)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise RequestError(f"{shown} is no trace: {where or 'it'}: {error.errors()[0]['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{shown} is not JSON: {error}") from None
    _say(explanation(trace))
    return EXIT_OK


def _make_pruner(config: PrunerConfig) -> Pruner:
    if config.prefix != "local" or not sys.stderr.isatty():
        return Pruner(config)
    from pruner.backends.local import LocalBackend

    return Pruner(config, backend=LocalBackend.from_config(config, progress=_progress_bar()))


def _read(name: str) -> str:
    """Read a file, or standard input for `-`."""
    shown = "standard input" if name == "-" else name
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise RequestError(f"cannot read {shown}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown} is not UTF-8: {error.reason} at byte {error.start}") from None


def _read_chunks(name: str) -> Rows:
    shown = "standard input" if name == "-" else name
    lines = _read(name).split("\n")
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


def _as_json(result: PruneResult[Any]) -> dict[str, Any]:
    return {
        "status": result.status,
        "reason": result.reason,
        "chunks": result.chunks,
        "texts": result.texts,
        "decisions": [asdict(d) for d in result.decisions],
        "conflicts": [asdict(c) for c in result.conflicts],
        "uncovered_query_ids": result.uncovered_query_ids,
        "usage": asdict(result.usage),
        "latency": round(result.latency, 4),
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "trace": result.trace.model_dump(mode="json"),
    }


def _serve(options: argparse.Namespace) -> int:
    from pruner.service.auth import hash_key, new_key

    if options.hash_key:
        given = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
        key = given or new_key()
        if not given:
            _note(f"the key, shown only now: {key}")
        _say(hash_key(key))
        return EXIT_OK
    try:
        from pruner.service.serve import run
    except ImportError as error:
        raise ConfigError(f"no {error.name}: serving needs pip install 'listwise-pruner[service]'") from None
    run(*_service(options))
    return EXIT_OK


def _mcp(options: argparse.Namespace) -> int:
    try:
        from pruner.mcp_server import run_http, run_stdio
    except ImportError as error:
        raise ConfigError(f"no {error.name}: MCP needs pip install 'listwise-pruner[mcp]'") from None
    (run_http if options.http else run_stdio)(*_service(options))
    return EXIT_OK


def _service(options: argparse.Namespace) -> "tuple[ServiceSettings, PrunerConfig]":
    from pruner.service.settings import ServiceSettings

    given = {n: v for n in ServiceSettings.model_fields if (v := getattr(options, n, None)) is not None}
    return ServiceSettings.load(**given), PrunerConfig.load(**_dials(options))


def _demo(options: argparse.Namespace) -> int:
    """Retrieve documentation of this Python's standard library by BM25 and prune it with the embedded model."""
    from pruner.backends.modelstore import find_model, pull
    from pruner.demo.corpus import DEFAULT_QUESTION, Corpus
    from pruner.tokens import TokenCounter

    started = time.monotonic()
    if options.top < 1:
        raise RequestError("--top must be at least 1")
    config = PrunerConfig.load(**{"model": DEMO_MODEL, **_dials(options)})
    if config.model == DEMO_MODEL:
        pull(find_model(config.model_name), echo=_note)
    query = DEFAULT_QUESTION if options.query is None else options.query
    corpus = Corpus.build(TokenCounter())
    chunks = corpus.search(query, options.top)
    if not chunks:
        raise RequestError("nothing in the documentation matches; ask with other words")
    _say(f"question  {clean(query)}")
    _say(f"corpus    {len(corpus.chunks)} chunks of this Python's own documentation; the top {len(chunks)} by BM25\n")
    result = asyncio.run(_run(config, query, chunks))
    _say(decision_table(result, chunks) + "\n")
    _say(summary(result, config.model))
    _say(f"all told {time.monotonic() - started:.0f} s")
    return EXIT_FALLBACK if result.status is Status.FALLBACK else EXIT_OK


def _model_pull(options: argparse.Namespace) -> int:
    from pruner.backends.modelstore import find_model, pull

    _say(str(pull(find_model(options.name), echo=_note, check=True)))
    return EXIT_OK


def _model_path(options: argparse.Namespace) -> int:
    from pruner.backends.modelstore import model_path

    _say(str(model_path(options.name)))
    return EXIT_OK


def _model_list(options: argparse.Namespace) -> int:
    from pruner.backends.modelstore import installed

    rows = [(m.name, f"{m.size / 1e9:.1f} GB", m.licence, m.path if m.present else "not here") for m in installed()]
    _say(table(rows, ("model", "size", "licence", "path"), "<>"))
    return EXIT_OK


def _prompt_show(options: argparse.Namespace) -> int:
    _say(load_prompt(options.name).source.rstrip() if options.name else "\n".join(prompt_names()))
    return EXIT_OK


def _config(options: argparse.Namespace) -> int:
    values, sources = gather(**_dials(options))
    config = PrunerConfig(**values)
    rows = [(name, _shown(name, value), sources.get(name, "default")) for name, value in config]
    _say(table(rows, ("dial", "value", "from"), flexible="value"))
    return EXIT_OK


def _shown(name: str, value: object) -> str:
    if isinstance(value, SecretStr):
        return "********"
    if name == "base_url" and isinstance(value, str) and "?" in value:
        return value.partition("?")[0] + "?********"
    return "-" if value is None or value == "" else str(value)


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")


def _progress_bar() -> Callable[[int, int], None]:
    from tqdm import tqdm

    bar = tqdm(desc="grading", unit="step", leave=False, file=sys.stderr)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show


if __name__ == "__main__":
    sys.exit(main())
