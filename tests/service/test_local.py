"""The README's quick start of the service, with the embedded model."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.served import serving

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").partition("\n## Service\n")[2]
SERVE = re.findall(r"^\$ pruner serve (.*)$", README, re.MULTILINE)[0]
CURL = re.findall(r"^\$ (curl .*?)\n```", README, re.MULTILINE | re.DOTALL)[0]
SHOWN: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", README, re.DOTALL)[0])


def lasting(answer: dict[str, Any]) -> dict[str, Any]:
    """What of an answer is the same on every machine."""
    decisions = [{**decision, "expected": round(decision["expected"])} for decision in answer["decisions"]]
    others = {name: answer[name] for name in answer.keys() - {"request_id", "timings", "usage"}}
    return {**others, "decisions": decisions}


@pytest.mark.local_model
def test_the_embedded_model_answers_the_readmes_curl_as_the_readme_shows() -> None:
    _, _, address, _, header, _, body = shlex.split(CURL)
    path = address.removeprefix("localhost:8000")
    name, _, value = header.partition(": ")
    with serving(*shlex.split(SERVE)) as process:
        response = httpx2.post(process.url + path, content=body, headers={name: value}, timeout=300)
        assert process.stop() == 0
    answer = response.json()
    assert (list(answer), answer["usage"].keys()) == (list(SHOWN), SHOWN["usage"].keys())
    assert lasting(answer) == lasting(SHOWN)
