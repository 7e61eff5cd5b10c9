import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner import BackendError, Chunk, ConfigError, Grade, Pruner, PrunerConfig, Reason, RequestError, Trace, grading
from pruner.backends.scripted import Answer, ScriptedBackend
from pruner.schema import GradingRequest, RawGrading, Usage
from tests.scripts import IN_SCRIPTS

pytestmark = pytest.mark.anyio

FIVE = ["alpha", "beta", "gamma", "delta", "epsilon"]


def pairs(*grades: int) -> str:
    return json.dumps({"grades": [[label, grade] for label, grade in enumerate(grades, 1)]})


def pruner(*answers: Answer, **dials: Any) -> Pruner:
    return Pruner(PrunerConfig(**dials), backend=ScriptedBackend(answers))


async def test_keeps_what_is_graded_well_and_the_first_few() -> None:
    result = await pruner(pairs(1, 1, 5, 2, 3)).prune("q", FIVE)
    assert result.chunks == ["alpha", "beta", "gamma", "epsilon"]
    assert [d.by for d in result.decisions] == ["keep_top_k", "keep_top_k", "grade", "below_threshold", "grade"]
    assert (result.status, result.reason) == ("ok", None)


async def test_the_callers_own_objects_come_back_unchanged() -> None:
    chunks = [{"text": "a", "id": 7, "extra": [1]}, {"text": "b", "id": 7}, {"text": "c"}]
    before = json.dumps(chunks)
    result = await pruner(pairs(1, 1, 5)).prune("q", chunks)
    assert all(any(kept is given for given in chunks) for kept in result.chunks)
    assert json.dumps(chunks) == before
    assert [d.id for d in result.decisions] == [7, 7, None]


async def test_no_call_when_there_are_no_more_chunks_than_keep_top_k() -> None:
    result = await pruner(keep_top_k=5).prune("q", FIVE)
    assert (result.status, result.reason, result.chunks) == ("skipped", "too_few_chunks", FIVE)
    assert {d.by for d in result.decisions} == {"skipped"}


async def test_no_chunks_is_skipped() -> None:
    result = await pruner().prune("q", list[str]())
    assert (result.status, result.chunks, result.decisions) == ("skipped", [], ())


@pytest.mark.parametrize("dials", [{"min_chunks": 6}, {"min_tokens": 1000}])
async def test_no_call_when_it_is_not_worth_one(dials: dict[str, Any]) -> None:
    result = await pruner(**dials).prune("q", FIVE)
    assert (result.status, result.reason, result.chunks) == ("skipped", "not_worth_it", FIVE)


async def test_a_blank_query_is_not_worth_a_call() -> None:
    assert (await pruner().prune(" \n", FIVE)).reason == "not_worth_it"


@pytest.mark.parametrize("blank", ["", " \n", {"text": "\t", "title": "a title"}])
async def test_a_blank_text_is_not_shown_and_stays_ungraded(blank: Any) -> None:
    backend = ScriptedBackend(['{"grades": [[1, 5], [2, 1], [3, 1]]}'])
    chunks = ["a", blank, "b", blank, "c"]
    result = await Pruner(PrunerConfig(keep_top_k=1), backend=backend).prune("q", chunks)
    assert (backend.requests[0].n, result.status, result.chunks) == (3, "ok", ["a", blank, blank])
    assert [d.by for d in result.decisions] == ["grade", "ungraded", "below_threshold", "ungraded", "below_threshold"]


async def test_a_list_of_blank_texts_is_not_worth_a_call() -> None:
    assert (await pruner().prune("q", ["", " ", "\n"])).reason == "not_worth_it"


async def test_a_fault_keeps_the_list_as_given() -> None:
    result = await pruner(BackendError(Reason.AUTH)).prune("q", FIVE)
    assert (result.status, result.reason, result.chunks) == ("fallback", "auth", FIVE)
    assert {d.grade for d in result.decisions} == {None}


async def test_on_fallback_the_top_n_stands_in_for_the_dials() -> None:
    result = await pruner(BackendError(Reason.AUTH), fallback_top_n=3).prune("q", FIVE)
    assert result.chunks == FIVE[:3]
    assert [d.by for d in result.decisions] == ["fallback"] * 3 + ["fallback_top_n"] * 2


