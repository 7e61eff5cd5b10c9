"""What the offline commands have in common: labelled lists, their gradings, the sweep, and what to say of them."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path
from typing import Any, get_type_hints

from eval.cases import Case, load_cases
from eval.errors import EvalError
from eval.points import Draws
from eval.records import LISTWISE
from eval.strategies import STRATEGIES, Configuration, Dial, configurations, lacking, not_applied, short_of
from eval.sweep import Sweep, sweep
from pruner.config import PrunerConfig

__all__ = [
    "Source",
    "add_draw_arguments",
    "add_source_arguments",
    "draws_of",
    "load_source",
    "natural_number",
    "read_configuration",
    "share_between",
    "sweep_of",
    "whole_number",
]

_UNNAMED = "as given, by an unnamed ranker"


@dataclass(frozen=True)
class Source:
    """Cases, and the sentences that every report begins with.

    Attributes:
        cases: the questions.
        order: whose order their lists are in, where `meta.order` does not say so.
        left_out: number of questions that could not be used.
        lacking: strategy → how many of them lacked what it goes by.
        omitted: strategies that cannot be applied to so many of the questions, and are therefore left out.
        aside: what was not loaded, in a sentence each.
    """

    cases: tuple[Case, ...]
    order: str | None = None
    left_out: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    omitted: Mapping[str, int] = field(default_factory=dict)
    aside: Sequence[str] = ()

    def swept(self, swept: Sweep) -> "Source":
        """Return what a sweep has used of it."""
        return replace(self, cases=swept.cases, left_out=swept.left_out, lacking=swept.lacking, omitted=swept.omitted)

    @property
    def head(self) -> str:
        """How many questions of which sets, whose order the lists are in, and who graded."""
        return "\n\n".join(self.notes)

    @property
    def notes(self) -> list[str]:
        """The sentences of the head."""
        names = ", ".join(f"{name} ({count})" for name, count in self.lacking.items())
        told = [f"{self.left_out} more are left out: they lack what is gone by for {names}"] if self.left_out else []
        told += [not_applied(self.omitted)] if self.omitted else []
        return [self.questions, *told, *self.aside, self.order_note, self.graded_by]

    @property
    def questions(self) -> str:
        """How many questions of which sets."""
        sets = ", ".join(dict.fromkeys(case.dataset for case in self.cases))
        with_gold = sum(bool(case.needed) for case in self.cases)
        return f"{len(self.cases)} questions, {with_gold} with a needed chunk in the list ({sets})"

    @property
    def order_note(self) -> str:
        """Whose order the lists are in."""
        named = [self.order] if self.order else sorted({str(case.meta.get("order", "")) for case in self.cases})
        orders = [re.sub("^bm25", "BM25", name, flags=re.IGNORECASE) for name in named]
        told = ", ".join(name or _UNNAMED for name in sorted(orders, key=lambda name: not name))
        # Only where it is true of all lists.
        plain = all(name.startswith("BM25") for name in orders)
        return f"order of the lists: {told}" + (", not a neural reranker" if plain else "")

    @property
    def graded_by(self) -> str:
        """Which model, prompt and form of reply graded."""
        setups = dict.fromkeys(record.setup for case in self.cases for record in case.records.values())
        told = []
        for s in setups:
            form = " ".join(part for part in (s.readout, s.reply_format, s.dials) if part)
            shown = "" if s.chunk_order == "reranker" else f", chunks in the order {s.chunk_order}"
            told.append(f"{s.strategy} by {s.model} with {s.prompt} ({s.prompt_sha256[:8]}), {form}{shown}")
        return f"graded: {'; '.join(told) or 'nothing'}"


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the labelled lists and their gradings."""
    parser.add_argument("data", nargs="+", type=Path, help="labelled lists, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--records", action="append", type=Path, default=[], help="gradings of `grade`; may be repeated"
    )
    parser.add_argument(
        "--cut", type=whole_number, help="judge only the first so many chunks of each list, by their gradings"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME=VALUE",
        default=[],
        help="of several gradings those by one setup, by name as messages show it (dials=none)",
    )
    parser.add_argument("--order", help="whose order the lists are in, such as BM25 (default: what `meta.order` says)")


def add_draw_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the bootstrap goes by."""
    parser.add_argument(
        "--resamples", type=whole_number, default=Draws.resamples, help="of the bootstrap (%(default)s)"
    )
    parser.add_argument("--seed", type=natural_number, default=Draws.seed, help="of everything random (%(default)s)")


def whole_number(text: str) -> int:
    """Read a number from 1 on."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def natural_number(text: str) -> int:
    """Read a number from 0 on."""
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def share_between(least: float, most: float) -> Callable[[str], float]:
    """Return a reader of shares from `least` to `most`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a share from {least:g} to {most:g}")
        return value

    return read


def draws_of(options: argparse.Namespace) -> Draws:
    """Return what the bootstrap goes by."""
    return Draws(options.resamples, options.seed)


def load_source(options: argparse.Namespace) -> Source:
    """Read lists and gradings.

    Raises:
        EvalError: a file is unusable, or no question has a needed chunk in its list.
    """
    only = dict(_pair(text) for text in options.only)
    loaded = load_cases(options.data, options.records, cut=options.cut, only=only)
    if not any(case.needed for case in loaded.cases):
        raise EvalError("no question has a needed chunk in its list: there is nothing to measure recall by")
    return Source(tuple(loaded.cases), options.order, aside=loaded.notes)


def sweep_of(source: Source, strategies: Sequence[str] | None = None) -> Sweep:
    """Try all configurations of some strategies; by default of all that the data allow.

    Raises:
        EvalError: there is no such strategy, or none that the data allow.
    """
    if wrong := sorted(set(strategies or ()) - STRATEGIES.keys()):
        raise EvalError(f"no strategy {wrong[0]!r}; there are {', '.join(STRATEGIES)}")
    found = configurations(source.cases, strategies)
    omitted = short_of(source.cases, found)
    usable = [configuration for configuration in found if configuration.strategy not in omitted]
    if not usable:
        raise EvalError(not_applied(omitted) if omitted else lacking(strategies or ()))
    return replace(sweep(source.cases, usable), omitted=omitted)


def read_configuration(text: str) -> Configuration:
    """Read a configuration as it is written in tables: `listwise threshold=3 keep_top_k=2 scoring=grade`.

    Raises:
        EvalError: there is no such strategy, or its dials are not exactly these.
    """
    name, *pairs = text.split() or [""]
    if name not in STRATEGIES:
        raise EvalError(f"no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    given = dict(map(_pair, pairs))
    kinds = {
        key: kind for key, kind in get_type_hints(STRATEGIES[name].choose).items() if key not in ("case", "return")
    }
    if sorted(given) != sorted(kinds) or len(pairs) != len(given):
        raise EvalError(f"{text!r}: the dials of {name} are {', '.join(kinds) or 'none'}; give each once as NAME=VALUE")
    dials: dict[str, Any] = {dial: _value(dial, kind, given[dial]) for dial, kind in kinds.items()}
    if name == LISTWISE:
        PrunerConfig(**dials)
    return Configuration(name, tuple(dials.items()))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise EvalError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _value(dial: str, kind: type, text: str) -> Dial:
    if kind is str:
        return text
    try:
        value: float | int = kind(text)
    except ValueError:
        value = nan
    if not isfinite(value) or (kind is int and value < 0):
        raise EvalError(f"{dial} must be {'a whole number from 0 on' if kind is int else 'a number'}, not {text!r}")
    return value
