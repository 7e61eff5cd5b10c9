import ast
import asyncio
import contextlib
import io
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "evidence.py"
SECTION = (ROOT / "README.md").read_text(encoding="utf-8").partition("## From chunks to a checked answer")[2]
CODE, OUTPUT = re.findall(r"```(?:python)?\n(.*?)```", SECTION, re.DOTALL)[:2]


@pytest.fixture(scope="module")
def shown() -> str:
    """Return what the example writes."""
    with contextlib.redirect_stdout(io.StringIO()) as written:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    return written.getvalue()


def test_the_example_renders_one_merged_block_of_the_parent_and_one_of_the_old_revision(shown: str) -> None:
    blocks = ElementTree.fromstring(
        f"<all>{shown[shown.index('<evidence id') : shown.rindex('</evidence>') + 11]}</all>"
    )
    assert [(b.get("id"), b.get("revision")) for b in blocks] == [("E1", "2025"), ("E2", "2023")]
    current, old = (b.text or "" for b in blocks)
    assert "Terms / Backups" in current
    assert "for 90 days" in current
    assert "Except on Pro: there they stay for another 30 days." in current  # completed from the parent
    assert "for 60 days" in old


def test_the_example_names_the_conflict_of_the_revisions(shown: str) -> None:
    assert "- E1 and E2 say nearly the same, but contradict each other." in shown


def test_the_example_says_why_each_other_chunk_is_not_there(shown: str) -> None:
    assert "terms:25-106, span_duplicate of terms:0-106" in shown
    assert "terms:153-204, merged of terms:0-106" in shown
    assert "prices, below_threshold" in shown
    assert "choir, below_threshold" in shown


def test_the_example_covers_every_sub_query(shown: str) -> None:
    assert "uncovered: nothing" in shown


def test_the_example_passes_the_good_answer_and_finds_what_is_wrong_with_the_other(shown: str) -> None:
    assert shown.count("-> in order") == 1
    assert "-> unknown ('E7',), uncited ['Pro keeps them for ever.']" in shown


def test_what_the_readme_shows_is_what_the_example_writes(shown: str) -> None:
    assert [part for part in OUTPUT.strip().split("\n\n") if part not in shown] == []


def test_the_code_in_the_readme_runs_to_the_same_blocks_and_a_checked_answer(
    shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    example = runpy.run_path(str(EXAMPLE))
    (tmp_path / "grades").write_text(example["GRADES"])
    monkeypatch.setenv("PRUNER_MODEL", f"scripted:{tmp_path / 'grades'}")
    asked: dict[str, str] = {}

    async def generate(**turns: str) -> str:
        asked.update(turns)
        return str(example["CARELESS"])

    store = SimpleNamespace(section=example["fetch_parent"])
    names: dict[str, Any] = {"chunks": example["CHUNKS"], "store": store, "generate": generate}
    code = compile(CODE, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(code, names))
    blocks = shown[shown.index("<evidence id") : shown.rindex("</evidence>")]
    assert asked["user"].startswith(blocks)
    assert "E1 and E2" in asked["system"]
    assert names["report"].unknown == ("E7",)