@pytest.mark.parametrize("answer", [pairs(5, 5, 5, 5, 5), BackendError(Reason.AUTH), pairs(5)])
async def test_caps_hold_on_every_path(answer: Answer) -> None:
    result = await pruner(answer, max_chunks=3).prune("q", FIVE)
    assert len(result.chunks) == 3
    capped = await pruner(answer, token_cap=2).prune("q", FIVE)
    assert capped.tokens_after <= 2


async def test_caps_hold_when_nobody_is_asked() -> None:
    assert len((await pruner(max_chunks=3, min_chunks=9).prune("q", FIVE)).chunks) == 3


async def test_min_score_cuts_before_the_call_and_on_fallback() -> None:
    chunks = [{"text": t, "score": s} for t, s in zip(FIVE, [0.9, 0.8, 0.1, 0.7, 0.2], strict=True)]
    backend = ScriptedBackend([pairs(1, 1, 5), BackendError(Reason.AUTH)])
    cut = Pruner(PrunerConfig(min_score=0.5), backend=backend)
    graded = await cut.prune("q", chunks)
    failed = await cut.prune("q", chunks)
    assert backend.requests[0].n == 3
    assert "gamma" not in backend.requests[0].user
    assert [d.by for d in graded.decisions] == ["keep_top_k", "keep_top_k", "min_score", "grade", "min_score"]
    assert [c["text"] for c in failed.chunks] == ["alpha", "beta", "delta"]


async def test_ungraded_chunks_are_kept_and_the_result_is_partial() -> None:
    result = await pruner(json.dumps({"grades": [[1, 5], [2, 1], [3, 1]]})).prune("q", FIVE)
    assert (result.status, result.reason) == ("partial", "missing_grades")
    assert result.chunks == ["alpha", "beta", "delta", "epsilon"]


@pytest.mark.parametrize("level", [2, 3, 4])
async def test_one_middle_level_for_all_is_no_grading(level: int) -> None:
    result = await pruner(pairs(*[level] * 5)).prune("q", FIVE)
    assert (result.status, result.reason) == ("fallback", "uninformative")


@pytest.mark.parametrize("level", [1, 5])
async def test_all_needed_and_none_needed_are_real_answers(level: int) -> None:
    assert (await pruner(pairs(*[level] * 5)).prune("q", FIVE)).status == "ok"


async def test_three_equal_grades_are_believed() -> None:
    assert (await pruner(pairs(3, 3, 3)).prune("q", FIVE[:3])).status == "ok"


def levels(*means: float) -> RawGrading:
    """Distributions over two neighbouring levels with these means."""
    rows = []
    for mean in means:
        low = min(int(mean), 4)
        rows.append(tuple({low: low + 1 - mean, low + 1: mean - low}.get(k, 0.0) for k in range(1, 6)))
    return RawGrading(levels=tuple(rows), usage=Usage(10, 5, calls=1))


async def test_a_probe_grades_by_its_mean_level_rounded() -> None:
    result = await pruner(levels(1.2, 2.4, 2.5, 4.9, 3.6), model="local:x").prune("q", FIVE)
    assert [d.grade for d in result.decisions] == [1, 2, 3, 5, 4]
    assert [d.expected for d in result.decisions] == pytest.approx([1.2, 2.4, 2.5, 4.9, 3.6])


async def test_expected_scoring_holds_the_mean_against_the_threshold() -> None:
    result = await pruner(levels(1.2, 1.1, 2.6, 3.4, 1.6), model="local:x", scoring="expected").prune("q", FIVE)
    assert result.chunks == ["alpha", "beta", "delta"]


async def test_without_token_probabilities_the_written_grade_is_judged_by_and_no_mean_is_claimed() -> None:
    result = await pruner(pairs(5, 1, 3, 2, 1), scoring="expected", keep_top_k=0).prune("q", FIVE)
    assert (result.status, result.chunks) == ("ok", ["alpha", "gamma"])
    assert {d.expected for d in result.decisions} == {None}


async def test_a_probe_whose_grades_agree_but_whose_means_differ_is_believed() -> None:
    assert (await pruner(levels(1.6, 1.7, 2.2, 2.4, 2.1), model="local:x").prune("q", FIVE)).status == "ok"


