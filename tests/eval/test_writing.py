import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.errors import EvalError
from eval.jsonl import read_objects
from eval.writing import write_objects


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    entries = [{"text": "Größe 数 \u2028 \ud800"}, {"text": "b"}]
    assert write_objects(tmp_path / name, entries) == 2
    assert [entry for _, entry in read_objects(tmp_path / name)] == entries


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write_objects(tmp_path / name, [{"a": 1}])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_failure_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise KeyboardInterrupt

    path = tmp_path / "rows.jsonl"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_objects(path, broken())
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("rows.jsonl", "old")]


def test_a_folder_that_is_not_there_is_named_by_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "none" / "rows.jsonl"
    with pytest.raises(EvalError) as caught:
        write_objects(path, [])
    assert str(caught.value) == f"{path}: cannot be written into its folder: No such file or directory"


def test_permissions_of_the_old_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch(0o600)
    write_objects(path, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_objects(tmp_path / "rows.jsonl", [])
    assert (tmp_path / "rows.jsonl").stat().st_mode == (tmp_path / "usual").stat().st_mode
