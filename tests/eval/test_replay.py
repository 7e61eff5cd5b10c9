import gzip
import json
import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.datasets import to_row
from eval.errors import EvalError
from eval.records import Record, to_line
from eval.replay import replay
from eval.replay_report import to_json
from eval.traffic import Pruned

PRICES = ["--input-price", "1000", "--output-price", "2000"]


def decision(**changed: Any) -> dict[str, Any]:
    known = {
        "time": "2026-11-01T10:00:00Z",
        "mode": "shadow",
        "arm": "pruner",
        "status": "ok",
        "reason": None,
        "n": 4,
        "kept": [0, 2],
        "tokens": [100, 200, 300, 400],
        "usage": {"input_tokens": 900, "output_tokens": 20, "cached_tokens": 0, "calls": 1, "cost": 0.1},
        "latency": 0.7,
    }
    return {**known, **changed}


def never(line: Any) -> Pruned:
    raise AssertionError("the line holds a decision")


def told(*lines: Any) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(lines, 1):
        yield f"log:{number}", line if isinstance(line, bytes) else json.dumps(line).encode()


def written(path: Path, *lines: Any) -> Path:
    path.write_bytes(b"".join(line + b"\n" for _, line in told(*lines)))
    return path


def test_a_decision_log_is_summed_up_by_day() -> None:
    done = replay(told(decision(), decision(time="2026-11-02T01:00:00Z", kept=[0, 1, 2, 3])), never)
    assert {day: t.chunks_after for day, t in done.days.items()} == {"2026-11-01": 2, "2026-11-02": 4}
    assert done.total.tokens_after == 400 + 1_000


def test_what_was_sent_before_is_what_the_line_says_and_not_the_whole_list() -> None:
    done = replay(told(decision(baseline=[0, 1, 2])), never)
    assert (done.total.chunks_before, done.total.tokens_before) == (3, 600)
    assert (done.total.chunks_after, done.total.tokens_after) == (2, 400)


def test_pruning_that_sends_more_than_before_saves_less_than_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "log.jsonl", decision(baseline=[0]))
    assert main(["replay", str(log), *PRICES]) == 0
    said = capsys.readouterr().out
    assert "-300.0 % of the chunks' tokens are not sent" not in said
    assert "300.0 % more of the chunks' tokens are sent than before: $0.3000 more for the generator's input" in said


def test_fallbacks_are_counted_with_their_reason() -> None:
    lost = decision(
        status="fallback",
        reason="timeout",
        usage={**decision()["usage"], "input_tokens": 0, "output_tokens": 0, "cost": None},
    )
    done = replay(told(decision(), lost), never)
    assert done.total.reasons == {"fallback timeout": 1}
    assert done.total.unpriced == 0


def test_lines_of_the_baseline_arm_are_not_counted() -> None:
    done = replay(told(decision(arm="baseline"), decision(mode="off"), decision()), never)
    assert (done.total.queries, done.baseline) == (1, 2)


@pytest.mark.parametrize(
    "broken",
    [
        *(b"{", b"[]", b"null", b"\xff", {"kept": [0]}),
        *(decision(kept=[9]), decision(tokens=[1]), decision(kept=[0, 0]), decision(kept=[-1])),
        *(decision(baseline=value) for value in ([4], [-1], [0, 0], None, ["0"], 2)),
        *(decision(latency=value) for value in (math.nan, math.inf, -1, "soon")),
        *(decision(usage={**decision()["usage"], "cost": value}) for value in (math.nan, -0.1, "much")),
        *(decision(tokens=[9, 9, 9, value]) for value in (-9, math.nan)),
        *(decision(status=[]), decision(reason={}), decision(generator={"input_tokens": -1, "output_tokens": 1})),
    ],
)
def test_a_line_that_cannot_be_read_is_passed_over_and_counted(broken: Any) -> None:
    done = replay(told(decision(), broken), never)
    figures = [json.loads(to_json(each, None))["all"] for each in (done, replay(told(decision()), never))]
    assert figures[0] == figures[1]
    assert done.unreadable.total() == 1
    assert done.first_unreadable.startswith("log:2: ")


def test_a_log_without_one_readable_line_is_refused() -> None:
    with pytest.raises(EvalError, match="log:1"):
        replay(told(b"{", b"{"), never)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(EvalError, match="no line"):
        replay(told(), never)


def test_memory_does_not_grow_with_the_log() -> None:
    def peak(lines: int) -> int:
        tracemalloc.start()
        replay(told(*(decision() for _ in ())) if not lines else many(lines), never)
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def many(lines: int) -> Iterator[tuple[str, bytes]]:
        for number in range(lines):
            yield "log", json.dumps(decision(latency=0.1 + number % 977 / 100)).encode()

    assert peak(20_000) < 2 * peak(1_000)


