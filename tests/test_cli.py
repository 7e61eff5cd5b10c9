import asyncio
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from pruner import Pruner, PrunerConfig
from pruner.backends.scripted import ScriptedBackend
from pruner.cli import main
from pruner.decision_log import DecisionLog
from pruner.rollout import Rollout
from tests.provider import as_json, chat, serve

PAIRS = '{"grades":[[1,1],[2,1],[3,5],[4,2]]}'
LINES = ['"alpha"', '{"text": "beta", "id": 7}', '{"text": "gamma", "title": "The third"}', '"delta"']


@pytest.fixture(autouse=True)
def _empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chunks.jsonl").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    Path("reply.txt").write_text(PAIRS + "\n", encoding="utf-8")
    Path("empty").touch()


PRUNE = ["prune", "--query", "q", "--chunks", "chunks.jsonl", "--model", "scripted:reply.txt"]


def test_prune_prints_a_table_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PRUNE) == 0
    shown = capsys.readouterr().out
    assert "The third" in shown
    assert "5 ESSENTIAL" in shown
    assert "below threshold" in shown
    assert "kept     3 of 4 chunks" in shown


def test_the_program_runs_as_a_module_too_with_its_exit_code() -> None:
    command = [sys.executable, "-m", "pruner"]
    done = subprocess.run([*command, *PRUNE], capture_output=True, text=True, check=False)
    assert (done.returncode, "kept     3 of 4 chunks" in done.stdout, done.stderr) == (0, True, "")
    assert subprocess.run([*command, "fly"], capture_output=True, check=False).returncode == 2


def test_prune_prints_one_json_object_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PRUNE, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == "ok"
    assert result["chunks"] == ["alpha", {"text": "beta", "id": 7}, {"text": "gamma", "title": "The third"}]
    assert [d["grade"] for d in result["decisions"]] == [1, 1, 5, 2]


def test_prune_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(LINES).encode())))
    assert main(["prune", "--query", "q", "--chunks", "-", "--model", "scripted:reply.txt", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["decisions"]) == 4


def test_a_fallback_has_an_exit_code_of_its_own_and_still_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(as_json({}, 401)) as provider:
        arguments = ["prune", "--query", "q", "--chunks", "chunks.jsonl", "--base-url", provider.url, "--json"]
        assert main(arguments) == 3
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["reason"], len(result["chunks"])) == ("fallback", "auth", 4)


def test_dials_are_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PRUNE, "--json", "--threshold", "ESSENTIAL", "--keep-top-k", "0"]) == 0
    assert len(json.loads(capsys.readouterr().out)["chunks"]) == 1