@pytest.mark.parametrize(("mean", "status"), [(3.0, "fallback"), (1.0, "ok"), (4.99, "ok")])
async def test_flat_means_are_no_grading_unless_at_an_end(mean: float, status: str) -> None:
    answer = levels(mean, mean, mean, mean, mean)
    assert (await pruner(answer, model="local:x").prune("q", FIVE)).status == status


async def test_the_halves_make_the_whole() -> None:
    chunks = FIVE
    both = pruner(pairs(1, 2, 4, 3, 1), pairs(1, 2, 4, 3, 1))
    whole = await both.prune("q", chunks)
    halves = both.assemble("q", chunks, await both.grade("q", chunks))
    assert halves.decisions == whole.decisions
    assert halves.chunks == whole.chunks


async def test_a_grading_is_assembled_again_with_other_dials_and_no_call() -> None:
    one = pruner(pairs(1, 2, 4, 3, 5))
    grading = await one.grade("q", FIVE)
    assert one.assemble("q", FIVE, grading, threshold=4, keep_top_k=0).chunks == ["gamma", "epsilon"]
    assert one.assemble("q", FIVE, grading, threshold=5, keep_top_k=0).chunks == ["epsilon"]


async def test_dials_of_one_grading_say_what_needs_no_grade() -> None:
    chunks = [*FIVE, {"text": "old", "status": "superseded"}]
    one = pruner(pairs(1, 2, 4, 3, 5))
    grading = await one.grade("q", chunks, revision_policy="active")
    assert grading.grades == (1, 2, 4, 3, 5, None)
    assert (await one.grade("q", FIVE, keep_top_k=5)).reason == "too_few_chunks"
    with pytest.raises(ConfigError, match="not a selection dial"):
        await one.grade("q", FIVE, model="openai:other")


async def test_without_a_grading_the_order_of_the_reranker_decides() -> None:
    one = pruner(BackendError(Reason.TIMEOUT), fallback_top_n=3)
    failed = await one.prune("q", FIVE)
    alone = one.assemble("q", FIVE, None)
    assert (alone.status, alone.reason) == ("fallback", None)
    assert alone.chunks == failed.chunks


async def test_a_grading_of_another_list_is_refused() -> None:
    one = pruner(pairs(1, 2, 4, 3, 5))
    grading = await one.grade("q", FIVE)
    with pytest.raises(RequestError, match="5 chunks, not of these 4"):
        one.assemble("q", FIVE[:4], grading)


