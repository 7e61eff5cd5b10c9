"""The replies that broke others, each over a real socket. The cases lie beside the checkout, where they are given."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from pruner import Grade, Pruner, PrunerConfig
from tests.provider import Reply, as_json, completion, serve

FILE = Path(__file__).parents[2] / "shared" / "cases" / "replies.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.is_file() else []


def _reply(case: dict[str, Any], request: dict[str, Any]) -> Reply:
    if http := case.get("http"):
        if "json" in http:
            return as_json(http["json"], http["status"], **http.get("headers", {}))
        return Reply(http["status"], http["text"].encode(), {"content-type": "text/html"})
    tokens = len(json.dumps(request)) // 4
    usage = case.get("usage") or {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
    return completion({"message": case["message"], "finish_reason": case["finish_reason"]}, usage)


@pytest.mark.skipif(not CASES, reason="the shared cases are not beside this checkout")
@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES if c["api"] == "openai"])
def test_a_reply_that_broke_others_is_survived(case: dict[str, Any]) -> None:
    chunks = [f"text of chunk {i}" for i in range(case["n"])]
    expect = case["expect"]
    with serve(lambda request: _reply(case, request)) as provider:
        config = PrunerConfig(
            model="openai:m", base_url=provider.url, keep_top_k=2, threshold=Grade.CONTRIBUTING, timeout=2.0
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
