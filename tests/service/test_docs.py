"""The tables of docs/service.md are complete and true."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pruner.config import PrunerConfig
from pruner.schema import RawGrading
from pruner.service.app import make_app
from pruner.service.errors import STATUS, Code
from pruner.service.models import PruneRequest
from pruner.service.settings import ServiceSettings, variable_of
from tests.service.served import app_of, grades, post

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def section(title: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    text = DOCS.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_every_code_is_in_the_table_of_errors_with_its_status() -> None:
    documented = {(code.strip("`"), int(status)) for status, code, *_ in section("Errors")}
    assert documented == {(str(code), STATUS[code]) for code in Code}


def test_every_setting_is_in_the_table_of_settings() -> None:
    documented = [name for first, *_ in section("Settings") for name in re.findall(r"`(\w+)`", first)]
    assert sorted(documented) == sorted(ServiceSettings.model_fields)


@pytest.mark.parametrize("name", ["port", "workers", "max_body", "body_timeout", "chunk_limit", "max_concurrent"])
def test_the_defaults_in_the_table_are_those_in_force(name: str) -> None:
    [default] = [second for first, second, _ in section("Settings") if f"`{name}`" in first]
    assert f"{getattr(ServiceSettings(), name):g}" in default.replace("2097152", "2.09715e+06")


def test_every_setting_is_in_the_example_of_variables_with_its_description() -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for name, field in ServiceSettings.model_fields.items():
        assert f"\n# {field.description}\n{variable_of(name)}=" in example


def test_every_path_is_documented_and_every_documented_path_is_there() -> None:
    documented = set(re.findall(r"`(?:POST |GET )?(/[\w/.]+)`", DOCS)) | {"/openapi.json"}
    here = set(app_of().openapi()["paths"]) | {"/v2/rerank", "/rerank", "/openapi.json"}
    assert documented == here


def example(title: str, place: int = 0) -> dict[str, Any]:
    """The JSON object under a heading, the first or a later one."""
    text: str = re.findall(r"```json\n(.*?)```", DOCS.split(f"\n## {title}\n")[1], re.DOTALL)[place]
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def quick_start() -> dict[str, Any]:
    """The body that the quick start sends."""
    body: dict[str, Any] = json.loads(DOCS.split("-d '")[1].split("'\n")[0])
    return body


@pytest.mark.anyio
async def test_the_answer_and_the_line_that_are_shown_are_what_the_service_writes(tmp_path: Path) -> None:
    replies, log = tmp_path / "replies.jsonl", tmp_path / "decisions.jsonl"
    replies.write_text(DOCS.split("with the line\n`")[1].split("`")[0] + "\n", encoding="utf-8")
    app = make_app(ServiceSettings(decision_log=log), PrunerConfig(model=f"scripted:{replies}"))
    answer = (await post(app, "/v1/prune", quick_start())).json()
    line = json.loads(log.read_text(encoding="utf-8"))
    shown, shown_line = example("Quick start"), example("The decision log")
    for told, here in ((shown, answer), (shown_line, line)):
        for name in ("request_id", "timings", "time", "latency", "model"):
            assert (name in told) is (name in here)
            told.pop(name, None), here.pop(name, None)
    assert (shown, list(shown)) == (answer, list(answer))
    assert (shown_line, list(shown_line)) == (line, list(line))


@pytest.mark.anyio
async def test_the_evidence_that_is_shown_is_what_the_service_answers() -> None:
    body, shown = (example("What a request may say", place) for place in (0, 1))
    app = app_of(lambda request: RawGrading(text=grades(request.n, 1, 2, 3)))
    answer = (await post(app, "/v1/prune", body)).json()
    begin, end = shown["evidence"].pop("rules").split("…")
    rules = answer["evidence"].pop("rules")
    assert (rules.startswith(begin), rules.endswith(end)) == (True, True)
    assert shown == {name: answer[name] for name in shown}


def test_every_field_of_a_request_is_in_the_table_of_what_it_may_say() -> None:
    documented = {name for first, _ in section("What a request may say") for name in re.findall(r"`(\w+)`", first)}
    assert documented == PruneRequest.model_fields.keys() - {"query", "chunks", "documents", "results"}
