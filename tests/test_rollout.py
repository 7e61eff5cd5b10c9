import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pruner import BackendError, ConfigError, Pruner, PrunerConfig, Reason, RequestError
from pruner.backends.scripted import Answer, ScriptedBackend
from pruner.decision_log import DecisionLog
from pruner.rollout import Mode, Rollout, arm_of
from pruner.schema import GradingRequest, RawGrading
from pruner.tokens import estimate

pytestmark = pytest.mark.anyio

FIVE = ["alpha", "beta", "gamma", "delta", "epsilon"]
GRADES = json.dumps({"grades": [[1, 1], [2, 1], [3, 5], [4, 1], [5, 1]]})


class Setting:
    """A rollout with all its parts, and the lines that it logged."""

    def __init__(self, path: Path, mode: Mode, answers: Sequence[Answer] = (GRADES,), **options: Any) -> None:
        self.backend = ScriptedBackend(list(answers))
        pruner = Pruner(PrunerConfig(fallback_top_n=3), backend=self.backend)
        self._path = path / "decisions.jsonl"
        self._log = DecisionLog(self._path)
        self.rollout = Rollout(pruner, mode, log=self._log, **options)

    async def lines(self) -> list[dict[str, Any]]:
        await self.rollout.drain()
        self._log.close()
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]


async def test_off_gives_the_baseline_and_asks_nobody(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "off")
    result = await setting.rollout.prune("q", FIVE)
    assert (result.chunks, result.arm) == (FIVE[:3], "baseline")
    assert (result.status, result.reason) == ("skipped", "baseline")
    assert setting.backend.requests == []
    assert [(line["mode"], line["arm"]) for line in await setting.lines()] == [("off", "baseline")]


@pytest.mark.parametrize("mode", ["off", "shadow", "on"])
async def test_lines_of_every_mode_name_the_same_model(mode: Mode, tmp_path: Path) -> None:
    setting = Setting(tmp_path, mode)
    await setting.rollout.prune("q", FIVE)
    assert [line["model"] for line in await setting.lines()] == ["ScriptedBackend"]


async def test_on_gives_the_pruned_list(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "on")
    result = await setting.rollout.prune("q", FIVE)
    assert (result.chunks, result.arm, result.status) == (["alpha", "beta", "gamma"], "pruner", "ok")


async def test_shadow_gives_the_baseline_before_the_grading_is_done(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "shadow")
    result = await setting.rollout.prune("q", FIVE)
    assert setting.backend.requests == []
    assert (result.chunks, result.arm) == (FIVE[:3], "baseline")
    await setting.rollout.drain()
    assert len(setting.backend.requests) == 1


async def test_shadow_logs_what_pruning_would_have_kept(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "shadow", [json.dumps({"grades": [[1, 1], [2, 1], [3, 1], [4, 5], [5, 1]]})])
    await setting.rollout.prune("q", FIVE, request_id="r7")
    [line] = await setting.lines()
    assert (line["kept"], line["baseline"], line["arm"]) == ([0, 1, 3], [0, 1, 2], "pruner")
    assert (line["grades"], line["n"], line["request_id"]) == ([1, 1, 1, 5, 1], 5, "r7")


async def test_a_shadow_that_fails_is_logged_with_its_reason(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "shadow", [BackendError(Reason.AUTH)])
    await setting.rollout.prune("q", FIVE)
    assert [(line["status"], line["reason"]) for line in await setting.lines()] == [("fallback", "auth")]


async def test_a_shadow_grades_the_list_as_it_was_given(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "shadow")
    chunks = list(FIVE)
    await setting.rollout.prune("q", chunks)
    chunks.clear()
    assert [line["n"] for line in await setting.lines()] == [5]


async def test_no_more_shadows_run_at_once_than_may(tmp_path: Path) -> None:
    gate = asyncio.Event()

    class Waiting:
        async def grade(self, request: GradingRequest) -> RawGrading:
            await gate.wait()
            return RawGrading(text=GRADES)

    rollout = Rollout(Pruner(PrunerConfig(timeout=60), backend=Waiting()), "shadow", max_shadows=7)
    for _ in range(10):
        await rollout.prune("q", FIVE)
    gate.set()
    await rollout.drain()
    assert rollout.unwatched == 3


