import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pruner import PrunerConfig, Reason, Status
from tests.provider import Reply, as_json, serve

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```console\n\$ pruner ([^\n]*--help)\n(.*?)```", README, re.DOTALL)


def test_the_readme_shows_help_texts() -> None:
    assert len(COMMANDS) >= 2


@pytest.mark.parametrize(("arguments", "shown"), [pytest.param(*command, id=command[0]) for command in COMMANDS])
def test_a_help_text_in_the_readme_is_that_of_the_program(arguments: str, shown: str) -> None:
    command = [sys.executable, "-m", "pruner.cli", *arguments.split()]
    environment = {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert shown.split() == printed.replace("cli.py", "pruner").split()


def test_every_python_block_of_the_readme_compiles() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, "README.md", "exec", flags=0x2000)  # await at the top level


def test_every_dial_is_in_the_readme() -> None:
    assert not [name for name in PrunerConfig.model_fields if f"`{name}`" not in README]


def test_every_file_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_reason_has_a_line_in_the_table_of_what_happens_with_its_status() -> None:
    table = README.partition("## What happens when …")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| [^|]+ \| `(\w+)` \| (?:`(\w+)`)? ?\|", table, re.MULTILINE)
    statuses = {reason: status for status, reason in lines if reason}
    assert statuses.keys() == set(Reason)
    assert {status for status, _ in lines} == set(Status)
    assert {reason for reason, status in statuses.items() if status == "skipped"} == {
        "too_few_chunks",
        "not_worth_it",
        "baseline",
    }
    assert [reason for reason, status in statuses.items() if status == "partial"] == ["missing_grades"]


def test_the_run_that_the_readme_shows_prints_what_it_shows(tmp_path: Path) -> None:
    block, shown = re.findall(r"```console\n(\$ echo .*?)```\n\n```\n(.*?)```", README, re.DOTALL)[0]
    program = f'{sys.executable} -m pruner.cli "$@"'
    script = f"set -e; pruner() {{ {program}; }}; " + re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert _without_counts(done.stdout) == _without_counts(shown)


def _without_counts(table: str) -> list[str]:
    """Tokens are counted by a table where this machine has one, else estimated; seconds differ anyway."""
    return re.sub(r"\d+", "#", table).split()


ANSWERS = [
    (as_json({"response": '{"grades": [[1, 1], [2, 1], [3, 5], [4, 1]]}'}), "ok", None, ["a", "b", "c"]),
    (as_json({"response": "I would rather not."}), "fallback", "unparseable", ["a", "b", "c", "d"]),
    (as_json({"error": "no such model"}), "fallback", "provider_error", ["a", "b", "c", "d"]),
    (as_json([]), "fallback", "provider_error", ["a", "b", "c", "d"]),
    (as_json({"response": None}), "fallback", "unparseable", ["a", "b", "c", "d"]),
    (Reply(200, b"<html>"), "fallback", "provider_error", ["a", "b", "c", "d"]),
    (Reply(500), "fallback", "provider_error", ["a", "b", "c", "d"]),
    (None, "fallback", "provider_error", ["a", "b", "c", "d"]),
]


@pytest.mark.parametrize(("answer", "status", "reason", "kept"), ANSWERS)
def test_the_backend_that_the_readme_writes_grades_and_fails_as_it_says(
    answer: Reply | None, status: str, reason: str | None, kept: list[str]
) -> None:
    (block,) = re.findall(r"```python\n(import httpx2\n.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    with serve(answer or Reply()) as provider:
        url = provider.url.removesuffix("/v1") if answer else "http://127.0.0.1:9"
        exec(block.replace("http://localhost:11434", url).replace("PrunerConfig()", "PrunerConfig(timeout=2)"), names)
        result = names["pruner"].prune_sync("q", ["a", "b", "c", "d"])
    assert (result.status, result.reason, result.chunks) == (status, reason, kept)
