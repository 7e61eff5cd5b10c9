import gzip
import re
from pathlib import Path

import pytest

from eval.errors import EvalError
from eval.jsonl import read_objects


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_gzip_is_told_by_its_content_not_its_name(tmp_path: Path, name: str, pack: type[bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(b'{"a": 1}\n\n\xef\xbb\xbf{"a": "\xc3\xa4"}'))
    assert list(read_objects(path)) == [(1, {"a": 1}), (3, {"a": "ä"})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty; give a file with one JSON object a line"),
        (b"\n \n", "empty"),
        (b"{}\n[1]", ":2: must be a JSON object, not list"),
        (b'{"a": 1', ":1: no JSON"),
        (b'[{"a": 1}, {"a": 2}]', ":1: must be a JSON object, not list; this is a JSON array: write one object a line"),
        (b'[\n {"a": 1}\n]', ":1: no JSON: Expecting value at character 2; this is a JSON array: write one object a"),
        (b'{"a": 1},\n{"a": 2}', ":1: no JSON: Extra data at character 9; a line is one whole object, without a comma"),
        ('{"a": 1}\n'.encode("utf-16"), "; this is UTF-16: save it as UTF-8"),
        ('{"a": 1}\n'.encode("utf-16-le"), "; this is UTF-16: save it as UTF-8"),
        (b'{}\n{"a": "\xff"}', ":2: not UTF-8"),
        (b"[" * 100_000, ":1: no JSON: nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", ":1: no JSON"),
        (gzip.compress(b"{}\n" * 99)[:-12], "the gzip data break off or are damaged"),
        (gzip.compress(b"{}\n" * 99)[:20] + b"garbage!" * 9, "the gzip data break off or are damaged"),
    ],
)
def test_a_faulty_file_is_one_line_that_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(EvalError, match=re.escape(message)) as caught:
        list(read_objects(path))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EvalError, match="No such file"):
        list(read_objects(tmp_path / "none.jsonl"))
    with pytest.raises(EvalError, match="directory"):
        list(read_objects(tmp_path))


def test_lines_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"{}\n" * 9 + b"no json")
    assert next(iter(read_objects(path))) == (1, {})