def test_every_dial_but_the_key_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["prune", "--help"])
    shown = capsys.readouterr().out
    flags = {name for name in PrunerConfig.model_fields if f"--{name.replace('_', '-')}" in shown}
    assert flags == PrunerConfig.model_fields.keys() - {"api_key"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "chunks.jsonl line 5 is not JSON"),
        ("[" * 100_000, "chunks.jsonl line 5 is not JSON"),
        ("5", "chunks.jsonl line 5: give a string"),
        ('{"txt": "x"}', "chunks.jsonl line 5: give a string"),
        ('{"text": 5}', "chunks.jsonl line 5: give a string"),
        ('{"text": "x", "score": NaN}', "chunks.jsonl line 5 is not JSON: NaN"),
        ('{"text": "x", "more": [-Infinity]}', "chunks.jsonl line 5 is not JSON: -Infinity"),
        ('{"text": "x", "score": "high"}', "chunks.jsonl line 5: score"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("chunks.jsonl").write_text("\n".join([*LINES, line]), encoding="utf-8")
    assert main(PRUNE) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"pruner: {message}")
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["prune", "--query", "q", "--chunks", "nowhere.jsonl", "--base-url", "http://127.0.0.1:1"],
            "cannot read nowhere.jsonl",
        ),
        (
            ["prune", "--query", "q", "--chunks", "chunks.jsonl"],
            "no API key for 'openai:gpt-4o-mini': set OPENAI_API_KEY",
        ),
        ([*PRUNE, "--threshold", "9"], "threshold: "),
        ([*PRUNE, "--keep-top-k", "many"], "keep_top_k: "),
        ([*PRUNE, "--model", "scripted:nowhere.txt"], "cannot read the replies 'nowhere.txt'"),
        ([*PRUNE, "--prompt", "grade.v9"], "no prompt 'grade.v9'"),
        (["prompt", "show", "grade.v9"], "no prompt 'grade.v9'"),
        ([*PRUNE, "--model", "scripted:empty"], "no replies in 'empty'"),
        ([*PRUNE, "--chunks", "empty"], "no chunks in empty"),
        (["demo", "--top", "0"], "--top must be at least 1"),
        (["model", "path", "nothing"], "unknown model 'nothing'"),
    ],
)
def test_an_error_is_one_line_without_a_traceback(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("arguments", [["prune"], ["nonsense"], [], ["prune", "--nonsense"], ["model"]])
def test_a_wrong_command_points_to_the_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "--help" in capsys.readouterr().err


def test_input_that_is_not_utf8_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("chunks.jsonl").write_bytes(b'"\xff"')
    assert main(PRUNE) == 2
    assert "chunks.jsonl is not UTF-8" in capsys.readouterr().err


def test_a_byte_order_mark_and_empty_lines_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    Path("chunks.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n\r\n".join(line.encode() for line in LINES))
    assert main([*PRUNE, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["decisions"]) == 4


SELECTING = ["--dedup", "ids", "--token-budget", "90", "--mmr-lambda", "0.7", "--json"]
CARRYING = [
    '{"text": "alpha", "id": 7, "score": 0.5, "query_ids": ["q1"], "parent_id": "p"}',
    '{"text": "beta", "id": 7}',
    '{"text": "hidden words", "title": "hidden title", "acl": ["boss"]}',
    '{"text": "gamma", "acl": ["me"]}',
    '{"text": "delta", "query_ids": ["q2"]}',
]


def test_explain_shows_a_trace_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Path("chunks.jsonl").write_text("\n".join(CARRYING), encoding="utf-8")
    asked = ["--principal", "me", "--require", "q1", "--require", "q9", "--keep-top-k", "1"]
    assert main([*PRUNE, *SELECTING, *asked]) == 0
    written = capsys.readouterr().out
    Path("result.json").write_text(written, encoding="utf-8")
    Path("trace.json").write_text(json.dumps(json.loads(written)["trace"]), encoding="utf-8")
    assert main(["explain", "result.json"]) == 0
    shown = capsys.readouterr().out
    assert main(["explain", "trace.json"]) == 0
    assert capsys.readouterr().out == shown
    assert re.search(r"E1 +1 +7 +p +q1 ", shown)
    assert "duplicate id of rank 1" in shown
    assert "a budget of 90" in shown
    assert "uncovered  q9" in shown
    assert "DuplicateIds" in shown
    assert "hidden" not in written + shown


def test_the_table_names_nothing_that_the_reader_may_not_see(capsys: pytest.CaptureFixture[str]) -> None:
    Path("chunks.jsonl").write_text("\n".join(CARRYING), encoding="utf-8")
    assert main(PRUNE) == 0
    shown = capsys.readouterr().out
    assert shown.count("(no access)") == 2
    assert "hidden" not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "trace.json is not JSON"),
        ("[" * 100_000, "trace.json is not JSON"),
        ("[]", "trace.json is no trace"),
        ('{"trace": {"model": 1}}', "trace.json is no trace: model"),
        ('{"baseline": [0]}', "trace.json is no trace: n: "),
        ("{}\n{}", "; of a log give one line, as in: grep ID FILE | pruner explain -\n"),
        (" \n", "trace.json is empty; give a trace, or a line of the decision log"),
        ("{},", "trace.json is not JSON: Extra data: line 1 column 3 (char 2)\n"),
        ('{"arm": "pruner"}', "trace.json is no trace: n: "),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.json").write_text(text, encoding="utf-8")
    assert main(["explain", "trace.json"]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def _log(path: Path, *queries: str) -> None:
    async def decide() -> None:
        pruner = Pruner(PrunerConfig(fallback_top_n=3), backend=ScriptedBackend([PAIRS] * len(queries)))
        with DecisionLog(path) as log:
            for query in queries:
                rollout = Rollout(pruner, "on", log=log)
                await rollout.prune(query, ["alpha", {"text": "beta", "id": 7}, "gamma", "delta"])

    asyncio.run(decide())


def test_explain_shows_a_line_of_the_decision_log_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    _log(Path("decisions.jsonl"), "q")
    assert main(["explain", "decisions.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ +2  7 +\d+  1 UNRELATED +-  kept +kept +keep top k$", shown, re.MULTILINE)
    assert re.search(r"^ +4  - +\d+  2 TANGENTIAL +-  dropped +dropped +below threshold$", shown, re.MULTILINE)
    assert "3 of 4 chunks kept, 3 by the baseline" in shown
    assert "mode     on, arm pruner" in shown


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("kept", [0, 4], "kept and baseline must hold places"),
        ("baseline", [-1], "kept and baseline must hold places"),
        ("ids", [7], "must have n entries each"),
        ("n", 10**400, "must have n entries each"),
        ("latency", 1e308, "latency: "),
        ("latency", float("nan"), "latency: "),
        ("expected", [1e308] * 4, "expected.0"),
        ("grades", [6] * 4, "grades.0"),
    ],
)
def test_a_line_of_the_log_that_cannot_be_is_refused_in_one_line(
    field: str, value: object, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _log(Path("decisions.jsonl"), "q")
    line = json.loads(Path("decisions.jsonl").read_text(encoding="utf-8"))
    Path("line.json").write_text(json.dumps({**line, field: value}), encoding="utf-8")
    assert main(["explain", "line.json"]) == 2
    shown = capsys.readouterr().err
    assert fault in shown
    assert (shown.count("\n"), len(shown) < 200) == (1, True)


def test_of_a_whole_decision_log_explain_asks_for_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _log(Path("decisions.jsonl"), "q", "r")
    assert main(["explain", "decisions.jsonl"]) == 2
    assert capsys.readouterr().err.endswith("of a log give one line, as in: grep ID FILE | pruner explain -\n")


def test_explain_shows_names_whole_where_no_terminal_is_too_narrow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    Path("chunks.jsonl").write_text('{"text": "alpha", "id": "handbook-2025-0001"}\n"b"\n"c"\n"d"', encoding="utf-8")
    assert main([*PRUNE, "--json"]) == 0
    Path("result.json").write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["explain", "result.json"]) == 0
    assert "handbook-2025-0001" in capsys.readouterr().out


def test_a_name_that_would_move_the_cursor_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "a\nb\x1b[31m"]) == 2
    assert capsys.readouterr().err.startswith("pruner: cannot read a b\N{REPLACEMENT CHARACTER}[31m: ")


