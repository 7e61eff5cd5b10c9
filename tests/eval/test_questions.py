import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval import grade
from eval.__main__ import main
from eval.records import Record, read_records
from eval.strategies import BUDGET, TOP
from pruner.backends.scripted import ScriptedBackend
from pruner.errors import BackendError, Reason
from pruner.schema import GradingRequest, RawGrading, Usage
from tests.made_rows import entry, write

PASSAGES = {
    "essential": "The porter opens the gate at night.",
    "contributing": "The porter has a gate key.",
    "supporting": "The gate is blue.",
    "tangential": "A porter carries bags.",
    "unrelated": "Rice is boiled.",
}
CHUNKS: list[dict[str, Any]] = [
    {"id": "a", "title": "Gate", "text": "The night porter opens the gate.", "score": 9.0},
    {"id": "b", "text": "The gate was painted.", "score": 5.0},
    {"id": "c", "text": "Pears grow in the orchard.", "score": 1.0},
]


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Record, list[GradingRequest]]]:
    def run(strategy: str, *answers: Any) -> tuple[Record, list[GradingRequest]]:
        backend = ScriptedBackend(answers)
        monkeypatch.setattr(grade, "make_backend", lambda config: backend)
        rows = [entry("q", query="Does the night porter open the gate?", chunks=CHUNKS)]
        data, out = write(tmp_path / "lists.jsonl", rows), tmp_path / "r.jsonl"
        command = ["grade", str(data), "--out", str(out), "--strategy", strategy, "--model", "openai:gpt-4o-mini"]
        assert main([*command, "--timeout", "9"]) == 0
        [(_, record)] = read_records(out)
        return record, backend.requests

    return run


Answered = Callable[..., tuple[Record, list[GradingRequest]]]


@pytest.mark.parametrize("strategy", ["direct_select", "budget_select"])
def test_the_model_is_shown_the_list_and_its_choice_is_recorded(answered: Answered, strategy: str) -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=10, calls=1)
    record, [request] = answered(strategy, RawGrading(text='{"keep":[3,1]}', usage=usage))
    assert record.selected == (2, 0)
    assert (record.strategy, record.prompt, record.status) == (strategy, f"{strategy}.v1", "ok")
    assert record.cost == pytest.approx(0.15, rel=1e-3)
    assert record.grades == (None, None, None)
    assert all(text in request.user for text in ("Title: Gate", "The gate was painted.", 'label="3"'))
    assert "porter" not in request.system
    assert request.schema is not None
    assert list(request.schema["properties"]) == ["keep"]


def test_the_question_about_a_budget_says_what_the_strategy_assumes(answered: Answered) -> None:
    _, [request] = answered("budget_select", '{"keep":[]}')
    assert TOP == 2
    assert "Chunks 1 and 2 are sent on anyway." in request.system
    assert f"at most {BUDGET} others" in request.system


def test_each_question_is_another_way_of_grading(answered: Answered, tmp_path: Path) -> None:
    hashes = set()
    for strategy in ("direct_select", "budget_select"):
        record, _ = answered(strategy, '{"keep":[1]}')
        (tmp_path / "r.jsonl").unlink()
        hashes.add(record.prompt_sha256)
    assert len(hashes) == 2


def test_passages_are_written_for_the_query_alone_and_scored_like_the_chunks(answered: Answered) -> None:
    record, [request] = answered("anchors", json.dumps(PASSAGES))
    assert "Does the night porter open the gate?" in request.user
    assert not any(chunk["text"] in request.user for chunk in CHUNKS)
    assert "about 30 characters long" in request.user
    assert record.anchors is not None
    assert record.ranked is not None
    assert list(record.anchors) == ["5", "4", "3", "2", "1"]
    assert record.anchors["5"] > record.anchors["2"] > record.anchors["1"] == 0
    assert record.ranked[0] > record.ranked[1] > record.ranked[2]


@pytest.mark.parametrize("strategy", ["direct_select", "budget_select", "anchors"])
def test_an_unusable_answer_is_a_fallback_with_its_reason(answered: Answered, strategy: str) -> None:
    record, _ = answered(strategy, "I would rather not")
    assert record.status == "fallback"
    assert record.reason in ("unparseable", "schema_mismatch")
    assert (record.selected, record.anchors, record.ranked) == (None, None, None)


def test_questions_are_retried_like_gradings(answered: Answered) -> None:
    busy = BackendError(Reason.RATE_LIMITED, "", retryable=True, retry_after=0.0)
    record, requests = answered("direct_select", busy, '{"keep":[1]}')
    assert (record.selected, record.calls, len(requests)) == ((0,), 2, 2)
