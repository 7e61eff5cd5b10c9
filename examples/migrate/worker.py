"""Runs the rerankers of one package in its own environment: a case a line on stdin, an outcome a line on stdout.

Only the standard library: the environments of the peers hold nothing of this project.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """What a reranker is to do: where its provider is, seconds it may take, the question and the documents."""

    url: str
    timeout: float
    query: str
    texts: list[str]


Method = Callable[[Case], list[int]]


def serve(methods: dict[str, Method]) -> None:
    """Answer cases until stdin ends; a method returns places in the list, counted from 0. The first line is `ready`."""
    _say("ready")
    for line in sys.stdin:
        asked = json.loads(line)
        _say(json.dumps(attempt(methods[asked.pop("method")], Case(**asked))))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def attempt(method: Method, case: Case) -> dict[str, object]:
    """Run a method: what it kept or raised, and how long it took."""
    started = time.perf_counter()
    outcome: dict[str, object]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            outcome = {"kept": method(case)}
    except Exception as error:  # noqa: BLE001 - what they raise is what is measured
        outcome = {"raised": type(error).__name__}
    return {**outcome, "seconds": time.perf_counter() - started}
