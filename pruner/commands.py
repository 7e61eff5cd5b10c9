"""What the commands do; `pruner.cli` reads the command line."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import SecretStr, ValidationError

from pruner.config import PrunerConfig, gather
from pruner.console import clean, not_written, note, say, table
from pruner.errors import ConfigError, Reason, RequestError
from pruner.pipeline import Pruner
from pruner.prompting import load_prompt, prompt_names
from pruner.reading import read_chunks, read_text
from pruner.rollout import Logged
from pruner.schema import PruneResult, Status, Trace
from pruner.views import decision_table, explanation, logged_table, summary

if TYPE_CHECKING:
    from pruner.service.settings import ServiceSettings

__all__ = [
    "DEMO_MODEL",
    "EXIT_FALLBACK",
    "EXIT_OK",
    "demo",
    "explain",
    "mcp",
    "model_list",
    "model_path",
    "model_pull",
    "prompt_show",
    "prune",
    "serve",
    "show_config",
]

EXIT_OK, EXIT_FALLBACK = 0, 3
DEMO_MODEL = "local:qwen2.5-coder-1.5b"

T = TypeVar("T")


def _dials(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name in PrunerConfig.model_fields if (value := getattr(options, name, None)) is not None}


def prune(options: argparse.Namespace) -> int:
    """Prune one list."""
    config = PrunerConfig.load(**_dials(options))
    chunks = read_chunks(options.chunks)
    asked = {"principals": options.principal, "required_query_ids": options.require}
    result = asyncio.run(_run(config, options.query, chunks, **asked))
    if options.json:
        say(json.dumps(_as_json(result)))
    else:
        say(decision_table(result, chunks))
        say(summary(result, config.model))
    return EXIT_FALLBACK if result.status is Status.FALLBACK else EXIT_OK


async def _run(config: PrunerConfig, query: str, chunks: list[T], **asked: Any) -> PruneResult[T]:
    async with _make_pruner(config) as pruner:
        return await pruner.prune(query, chunks, **asked)


def explain(options: argparse.Namespace) -> int:
    """Show which chunks were kept and dropped, by what, at what scores and costs."""
    shown = "standard input" if options.trace == "-" else options.trace
    text = read_text(options.trace)
    if not text.strip():
        raise RequestError(f"{shown} is empty; give a trace, or a line of the decision log")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        several = "\n" in text.strip() and str(error).startswith("Extra data")
        hint = "; of a log give one line, as in: grep ID FILE | pruner explain -" if several else ""
        raise RequestError(f"{shown} is not JSON: {error}{hint}") from None
    try:
        say(_explained(given))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise RequestError(f"{shown} is no trace: {where or 'it'}: {error.errors()[0]['msg']}") from None
    return EXIT_OK


def _explained(given: Any) -> str:
    if isinstance(given, dict) and not given.keys().isdisjoint(("arm", "kept", "baseline")):
        return logged_table(Logged.model_validate(given))
    return explanation(Trace.model_validate(given["trace"] if isinstance(given, dict) and "trace" in given else given))


def _make_pruner(config: PrunerConfig) -> Pruner:
    if config.prefix != "local" or not sys.stderr.isatty():
        return Pruner(config)
    from pruner.backends.local import LocalBackend

    return Pruner(config, backend=LocalBackend.from_config(config, progress=_progress_bar()))


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


def serve(options: argparse.Namespace) -> int:
    """Serve over HTTP, or print the hash of a key."""
    from pruner.service.auth import hash_key, new_key

    if options.hash_key:
        given = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
        key = given or new_key()
        if not given:
            note(f"the key, shown only now: {key}")
        say(hash_key(key))
        return EXIT_OK
    try:
        from pruner.service.serve import run
    except ImportError as error:
        raise ConfigError(f"no {error.name}: serving needs pip install 'listwise-pruner[service]'") from None
    run(*_service(options))
    return EXIT_OK


def mcp(options: argparse.Namespace) -> int:
    """Serve the tool to agents."""
    try:
        from pruner.mcp_server import run_http, run_stdio
    except ImportError as error:
        raise ConfigError(f"no {error.name}: MCP needs pip install 'listwise-pruner[mcp]'") from None
    try:
        (run_http if options.http else run_stdio)(*_service(options))
    except ExceptionGroup as faults:  # So the tasks that write the answers end.
        first = _first_of(faults)
        raise not_written(first) if isinstance(first, OSError) else faults from None
    return EXIT_OK


def _first_of(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


def _service(options: argparse.Namespace) -> "tuple[ServiceSettings, PrunerConfig]":
    from pruner.service.settings import ServiceSettings

    given = {n: v for n in ServiceSettings.model_fields if (v := getattr(options, n, None)) is not None}
    return ServiceSettings.load(**given), PrunerConfig.load(**_dials(options))


def demo(options: argparse.Namespace) -> int:
    """Retrieve documentation of this Python's standard library by BM25 and prune it with the embedded model."""
    from pruner.backends.modelstore import find_model, pull
    from pruner.demo import check_installed
    from pruner.demo.corpus import DEFAULT_QUESTION, Corpus
    from pruner.tokens import TokenCounter

    started = time.monotonic()
    if options.top < 1:
        raise RequestError("--top must be at least 1")
    config = PrunerConfig.load(**{"model": DEMO_MODEL, **_dials(options)})
    check_installed(config.prefix)
    if config.model == DEMO_MODEL:
        pull(find_model(config.model_name), echo=note)
    query = DEFAULT_QUESTION if options.query is None else options.query
    corpus = Corpus.build(TokenCounter())
    chunks = corpus.search(query, options.top)
    if not chunks:
        raise RequestError("nothing in the documentation matches; ask with other words")
    say(f"question  {clean(query)}")
    say(f"corpus    {len(corpus.chunks)} chunks of this Python's own documentation; the top {len(chunks)} by BM25\n")
    result = asyncio.run(_run(config, query, chunks))
    say(decision_table(result, chunks) + "\n")
    say(summary(result, config.model))
    say(f"all told {time.monotonic() - started:.0f} s")
    if result.reason is Reason.TIMEOUT:
        longer = f"PRUNER_TIMEOUT={10 * config.timeout:g} gives it longer"
        note(f"this machine was too slow for {config.timeout:g} s: {longer}")
    return EXIT_FALLBACK if result.status is Status.FALLBACK else EXIT_OK


