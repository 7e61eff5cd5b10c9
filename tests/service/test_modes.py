"""Turning pruning on over HTTP: who gets which list in each mode, and what the log of decisions says of it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from pruner.cli import main
from pruner.config import PrunerConfig
from pruner.errors import BackendError, ConfigError, Reason
from pruner.rollout import Mode, arm_of
from pruner.schema import GradingRequest, RawGrading
from pruner.service.app import make_app
from pruner.service.settings import ServiceSettings
from tests.provider import Provider, Reply, chat, serve
from tests.service.served import KEY, KEYS, THREE, app_of, client, first_needed, grades, served, serving, wait_until

# The model keeps the first; the baseline is the first two.
CONFIG = PrunerConfig(model="openai:gpt-4o-mini", keep_top_k=0, fallback_top_n=2, base_url="http://127.0.0.1:9/v1")
RERANK = {"query": "which?", "documents": THREE["chunks"]}
ARMS = {arm: next(key for key in map(str, range(100)) if arm_of(key, 0.5) == arm) for arm in ("pruner", "baseline")}


def never(request: GradingRequest) -> RawGrading:
    raise AssertionError("asked")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ask(url: str, path: str = "/v1/prune", **headers: str) -> dict[str, Any]:
    body = THREE if path == "/v1/prune" else RERANK
    response = httpx2.post(url + path, json=body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def ask_as(url: str, key: str) -> dict[str, Any]:
    answer: dict[str, Any] = httpx2.post(f"{url}/v1/prune", json={**THREE, "key": key}, timeout=60).json()
    return answer


def metrics(url: str) -> dict[str, float]:
    text = httpx2.get(f"{url}/metrics").text
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def logging_app(folder: Path, mode: Mode, answer: Any = first_needed, **settings: Any) -> FastAPI:
    return app_of(answer, config=CONFIG, mode=mode, decision_log=folder / "decisions.jsonl", **settings)


@contextmanager
def waiting(folder: Path, mode: Mode, *, timeout: float = 30, **settings: Any) -> Iterator[tuple[str, Provider, Any]]:
    """A service behind a provider that answers when it is let."""
    let = threading.Event()

    def answer(body: object) -> Reply:
        let.wait(60)
        return chat(grades(3, 1))

    known = {"mode": mode, "decision_log": folder / "decisions.jsonl", **settings}
    with serve(answer) as provider:
        config = PrunerConfig(keep_top_k=0, fallback_top_n=2, base_url=provider.url, timeout=timeout)
        try:
            with served(make_app(ServiceSettings(**known), config)) as url:
                yield url, provider, let
        finally:
            let.set()


# Who gets which list


@pytest.mark.parametrize(
    ("settings", "arm", "kept", "status", "reason"),
    [
        ({"mode": "off"}, "baseline", [0, 1], "skipped", "baseline"),
        ({"mode": "shadow"}, "baseline", [0, 1], "skipped", "baseline"),
        ({"mode": "ab", "ab_share": 0.0}, "baseline", [0, 1], "skipped", "baseline"),
        ({"mode": "ab", "ab_share": 1.0}, "pruner", [0], "ok", None),
        ({"mode": "on"}, "pruner", [0], "ok", None),
    ],
)
def test_each_mode_answers_its_list_and_says_whose_it_is(
    tmp_path: Path, settings: dict[str, Any], arm: str, kept: list[int], status: str, reason: str | None
) -> None:
    with served(logging_app(tmp_path, **settings)) as url:
        answer, reranked = ask(url), ask(url, "/v1/rerank")
    assert (answer["arm"], answer["kept"], answer["status"], answer["reason"]) == (arm, kept, status, reason)
    said = reranked["meta"]["pruner"]
    assert [result["index"] for result in reranked["results"]] == kept
    assert (said["arm"], said["status"], said.get("reason")) == (arm, status, reason)
    assert [line["mode"] for line in lines(tmp_path / "decisions.jsonl")] == [settings["mode"]] * 2


@pytest.mark.parametrize("settings", [{"mode": "off"}, {"mode": "ab", "ab_share": 0.0}])
def test_the_baseline_asks_no_model(settings: dict[str, Any]) -> None:
    with served(app_of(never, config=CONFIG, **settings)) as url:
        assert ask(url)["usage"]["calls"] == 0


def test_without_a_log_every_other_mode_works_too() -> None:
    for mode in ("off", "ab", "on"):
        with served(app_of(config=CONFIG, mode=mode)) as url:
            assert ask(url)["kept"] in ([0], [0, 1])


def test_a_key_is_in_the_same_arm_whatever_way_it_comes(tmp_path: Path) -> None:
    with served(logging_app(tmp_path, "ab")) as url:
        for arm, key in ARMS.items():
            assert ask_as(url, key)["arm"] == arm
            assert ask(url, "/v1/rerank", **{"x-prune-key": key})["meta"]["pruner"]["arm"] == arm


def test_salt_and_share_decide_who_is_in_which_arm(tmp_path: Path) -> None:
    with served(logging_app(tmp_path, "ab", ab_salt="other", ab_share=0.3)) as url:
        arms = {key: ask_as(url, key)["arm"] for key in map(str, range(20))}
    assert arms == {key: arm_of(key, 0.3, "other") for key in arms}


def test_a_key_that_is_too_long_is_refused_by_its_name() -> None:
    with served(app_of()) as url:
        response = httpx2.post(f"{url}/v1/rerank", json=RERANK, headers={"x-prune-key": "x" * 1001})
    assert (response.status_code, response.json()["error"]["field"]) == (422, "header.x-prune-key")


# Overload


def test_the_baseline_needs_no_grading_slot_and_what_is_shed_is_logged(tmp_path: Path) -> None:
    with waiting(tmp_path, "ab", max_concurrent=1) as (url, provider, let):
        first = threading.Thread(target=ask_as, args=(url, ARMS["pruner"]))
        first.start()
        assert provider.asked.wait(30)
        shed, baseline = ask_as(url, ARMS["pruner"]), ask_as(url, ARMS["baseline"])
        let.set()
        first.join(30)
    assert (shed["arm"], shed["status"], shed["reason"]) == ("pruner", "fallback", "overloaded")
    assert (baseline["arm"], baseline["reason"]) == ("baseline", "baseline")
    logged = {(line["arm"], line["status"], line["reason"]) for line in lines(tmp_path / "decisions.jsonl")}
    assert logged == {
        ("pruner", "ok", None),
        ("pruner", "fallback", "overloaded"),
        ("baseline", "skipped", "baseline"),
    }


def test_shadows_beyond_the_limit_of_gradings_are_left_out_and_counted(tmp_path: Path) -> None:
    with waiting(tmp_path, "shadow", max_concurrent=1) as (url, provider, let):
        answers = [ask(url) for _ in range(3)]
        assert provider.asked.wait(30)
        found = metrics(url)
        let.set()
    assert [answer["reason"] for answer in answers] == ["baseline"] * 3
    assert found["pruner_shadows_left_out_total"] == 2
    assert len(lines(tmp_path / "decisions.jsonl")) == len(provider.requests) == 1


# The log of decisions


def test_a_shadow_answers_before_its_grading_is_done_and_logs_what_pruning_would_have_kept(tmp_path: Path) -> None:
    with waiting(tmp_path, "shadow") as (url, provider, let):
        assert ask(url)["kept"] == [0, 1]
        assert provider.asked.wait(30)
        let.set()
    [line] = lines(tmp_path / "decisions.jsonl")
    assert (line["arm"], line["kept"], line["baseline"], line["status"]) == ("pruner", [0], [0, 1], "ok")
    assert (line["usage"]["calls"], line["latency"] > 0) == (1, True)


def test_a_line_holds_what_a_replay_needs(tmp_path: Path) -> None:
    with served(logging_app(tmp_path, "on", api_keys=KEYS)) as url:
        body = {
            **THREE,
            "key": "user 7",
            "dials": {"threshold": 4},
            "chunks": [{"text": "needed", "id": "a"}, "b", "c"],
        }
        headers = {"x-request-id": "r-1", "authorization": f"Bearer {KEY}"}
        answer = httpx2.post(f"{url}/v1/prune", json={**body, "tokens": True}, headers=headers).json()
    [line] = lines(tmp_path / "decisions.jsonl")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(line.pop("time"))).total_seconds()) < 60
    assert len(line.pop("key_hash")) == 16
    assert line.pop("latency") == pytest.approx(answer["timings"]["grading"], abs=1e-4)
    assert line.pop("dials")["threshold"] == 4
    assert len(line.pop("prompt_sha256")) == 64
    assert line == {
        "request_id": "r-1",
        "mode": "on",
        "arm": "pruner",
        "status": "ok",
        "reason": None,
        "n": 3,
        "kept": answer["kept"],
        "baseline": [0, 1],
        "ids": ["a", None, None],
        "grades": [5, 1, 1],
        "expected": [None, None, None],
        "by": ["grade", "below_threshold", "below_threshold"],
        "tokens": answer["tokens"]["chunks"],
        "usage": {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 40, "calls": 1, "cost": None},
        "model": CONFIG.model,
        "prompt": "grade.v1",
        "left_out": [],
    }


@pytest.mark.parametrize("content", [False, True])
def test_text_is_in_the_log_only_where_the_operator_says_so(tmp_path: Path, content: bool) -> None:
    with served(logging_app(tmp_path, "on", log_content=content)) as url:
        httpx2.post(
            f"{url}/v1/prune", json={"query": "secret question", "chunks": ["secret 1", "secret 2"], "key": "k"}
        )
    [line] = lines(tmp_path / "decisions.jsonl")
    assert (line.get("query"), line.get("chunks")) == (
        ("secret question", ["secret 1", "secret 2"]) if content else (None, None)
    )
    assert ("secret" in json.dumps(line)) is content


def test_the_replay_of_the_evaluation_reads_every_line(tmp_path: Path) -> None:
    replay = pytest.importorskip("eval.replay").replay
    with served(logging_app(tmp_path, "ab")) as url:
        for key in ARMS.values():
            ask_as(url, key)
    content = (tmp_path / "decisions.jsonl").read_bytes().splitlines()
    done = replay([(str(number), line) for number, line in enumerate(content)], never)
    assert (done.total.queries, done.baseline, done.unreadable.total()) == (1, 1, 0)


def test_a_full_disk_costs_lines_and_no_request() -> None:
    with served(app_of(mode="on", decision_log=Path("/dev/full"))) as url:
        assert [ask(url)["status"] for _ in range(3)] == ["ok"] * 3
        wait_until(lambda: metrics(url).get('pruner_decision_log_lines_total{outcome="dropped"}') == 3)


def test_a_log_that_cannot_be_written_is_said_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRUNER_SERVICE_DECISION_LOG", str(tmp_path / "file" / "decisions.jsonl"))
    assert main(["serve", "--base-url", "http://127.0.0.1:9/v1"]) == 2
    assert "cannot write the decision log" in capsys.readouterr().err


# Metrics


def test_metrics_tell_the_arms_apart_and_count_shadows_with_their_cost(tmp_path: Path) -> None:
    with served(logging_app(tmp_path, "shadow")) as url:
        ask(url)
        wait_until(lambda: metrics(url).get('pruner_decision_log_lines_total{outcome="written"}') == 1)
        found = metrics(url)
    expected = {
        'pruner_results_total{arm="baseline",reason="baseline",status="skipped"}': 1,
        'pruner_gradings_total{reason="",status="ok"}': 1,
        'pruner_tokens_total{kind="input"}': 100,
        "pruner_grading_seconds_count": 1,
        "pruner_shadows_left_out_total": 0,
    }
    assert {name: found[name] for name in expected} == expected


def test_readiness_follows_what_shadows_meet(tmp_path: Path) -> None:
    def fails(request: GradingRequest) -> RawGrading:
        raise BackendError(Reason.AUTH)

    with serve(Reply()) as provider:
        config = PrunerConfig(keep_top_k=0, base_url=provider.url)
        settings = {"mode": "shadow", "decision_log": tmp_path / "decisions.jsonl"}
        with served(app_of(fails, config=config, **settings)) as url:
            assert httpx2.get(f"{url}/readyz").status_code == 200
            ask(url)
            wait_until(lambda: httpx2.get(f"{url}/readyz").status_code == 503)


# The end


def test_shadows_that_still_run_are_waited_for_at_the_end(tmp_path: Path) -> None:
    with waiting(tmp_path, "shadow") as (url, provider, let):
        ask(url)
        assert provider.asked.wait(30)
        threading.Timer(0.5, let.set).start()
    assert [line["status"] for line in lines(tmp_path / "decisions.jsonl")] == ["ok"]


def test_shadows_are_waited_for_no_longer_than_their_deadline(tmp_path: Path) -> None:
    with waiting(tmp_path, "shadow", timeout=0.5) as (url, provider, _):
        ask(url)
        assert provider.asked.wait(30)
    assert [line["reason"] for line in lines(tmp_path / "decisions.jsonl")] == ["timeout"]


def test_several_workers_write_one_log_and_end_with_their_last_shadows(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    settings = {"PRUNER_SERVICE_MODE": "shadow", "PRUNER_SERVICE_DECISION_LOG": str(path)}
    with serve(chat(grades(3, 1))) as provider:
        dials = ["--model", "openai:m", "--base-url", provider.url, "--keep-top-k", "0", "--timeout", "30"]
        with serving("--workers", "2", *dials, **settings) as process:
            asked = [ask(process.url, connection="close")["request_id"] for _ in range(20)]
            assert process.stop() == 0
    assert sorted(line["request_id"] for line in lines(path)) == sorted(asked)
    assert {line["status"] for line in lines(path)} == {"ok"}


def test_a_killed_service_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    with serve(chat(grades(3, 1))) as provider:
        dials = ["--model", "openai:m", "--base-url", provider.url, "--keep-top-k", "0"]
        with serving(*dials, PRUNER_SERVICE_DECISION_LOG=str(path)) as process:
            for _ in range(5):
                ask(process.url)
            wait_until(lambda: metrics(process.url).get('pruner_decision_log_lines_total{outcome="written"}') == 5)
            process.popen.kill()
            process.popen.wait(30)
    assert [line["status"] for line in lines(path)] == ["ok"] * 5


@pytest.mark.parametrize("model", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5", "local:nowhere"])
@pytest.mark.anyio
async def test_mode_off_starts_and_is_ready_without_what_asking_a_model_needs(model: str) -> None:
    app = make_app(ServiceSettings(mode="off"), PrunerConfig(model=model, fallback_top_n=2))
    async with client(app) as http:
        assert (await http.post("/v1/prune", json=THREE)).json()["kept"] == [0, 1]
        assert (await http.get("/readyz")).status_code == 200


@pytest.mark.parametrize("mode", ["shadow", "ab", "on"])
def test_every_other_mode_does_not_start_without_a_key(mode: Mode, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no API key"):
        make_app(ServiceSettings(mode=mode, decision_log=tmp_path / "log.jsonl"), PrunerConfig(model="openai:m"))


@pytest.mark.anyio
@pytest.mark.parametrize(("settings", "warned"), [({}, 1), ({"ab_salt": "s"}, 0), ({"decision_log": None}, 0)])
async def test_keys_logged_without_a_salt_are_warned_of(
    settings: dict[str, Any], warned: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(app_of(**{"decision_log": tmp_path / "log.jsonl", **settings})):
        pass
    assert len([record for record in caplog.records if "ab_salt is empty" in record.getMessage()]) == warned
