import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from eval import embedded
from eval.embedded import Record, fit, half_of, load_records, planned, table


def record(readings: list[float], gold: list[int], identifier: str = "a", dataset: str = "set") -> Record:
    n = len(readings)
    return Record(dataset, identifier, half_of(identifier), n, gold, readings, [9] * n, 99, 1.0, "0" * 64)


def test_halves_do_not_change_from_run_to_run() -> None:
    assert [half_of(name) for name in "abcdef"] == ["tune", "tune", "tune", "tune", "test", "test"]


@pytest.mark.parametrize(
    ("scores", "gold", "auc"),
    [([3, 2, 1], [0], 1.0), ([1, 2, 3], [0], 0.0), ([1, 1], [0], 0.5), ([3, 1, 2], [0, 1], 0.5), ([1, 2], [], 0.5)],
)
def test_auc_is_the_share_of_pairs_in_the_right_order(scores: list[float], gold: list[int], auc: float) -> None:
    assert embedded._auc(scores, record(scores, gold)) == auc


def test_recall_preserved_is_all_or_nothing_per_list() -> None:
    rows = [record([0] * 4, [0, 1]), record([0] * 4, [3])]
    assert embedded._measure(rows, [{0, 2}, {3}]) == (0.5, 1 - 3 / 8)


def test_the_table_sets_the_model_beside_the_ranking_at_the_same_length() -> None:
    rows = [record([-9.0, -9.0, -9.0, -9.0, 9.0, -9.0], [4], name) for name in "abcd"]
    line = table(rows, "tune").splitlines()[-1]
    assert line.startswith("| all | 4 | 1.00 (0.20) |")
    assert "1.00 / 0.50 (0.00 / 0.50)" in line


def test_fitted_cuts_are_quantiles_of_the_needed_chunks() -> None:
    rows = [record([2.0, 1.0, -1.0, -2.0, 0.0], [0, 1], name) for name in "abcd"]
    shown = fit(rows)
    assert shown.startswith("4 lists, 8 of 20 chunks needed")
    assert "_CUTS = (1.00, 1.00, 1.00, 2.00)" in shown


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_lists_are_planned_in_turns_cut_and_only_with_a_needed_chunk_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "PLANS", (embedded.Plan("one", 2, 9, 9), embedded.Plan("two", 3, 1, 1)))
    for name in ("one", "two"):
        chunks = [{"id": str(i), "text": "t"} for i in range(3)]
        _write(tmp_path / f"{name}.dev.jsonl.gz", [{"id": i, "chunks": chunks, "gold": ["2"]} for i in "abcdef"])
    assert [(name, row["id"], len(row["chunks"])) for name, row in planned(tmp_path)] == [
        ("two", "a", 3),
        ("two", "e", 3),
    ]


def test_lists_that_were_cut_anew_are_read_up_to_a_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "WINDOWS", 2)
    text = "Backups are kept. " * 200
    chunks = [{"id": "c", "source": f"d.md[0:{len(text)}]", "text": text}]
    rows = [{"id": i, "query": "backups", "chunks": chunks, "meta": {"references": [text[:40]]}} for i in "abc"]
    _write(tmp_path / "chroma.dev.jsonl.gz", rows)
    lists = list(embedded.overlapped(tmp_path, 2))
    assert [(name, row["id"], len(row["chunks"])) for name, row in lists] == [("chroma", "a", 2), ("chroma", "b", 2)]
    assert all(row["gold"] == ["d.md@0+0"] for _, row in lists)


@pytest.mark.parametrize("path", [embedded.RECORDS, embedded.OVERLAPPING])
def test_the_committed_records_hold_no_text(path: Path) -> None:
    for found in load_records(path):
        assert len(found.readings) == len(found.chars) == found.n
        assert all(0 <= place < found.n for place in found.gold)
        assert found.half == half_of(found.id)
        assert all(isinstance(value, int | float) for value in [*found.readings, *found.chars])