def model_pull(options: argparse.Namespace) -> int:
    """Fetch a model."""
    from pruner.backends.modelstore import find_model, pull

    say(str(pull(find_model(options.name), echo=note, check=True)))
    return EXIT_OK


def model_path(options: argparse.Namespace) -> int:
    """Print where a model lies."""
    from pruner.backends.modelstore import model_path

    say(str(model_path(options.name)))
    return EXIT_OK


def model_list(options: argparse.Namespace) -> int:
    """List the known models."""
    from pruner.backends.modelstore import installed

    rows = [(m.name, f"{m.size / 1e9:.1f} GB", m.licence, m.path if m.present else "not here") for m in installed()]
    say(table(rows, ("model", "size", "licence", "path"), "<>"))
    return EXIT_OK


def prompt_show(options: argparse.Namespace) -> int:
    """Print a prompt, or the names of all."""
    say(load_prompt(options.name).source.rstrip() if options.name else "\n".join(prompt_names()))
    return EXIT_OK


def show_config(options: argparse.Namespace) -> int:
    """Show the dials in force."""
    values, sources = gather(**_dials(options))
    config = PrunerConfig(**values)
    rows = [(name, _shown(value), sources.get(name, "default")) for name, value in config]
    say(table(rows, ("dial", "value", "from"), flexible="value"))
    return EXIT_OK


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return "********"
    return "-" if value is None or value == "" else str(value)


def _progress_bar() -> Callable[[int, int], None]:
    from tqdm import tqdm

    bar = tqdm(desc="grading", unit="step", leave=False, file=sys.stderr)

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
