"""What docs/migrate.md says is what its script does."""

import re
import sys
from pathlib import Path

import pytest

from examples.migrate.replies import EVENTS
from examples.migrate.run import PEERS, SERVERS, Worker, outcome

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
TABLE = {row[0]: row[1:] for row in ROWS if len(row) > 2}


def test_every_line_of_code_is_one_that_the_script_runs() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "examples" / "migrate").glob("*.py"))
    run = {line.strip() for line in code.splitlines()}
    shown = [line for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    assert len(shown) > 15
    assert not [line for line in shown if line.strip() not in run]


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