def test_an_argument_that_would_move_the_cursor_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["explain", "trace.json", "--a\nb\x1b[31m"])
    shown = capsys.readouterr().err
    assert "--a b\N{REPLACEMENT CHARACTER}[31m" in shown
    assert shown.count("\n") == 1


def test_a_closed_standard_input_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["explain", "-"]) == 2
    assert capsys.readouterr().err == "pruner: cannot read standard input: it is closed\n"


OLD_TRACE: dict[str, object] = {
    "model": "openai:m", "prompt": "grade.v1", "prompt_sha256": "0", "readout": "json", "chunk_order": "reranker",
    "left_out": [], "status": "ok", "reason": None, "dials": {},
    "stages": [{"stage": "Threshold", "kept": [0], "dropped": {"1": "below_threshold"}}],
}  # fmt: skip


def test_a_trace_of_before_the_selection_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trace.json").write_text(json.dumps(OLD_TRACE), encoding="utf-8")
    assert main(["explain", "trace.json"]) == 0
    assert "Threshold" in capsys.readouterr().out


def test_what_a_trace_holds_does_not_move_the_cursor_when_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    stage = {"stage": "s", "kept": [], "dropped": {"a\n\x1b[31mb": "x"}}
    Path("trace.json").write_text(json.dumps({**OLD_TRACE, "stages": [stage]}), encoding="utf-8")
    assert main(["explain", "trace.json"]) == 2
    assert "is no trace: stages.0.dropped.a \N{REPLACEMENT CHARACTER}[31mb" in capsys.readouterr().err


