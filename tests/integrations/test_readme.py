import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.scripted import pairs

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_snippets_of_the_readme_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replies = tmp_path / "replies"
    replies.write_text(pairs(5, 1, 1))
    monkeypatch.setenv("PRUNER_MODEL", f"scripted:{replies}")
    (block,) = re.findall(r"## Drop into …\n.*?```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}

    async def run() -> Any:
        code = compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.CO_COROUTINE & code.co_flags:
            await eval(code, names)
        return await names["search"]("How long are backups kept?")

    assert asyncio.run(run())["hits"] == ["Backups are kept for 14 days.", "Rice is boiled."]
    assert (names["text"].result.status, names["omitted"]) == ("skipped", [])