@pytest.mark.parametrize(
    ("query", "chunks", "history", "message"),
    [
        (None, ["a"], [], "query must be a str"),
        ("q", "abc", [], "chunks must be a list"),
        ("q", {"text": "a"}, [], "chunks must be a list"),
        ("q", None, [], "chunks must be a list"),
        ("q", ["a", 5], [], "chunk 1 is a int"),
        ("q", [{"txt": "a"}], [], "chunk 0: text: Field required"),
        ("q", [{"text": None}], [], "chunk 0: text: Input should be a valid string"),
        ("q", [{"text": 5}], [], "chunk 0: text"),
        ("q", [{"text": "a", "score": "high"}], [], "chunk 0: score"),
        ("q", ["a"], "earlier", "history must be a list"),
        ("q", ["a"], [1], "history must be a list"),
    ],
)
async def test_a_callers_mistake_raises_and_says_where(query: Any, chunks: Any, history: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        await pruner().prune(query, chunks, history=history)


async def test_a_chunk_may_carry_more_than_we_know() -> None:
    chunk = {"text": "a", "url": "u", "metadata": {"k": 1}, "title": 3, "heading_path": ["A", "B"], "id": ("t", 1)}
    result = await pruner(pairs(5, 5, 5)).prune("q", [chunk, Chunk(text="b", id="x"), "c"])
    assert result.status == "ok"
    assert [d.id for d in result.decisions] == ["('t', 1)", "x", None]


async def test_a_bug_in_a_backend_is_not_turned_into_a_fallback() -> None:
    with pytest.raises(ZeroDivisionError):
        await pruner(ZeroDivisionError()).prune("q", FIVE)


async def test_an_unexpected_call_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no answer left"):
        await pruner().prune("q", FIVE)


class Stalled:
    def __init__(self) -> None:
        self.cancelled = False

    async def grade(self, request: GradingRequest) -> RawGrading:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError


async def test_a_backend_that_never_answers_is_cancelled_at_the_deadline() -> None:
    backend = Stalled()
    result = await Pruner(PrunerConfig(timeout=0.05), backend=backend).prune("q", FIVE)
    assert (result.status, result.reason, result.chunks) == ("fallback", "timeout", FIVE)
    assert backend.cancelled


async def test_a_call_may_have_a_deadline_of_its_own() -> None:
    one = Pruner(PrunerConfig(timeout=60), backend=Stalled())
    assert (await one.prune("q", FIVE, timeout=0.05)).reason == "timeout"
    assert (await one.grade("q", FIVE, timeout=0.05)).reason == "timeout"


def test_the_free_half_takes_no_timeout() -> None:
    with pytest.raises(ConfigError, match="'timeout' is not a selection dial"):
        pruner().assemble("q", FIVE, timeout=3)


async def test_a_cancelled_caller_gets_the_cancellation() -> None:
    backend = Stalled()
    task = asyncio.create_task(Pruner(PrunerConfig(timeout=60), backend=backend).prune("q", FIVE))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert backend.cancelled


async def test_a_fault_that_may_pass_is_asked_again() -> None:
    busy = BackendError(Reason.RATE_LIMITED, retryable=True, retry_after=0)
    result = await pruner(busy, pairs(5, 1, 1, 1, 1)).prune("q", FIVE)
    assert result.status == "ok"
    assert result.usage.calls == 2


@pytest.mark.parametrize("wait", [60, 28])
async def test_a_wait_beyond_the_deadline_or_just_before_it_falls_back_at_once(
    monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    monkeypatch.setattr(grading, "_JITTER", 0)
    busy = BackendError(Reason.RATE_LIMITED, retryable=True, retry_after=wait)
    result = await pruner(busy, timeout=30).prune("q", FIVE)
    assert (result.reason, result.usage.calls) == ("rate_limited", 1)


async def test_the_reason_is_that_of_the_last_error_not_of_the_deadline() -> None:
    class BusyThenStalled(Stalled):
        asked = False

        async def grade(self, request: GradingRequest) -> RawGrading:
            if not self.asked:
                self.asked = True
                raise BackendError(Reason.RATE_LIMITED, retryable=True, retry_after=0)
            return await super().grade(request)

    result = await Pruner(PrunerConfig(timeout=0.1), backend=BusyThenStalled()).prune("q", FIVE)
    assert (result.reason, result.usage.calls) == ("rate_limited", 2)


async def test_a_fallback_logs_one_warning_without_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="pruner"):
        await pruner(BackendError(Reason.AUTH, "HTTP 401")).prune("secret query", ["secret a", "secret b", "secret c"])
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "auth" in record.getMessage()
    assert "secret" not in record.getMessage()


async def test_a_good_grading_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="pruner"):
        await pruner(pairs(5, 1, 1, 1, 1)).prune("q", FIVE)
    assert not caplog.records


@pytest.mark.parametrize(("dials", "priced"), [({}, True), ({"base_url": "http://127.0.0.1:1/v1"}, False)])
async def test_only_a_vendors_own_server_has_the_vendors_prices(dials: dict[str, Any], priced: bool) -> None:
    result = await pruner(read_only(500), model="openai:gpt-4o-mini", **dials).prune("q", FIVE)
    assert (result.usage.cost is not None) is priced


async def test_what_was_never_answered_has_no_cost() -> None:
    assert (await pruner(BackendError(Reason.AUTH)).prune("q", FIVE)).usage.cost is None


async def test_the_trace_round_trips_through_json_and_holds_no_text() -> None:
    result = await pruner(pairs(5, 1, 1, 1, 1)).prune("secret", ["secret a", "secret b", "c", "d", "e"])
    written = result.trace.model_dump_json()
    assert Trace.model_validate_json(written) == result.trace
    assert "secret" not in written
    assert result.trace.prompt == "grade.v1"
    assert len(result.trace.prompt_sha256) == 64


async def test_tokens_are_counted_before_and_after() -> None:
    result = await pruner(pairs(5, 1, 1, 1, 1), keep_top_k=1).prune("q", ["one two three", "a b", "c", "d", "e"])
    assert result.tokens_before == 3 + 2 + 1 + 1 + 1
    assert result.tokens_after == 3


