"""The replies that broke others, each over a real socket. The cases lie beside the checkout, where they are given."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from pruner import Grade, Pruner, PrunerConfig
from tests.provider import Reply, as_json, completion, message, serve

FILE = Path(__file__).parents[2] / "shared" / "cases" / "replies.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.is_file() else []


def _reply(case: dict[str, Any], request: dict[str, Any], wire: str) -> Reply:
    if http := case.get("http"):
        if "json" in http:
            return as_json(http["json"], http["status"], **http.get("headers", {}))
        return Reply(http["status"], http["text"].encode(), {"content-type": "text/html"})
    tokens = len(json.dumps(request)) // 4
    usage = case.get("usage") or {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
    if wire == "anthropic":
        return _as_message(case, usage)
    return completion({"message": case["message"], "finish_reason": case["finish_reason"]}, usage)


def _as_message(case: dict[str, Any], usage: dict[str, Any]) -> Reply:
    """Tell the same in the format of Anthropic's messages."""
    reply = case["message"]
    calls = [json.loads(call["function"]["arguments"]) for call in reply.get("tool_calls", ())]
    blocks = [{"type": "tool_use", "id": "t", "name": "grade", "input": given} for given in calls]
    if text := reply.get("content") or reply.get("refusal"):
        blocks.append({"type": "text", "text": text})
    stops = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
    stop = "refusal" if reply.get("refusal") else stops[case["finish_reason"]]
    counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
    return message(*blocks, stop=stop, usage=counts)


def _of_chat_completions(case: dict[str, Any]) -> bool:
    """Whether a case is about something that only chat completions have."""
    return "reasoning_content" in case.get("message", ()) or "choices" in case.get("http", {}).get("json", ())


RUNS = [
    pytest.param(case, wire, id=f"{wire}-{case['id']}")
    for wire in ("openai", "anthropic")
    for case in CASES
    if case["api"] == wire or (wire == "anthropic" and not _of_chat_completions(case))
]


@pytest.mark.skipif(not CASES, reason="the shared cases are not beside this checkout")
@pytest.mark.parametrize(("case", "wire"), RUNS)
def test_a_reply_that_broke_others_is_survived(case: dict[str, Any], wire: str) -> None:
    chunks = [f"text of chunk {i}" for i in range(case["n"])]
    expect = case["expect"]
    with serve(lambda request: _reply(case, request, wire)) as provider:
        config = PrunerConfig(
            model=f"{wire}:m", base_url=provider.url, keep_top_k=2, threshold=Grade.CONTRIBUTING, timeout=2.0
        )
        pruner = Pruner(config)
        started = time.monotonic()
        result = asyncio.run(pruner.prune("What?", chunks))
        elapsed = time.monotonic() - started
    assert result.status == expect["status"]
    if "reason" in expect:
        assert result.reason == expect["reason"]
    if "grades" in expect:
        assert [d.grade for d in result.decisions] == expect["grades"]
    if "calls" in expect:
        assert len(provider.requests) == expect["calls"]
    assert len(provider.requests) >= expect.get("min_calls", 0)
    assert elapsed < expect.get("within_s", 2.5)
    assert result.chunks[:2] == chunks[:2]
    assert [chunks.index(c) for c in result.chunks] == sorted(d.index for d in result.decisions if d.kept)
