import os
import re
import runpy
from pathlib import Path
from unittest.mock import Mock

import pytest

from examples import common

# Haystack decides at its import whether to phone home.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

FOLDER = Path(__file__).parents[2] / "examples"
# Those of the integrations; test_evidence.py runs the other one.
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("common", "evidence"))


def run(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr("sys.argv", [name, *arguments])
    runpy.run_module(f"examples.{name}", run_name="__main__")
    return capsys.readouterr().out


def test_every_integration_has_an_example() -> None:
    used = " ".join((FOLDER / f"{name}.py").read_text() for name in EXAMPLES)
    modules = {"langchain", "llamaindex", "haystack", "functions", "agents"}
    assert {module for module in modules if f"from pruner.integrations.{module} import" in used} == modules


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = run(name, capsys, monkeypatch)
    assert "hashlib" in out
    if name == "agent_tools":
        assert re.search(r'\n\[4 of 15 results omitted; ask for "\w+" to see them\]\n', out)
        assert re.search(r'\n\[\d+ of 15 results shown before; ask for "\w+" to see them again\]\n$', out)
    else:
        # Eleven of the fifteen grades are 3 or better.
        assert len(re.findall(r"^[1-5] \S+$", out, re.MULTILINE)) == 11


@pytest.mark.local_model
def test_an_example_runs_with_the_embedded_model(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = common.corpus().search(common.DEFAULT_QUESTION, 3)  # All fifteen take some minutes.
    monkeypatch.setattr(common, "corpus", lambda: Mock(search=lambda _question, _k: found))
    assert "status ok" in run("plain_function", capsys, monkeypatch, "--backend", "local")