async def test_notes_come_with_the_decisions_when_reasons_are_asked_for() -> None:
    reply = json.dumps({"grades": [{"id": i, "grade": i, "reason": f"why {i}"} for i in range(1, 6)]})
    result = await pruner(reply, reasons=True).prune("q", FIVE)
    assert [d.note for d in result.decisions] == [f"why {i}" for i in range(1, 6)]


async def test_the_reply_in_a_grading_can_be_stored_whatever_the_model_wrote() -> None:
    grading = await pruner(pairs(5, 1, 1, 1, 1) + " \ud800").grade("q", FIVE)
    assert grading.reply == pairs(5, 1, 1, 1, 1) + " ?"


async def test_one_pruner_serves_many_callers_at_once() -> None:
    def by_request(request: GradingRequest) -> str:
        return pairs(*[5 if f"needle {i}" in request.user else 1 for i in range(1, 6)])

    one = Pruner(PrunerConfig(keep_top_k=0), backend=ScriptedBackend(by_request))
    lists = [[f"needle {i}" if i == j else "hay" for i in range(1, 6)] for j in range(1, 6)]
    results = await asyncio.gather(*(one.prune("q", chunks) for chunks in lists * 10))
    assert [r.chunks for r in results] == [[f"needle {j}"] for j in range(1, 6)] * 10


async def test_other_selection_dials_may_be_given_for_once() -> None:
    one = pruner(pairs(5, 4, 3, 2, 1), pairs(5, 4, 3, 2, 1), keep_top_k=0)
    strict = await one.prune("q", FIVE, threshold=5)
    assert (strict.chunks, strict.trace.dials["threshold"]) == (FIVE[:1], 5)
    assert (await one.prune("q", FIVE)).chunks == FIVE[:3]
    with pytest.raises(ConfigError, match="'prompt' is not a selection dial"):
        await one.prune("q", FIVE, prompt="grade.v1")


def test_one_pruner_serves_several_event_loops() -> None:
    one = pruner(pairs(5, 1, 1, 1, 1), pairs(1, 5, 1, 1, 1))
    assert asyncio.run(one.prune("q", FIVE)).status == "ok"
    assert asyncio.run(one.prune("q", FIVE)).status == "ok"


def test_sync_code_prunes_without_a_loop() -> None:
    assert pruner(pairs(5, 1, 1, 1, 1)).prune_sync("q", FIVE).status == "ok"


async def test_sync_code_prunes_inside_a_running_loop() -> None:
    assert pruner(pairs(5, 1, 1, 1, 1)).prune_sync("q", FIVE).status == "ok"


async def test_closing_twice_is_fine_and_leaves_a_given_backend_alone() -> None:
    class Closing(ScriptedBackend):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    backend = Closing([])
    async with Pruner(PrunerConfig(), backend=backend) as one:
        await one.aclose()
    await one.aclose()
    assert backend.closed == 0


def test_a_prompt_for_the_other_readout_is_refused() -> None:
    with pytest.raises(ConfigError, match="is for readout 'json'"):
        Pruner(PrunerConfig(model="local:x", prompt="grade.v1"), backend=ScriptedBackend([]))


grades = st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=12)
dials = st.fixed_dictionaries(
    {
        "threshold": st.floats(1, 5),
        "keep_top_k": st.integers(0, 4),
        "min_score": st.none() | st.floats(0, 1),
    }
)


@given(grades, dials)
def test_any_result_is_a_sublist_in_order_with_the_first_few(written: list[int | None], dials: dict[str, Any]) -> None:
    reply = json.dumps({"grades": [[label, grade] for label, grade in enumerate(written, 1)]})
    chunks = [{"text": str(i), "score": i / 12} for i in range(len(written))]
    result = pruner(reply, **dials).prune_sync("q", chunks)
    kept = [d.index for d in result.decisions if d.kept]
    assert [chunks[i] for i in kept] == result.chunks
    assert set(range(min(dials["keep_top_k"], len(chunks)))) <= set(kept)
    assert [d.index for d in result.decisions] == list(range(len(chunks)))


def test_grades_are_numbers_with_names() -> None:
    assert [int(grade) for grade in Grade] == [1, 2, 3, 4, 5]
    assert Grade(3).name == "SUPPORTING"


