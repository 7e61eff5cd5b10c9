import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from eval import grade
from eval.__main__ import main
from eval.records import Record, read_records
from pruner.backends.scripted import Answer, ScriptedBackend
from pruner.errors import BackendError, Reason
from pruner.schema import GradingRequest, RawGrading, Usage
from tests.made_rows import entry, write
from tests.provider import HANG, Provider, Reply, as_json, chat, serve

MODEL = ["--model", "openai:gpt-4o-mini"]
PAIRS = '{"grades":[[1,5],[2,1],[3,4],[4,2]]}'
# At $0.15 and $0.60 a million tokens.
PRICED = RawGrading(text=PAIRS, usage=Usage(input_tokens=1_000_000, output_tokens=100_000, calls=1))
PRICE = 0.15 + 0.06


class Script(ScriptedBackend):
    """Answers, counts how many it answers at a time, and is closed."""

    at_once = most_at_once = 0
    closed = False

    async def grade(self, request: GradingRequest) -> RawGrading:
        import asyncio

        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(5):
            await asyncio.sleep(0)
        self.at_once -= 1
        return await super().grade(request)

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Script]:
    def make(answers: Any) -> Script:
        backend = Script(answers)
        monkeypatch.setattr(grade, "make_backend", lambda config: backend)
        return backend

    return make


def lists(folder: Path, count: int = 5, name: str = "lists.jsonl", **fields: Any) -> str:
    return str(write(folder / name, [entry(f"{name[0]}{i}", **fields) for i in range(count)]))


def records(path: Path) -> list[Record]:
    return [record for _, record in read_records(path)]


def always(answer: Answer) -> Callable[[GradingRequest], Answer]:
    return lambda request: answer


