"""What the documentation shows passes a type checker as it stands there."""

from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[1]

PROGRAM = """
from collections.abc import Sequence
from typing import Any

from pydantic import SecretStr

from pruner import Chunk, Grade, Pruner, PrunerConfig, PruneResult, prune, prune_sync
from pruner.integrations.functions import PrunedRetriever, pruned
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


@pruned(pruner=written)
def find(question: str, k: int = 3) -> list[str]:
    return []


@pruned(query="wanted", pruner={"threshold": 4})
async def look_up(user: str, wanted: str) -> Sequence[Chunk]:
    return []


@pruned(chunks="hits")
def hits(question: str) -> dict[str, list[str]]:
    return {"hits": []}


@pruned()
def untold(question: str) -> Any:
    return []


class Shelf:
    @pruned()
    def search(self, query: str) -> tuple[dict[str, Any], ...]:
        return ()

    @classmethod
    @pruned()
    def made(cls, query: str) -> list[str]:
        return []


async def functions() -> list[str]:
    found, chunks = find("q", k=2), await look_up("me", wanted="q")
    titles = [chunk.title for chunk in chunks if chunks.result.status == "ok"]
    rows = Shelf().search("q")
    print(found.result.decisions[0].grade, titles, rows.result.reason, untold("q").result)
    shelf = PrunedRetriever(Shelf(), written, query="query")
    return [*found, *hits("q")["hits"], *Shelf.made("q"), *shelf.search("q")]


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


WRONG = """
from pruner.integrations.functions import pruned

@pruned()
def find(question: str) -> list[str]:
    return []

find(3)
find("q").results

@pruned
def bare(question: str) -> list[str]:
    return []
"""


def test_what_is_wrong_with_a_decorated_function_is_told(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(WRONG, encoding="utf-8")
    said, _, _ = api.run(["--strict", "--config-file", str(ROOT / "pyproject.toml"), str(file)])
    assert [line.rpartition("[")[2] for line in said.splitlines() if "error" in line and "[" in line] == [
        "arg-type]",
        "attr-defined]",
        "call-overload]",
    ]
