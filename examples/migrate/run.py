"""The same ten documents through other rerankers and through `pruner`: `python -m examples.migrate.run`.

Makes an environment for each peer (versions in `PEERS`) and prints the table of docs/migrate.md. The provider is on
this machine; each client has a timeout of one second, and otherwise its defaults.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from examples.migrate.replies import ABOUT_IDS, EVENTS, QUERY, TEXTS, reply
from tests.faulty import elsewhere
from tests.provider import Provider, Reply, as_json, chat, serve

HERE = Path(__file__).parent
TIMEOUT, PATIENCE = 1.0, 30.0
PEERS: dict[str, tuple[list[str], list[str]]] = {
    "langchain": (["langchain-classic==1.0.8", "langchain-openai==1.7.4"], ["LLMListwiseRerank", "LLMChainFilter"]),
    "llamaindex": (["llama-index-core==0.14.25", "llama-index-llms-openai==0.8.3"], ["LLMRerank", "RankGPTRerank"]),
    "haystack": (["haystack-ai==3.4.1"], ["LLMRanker"]),
    "rerankers": (["rerankers[api,gpt,litellm]==0.10.0"], ["RankGPTRanker", "LLMRelevanceFilter"]),
}
OURS = ["LangChain", "LlamaIndex", "Haystack", "function"]
SERVERS = {"no answer (timeout 1 s)": "hang", "an answer in drops (timeout 1 s)": "drip"}
ENVIRONMENT = {
    **os.environ,
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHONPATH": str(HERE.parents[1]),
}


@dataclass(frozen=True)
class Outcome:
    """What became of the ten documents, in how many seconds (None: it did not end), with how many calls."""

    text: str
    seconds: float | None
    calls: int


@dataclass
class Worker:
    """A process that runs rerankers; begun anew after it had to be stopped."""

    command: list[str]
    lines: "Queue[str]" = field(default_factory=Queue)
    process: "subprocess.Popen[str] | None" = None

    def ask(self, method: str, url: str) -> dict[str, Any]:
        """Run a method against a provider, for no longer than `PATIENCE`; nothing comes back if that is not enough."""
        process = self.process = self.process or self._start()
        assert process.stdin
        case = {"method": method, "url": url, "timeout": TIMEOUT, "query": QUERY, "texts": TEXTS}
        process.stdin.write(json.dumps(case) + "\n")
        process.stdin.flush()
        try:
            return json.loads(self.lines.get(timeout=PATIENCE))  # type: ignore[no-any-return]
        except Empty:
            self.stop()
            return {}

    def stop(self) -> None:
        """End the process."""
        if self.process:
            self.process.kill()
            self.process.wait()
            assert self.process.stdin
            self.process.stdin.close()
        self.process = None

    def _start(self) -> "subprocess.Popen[str]":
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=null, text=True, env=ENVIRONMENT)
        self.lines = Queue()
        Thread(target=_read, args=(process, self.lines), daemon=True).start()
        assert self.lines.get() == "ready\n", f"{self.command} does not start"
        return process


def _read(process: "subprocess.Popen[str]", lines: "Queue[str]") -> None:
    assert process.stdout
    with process.stdout as output:
        for line in output:
            lines.put(line)
    lines.put("")


@contextmanager
def provider(event: str, method: str) -> Iterator[tuple[str, Provider | None]]:
    """Answer as an event has it."""
    if event in SERVERS:
        with elsewhere(SERVERS[event]) as url:
            yield url, None
        return

    def answer(body: dict[str, Any]) -> Reply:
        if event == "HTTP 500":
            return as_json({"error": {"message": "broken"}}, 500)
        return chat(reply(event, method, json.dumps(body["messages"], ensure_ascii=False)))

    with serve(answer) as served:
        yield served.url, served


def make_environment(name: str, packages: list[str], folder: Path) -> Path:
    """Return the Python of a peer's environment, made at its first use."""
    python, stamp = folder / name / "bin" / "python", folder / name / "installed"
    if not stamp.exists() or stamp.read_text().split() != packages:
        sys.stderr.write(f"installing {' '.join(packages)}\n")
        venv.create(folder / name, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        stamp.write_text("\n".join(packages))
    return python


def outcome(event: str, method: str, worker: Worker) -> Outcome:
    """Let a method have its event; those about ids mean nothing to one that is asked about each document alone."""
    if method == "LLMChainFilter" and event in ABOUT_IDS:
        return Outcome("-", None, 0)
    with provider(event, method) as (url, served):
        found = worker.ask(method, url)
    calls = len(served.requests) if served else 0
    if not found:
        return Outcome("still waiting", None, calls)
    text = f"raises {found['raised']}" if "raised" in found else _listed([place + 1 for place in found["kept"]])
    return Outcome(text, found["seconds"], calls)


def _listed(numbers: list[int]) -> str:
    """Write document numbers; the ten in the order given are `all`."""
    return "all" if numbers == list(range(1, 11)) else ", ".join(map(str, numbers)) or "nothing"


def measure(workers: dict[str, Worker]) -> list[list[str]]:
    """Run every method in every event: one row per event, after one with the calls of a good reply."""
    rows: list[list[str]] = []
    for event in [*EVENTS, "HTTP 500", *SERVERS]:
        outcomes = [outcome(event, method, worker) for method, worker in workers.items()]
        theirs, ours = outcomes[: -len(OURS)], outcomes[-len(OURS) :]
        if len({one.text for one in ours}) > 1:
            raise SystemExit(f"the integrations disagree in {event!r}: {ours}")
        slowest = max(ours, key=lambda one: one.seconds or PATIENCE)
        if not rows:
            rows.append(["calls", *(str(one.calls) for one in [*theirs, slowest])])
        rows.append([event, *(_cell(event, one) for one in [*theirs, slowest])])
    return rows


def _cell(event: str, one: Outcome) -> str:
    if event not in SERVERS:
        return one.text
    return f"{one.text} after {PATIENCE if one.seconds is None else one.seconds:.1f} s"


def main() -> None:
    """Make the environments, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers"), help="folder of the peers' packages")
    options = parser.parse_args()
    workers: dict[str, Worker] = {}
    for name, (packages, methods) in PEERS.items():
        python = make_environment(name, packages, options.environments)
        worker = Worker([str(python), str(HERE / f"theirs_{name}.py")])
        workers |= dict.fromkeys(methods, worker)
    workers |= dict.fromkeys(OURS, Worker([sys.executable, str(HERE / "ours.py")]))
    try:
        print_table(measure(workers), [*(m for _, methods in PEERS.values() for m in methods), "`pruner`"])
    finally:
        for worker in workers.values():
            worker.stop()


def print_table(rows: list[list[str]], names: list[str]) -> None:
    """Print Markdown."""
    for row in [["", *names], ["---"] * (len(names) + 1), *rows]:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
