"""The table of docs/evaluation.md is what the code computes."""

import re
from pathlib import Path

import pytest

from eval.__main__ import COMMANDS
from eval.statistics import questions_for_power, questions_needed

DOCS = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) % \| (.*) \|$", DOCS, re.MULTILINE)


def test_there_is_a_row_per_target() -> None:
    assert [target for target, _ in ROWS] == ["90", "95", "96", "98", "99"]


@pytest.mark.parametrize(("target", "row"), ROWS, ids=[target for target, _ in ROWS])
def test_the_questions_that_a_proof_needs_are_as_computed(target: str, row: str) -> None:
    *fewest, near, likely_near, far, likely_far = row.split(" | ")
    share = int(target) / 100
    assert list(map(int, fewest)) == [questions_needed(share, 0.95, lost) for lost in (0, 1, 2, 5)]
    for true, likely in ((near, likely_near), (far, likely_far)):
        assert int(likely) == questions_for_power(share, float(true.removesuffix(" %")) / 100)


def test_every_command_is_explained() -> None:
    assert not [name for name in COMMANDS if f"`{name}`" not in DOCS]
