import re
from pathlib import Path
from typing import Any

import pytest

from eval.datasets import read_all, read_rows, to_row
from eval.errors import EvalError
from tests.made_rows import entry, row, write

CHUNKS = entry()["chunks"]


def read_one(path: Path, **fields: Any) -> Any:
    [found] = read_rows(write(path / "rows.jsonl.gz", [entry(**fields)]))
    return found


def test_a_row_knows_the_places_of_its_labels(tmp_path: Path) -> None:
    found = read_one(tmp_path, gold=["c", "zz", "a"], gold_missing=["zz"], helpful=["b"], answer="x", meta={"hops": 2})
    assert found.needed == {0, 2}
    assert found.helping == {1}
    assert (found.answer, found.meta) == ("x", {"hops": 2})
    assert found.gold == ("c", "zz", "a")


def test_a_cut_row_needs_only_what_is_left(tmp_path: Path) -> None:
    found = read_one(tmp_path, gold=["c", "a"]).cut(2)
    assert (len(found.chunks), found.needed) == (2, {0})


def test_keys_of_a_chunk_that_are_unknown_are_kept_as_metadata(tmp_path: Path) -> None:
    found = read_one(tmp_path, chunks=[{"id": 7, "text": "t", "source": "s"}], gold=[7])
    assert found.chunks[0].metadata == {"source": "s"}
    assert found.needed == {0}


@pytest.mark.parametrize(
    "other",
    [
        row(query="what?"),
        row(chunks=row().chunks[::-1]),
        row().cut(3),
        row(chunks=(row().chunks[0].model_copy(update={"title": "t"}), *row().chunks[1:])),
    ],
)
def test_the_hash_of_a_list_tells_any_other_list_apart(other: Any) -> None:
    assert other.sha256 != row().sha256
    assert row(gold=(), meta={"other": "labels"}).sha256 == row().sha256


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ...}, "id: must be a text or a whole number, got nothing"),
        ({"id": True}, "id: must be a text or a whole number, got true"),
        ({"dataset": " "}, "dataset: must be a text that is not blank, got a blank text"),
        ({"query": None}, "query: must be a text that is not blank, got nothing"),
        ({"query": ["q"]}, 'query: must be a text that is not blank, got ["q"]'),
        ({"chunks": ...}, "chunks: must be a list of at least one chunk, got nothing"),
        ({"chunks": []}, "chunks: must be a list of at least one chunk, got []"),
        ({"chunks": ["text"]}, "chunks[0]: must be an object, got a text"),
        ({"chunks": [{"text": "t"}]}, "chunks[0].id: must be a text or a whole number, got nothing"),
        ({"chunks": [{"id": "a"}]}, "chunks: chunk 0: text"),
        ({"chunks": [{"id": "a", "text": 5}]}, "chunks: chunk 0: text"),
        ({"chunks": [*CHUNKS, {"id": "b", "text": "t"}]}, "chunks: id 'b' stands there twice"),
        ({"chunks": [*CHUNKS, {"id": "x", "text": "t", "score": float("nan")}]}, "chunks[4].score: must be a finite"),
        ({"chunks": [{"id": "a", "text": "t", "score": float("-inf")}]}, "chunks[0].score: must be a finite number"),
        ({"chunks": [{"id": "a", "text": "t", "score": "nan"}]}, "chunks[0].score: must be a finite number"),
        ({"chunks": [{"id": "a", "text": "t", "score": "high"}]}, "chunks: chunk 0: score"),
        (
            {"chunks": [*CHUNKS, {"id": "x", "text": "t", "acl": ["staff"]}]},
            "chunks[4].acl: who may see a chunk is not",
        ),
        ({"chunks": [{"id": "a", "text": "t", "acl": []}]}, "chunks[0].acl: who may see a chunk is not measured"),
        ({"gold": ...}, "gold: must be a list of chunk ids, got nothing"),
        ({"gold": "a"}, "gold: must be a list of chunk ids, got a text"),
        ({"gold": ["a", "a"]}, "gold: 'a' stands there twice"),
        ({"gold": [["a"]]}, 'gold[0]: must be a text or a whole number, got ["a"]'),
        ({"gold": ["zz"]}, "gold: 'zz' is not in the list; if it was not retrieved, name it in 'gold_missing' too"),
        ({"gold_missing": ["a"]}, "gold_missing: 'a' is in the list"),
        ({"gold_missing": ["zz"]}, "gold_missing: 'zz' is not in 'gold'"),
        ({"gold_retrieved": False}, "gold_retrieved: false is not what 'gold' and 'chunks' say"),
        ({"helpful": ["zz"]}, "helpful: 'zz' is not in the list"),
        ({"helpful": ["a"]}, "helpful: 'a' is in 'gold' as well"),
        ({"answer": 42}, "answer: must be a text, got 42"),
        ({"meta": []}, "meta: must be an object, got []"),
        ({"golds": []}, "golds: no such field"),
    ],
)
def test_a_faulty_row_is_one_line_with_line_and_field(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "rows.jsonl", [entry("good"), entry(**fields)])
    with pytest.raises(EvalError, match=re.escape(f"{path}:2: {message}")) as caught:
        list(read_rows(path))
    assert "\n" not in str(caught.value)


def test_an_id_may_stand_in_a_file_once_for_each_data_set(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [entry("q"), entry("q", dataset="other"), entry("q")])
    with pytest.raises(EvalError, match=r":3: id: 'q' of 'set' stands in line 1 already"):
        list(read_rows(path))


def test_a_list_may_stand_in_one_of_several_files(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, [entry("q")]) for name in ("one.jsonl", "two.jsonl"))
    with pytest.raises(EvalError, match=r"two.jsonl: id: 'q' of 'set' stands in .*one.jsonl already"):
        list(read_all([first, second]))


def test_a_line_of_a_log_needs_no_labels_and_keeps_its_time_and_its_generator() -> None:
    line = {"id": "q", "query": "how?", "chunks": [{"id": "a", "text": "t"}], "time": "2026-11-01", "generator": {}}
    row = to_row(line, labelled=False)
    assert (row.dataset, row.gold, row.meta) == ("log", (), {"time": "2026-11-01", "generator": {}})


def test_where_labels_are_needed_a_line_of_a_log_is_refused() -> None:
    with pytest.raises(EvalError, match="time: no such field"):
        to_row({"id": "q", "query": "how?", "chunks": [{"id": "a", "text": "t"}], "time": "2026-11-01"})