def test_the_saving_is_told_with_the_break_even(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = {"input_tokens": 2_000, "output_tokens": 500}
    log = written(tmp_path / "log.jsonl", decision(generator=generator))
    assert main(["replay", str(log), *PRICES]) == 0
    said = capsys.readouterr().out
    # 600 of 1,000 tokens go at a dollar a thousand, less 0.10; of 2.00 + 1.00 for the query.
    assert "$0.6000 less" in said
    assert "$0.5000 net" in said
    assert "from 10.0 % of the tokens" in said
    assert "16.7 % of the bill" in said


def test_json_holds_the_same_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = written(tmp_path / "log.jsonl", decision())
    assert main(["replay", str(log), "--json", *PRICES]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["all"]["token_compression"] == pytest.approx(0.6)
    assert said["all"]["saving"]["net"] == pytest.approx(0.5)


def test_a_gzipped_log_is_read_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(decision()).encode()))
    assert main(["replay", str(path)]) == 0
    assert "| 2026-11-01 | 1 |" in capsys.readouterr().out


QUERY = {"id": "q1", "query": "how long?", "chunks": [{"id": str(i), "text": f"text {i}"} for i in range(4)]}


def graded(tmp_path: Path, **changed: Any) -> Path:
    row = to_row({"dataset": "log", **QUERY}, labelled=False)
    known = {
        **{"dataset": "log", "id": "q1", "n": 4, "list_sha256": row.sha256, "strategy": "listwise"},
        **{"model": "openai:gpt-4o-mini", "prompt": "grade.v1", "prompt_sha256": "0", "readout": "json"},
        **{"reply_format": "pairs", "chunk_order": "reranker", "version": "0", "status": "ok", "reason": None},
        **{"grades": (1, 1, 4, 1), "expected": (None,) * 4, "tokens": (10, 10, 10, 70)},
        **{"input_tokens": 100, "output_tokens": 9, "calls": 1, "cost": 0.001, "latency": 0.4},
    }
    path = tmp_path / "records.jsonl"
    path.write_text(to_line(Record(**{**known, **changed})), encoding="utf-8")
    return path


def test_a_query_with_its_chunks_is_decided_by_its_recorded_grading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "log.jsonl", {**QUERY, "time": "2026-11-05T00:00:00Z"})
    assert main(["replay", str(log), "--records", str(graded(tmp_path)), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["days"]["2026-11-05"]
    assert (said["chunks"], said["tokens"]) == ([4, 3], [100, 30])


@pytest.mark.parametrize("files", [1, 2])
def test_lists_that_were_graded_in_two_ways_are_refused_in_one_line(
    files: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "log.jsonl", QUERY)
    first = graded(tmp_path).rename(tmp_path / "w1.jsonl")
    second = graded(tmp_path, model="openai:other")
    if files == 1:
        first.write_text(first.read_text(encoding="utf-8") + second.read_text(encoding="utf-8"), encoding="utf-8")
    given = [first, second][:files]
    assert main(["replay", str(log), *(part for path in given for part in ("--records", str(path)))]) == 2
    said = capsys.readouterr().err
    assert said.endswith("graded in another way than what is before; give one way at a time\n")
    assert said.count("\n") == 1


def test_other_dials_decide_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = written(tmp_path / "log.jsonl", QUERY)
    keep = ["--keep", "listwise threshold=3 keep_top_k=0 scoring=grade"]
    assert main(["replay", str(log), "--records", str(graded(tmp_path)), "--json", *keep]) == 0
    assert json.loads(capsys.readouterr().out)["all"]["chunks"] == [4, 1]


def test_a_query_without_a_grading_says_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = written(tmp_path / "log.jsonl", QUERY)
    assert main(["replay", str(log)]) != 0
    said = capsys.readouterr().err
    assert "python -m eval grade" in said
    assert len(said.strip().splitlines()) == 1


def test_a_query_with_chunks_that_not_everyone_may_see_is_passed_over_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hidden = {**QUERY, "chunks": [{"id": "0", "text": "t", "acl": ["staff"]}]}
    log = written(tmp_path / "log.jsonl", QUERY, hidden)
    assert main(["replay", str(log), "--records", str(graded(tmp_path))]) == 0
    assert "1 lines were passed over: chunks[0].acl: who may see a chunk is not measured" in capsys.readouterr().out


@pytest.mark.parametrize("price", ["free", "nan", "-1"])
def test_a_wrong_price_is_one_line(price: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replay", str(tmp_path), f"--input-price={price}"])
    err = capsys.readouterr().err
    assert f"'{price}' is no price" in err
    assert err.count("\n") == 1
