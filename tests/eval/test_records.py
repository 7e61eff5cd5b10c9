import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.errors import EvalError
from eval.records import read_records, to_line
from tests.made_cases import made_record

RECORD = made_record("q", [5, None, 1], expected=(4.5, None, 1.25), reply="x")


@given(
    st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=5),
    st.none() | st.floats(0, 9),
    st.none() | st.text(),
    st.text(st.characters(codec="utf-8"), max_size=9),
)
def test_a_record_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, grades: list[int | None], cost: float | None, reply: str | None, form: str
) -> None:
    record = made_record("q", grades, cost=cost, reply=reply and reply.encode("utf-8", "replace").decode())
    record = replace(record, reply=record.reply or None, reply_format=form)
    path = tmp_path_factory.mktemp("r") / "r.jsonl"
    path.write_text(to_line(record), encoding="utf-8")
    assert list(read_records(path)) == [(1, record)]


def test_answers_to_other_questions_come_back_too(tmp_path: Path) -> None:
    found = replace(RECORD, selected=(2, 0), anchors={"5": 9.5}, ranked=(1.0, 2.0, 0.5), tokens=(7, 8, 9), dials="t=0")
    path = tmp_path / "r.jsonl"
    path.write_text(to_line(found))
    assert list(read_records(path)) == [(1, found)]


def test_what_is_not_known_takes_no_room() -> None:
    assert (
        not {"selected", "anchors", "cost", "dials", "calls"} & json.loads(to_line(replace(RECORD, cost=None))).keys()
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"grades": [5]}, "grades: 1 values for 3 chunks"),
        ({"expected": [5, 5, 5, 5]}, "expected: 4 values for 3 chunks"),
        ({"tokens": [1]}, "tokens: 1 values for 3 chunks"),
        ({"grades": [5, 6, 1]}, "grades: must be 1 to 5 or null"),
        ({"grades": [5, "high", 1]}, "grades.1: "),
        ({"expected": [float("nan"), 1, 1]}, "expected: must be from 1 to 5 or null"),
        ({"expected": [0.5, 1, 1]}, "expected: must be from 1 to 5 or null"),
        ({"status": "great"}, "status: must be one of ok, "),
        ({"cost": float("nan")}, "cost: must be a finite number from 0 on"),
        ({"cost": -0.1}, "cost: must be a finite number from 0 on"),
        ({"latency": float("inf")}, "latency: must be a finite number from 0 on"),
        ({"calls": -1}, "calls: must be a finite number from 0 on"),
        ({"tokens": [1, -1, 1]}, "tokens: must be from 0 on"),
        ({"selected": [3]}, "selected: must be places from 0 to 2"),
        ({"model": None}, "model: "),
        ({"gold": []}, "gold: no such field; is this a file of records?"),
    ],
)
def test_a_faulty_record_is_one_line_with_line_and_field(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(to_line(RECORD) + json.dumps({**json.loads(to_line(RECORD)), **fields}) + "\n")
    with pytest.raises(EvalError, match=re.escape(f"{path}:2: {message}")) as caught:
        list(read_records(path))
    assert "\n" not in str(caught.value)


def test_a_record_that_lacks_a_field_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"dataset": "d", "id": "q"}))
    with pytest.raises(EvalError, match=r"r.jsonl:1: n: Field required"):
        list(read_records(path))
