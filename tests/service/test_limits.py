"""Overload sheds work and not answers; beyond hard limits a caller is told when to come back."""

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI

from pruner.backends.scripted import ScriptedBackend
from pruner.config import PrunerConfig
from pruner.schema import GradingRequest, RawGrading
from pruner.service.app import make_app
from pruner.service.settings import ServiceSettings
from tests.provider import HANG, serve
from tests.service.served import KEY, KEYS, OTHER_KEY, THREE, app_of, first_needed, post, sending, served

pytestmark = pytest.mark.anyio


class Gate(ScriptedBackend):
    """Answers once it is opened."""

    def __init__(self) -> None:
        super().__init__(first_needed)
        self.opened = asyncio.Event()

    async def grade(self, request: GradingRequest) -> RawGrading:
        answer = await super().grade(request)
        await self.opened.wait()
        return answer


async def crowd(gate: Gate, n: int, *, keys: tuple[str, ...] = (), **settings: Any) -> list[Any]:
    """Send `n` requests at once, let go the first when all others are answered or wait; their answers."""
    app = make_app(ServiceSettings(**settings), PrunerConfig(keep_top_k=0, fallback_top_n=2), backend=gate)
    headers = [{"authorization": f"Bearer {key}"} for key in keys] or [{}] * n
    tasks = [asyncio.ensure_future(post(app, "/v1/prune", THREE, **headers[i])) for i in range(n)]
    await asyncio.wait(tasks, timeout=0.5)
    gate.opened.set()
    return await asyncio.gather(*tasks)


async def test_beyond_the_concurrency_limit_the_rerankers_order_answers_at_once() -> None:
    gate = Gate()
    answers = [response.json() for response in await crowd(gate, 5, max_concurrent=2)]
    assert sorted((a["status"], a["reason"] or "", len(a["kept"])) for a in answers) == [
        *[("fallback", "overloaded", 2)] * 3,
        *[("ok", "", 1)] * 2,
    ]
    assert len(gate.requests) == 2


async def test_room_is_given_back_after_answers_faults_and_refusals() -> None:
    app = app_of(max_concurrent=1, max_in_flight=1)
    for body in (THREE, {**THREE, "dials": {"keep_top_k": 3, "max_chunks": 1}}, {**THREE, "chunks": [3]}, THREE):
        response = await post(app, "/v1/prune", body)
        assert response.status_code in (200, 422)
    assert response.json()["status"] == "ok"


async def test_beyond_all_requests_it_can_hold_the_service_says_when_to_come_back() -> None:
    responses = await crowd(Gate(), 4, max_in_flight=3)
    refused = [r for r in responses if r.status_code == 503]
    assert [(r.json()["error"]["code"], r.headers["retry-after"]) for r in refused] == [("too_busy", "1")]
    assert sum(r.status_code == 200 for r in responses) == 3


async def test_one_key_cannot_take_the_room_of_others() -> None:
    responses = await crowd(Gate(), 4, keys=(KEY, KEY, KEY, OTHER_KEY), api_keys=KEYS, max_per_key=2)
    assert [r.status_code for r in responses] == [200, 200, 429, 200]
    error = responses[2].json()["error"]
    assert (error["code"], responses[2].headers["retry-after"]) == ("too_many_requests", "1")


def hanging(url: str, **settings: Any) -> FastAPI:
    return make_app(ServiceSettings(**settings), PrunerConfig(base_url=url, timeout=60, keep_top_k=0))


@pytest.mark.parametrize("path", ["/v1/prune", "/v1/rerank"])
def test_a_client_that_leaves_cancels_its_call_of_the_provider(path: str) -> None:
    body = THREE if path == "/v1/prune" else {"query": "q", "documents": ["a", "b", "c"]}
    with serve(lambda _: HANG) as provider, served(hanging(provider.url, max_concurrent=1)) as url:
        for _ in range(2):  # The first one's place is free again for the second.
            provider.asked.clear()
            provider.hung_up.clear()
            with sending(url, path, body):
                assert provider.asked.wait(30)
            assert provider.hung_up.wait(30)