def test_config_shows_each_value_and_where_it_came_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRUNER_KEEP_TOP_K", "5")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    Path("pruner.toml").write_text("threshold = 4\n", encoding="utf-8")
    assert main(["config", "--timeout", "9"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["keep_top_k"] == ["5", "PRUNER_KEEP_TOP_K"]
    assert rows["threshold"] == ["4.0", "pruner.toml"]
    assert rows["timeout"] == ["9.0", "argument"]
    assert rows["api_key"] == ["********", "OPENAI_API_KEY"]
    assert rows["reply_format"] == ["pairs", "default"]


def test_what_a_base_url_asks_with_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--base-url", "http://host/v1?key=s3cret"]) == 2
    assert "s3cret" not in "".join(capsys.readouterr())


def test_prompt_show_prints_the_source_or_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompt", "show"]) == 0
    assert capsys.readouterr().out.split() == ["grade.v1", "levels.v1", "probe.v1"]
    assert main(["prompt", "show", "grade.v1"]) == 0
    assert "ESSENTIAL" in capsys.readouterr().out


def test_model_list_says_what_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRUNER_CACHE_DIR", str(tmp_path))
    assert main(["model", "list"]) == 0
    assert "not here" in capsys.readouterr().out
    assert main(["model", "path"]) == 2
    assert "pruner model pull" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pruner {version('listwise-pruner')}\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "pruner.cli", "prompt", "show", "grade.v1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")


def shell(arguments: Sequence[str], redirection: str, said: str = "") -> subprocess.CompletedProcess[str]:
    command = f"exec {shlex.join([sys.executable, '-m', 'pruner', *arguments])} {redirection}"
    return subprocess.run(command, shell=True, input=said, capture_output=True, text=True, check=False)


WRITING = {
    "prune": PRUNE,
    "prune --json": [*PRUNE, "--json"],
    "explain": ["explain", "trace.json"],
    "config": ["config"],
    "prompt show": ["prompt", "show"],
    "prompt show NAME": ["prompt", "show", "grade.v1"],
    "model list": ["model", "list"],
    "serve --hash-key": ["serve", "--hash-key"],
    "--version": ["--version"],
    "--help": ["--help"],
    "prune --help": ["prune", "--help"],
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", WRITING.values(), ids=WRITING)
def test_output_that_cannot_be_written_is_told_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*PRUNE, "--json"]) == 0
    Path("trace.json").write_text(capsys.readouterr().out, encoding="utf-8")
    done = shell(arguments, ">/dev/full")
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last) == (2, "pruner: cannot write to standard output: No space left on device")
    assert done.stderr.count("\n") == (2 if "--hash-key" in arguments else 1)  # The first is the new key.


@pytest.mark.parametrize(
    "arguments", [*WRITING.values(), ["mcp"], ["serve"], ["demo"]], ids=[*WRITING, "mcp", "serve", "demo"]
)
def test_a_closed_output_is_told_in_one_line_before_anything_is_done(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert main(arguments) == 2
    assert capsys.readouterr().err == "pruner: cannot write to standard output: it is closed\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_an_answer_to_an_agent_that_cannot_be_written_is_told_in_one_line() -> None:
    pytest.importorskip("mcp")
    client = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
    done = shell(["mcp", "--model", "scripted:reply.txt"], ">/dev/full", hello + "\n")
    told = "pruner: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_a_process_whose_output_is_closed_says_so() -> None:
    done = shell(PRUNE, ">&-")
    assert (done.returncode, done.stderr) == (2, "pruner: cannot write to standard output: it is closed\n")


@pytest.mark.parametrize(("arguments", "code"), [(PRUNE, 0), (["explain", "empty"], 2), (["fly"], 2)])
def test_nothing_is_said_where_standard_error_is_closed(arguments: list[str], code: int) -> None:
    assert shell(arguments, "2>&-").returncode == code


def test_odd_characters_can_be_printed_anywhere(tmp_path: Path) -> None:
    Path("chunks.jsonl").write_text('"a\\ud800b"\n"\\u001b[31mred"\n"zwei 世界"\n"d"\n', encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "pruner.cli", *PRUNE]
    for extra in list[str](), ["--json"]:
        done = subprocess.run([*command, *extra], capture_output=True, env=environment, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"\x1b" not in done.stdout


def test_chat_replies_are_graded_over_the_wire(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(chat(PAIRS)) as provider:
        assert main(["prune", "--query", "q", "--chunks", "chunks.jsonl", "--base-url", provider.url]) == 0
    assert "status   ok" in capsys.readouterr().out
