import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from eval import embedded
from eval.exports import export_embedded, export_large_llm, main
from eval.records import read_records
from pruner.backends.calibration import levels_of
from pruner.prompting import load_prompt
from tests.made_rows import entry, write

READINGS = [2.0, -1.0, 0.5, -3.0]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path / "set.dev.jsonl.gz", [entry("q1", n=5, dataset="set_de")])
    (tmp_path / "graded").mkdir()
    (tmp_path / "graded" / "large_llm.prompt.txt").write_text("grade!")
    return tmp_path


def reading(folder: Path, **further: Any) -> Path:
    prompt = load_prompt("probe.v1").sha256
    known: dict[str, Any] = {"dataset": "set", "id": "q1", "half": "tune", "n": 4, "gold": [0], "readings": READINGS}
    known |= {"chars": [9] * 4, "input_tokens": 900, "seconds": 7.5, "prompt_sha256": prompt, **further}
    path = folder / "embedded.jsonl"
    path.write_text(json.dumps(asdict(embedded.Record(**known))) + "\n")
    return path


def test_readings_become_the_records_that_the_product_would_make(data: Path) -> None:
    [record] = export_embedded(reading(data), data)
    means = [sum(level * p for level, p in enumerate(row, 1)) for row in levels_of(READINGS)]
    assert record.expected == pytest.approx(means, abs=1e-4)
    assert record.grades == tuple(int(mean + 0.5) for mean in means)
    assert (record.dataset, record.id, record.n, record.status) == ("set_de", "q1", 4, "ok")
    assert (record.model, record.prompt, record.readout) == ("local:qwen2.5-coder-1.5b", "probe.v1", "probe")
    assert (record.latency, record.input_tokens, record.output_tokens, record.cost) == (7.5, 900, 8, None)
    assert record.reply is None


def test_the_order_in_which_the_model_read_is_another_way_of_grading(data: Path) -> None:
    usual, shuffled = (next(export_embedded(reading(data), data, order)) for order in ("reranker", "shuffle 0"))
    assert usual.grades == shuffled.grades
    assert usual.key != shuffled.key


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"gold": [1]}, "'q1' of 'set' has other labels now"),
        ({"id": "q9"}, "no list 'q9'"),
        ({"prompt_sha256": "0" * 64}, "'q1' of 'set' was read with another version of 'probe.v1'"),
        ({"dataset": "none"}, "none.dev.jsonl.gz: No such file"),
    ],
)
def test_readings_of_another_list_or_prompt_are_refused_in_one_line(
    data: Path, capsys: pytest.CaptureFixture[str], further: dict[str, Any], message: str
) -> None:
    path = reading(data, **further)
    assert main(["embedded", "--records", str(path), "--data", str(data), "--out", str(data / "out")]) == 2
    shown = capsys.readouterr().err.strip()
    assert message in shown
    assert "\n" not in shown
    assert not (data / "out").exists()


def test_the_large_models_gradings_become_records(data: Path) -> None:
    grading = {"dataset": "set", "id": "q1", "n": 3, "grades": [5, 2, 1]}
    (data / "graded" / "large_llm.jsonl").write_text(json.dumps(grading) + "\n")
    assert main(["large_llm", "--data", str(data), "--out", str(data / "out.jsonl")]) == 0
    [(_, record)] = read_records(data / "out.jsonl")
    assert (record.model, record.dataset, record.n, record.grades) == ("large_llm", "set_de", 3, (5, 2, 1))
    [again] = export_large_llm(data / "graded" / "large_llm.jsonl", data / "graded" / "large_llm.prompt.txt", data)
    assert again == record


def test_exported_records_hold_no_text(data: Path) -> None:
    main(["embedded", "--records", str(reading(data)), "--data", str(data), "--out", str(data / "out.jsonl")])
    assert not any(text in (data / "out.jsonl").read_text() for text in ("why?", "chunk 0"))