LONG = [f"{name} " * 400 for name in FIVE]


async def test_a_list_too_long_for_the_prompt_is_cut_there_and_only_there() -> None:
    backend = ScriptedBackend([pairs(5, 1, 1, 1, 1)])
    result = await Pruner(PrunerConfig(max_input_tokens=2_500), backend=backend).prune("q", LONG)
    assert result.status == "ok"
    assert " […]" in backend.requests[0].user
    assert result.texts[0] == LONG[0]


async def test_a_list_too_long_for_the_known_window_of_a_model_is_cut_too() -> None:
    pytest.importorskip("genai_prices")
    for model, cut in (("openai:gpt-4", True), ("openai:gpt-4.1-mini", False)):
        backend = ScriptedBackend([pairs(5, 1, 1, 1, 1)])
        await Pruner(PrunerConfig(model=model), backend=backend).prune("q", [text * 5 for text in LONG])
        assert (" […]" in backend.requests[0].user) is cut


async def test_what_does_not_fit_stays_out_of_the_prompt_ungraded_and_kept() -> None:
    backend = ScriptedBackend([pairs(1, 1, 5)])
    result = await Pruner(PrunerConfig(max_input_tokens=1_400, keep_top_k=1), backend=backend).prune("q", LONG)
    assert backend.requests[0].n == 3
    assert (result.status, result.reason) == ("partial", "missing_grades")
    assert [d.by for d in result.decisions] == ["keep_top_k", "below_threshold", "grade", "ungraded", "ungraded"]
    assert result.trace.left_out == (3, 4)


async def test_what_does_not_fit_follows_the_rule_of_the_fallback() -> None:
    backend = ScriptedBackend([pairs(1, 1, 5)])
    config = PrunerConfig(max_input_tokens=1_400, keep_top_k=1, fallback_top_n=4)
    result = await Pruner(config, backend=backend).prune("q", LONG)
    assert [d.by for d in result.decisions][3:] == ["ungraded", "fallback_top_n"]


async def test_a_prompt_with_no_room_for_a_chunk_falls_back_without_a_call(caplog: pytest.LogCaptureFixture) -> None:
    result = await pruner(max_input_tokens=300).prune("q " * 500, LONG)
    assert (result.status, result.reason, result.usage.calls) == ("fallback", "context_overflow", 0)
    assert "context_overflow" in caplog.records[0].getMessage()


def read_only(tokens: int) -> RawGrading:
    return RawGrading(text=pairs(5, 1, 1, 1, 1), usage=Usage(tokens, 9, calls=1))


@pytest.mark.parametrize(("tokens", "status"), [(200, "fallback"), (2_900, "ok"), (0, "ok")])
async def test_a_server_that_read_only_a_part_of_the_prompt_is_not_believed(tokens: int, status: str) -> None:
    result = await pruner(read_only(tokens)).prune("q", LONG)
    assert result.status == status
    assert result.reason == ("prompt_truncated" if status == "fallback" else None)


async def test_blanks_that_take_few_tokens_are_not_held_for_a_prompt_cut_off() -> None:
    assert (await pruner(read_only(900)).prune("q", [" " * 100_000, *FIVE[1:]])).status == "ok"


async def test_a_short_prompt_is_never_held_to_be_cut_off() -> None:
    assert (await pruner(read_only(1)).prune("q", FIVE)).status == "ok"


def in_language(language: str, share: float = 1) -> tuple[list[str], RawGrading]:
    """Return a list in a language, and the answer of a server with the leanest tokenizer that read a share of it."""
    text, fewest = IN_SCRIPTS[language]
    return [text * 30] * 5, read_only(int(share * (fewest * 150 + 500)))


@pytest.mark.parametrize("language", IN_SCRIPTS)
async def test_a_tokenizer_that_is_good_at_a_language_is_believed(language: str) -> None:
    chunks, answer = in_language(language)
    assert (await pruner(answer).prune("q", chunks)).status == "ok"


@pytest.mark.parametrize("language", ["en", "ru", "zh", "ko", "hi", "ar"])
async def test_half_a_prompt_lost_is_seen_in_many_languages(language: str) -> None:
    chunks, answer = in_language(language, 0.5)
    assert (await pruner(answer).prune("q", chunks)).reason == "prompt_truncated"


