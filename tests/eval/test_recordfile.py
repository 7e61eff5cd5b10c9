import json
from dataclasses import replace
from pathlib import Path

import pytest

from eval.errors import EvalError
from eval.recordfile import open_records
from eval.records import to_line
from tests.made_cases import made_record

ONE, TWO = (made_record(name, [5, None, 1]) for name in ("one", "two"))


def test_records_are_appended_and_found_again(tmp_path: Path) -> None:
    for record in (ONE, TWO):
        with open_records(tmp_path / "r.jsonl") as file:
            file.append(record)
    with open_records(tmp_path / "r.jsonl") as file:
        assert file.records == [ONE, TWO]


@pytest.mark.parametrize("left", range(1, len(to_line(TWO)) - 1, 40))
def test_half_a_last_line_is_taken_away(tmp_path: Path, left: int) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(to_line(ONE) + to_line(TWO)[:left])
    with open_records(path) as file:
        assert file.records == [ONE]
        file.append(TWO)
    assert path.read_text() == to_line(ONE) + to_line(TWO)


def test_half_a_last_line_may_end_in_a_brace_or_in_half_a_letter(tmp_path: Path) -> None:
    path, replied = tmp_path / "r.jsonl", to_line(replace(TWO, reply='{"grades": {"é": 1}}')).encode()
    ends = [n for n in range(1, len(replied) - 2) if replied[:n].endswith((b"}", b"\xc3"))]
    assert len(ends) > 1
    for end in ends:
        path.write_bytes(to_line(ONE).encode() + replied[:end])
        with open_records(path) as file:
            assert file.records == [ONE]


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(to_line(ONE) + to_line(TWO).rstrip("\n"))
    with open_records(path) as file:
        assert file.records == [ONE, TWO]
        file.append(replace(ONE, id="three"))
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["one", "two", "three"]


@pytest.mark.parametrize("content", ["notes of mine", '{"id": "q", "query": "half a li', '{"model": "a"}\n'])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(content)
    with pytest.raises(EvalError, match=r"r\.jsonl"), open_records(path):
        pass
    assert path.read_text() == content


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with open_records(path), pytest.raises(EvalError, match="another run is writing to it"), open_records(path):
        pass