async def test_ab_keeps_a_key_in_its_arm(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "ab", [GRADES] * 40, ab_share=0.5)
    arms = {
        key: {(await setting.rollout.prune("q", FIVE, key=key)).arm for _ in range(2)} for key in map(str, range(20))
    }
    assert all(len(seen) == 1 for seen in arms.values())
    assert {"pruner", "baseline"} == set().union(*arms.values())


async def test_ab_grades_only_the_pruners_arm(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "ab", ab_share=0.0)
    await setting.rollout.prune("q", FIVE, key="k")
    assert setting.backend.requests == []


async def test_ab_without_a_key_goes_by_the_query(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "ab", [GRADES] * 40)
    arms = [(await setting.rollout.prune(f"question {i}", FIVE)).arm for i in (*range(20), *range(20))]
    assert arms[:20] == arms[20:]
    assert set(arms) == {"pruner", "baseline"}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_share_of_keys_in_the_pruners_arm_is_as_set(share: float) -> None:
    inside = sum(arm_of(f"user {i}", share) == "pruner" for i in range(10_000))
    assert inside / 10_000 == pytest.approx(share, abs=0.02)


def test_a_larger_share_moves_nobody_out_of_the_pruners_arm() -> None:
    keys = [f"user {i}" for i in range(1_000)]
    assert {k for k in keys if arm_of(k, 0.2) == "pruner"} <= {k for k in keys if arm_of(k, 0.4) == "pruner"}


def test_another_salt_is_another_split() -> None:
    keys = [f"user {i}" for i in range(200)]
    assert [arm_of(k, 0.5, "a") for k in keys] != [arm_of(k, 0.5, "b") for k in keys]


async def test_a_key_may_hold_anything(tmp_path: Path) -> None:
    assert (await Setting(tmp_path, "ab").rollout.prune("q\ud800", FIVE, key="\ud800\0")).arm in ("pruner", "baseline")


async def test_the_log_holds_no_text_and_no_key_unless_told(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "on")
    await setting.rollout.prune("secret question", [*FIVE[:4], "secret chunk"], key="secret user")
    assert "secret" not in json.dumps(await setting.lines())


async def test_the_log_holds_the_texts_when_told(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "on", log_content=True)
    await setting.rollout.prune("q", FIVE)
    [line] = await setting.lines()
    assert (line["query"], line["chunks"]) == ("q", FIVE)


async def test_tokens_are_guessed_while_the_log_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["uncommonly unpronounceable " * 20, *FIVE[1:]]
    counted = Setting(tmp_path / "counted", "off")
    result = await counted.rollout.prune("q", texts)
    [line] = await counted.lines()
    guessed = Setting(tmp_path / "guessed", "off")
    monkeypatch.setattr(DecisionLog, "behind", True)
    await guessed.rollout.prune("q", texts)
    [other] = await guessed.lines()
    assert (line["tokens"], other["tokens"]) == (list(result.tokens), list(map(estimate, texts)))
    assert line["tokens"] != other["tokens"]
    assert line | {"tokens": 0, "time": 0, "latency": 0} == other | {"tokens": 0, "time": 0, "latency": 0}


@pytest.mark.parametrize("mode", ["off", "on", "shadow"])
async def test_a_line_says_of_prompt_and_dials_what_the_trace_says(mode: Mode, tmp_path: Path) -> None:
    setting = Setting(tmp_path, mode)
    result = await setting.rollout.prune("q", FIVE, dials={"threshold": 2.0})
    [line] = await setting.lines()
    trace = json.loads(result.trace.model_dump_json())
    assert line["dials"] == trace["dials"]
    if mode != "shadow":
        assert all(line[name] == trace[name] for name in ("model", "prompt", "prompt_sha256", "left_out"))


async def test_dials_for_this_once_are_used_and_logged(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "on")
    result = await setting.rollout.prune("q", FIVE, dials={"threshold": 1})
    assert result.chunks == FIVE
    assert (await setting.lines())[0]["dials"]["threshold"] == 1


@pytest.mark.parametrize("mode", ["off", "shadow", "ab", "on"])
@pytest.mark.parametrize("chunks", ["text", {"text": "x"}, (c for c in FIVE), [1]])
async def test_the_callers_mistakes_raise_in_every_mode(tmp_path: Path, mode: Mode, chunks: Any) -> None:
    with pytest.raises(RequestError):
        await Setting(tmp_path, mode).rollout.prune("q", chunks)