def test_a_record_holds_what_was_paid_for(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    backend = scripted(always(PRICED))
    assert main(["grade", lists(tmp_path, 1), "--out", str(tmp_path / "r.jsonl"), *MODEL, "--seed", "3"]) == 0
    [found] = records(tmp_path / "r.jsonl")
    assert (found.dataset, found.id, found.n, found.status, found.reason) == ("set", "l0", 4, "ok", None)
    assert (found.strategy, found.model, found.prompt) == ("listwise", "openai:gpt-4o-mini", "grade.v1")
    assert (found.readout, found.reply_format, found.chunk_order) == ("json", "pairs", "reranker")
    assert (found.grades, found.expected, found.reply) == ((5, 1, 4, 2), (None,) * 4, PAIRS)
    assert (found.input_tokens, found.output_tokens, found.calls) == (1_000_000, 100_000, 1)
    assert found.cost == pytest.approx(PRICE)
    assert len(found.prompt_sha256) == len(found.list_sha256) == 64
    assert found.tokens is not None
    assert min(found.tokens) > 0
    assert backend.closed
    assert backend.requests[0].logprobs


def test_what_is_in_the_file_is_not_asked_again(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    backend = scripted(always(PAIRS))
    data, out = lists(tmp_path), str(tmp_path / "r.jsonl")
    for limit in ("2", "4", "9"):
        assert main(["grade", data, "--out", out, "--limit", limit, *MODEL]) == 0
    assert len(backend.requests) == 5
    assert [record.id for record in records(Path(out))] == ["l0", "l1", "l2", "l3", "l4"]


@pytest.mark.parametrize(
    "other",
    [
        ["--model", "openai:gpt-4o"],
        ["--reply-format", "keyed"],
        ["--readout", "probe"],
        ["--chunk-order", "shuffle"],
        ["--chunk-order", "shuffle", "--seed", "1"],
        ["--cut", "3"],
        ["--scoring", "grade"],
        ["--strategy", "direct_select"],
    ],
)
def test_a_list_is_graded_once_for_each_way_of_grading(
    tmp_path: Path, scripted: Callable[..., Script], other: list[str]
) -> None:
    backend = scripted(always(PAIRS))
    data, out = lists(tmp_path, 1), str(tmp_path / "r.jsonl")
    command = ["grade", data, "--out", out, *MODEL]
    for arguments in (command, [*command, *other], command, [*command, *other]):
        assert main(arguments) == 0
    assert len(backend.requests) == 2
    assert len({record.key for record in records(Path(out))}) == 2


def test_hints_about_the_domain_are_another_way_of_grading_and_stay_private(
    tmp_path: Path, scripted: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = scripted(always(PAIRS))
    command = ["grade", lists(tmp_path, 1), "--out", str(tmp_path / "r.jsonl"), *MODEL]
    main(command)
    monkeypatch.setenv("PRUNER_INSTRUCTIONS", "our secret product")
    monkeypatch.setenv("PRUNER_TEMPERATURE", "0.5")
    main(command)
    assert len(backend.requests) == 2
    dials = records(tmp_path / "r.jsonl")[1].dials
    assert dials.startswith("temperature=0.5 instructions=")
    assert "secret" not in dials


def test_dials_that_select_keep_nothing_from_the_model(
    tmp_path: Path, scripted: Callable[..., Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MIN_SCORE": "3.5", "KEEP_TOP_K": "9", "MIN_CHUNKS": "9", "MIN_TOKENS": "999"}.items():
        monkeypatch.setenv(f"PRUNER_{name}", value)
    backend = scripted(always(PAIRS))
    assert main(["grade", lists(tmp_path, 1), "--out", str(tmp_path / "r.jsonl"), *MODEL]) == 0
    assert backend.requests[0].n == 4


def test_a_few_lists_are_graded_at_a_time(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    backend = scripted(always(PAIRS))
    main(["grade", lists(tmp_path, 12), "--out", str(tmp_path / "r.jsonl"), "--concurrency", "3", *MODEL])
    assert backend.most_at_once == 3


def test_a_sample_is_the_same_each_time_and_grows_with_the_limit(
    tmp_path: Path, scripted: Callable[..., Script]
) -> None:
    scripted(always(PAIRS))
    data = lists(tmp_path, 20)
    drawn = {}
    for limit, seed in [(3, 1), (6, 1), (6, 2)]:
        out = tmp_path / f"{limit}-{seed}.jsonl"
        main(["grade", data, "--out", str(out), "--limit", str(limit), "--sample", str(seed), *MODEL])
        drawn[limit, seed] = {record.id for record in records(out)}
    assert drawn[3, 1] < drawn[6, 1]
    assert drawn[6, 1] != drawn[6, 2]
    assert drawn[6, 1] != {f"l{i}" for i in range(6)}


def test_the_limit_is_of_each_file(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    scripted(always(PAIRS))
    one, two = lists(tmp_path), lists(tmp_path, name="more.jsonl")
    main(["grade", one, two, "--out", str(tmp_path / "r.jsonl"), "--limit", "2", *MODEL])
    assert {record.id for record in records(tmp_path / "r.jsonl")} == {"l0", "l1", "m0", "m1"}


def test_it_stops_before_the_records_cost_more_than_allowed(
    tmp_path: Path, scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    backend = scripted(always(PRICED))
    command = ["grade", lists(tmp_path, 9), "--out", str(tmp_path / "r.jsonl"), *MODEL]
    assert main([*command, "--concurrency", "1", "--max-cost", str(2.5 * PRICE)]) == 1
    assert len(backend.requests) == 2
    assert "7 lists are not graded: the next list might exceed --max-cost" in capsys.readouterr().err
    assert main([*command, "--max-cost", str(2 * PRICE)]) == 1
    assert len(backend.requests) == 2


def test_lists_on_their_way_count_against_the_limit(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    # A prompt of this size may cost $0.0007 at the very most; the usage says what it did cost.
    backend = scripted(always(RawGrading(text=PAIRS, usage=Usage(input_tokens=1_000, output_tokens=100, calls=1))))
    command = ["grade", lists(tmp_path, 9), "--out", str(tmp_path / "r.jsonl"), *MODEL]
    assert main([*command, "--concurrency", "9", "--max-cost", "0.0018"]) == 1
    assert backend.most_at_once < 9
    assert sum(record.cost or 0 for record in records(tmp_path / "r.jsonl")) <= 0.0018
    assert main([*command, "--concurrency", "9"]) == 0
    assert len(backend.requests) == 9


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (["--model", "scripted:x"], "nobody knows the price of scripted:x; leave it out"),
        ([*MODEL, "--base-url", "http://127.0.0.1:9/v1"], "a server at base_url has prices of its own; leave it out"),
    ],
)
def test_a_limit_that_cannot_be_held_is_refused(
    tmp_path: Path, scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str], model: list[str], said: str
) -> None:
    backend = scripted(always(PAIRS))
    assert main(["grade", lists(tmp_path), "--out", str(tmp_path / "r"), "--max-cost", "1", *model]) == 2
    assert f"--max-cost cannot be held: {said}" in capsys.readouterr().err
    assert not backend.requests


def test_replies_are_left_out_when_asked(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    scripted(always(PAIRS))
    main(["grade", lists(tmp_path, 1), "--out", str(tmp_path / "r.jsonl"), "--no-reply", *MODEL])
    assert records(tmp_path / "r.jsonl")[0].reply is None
    held = (tmp_path / "r.jsonl").read_text()
    assert not any(text in held for text in ("chunk 0", "why?", "grades\\"))


def test_a_failed_grading_is_recorded_and_graded_again_only_when_asked(
    tmp_path: Path, scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    backend = scripted(["no grades here", PAIRS])
    command = ["grade", lists(tmp_path, 1), "--out", str(tmp_path / "r.jsonl"), *MODEL]
    assert main(command) == 0
    assert "--retry grades again what ended in a fallback" in capsys.readouterr().err
    assert main(command) == 0
    assert main([*command, "--retry"]) == 0
    assert main([*command, "--retry"]) == 0
    assert [(r.status, r.reason) for r in records(tmp_path / "r.jsonl")] == [("fallback", "unparseable"), ("ok", None)]
    assert len(backend.requests) == 2


def test_a_list_whose_provider_was_not_reached_is_left_for_the_next_run(
    tmp_path: Path, scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str]
) -> None:
    down = BackendError(Reason.PROVIDER_ERROR, "HTTP 500")
    scripted([PAIRS, down, PAIRS, down, PAIRS])
    command = ["grade", lists(tmp_path), "--out", str(tmp_path / "r.jsonl"), "--concurrency", "1", *MODEL]
    assert main(command) == 1
    assert "2 lists are not graded" in capsys.readouterr().err
    backend = scripted(always(PAIRS))
    assert main(command) == 0
    assert len(backend.requests) == 2


@pytest.mark.parametrize(("reason", "calls"), [(Reason.AUTH, 1), (Reason.PROVIDER_ERROR, 5), (Reason.TIMEOUT, 5)])
def test_a_model_that_does_not_answer_is_not_asked_for_the_whole_set(
    tmp_path: Path, scripted: Callable[..., Script], capsys: pytest.CaptureFixture[str], reason: Reason, calls: int
) -> None:
    backend = scripted(always(BackendError(reason, "no")))
    command = ["grade", lists(tmp_path, 9), "--out", str(tmp_path / "r.jsonl"), "--concurrency", "1", *MODEL]
    assert main(command) == 1
    assert len(backend.requests) == calls
    assert f"the model does not answer ({reason}" in capsys.readouterr().err


def test_a_model_that_answers_badly_is_still_measured_on_the_whole_set(
    tmp_path: Path, scripted: Callable[..., Script]
) -> None:
    backend = scripted(always("I cannot grade"))
    assert main(["grade", lists(tmp_path, 9), "--out", str(tmp_path / "r.jsonl"), *MODEL]) == 0
    assert len(backend.requests) == 9


def test_a_bug_is_not_taken_for_a_fallback(tmp_path: Path, scripted: Callable[..., Script]) -> None:
    scripted([])
    with pytest.raises(RuntimeError, match="no answer left"):
        main(["grade", lists(tmp_path), "--out", str(tmp_path / "r.jsonl"), *MODEL])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-cost", "0"], "--max-cost must be above 0"),
        (["--max-cost", "nan"], "--max-cost must be above 0"),
        (["--limit", "0"], "--limit: must be a whole number above 0"),
        (["--timeout", "-1"], "timeout: "),
        (["--model", "gpt"], "model: must be 'prefix:name'"),
        (["--prompt", "none.v9"], "no prompt 'none.v9'"),
        (["--strategy", "all"], "invalid choice: 'all'"),
        (["--strategy", "anchors", "--readout", "probe"], "anchors needs a JSON reply"),
        (["--strategy", "direct_select", "--chunk-order", "shuffle"], "direct_select needs a JSON reply over"),
    ],
)
def test_a_wrong_argument_is_one_line(
    tmp_path: Path,
    scripted: Callable[..., Script],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    backend = scripted(always(PAIRS))
    try:
        code = main(["grade", lists(tmp_path, 1), "--out", str(tmp_path / "r.jsonl"), *MODEL, *arguments])
    except SystemExit as exit_:
        code = int(str(exit_.code))
    shown = capsys.readouterr().err.strip()
    assert code == 2
    assert message in shown
    assert "\n" not in shown
    assert not backend.requests


def test_the_lists_are_never_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lists(tmp_path)
    before = Path(data).read_bytes()
    assert main(["grade", data, "--out", data, *MODEL]) == 2
    assert "is one of the lists" in capsys.readouterr().err
    assert Path(data).read_bytes() == before


def logprobs(text: str) -> Reply:
    tokens = [
        {"token": character, "logprob": -0.1, "bytes": None, "top_logprobs": [{"token": character, "logprob": -0.1}]}
        for character in text
    ]
    choice = {
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        "logprobs": {"content": tokens},
    }
    return as_json(
        {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index": 0, **choice}]}
    )


def test_any_openai_compatible_server_grades(tmp_path: Path) -> None:
    with serve(logprobs(PAIRS)) as provider:
        arguments = ["--out", str(tmp_path / "r.jsonl"), "--model", "openai:mine", "--base-url", provider.url]
        assert main(["grade", lists(tmp_path, 2), *arguments]) == 0
    found = records(tmp_path / "r.jsonl")
    assert [record.expected for record in found] == [(5.0, 1.0, 4.0, 2.0)] * 2
    assert {body["model"] for body in provider.requests} == {"mine"}


def spawn(folder: Path, provider: Provider, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "eval", "grade", str(folder / "lists.jsonl"), "--out", str(folder / "r.jsonl")]
    command += [
        "--model",
        "openai:mine",
        "--base-url",
        provider.url,
        "--timeout",
        "60",
        "--concurrency",
        "1",
        *arguments,
    ]
    return subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def asked(provider: Provider) -> Counter[str]:
    """Count how often each list was asked about, by the text of its first chunk."""
    names = [f"l{i}" for i in range(5)]
    return Counter(name for body in provider.requests for name in names if f"chunk 0 of {name}" in json.dumps(body))


def test_a_killed_run_goes_on_and_pays_twice_only_for_what_was_on_its_way(tmp_path: Path) -> None:
    lists(tmp_path)
    waiting = Event()

    def two_then_silence(body: dict[str, Any]) -> Reply:
        if len(provider.requests) <= 2:
            return chat(PAIRS)
        waiting.set()
        return HANG

    with serve(two_then_silence) as provider:
        run = spawn(tmp_path, provider)
        assert waiting.wait(60)
        run.kill()
        run.wait()
    first = asked(provider)
    with (tmp_path / "r.jsonl").open("ab") as file:
        file.write(b'{"dataset": "set", "id": "l2", "n"')  # as a kill in the middle of a write leaves it
    with serve(chat(PAIRS)) as provider:
        assert spawn(tmp_path, provider).wait(60) == 0
    assert first == {"l0": 1, "l1": 1, "l2": 1}
    assert asked(provider) == {"l2": 1, "l3": 1, "l4": 1}
    assert [record.id for record in records(tmp_path / "r.jsonl")] == ["l0", "l1", "l2", "l3", "l4"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_waits_for_what_is_on_its_way_since_it_is_paid(tmp_path: Path, number: int) -> None:
    lists(tmp_path)
    waiting, go_on = Event(), Event()

    def slowly(body: dict[str, Any]) -> Reply:
        if len(provider.requests) == 2:
            waiting.set()
            go_on.wait(60)
        return chat(PAIRS)

    with serve(slowly) as provider:
        run = spawn(tmp_path, provider)
        assert waiting.wait(60)
        run.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(0.5)
        go_on.set()
        assert run.wait(60) == 1
    assert [record.id for record in records(tmp_path / "r.jsonl")] == ["l0", "l1"]
