"""What the documentation shows passes a type checker as it stands there."""

from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]

PROGRAM = """
from collections.abc import Sequence
from typing import Any

from pydantic import SecretStr

from pruner import Chunk, Grade, Pruner, PrunerConfig, PruneResult, prune, prune_sync
from pruner.schema import GradingRequest, RawGrading


class Store:
    async def section(self, parent_id: str) -> str | None:
        return None

    def page(self, number: int) -> dict[str, str] | None:
        return None

    def either(self, parent_id: str | int) -> Chunk | None:
        return None


class Words:
    def count(self, words: str) -> int:
        return len(words.split())


class Mine:
    async def grade(self, asked: GradingRequest) -> RawGrading:
        return RawGrading(text="{}")


written = PrunerConfig(api_key="sk-…", threshold="supporting")
wrapped = PrunerConfig(api_key=SecretStr("sk-…"), threshold=4)
named = PrunerConfig(api_key=None, threshold=Grade.SUPPORTING, model="openai:gpt-4o-mini", timeout=3, keep_top_k=2)
lowest: float = written.threshold
key: SecretStr | None = written.api_key


async def main(store: Store, chunks: Sequence[dict[str, Any]], by_name: dict[str, str]) -> list[dict[str, Any]]:
    async with Pruner(written, backend=Mine(), counter=Words()) as pruner:
        for fetch in (store.section, store.either):
            await pruner.prune("q", chunks, fetch_parent=fetch)
        await pruner.prune("q", chunks, fetch_parent=store.page, principals=["staff"], history=["h"])
        grading = await pruner.grade("q", chunks)
        by_number: dict[int, Chunk] = {}
        by_either: dict[str | int, object] = {}
        pruner.assemble("q", chunks, grading, parents=by_name, threshold="contributing")
        pruner.assemble("q", chunks, grading, parents=by_number)
        result: PruneResult[dict[str, Any]] = pruner.assemble("q", chunks, grading, parents=by_either)
    await prune("q", chunks, fetch_parent=store.section, api_key="sk-…")
    texts: list[str] = prune_sync("q", ["a", "b"]).chunks
    return result.chunks if texts else []
"""


def test_a_program_of_a_user_passes_mypy_strict(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    said, faults, code = api.run(["--strict", "--config-file", str(ROOT / "pyproject.toml"), str(file)])
    assert (said + faults, code) == ("Success: no issues found in 1 source file\n", 0)
