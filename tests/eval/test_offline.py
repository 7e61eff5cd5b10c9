"""Everything after `grade` is offline and repeatable: no backend is made or asked, no connection opened."""

import ast
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eval as package
from eval.__main__ import main
from tests.made_cases import write_lists

OFFLINE = ("curve", "ab", "tune", "report", "replay")
PAID = {
    "grade",
    "graders",
    "questions",
    "paid",
    "answers",
    "recordfile",
    "embedded",
    "exports",
    "selection",
    "__main__",
}
LISTS = {f"q{i}": ([5, 1, 4, 1, 2], [0, 2]) for i in range(12)} | {"none": ([1, 1, 1, 2, 1], [])}


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every way to a model; the names of those that were used."""
    used: list[str] = []

    def forbid(name: str) -> Callable[..., Any]:
        def use(*args: Any, **kwargs: Any) -> Any:
            used.append(name)
            raise AssertionError(f"{name} was used offline")

        return use

    for name in (
        "pruner.pipeline.make_backend",
        "pruner.pipeline.ask",
        "pruner.grading.ask_for",
        "pruner.backends.make_backend",
        "pruner.backends.openai.OpenAIBackend.grade",
        "pruner.backends.anthropic.AnthropicBackend.grade",
        "pruner.backends.local.LocalBackend.grade",
        "pruner.backends.scripted.ScriptedBackend.grade",
        "pruner.pipeline.Pruner.grade",
    ):
        monkeypatch.setattr(name, forbid(name))
    monkeypatch.setattr(socket.socket, "connect", forbid("connect"))
    monkeypatch.setattr(socket.socket, "connect_ex", forbid("connect_ex"))
    return used


def arguments(command: str, folder: Path) -> list[str]:
    given = write_lists(folder, LISTS)
    if command in ("curve", "report"):
        return [*given, "--out", str(folder / "out")]
    return given


@pytest.mark.parametrize("command", OFFLINE)
def test_no_model_is_asked_after_grading(command: str, tmp_path: Path, forbidden: list[str]) -> None:
    assert main([command, *arguments(command, tmp_path)]) in (0, 1)
    assert forbidden == []


@pytest.mark.parametrize("command", OFFLINE)
def test_the_same_records_say_the_same_each_time(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments(command, tmp_path)
    told = []
    for _ in range(2):
        main([command, *given])
        files = [path for path in sorted((tmp_path / "out").rglob("*")) if path.suffix != ".png"]
        written = [path.read_bytes() for path in files if path.is_file()]
        told.append((capsys.readouterr().out, written))
    assert told[0] == told[1]


def test_no_offline_module_imports_a_way_to_a_model() -> None:
    folder = Path(str(package.__file__)).parent
    for path in folder.glob("*.py"):
        if path.stem in PAID:
            continue
        names = {name for node in ast.walk(ast.parse(path.read_text())) for name in _imported(node)}
        ways = ("pruner.backends", "pruner.grading", "eval.grade", "eval.graders", "eval.questions", "eval.paid")
        assert not [name for name in names if name.startswith(ways)], path


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []
