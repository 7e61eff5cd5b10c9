"""What docs/migrate.md says is what its script does."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.migrate.replies import EVENTS
from examples.migrate.run import PEERS, SERVERS, Worker, outcome

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")
COMPARED, _, OTHERS = PAGE.partition("## Retriever objects and tool loops")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
TABLE = {row[0]: row[1:] for row in ROWS if len(row) > 2}


def test_every_line_of_code_is_one_that_the_script_runs() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "examples" / "migrate").glob("*.py"))
    run = {line.strip() for line in code.splitlines()}
    shown = [line for block in re.findall(r"```python\n(.*?)```", COMPARED, re.DOTALL) for line in block.splitlines()]
    assert len(shown) > 15
    assert not [line for line in shown if line.strip() not in run]


def test_the_retriever_and_the_tool_loop_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "replies").write_text('{"grades": [[1, 5], [2, 1], [3, 1], [4, 1]]}')
    monkeypatch.setenv("PRUNER_MODEL", f"scripted:{tmp_path / 'replies'}")
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "1")
    names: dict[str, Any] = {"search": lambda words: json.dumps([{"text": f"{words} {n}"} for n in "abcd"])}
    for block in re.findall(r"```python\n(.*?)```", OTHERS, re.DOTALL):
        exec(block, names)
    assert names["kept"] == ["Backups are kept for 14 days."]
    said = names["run_tool"]("search", {"words": "backups"}, "q")
    assert "backups d" not in said
    omission = re.search(r'ask for "(\w+)"', said)
    assert omission
    assert "backups d" in names["run_tool"]("recall", {"id": omission[1]}, "q")


def test_the_versions_are_those_that_the_script_installs() -> None:
    assert {row[0]: row[1] for row in ROWS if len(row) == 2 and row[0] in PEERS} == {
        name: ", ".join(f"`{package}`" for package in packages) for name, (packages, _) in PEERS.items()
    }


def test_the_table_has_every_event_and_every_peer() -> None:
    methods = [method for _, methods in PEERS.values() for method in methods]
    assert TABLE[""] == [*methods, "`pruner`"]
    assert list(TABLE)[2:] == ["calls", *EVENTS, "HTTP 500", *SERVERS]


def test_our_column_is_what_happens() -> None:
    worker = Worker([sys.executable, str(ROOT / "examples" / "migrate" / "ours.py")])
    try:
        found = {event: outcome(event, "LangChain", worker).text for event in [*EVENTS, "HTTP 500", *SERVERS]}
    finally:
        worker.stop()
    assert found == {event: re.sub(r" after [\d.]+ s$", "", TABLE[event][-1]) for event in found}


@pytest.mark.parametrize("event", SERVERS)
def test_we_are_not_late(event: str) -> None:
    seconds = re.search(r"after ([\d.]+) s$", TABLE[event][-1])
    assert seconds
    assert float(seconds[1]) < 1.5