@pytest.mark.parametrize("mode", ["off", "shadow", "ab", "on"])
async def test_a_history_that_is_none_raises_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(RequestError, match="history"):
        await Setting(tmp_path, mode).rollout.prune("q", FIVE, history="earlier")


@pytest.mark.parametrize(("mode", "share"), [("on!", 0.5), ("ab", 1.5), ("ab", float("nan"))])
def test_a_wrong_setting_is_refused_in_one_line(mode: Any, share: float) -> None:
    with pytest.raises(ConfigError, match=r"\A.+\Z"):
        Rollout(Pruner(backend=ScriptedBackend([])), mode, ab_share=share)


async def test_no_chunks_are_no_trouble_in_any_mode(tmp_path: Path) -> None:
    for mode in ("off", "shadow", "ab", "on"):
        setting = Setting(tmp_path / mode, mode, [])
        assert (await setting.rollout.prune("q", list[str]())).chunks == []
        await setting.lines()


async def test_a_baseline_that_nobody_sees_is_not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    pruner = Pruner(backend=ScriptedBackend([GRADES]))
    spy = Mock(wraps=pruner.assemble)
    monkeypatch.setattr(pruner, "assemble", spy)
    assert (await Rollout(pruner, "on").prune("q", FIVE)).arm == "pruner"
    assert spy.call_count == 1


async def test_a_wrong_dial_is_refused_before_anything_is_paid_for() -> None:
    backend = ScriptedBackend([])
    with pytest.raises(ConfigError):
        await Rollout(Pruner(backend=backend), "on").prune("q", FIVE, dials={"threshold": 9})
    assert backend.requests == []


HIDDEN = [{"text": "alpha", "acl": ["staff"]}, "beta", {"text": "gamma", "acl": ["staff"]}, "delta", "epsilon"]


@pytest.mark.parametrize("mode", ["on", "ab", "shadow"])
async def test_what_the_principals_may_not_see_is_in_no_prompt_no_answer_and_no_log(mode: Mode, tmp_path: Path) -> None:
    setting = Setting(tmp_path, mode, ab_share=1, log_content=True)
    result = await setting.rollout.prune("q", HIDDEN, principals=["guest"])
    assert HIDDEN[0] not in result.chunks
    [line] = await setting.lines()
    assert line["by"][0] == "access"
    assert "alpha" not in json.dumps(line) + setting.backend.requests[0].user


async def test_the_principals_may_see_what_is_theirs(tmp_path: Path) -> None:
    result = await Setting(tmp_path, "on").rollout.prune("q", HIDDEN, principals=["staff"])
    assert result.chunks == HIDDEN[:3]


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_required_sub_queries_are_covered_in_every_arm(mode: Mode, tmp_path: Path) -> None:
    chunks = [*FIVE[:4], {"text": "epsilon", "query_ids": ["a"]}]
    result = await Setting(tmp_path, mode).rollout.prune("q", chunks, required_query_ids=["a", "b"])
    assert chunks[4] in result.chunks
    assert result.uncovered_query_ids == ("b",)


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_parents_are_shown_in_every_arm(mode: Mode, tmp_path: Path) -> None:
    chunks = [{"text": "alpha", "parent_id": 7}, *FIVE[1:]]
    dials = {"expand": "section"}
    result = await Setting(tmp_path, mode).rollout.prune("q", chunks, parents={7: "alpha and more"}, dials=dials)
    assert result.texts[0] == "alpha and more"


async def test_a_chunk_that_a_dial_of_the_call_drops_is_not_graded(tmp_path: Path) -> None:
    setting = Setting(tmp_path, "on")
    chunks = [*FIVE, {"text": "old", "status": "superseded"}]
    await setting.rollout.prune("q", chunks, dials={"revision_policy": "active"})
    assert "old" not in setting.backend.requests[0].user


@pytest.mark.parametrize(
    "asked", [{"principals": "me"}, {"required_query_ids": [1]}, {"parents": ["text"]}, {"parents": {1: 2}}]
)
async def test_an_argument_that_cannot_be_used_is_refused_before_anything_is_paid_for(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    rollout = Rollout(Pruner(PrunerConfig(), backend=Mock(spec_set=["grade"])), "on")
    with pytest.raises(RequestError):
        await rollout.prune("q", FIVE, **asked)