async def test_a_prompt_cut_off_is_seen_whatever_the_counter() -> None:
    class Zero:
        def count(self, text: str) -> int:
            return 0

    chunks, answer = in_language("en", 0.5)
    one = Pruner(PrunerConfig(), backend=ScriptedBackend([answer]), counter=Zero())
    assert (await one.prune("q", chunks)).reason == "prompt_truncated"


async def test_a_shuffled_prompt_gives_each_chunk_its_own_grade_and_the_trace_says_so() -> None:
    def by_text(request: GradingRequest) -> str:
        places = sorted(range(5), key=lambda i: request.user.index(FIVE[i]))
        return pairs(*[5 if FIVE[i] == "delta" else 1 for i in places])

    backend = ScriptedBackend(by_text)
    one = Pruner(PrunerConfig(chunk_order="shuffle", seed=3, keep_top_k=0), backend=backend)
    first, again = [await one.prune("q", FIVE) for _ in range(2)]
    assert first.chunks == ["delta"]
    assert first.trace.chunk_order == "shuffle 3"
    assert backend.requests[0] == backend.requests[1]
    assert first.decisions == again.decisions
    other = Pruner(PrunerConfig(chunk_order="shuffle", seed=4, keep_top_k=0), backend=backend)
    assert (await other.prune("q", FIVE)).chunks == ["delta"]
    assert backend.requests[2].user != backend.requests[0].user


@pytest.mark.parametrize(
    ("config", "model", "priced"),
    [
        (PrunerConfig(keep_top_k=0), "ScriptedBackend", False),
        (PrunerConfig(keep_top_k=0, model="openai:gpt-4o-mini"), "openai:gpt-4o-mini", True),
    ],
)
async def test_a_backend_of_the_callers_is_not_taken_for_the_default_model(
    config: PrunerConfig, model: str, priced: bool
) -> None:
    told = RawGrading(text='{"1": 5, "2": 1}', usage=Usage(input_tokens=1000))
    result = await Pruner(config, backend=ScriptedBackend([told])).prune("q", ["a", "b"])
    assert (result.trace.model, result.usage.cost is not None) == (model, priced)


class Answers:
    """A backend that answers anything."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def grade(self, request: GradingRequest) -> Any:
        return self._answer


class Synchronous:
    def grade(self, request: GradingRequest) -> RawGrading:
        return RawGrading(text=pairs(5, 1, 1, 1, 1))


@pytest.mark.parametrize("backend", [object(), "openai:m", Answers, Synchronous, lambda request: RawGrading()])
def test_what_is_no_backend_is_refused_when_the_pruner_is_made(backend: Any) -> None:
    with pytest.raises(ConfigError, match=r"^backend must ") as caught:
        Pruner(backend=backend)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "backend", [Answers(None), Answers('{"1":5}'), Answers({}), Answers(RawGrading), Synchronous()]
)
async def test_a_backend_that_answers_anything_else_is_told_what_to_return(backend: Any) -> None:
    with pytest.raises(ConfigError, match=r"^the backend's grade\(\) must ") as caught:
        await Pruner(backend=backend).prune("q", FIVE)
    assert "\n" not in str(caught.value)


class Counts:
    """A counter that counts anything."""

    def __init__(self, number: Any) -> None:
        self._number = number

    def count(self, text: str) -> Any:
        return self._number / 1 if self._number == "raises" else self._number


@pytest.mark.parametrize(
    "counter",
    [len, object(), Counts, *map(Counts, [1.5, 2.0, "3", None, True, -1, "x\ny" * 99, "raises"])],
    ids=str,
)
def test_what_does_not_count_is_refused_when_the_pruner_is_made(counter: Any) -> None:
    with pytest.raises(ConfigError, match=r"^counter") as caught:
        Pruner(backend=ScriptedBackend([]), counter=counter)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120


def test_a_counter_that_has_nothing_in_it_is_a_counter() -> None:
    class Empty(dict[str, int]):
        def count(self, text: str) -> int:
            return 7

    result = Pruner(backend=ScriptedBackend([pairs(5, 1, 1, 1, 1)]), counter=Empty()).prune_sync("q", FIVE)
    assert result.tokens == (7,) * 5
