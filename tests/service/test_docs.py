"""The tables of docs/service.md are complete and true."""

import re
from pathlib import Path

import pytest

from pruner.service.errors import STATUS, Code
from pruner.service.settings import ServiceSettings, variable_of
from tests.service.served import app_of

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
