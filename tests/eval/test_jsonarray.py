import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval import jsonarray
from eval.errors import EvalError
from eval.jsonarray import read_array

TEXTS = st.text(max_size=9)
VALUES = st.none() | st.integers() | TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, TEXTS, max_size=3)
ENTRIES = st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), min_size=1, max_size=4)


@given(entries=ENTRIES, indent=st.sampled_from([None, 2]), block=st.integers(1, 9))
def test_blocks_of_any_size_give_what_the_standard_reader_gives(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, object]], indent: int | None, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "array.json"
    path.write_text(json.dumps(entries, indent=indent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonarray, "_BLOCK", block)
        assert [entry for _, entry in read_array(path)] == entries


def test_a_long_file_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonarray, "_BLOCK", 64)
    path = tmp_path / "long.json"
    path.write_text('[{"a": 1},' + '{"b": 2},' * 1000 + "no JSON at all")
    stream = read_array(path)
    assert next(stream) == (1, {"a": 1})


def test_an_object_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonarray, "_LARGEST", 1000)
    monkeypatch.setattr(jsonarray, "_BLOCK", 100)
    path = tmp_path / "endless.json"
    path.write_text('[{"a": "' + "x" * 100_000)
    with pytest.raises(EvalError, match="entry 1: no JSON"):
        list(read_array(path))
