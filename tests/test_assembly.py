"""The whole selection, on every path: what holds whatever the dials are."""

import json
import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner import (
    BackendError,
    Chunk,
    Pruner,
    PrunerConfig,
    Reason,
    RequestError,
    Trace,
    check_citations,
    evidence_rules,
    render_evidence,
)
from pruner.backends.scripted import Answer, ScriptedBackend
from pruner.schema import GradingRequest
from pruner.views import decision_table, explanation, summary
from tests.packed import Words, result_of

pytestmark = pytest.mark.anyio

SECRET = "xyzzy"


def pairs(*grades: int) -> str:
    return json.dumps({"grades": [[label, grade] for label, grade in enumerate(grades, 1)]})


def pruner(*answers: Answer, **dials: Any) -> Pruner:
    return Pruner(PrunerConfig(**dials), backend=ScriptedBackend(answers), counter=Words())


def graded(request: GradingRequest) -> str:
    """Grade by place, so that whatever is left of a list gets some of each."""
    return pairs(*[1 + (3 * label) % 5 for label in range(request.n)])


words = st.lists(st.sampled_from(["the", "backup", "is", "not", "kept", "14", "30", "days", "plan"]), max_size=9).map(
    " ".join
)
names = st.sampled_from(["a", "b", "c"])
chunks_strategy = st.lists(
    st.fixed_dictionaries(
        {"text": words},
        optional={
            "id": st.integers(0, 4),
            "score": st.floats(0, 1),
            "source_id": names,
            "parent_id": names,
            "revision_id": st.sampled_from(["1", "2"]),
            "status": st.sampled_from(["active", "superseded"]),
            "authority": st.just("official"),
            "date": st.sampled_from(["2024-01-01", "2025-01-01"]),
            "query_ids": st.lists(names, max_size=2),
            "start_char": st.integers(0, 20),
            "acl": st.lists(st.sampled_from(["me", "you"]), max_size=2),
            "embedding": st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=2),
            "heading_path": st.lists(st.sampled_from(["Terms", "Plans"]), max_size=2),
        },
    ),
    max_size=9,
)
dials_strategy = st.fixed_dictionaries(
    {},
    optional={
        "threshold": st.floats(1, 5),
        "keep_top_k": st.integers(0, 2),
        "revision_policy": st.just("active"),
        "dedup": st.sampled_from(["ids", "spans", "texts"]),
        "dedup_across_sources": st.booleans(),
        "mmr_lambda": st.sampled_from([0.0, 0.5, 1.0]),
        "max_chunks": st.integers(2, 5),
        "max_per_parent": st.integers(1, 2),
        "max_per_source": st.integers(1, 2),
        "source_policy": st.just("authoritative"),
        "expand": st.sampled_from(["heading", "paragraph", "section"]),
        "token_budget": st.integers(1, 80),
        "token_cap": st.integers(1, 40),
        "budget_pick": st.just("density"),
        "min_score": st.floats(0, 1),
        "fallback_top_n": st.integers(2, 5),
        "evidence_order": st.sampled_from(["relevance", "edges", "query", "source", "time"]),
    },
)
PARENTS = {"a": "The backup is kept 14 days.\n\nNot on the plan.", "b": Chunk(text="x", acl=("you",)), "c": None}


def run(chunks: list[dict[str, Any]], dials: dict[str, Any], answer: Any) -> Any:
    one = Pruner(PrunerConfig(**dials), backend=ScriptedBackend(answer), counter=Words())
    return one.prune_sync(
        "q", chunks, principals=["me"], required_query_ids=["a", "b"], fetch_parent=lambda name: PARENTS[str(name)]
    )


@settings(max_examples=150)
@given(chunks_strategy, dials_strategy, st.sampled_from([graded, [BackendError(Reason.AUTH)]]))
def test_whatever_the_dials_the_promises_hold(chunks: list[dict[str, Any]], dials: dict[str, Any], answer: Any) -> None:
    before = json.dumps(chunks)
    result = run(chunks, dials, answer)
    kept = [c.index for c in result.evidence]
    # The output is of the input, as it was given.
    assert len(set(kept)) == len(kept)
    assert all(chunk is chunks[index] for chunk, index in zip(result.chunks, kept, strict=True))
    assert json.dumps(chunks) == before
    if "evidence_order" not in dials:
        assert kept == sorted(kept)
    # Each of the input is in one place of the trace, and the trace survives JSON.
    trace = result.trace
    places = [entry.index for entry in (*trace.selected, *trace.rejected)]
    assert sorted(places) == list(range(len(chunks)))
    assert Trace.model_validate_json(trace.model_dump_json()) == trace
    assert [d.index for d in result.decisions if d.kept] == sorted(kept)
    # Budgets and caps hold.
    if budget := dials.get("token_budget"):
        assert Words().count(render_evidence(result)) <= trace.used_tokens <= budget
    assert sum(map(Words().count, result.texts)) <= dials.get("token_cap", 10**9)
    assert len(kept) <= dials.get("max_chunks", 10**9)
    # Who may not see it does not.
    assert all("me" in chunks[i]["acl"] for i in kept if "acl" in chunks[i])
    assert result.uncovered_query_ids == tuple(
        name for name in ("a", "b") if not any(name in c.query_ids for c in result.evidence)
    )


@given(chunks_strategy, dials_strategy)
def test_an_order_only_permutes(chunks: list[dict[str, Any]], dials: dict[str, Any]) -> None:
    plain = {name: value for name, value in dials.items() if name != "evidence_order"}
    one = pruner(**plain)
    as_ranked = one.assemble("q", chunks, principals=["me"])
    for order in ("relevance", "edges", "query", "source", "time"):
        other = one.assemble("q", chunks, principals=["me"], evidence_order=order)
        assert sorted(c.index for c in other.evidence) == [c.index for c in as_ranked.evidence]


@given(chunks_strategy, dials_strategy)
def test_a_fallback_is_the_assembly_of_the_ungraded_list(chunks: list[dict[str, Any]], dials: dict[str, Any]) -> None:
    failed = run(chunks, {**dials, "expand": "off"}, [BackendError(Reason.AUTH)])
    if failed.status == "skipped":
        return
    alone = pruner(**{**dials, "expand": "off"}).assemble("q", chunks, principals=["me"], required_query_ids=["a", "b"])
    assert [c.index for c in alone.evidence] == [c.index for c in failed.evidence]
    assert alone.trace.stages == failed.trace.stages


FAMILIES = st.lists(st.fixed_dictionaries({"text": words, "query_ids": st.lists(names, max_size=1)}), max_size=7)


@given(FAMILIES, st.integers(1, 60), st.sampled_from([graded, [BackendError(Reason.AUTH)]]))
def test_each_chunk_is_in_one_place_of_the_trace_also_where_children_merge(
    chunks: list[dict[str, Any]], budget: int, answer: Any
) -> None:
    chunks = [{**chunk, "parent_id": "a" if place % 3 else "z", "id": place % 6} for place, chunk in enumerate(chunks)]
    dials = {"expand": "section", "dedup": "ids", "token_budget": budget, "keep_top_k": 1}
    result = run(chunks, dials, answer)
    trace = result.trace
    assert sorted(entry.index for entry in (*trace.selected, *trace.rejected)) == list(range(len(chunks)))
    stands_for = {r.index: r.of for r in trace.rejected if r.reason == "merged"}
    assert {index for c in result.evidence for index in c.merged} >= {
        index for index, of in stands_for.items() if of in {s.index for s in trace.selected}
    }


PASSAGE = "The backups of a workspace are kept in the region of the customer for 14 days and then deleted for good."
COPIES: list[dict[str, Any]] = [
    {"text": PASSAGE, "id": 1},
    {"text": PASSAGE, "source_id": "s", "start_char": 0},
    {"text": PASSAGE[:90], "source_id": "s", "start_char": 0},
    {"text": PASSAGE[10:], "source_id": "s", "start_char": 10},
    {"text": PASSAGE.replace("14", "30"), "id": 1},
    {"text": PASSAGE.upper(), "source_id": "t"},
    {"text": "Rice is boiled.", "id": 1},
    {"text": "Rice is boiled.", "source_id": "s", "start_char": 0},
]


@given(st.lists(st.sampled_from(COPIES), max_size=9), st.sampled_from(["ids", "spans", "texts"]), st.booleans())
def test_what_was_left_of_copies_has_none(rows: list[dict[str, Any]], dedup: str, across: bool) -> None:
    dials: dict[str, Any] = {"dedup": dedup, "dedup_across_sources": across}
    once = pruner(**dials).assemble("q", rows)
    twice = pruner(**dials).assemble("q", once.chunks)
    assert len(twice.chunks) == len(once.chunks)
    assert {(c.kind, c.tokens) for c in twice.conflicts} <= {(c.kind, c.tokens) for c in once.conflicts}


@given(chunks_strategy, dials_strategy)
def test_no_stage_changes_a_chunk_its_metadata_or_its_embedding(
    rows: list[dict[str, Any]], dials: dict[str, Any]
) -> None:
    def made() -> list[Chunk]:
        return [
            Chunk(**{**row, "metadata": {"tags": ["x", n]}, "embedding": np.array([n, 1.0], np.float32)})
            for n, row in enumerate(rows)
        ]

    given_, untouched = made(), made()
    parents: dict[str | int, Any] = {"a": Chunk(text="The backup is kept 14 days.", metadata={"tags": []})}
    asked: dict[str, Any] = {"principals": ["me"], "required_query_ids": ["a"], "parents": parents}
    result = pruner(**dials).assemble("backup days", given_, **asked)
    assert all(chunk is given_[c.index] for chunk, c in zip(result.chunks, result.evidence, strict=True))
    for after, before in zip(given_, untouched, strict=True):
        assert after.model_dump() == before.model_dump()
    assert parents["a"] == Chunk(text="The backup is kept 14 days.", metadata={"tags": []})


HIDDEN = [
    {"text": "open one", "id": 0},
    {"text": f"{SECRET} text", "title": f"{SECRET} title", "heading_path": [SECRET], "id": 1, "acl": ["boss"]},
    {"text": "open two", "id": 2, "parent_id": "p"},
    {"text": f"{SECRET} open two", "id": 3, "acl": []},
    {"text": "open three", "id": 4, "acl": ["me"]},
]


SECRETS = dict.fromkeys(("title", "source_id", "revision_id", "status", "authority", "date", "page"), SECRET)
LISTS = {name: [SECRET] for name in ("query_ids", "heading_path")}
# Near to what is open, a copy of it, and what contradicts it: whatever could draw it into the result.
HIDDEN = [
    {"text": "Open one: backups are kept for 14 days.", "id": 0, "source_id": "s", "start_char": 0, "parent_id": "q"},
    {
        "text": f"{SECRET} text",
        "id": 1,
        "parent_id": "p",
        "metadata": {SECRET: SECRET},
        "acl": ["boss"],
        **SECRETS,
        **LISTS,
    },
    {"text": "Open two", "id": 2, "parent_id": "p", "query_ids": ["q1"]},
    {"text": f"{SECRET} Open two", "id": 3, "acl": [], "query_ids": ["q1", SECRET]},
    {"text": "Open three", "id": 4, "acl": ["me"]},
    {
        "text": f"Open one: backups are kept for 14 {SECRET}.",
        "id": 0,
        "source_id": "s",
        "start_char": 0,
        "acl": ["boss"],
    },
    {"text": f"Open one: backups are kept for 15 days. {SECRET}", "id": 6, "acl": ["boss"]},
]
EVERYTHING: dict[str, Any] = {
    "dedup": "texts", "mmr_lambda": 0.5, "token_budget": 500, "token_cap": 400, "extract": True, "keep_top_k": 1,
    "max_chunks": 5, "max_per_source": 3, "max_per_parent": 3, "source_policy": "authoritative", "reasons": True,
}  # fmt: skip


@pytest.mark.parametrize("expand", ["heading", "paragraph", "sentences", "section"])
@pytest.mark.parametrize("answer", [pairs(5, 1, 5), BackendError(Reason.AUTH), "nonsense"])
async def test_what_the_caller_may_not_see_occurs_nowhere(
    answer: Answer, expand: Any, caplog: pytest.LogCaptureFixture
) -> None:
    backend = ScriptedBackend([answer])
    config = PrunerConfig(expand=expand, **EVERYTHING)
    with caplog.at_level(logging.DEBUG):
        result = await Pruner(config, backend=backend).prune(
            "How long are backups kept?",
            HIDDEN,
            principals=["me"],
            required_query_ids=["q1", "q2"],
            fetch_parent=lambda name: Chunk(text=f"{SECRET} Open two", acl=("boss",) if name == "q" else None),
        )
    shown = [repr(result), str(result.texts), str(result.evidence), str(result.trace), render_evidence(result)]
    shown += [str(result.conflicts), str(result.decisions), str(backend.requests), caplog.text, str(vars(result))]
    shown += [result.trace.model_dump_json(), explanation(result.trace), decision_table(result, HIDDEN)]
    shown += [evidence_rules(result), str(result.given_texts), summary(result, "m")]
    shown += [str(check_citations(f"So [E1]. {n} [E9].", result)) for n in range(2)]
    assert not [text for text in shown if SECRET in text]
    assert [d.by for d in result.decisions if d.index in (1, 3, 5, 6)] == ["access"] * 4
    assert [result.tokens[n] for n in (1, 3, 5, 6)] == [0] * 4
    assert len(result.chunks) == 3


@pytest.mark.parametrize(
    ("parent", "shown"),
    [
        (f"open words\n\n{SECRET}", False),
        ({"text": f"open words\n\n{SECRET}", "acl": ["boss"]}, False),
        ({"text": "open words\n\nmore", "acl": ["me"]}, True),
    ],
)
async def test_a_parent_that_may_hold_what_is_hidden_is_not_shown(parent: Any, shown: bool) -> None:
    chunks = [{"text": "open words", "parent_id": "p"}, {"text": SECRET, "parent_id": "p", "acl": ["boss"]}, "c"]
    one = pruner(pairs(5, 5), expand="section", keep_top_k=0)
    result = await one.prune("q", chunks, principals=["me"], fetch_parent=lambda _: parent)
    assert result.texts == ["open words\n\nmore" if shown else "open words", "c"]


async def test_a_grading_made_for_another_caller_says_nothing_of_what_this_one_may_not_see() -> None:
    noted = json.dumps({"grades": [{"label": n, "grade": 5, "reason": f"{SECRET} {n}"} for n in range(1, 6)]})
    one = pruner(noted, reasons=True)
    grading = await one.grade("q", HIDDEN, principals=["me", "boss"])
    result = one.assemble("q", HIDDEN, grading, principals=["me"])
    assert [(d.grade, d.note) for d in result.decisions if d.by == "access"] == [(None, None)] * 4
    assert result.decisions[0].note


async def test_a_list_with_an_acl_is_seen_by_no_one_who_is_not_named() -> None:
    result = await pruner(keep_top_k=0).prune("q", [{"text": "t", "acl": ["boss"]}])
    assert (result.chunks, result.status) == ([], "skipped")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("principals", "me"), ("principals", [1]), ("required_query_ids", "q1"), ("principals", None)],
)
async def test_names_must_come_as_a_list(argument: str, value: Any) -> None:
    with pytest.raises(RequestError, match=f"{argument} must be a list of str"):
        await pruner().prune("q", ["a"], **{argument: value})


@pytest.mark.parametrize("parents", [{"p": "x a y"}, {"p": {"text": "x a y"}}, {"p": Chunk(text="x a y"), "n": None}])
async def test_parents_given_to_assemble_may_have_any_form_of_a_chunk(parents: Any) -> None:
    assert pruner(expand="section").assemble("q", [{"text": "a", "parent_id": "p"}], parents=parents).texts == ["x a y"]


@pytest.mark.parametrize(
    ("chunks", "parents"),
    [(None, {}), (iter("ab"), {}), (["a"], ["p"]), (["a"], {"p": 7}), (["a"], {"p": {"text": 7}})],
)
async def test_what_assemble_cannot_use_is_the_callers_mistake(chunks: Any, parents: Any) -> None:
    with pytest.raises(RequestError):
        pruner(expand="section").assemble("q", chunks, parents=parents)


async def test_keep_top_k_is_counted_after_access_and_copies() -> None:
    chunks = [{"text": "a", "acl": []}, {"text": "b", "id": 1}, {"text": "b", "id": 1}, "c", "d", "e"]
    result = await pruner(pairs(1, 1, 1, 1), dedup="ids", keep_top_k=2).prune("q", chunks)
    assert [c.index for c in result.evidence] == [1, 3]
    assert [d.by for d in result.decisions] == [
        *("access", "keep_top_k", "duplicate_id", "keep_top_k", "below_threshold", "below_threshold")
    ]
    assert result.decisions[2].of == 1


async def test_a_required_sub_query_is_covered_from_below_the_threshold() -> None:
    chunks = [{"text": t, "query_ids": q} for t, q in zip("abcd", ([], [], ["q1"], ["q2"]), strict=True)]
    result = await pruner(pairs(5, 1, 2, 1), keep_top_k=1).prune("q", chunks, required_query_ids=["q1", "q3"])
    assert [(c.index, c.by) for c in result.evidence] == [(0, "grade"), (2, "coverage")]
    assert result.uncovered_query_ids == ("q3",)


async def test_a_sub_query_whose_chunk_the_budget_took_is_uncovered() -> None:
    chunks = [{"text": "a"}, {"text": "b " * 500, "query_ids": ["q1"]}, {"text": "c"}]
    result = await pruner(pairs(5, 5, 5), keep_top_k=1, token_budget=50).prune("q", chunks, required_query_ids=["q1"])
    assert [c.index for c in result.evidence] == [0, 2]
    assert result.uncovered_query_ids == ("q1",)
    assert [r.tokens is not None and r.tokens > 500 for r in result.trace.rejected] == [True]


async def test_a_sub_query_whose_best_chunk_does_not_fit_gets_the_best_that_does() -> None:
    """Also one below the threshold, and before anything that is not of the reranker's best few."""
    chunks = [
        {"text": "a"},
        {"text": "b " * 500, "query_ids": ["q1"]},
        {"text": "c c c c c"},
        {"text": "d", "query_ids": ["q1"]},
        {"text": "e e", "query_ids": ["q1"]},
    ]
    one = pruner(pairs(5, 5, 5, 1, 2), keep_top_k=1, token_budget=10)
    result = await one.prune("q", chunks, required_query_ids=["q1"])
    assert [(c.index, c.by) for c in result.evidence] == [(0, "grade"), (4, "coverage")]
    assert result.uncovered_query_ids == ()
    reasons = {r.index: r.reason for r in result.trace.rejected}
    assert reasons == {1: "token_budget", 2: "token_budget", 3: "below_threshold"}


@pytest.mark.parametrize("limit", ["token_budget", "token_cap"])
@pytest.mark.parametrize("answer", [pairs(5, 5, 1, 5), BackendError(Reason.AUTH)])
async def test_coverage_holds_against_every_limit_on_every_path(limit: str, answer: Answer) -> None:
    chunks = [
        {"text": "a"},
        {"text": "b " * 500, "query_ids": ["q1"]},
        {"text": "c", "query_ids": ["q1"]},
        {"text": "d " * 9, "query_ids": ["q2"]},
    ]
    one = pruner(answer, keep_top_k=1, fallback_top_n=1, **{limit: 20})
    result = await one.prune("q", chunks, required_query_ids=["q2", "q1"])
    assert [c.index for c in result.evidence] == [0, 2, 3]
    assert result.uncovered_query_ids == ()


@pytest.mark.parametrize("limit", ["token_budget", "token_cap"])
async def test_a_parent_never_takes_the_room_of_a_sub_query(limit: str) -> None:
    chunks = [{"text": "one", "parent_id": "p"}, {"text": "c", "query_ids": ["q1"]}, "d"]
    one = pruner(pairs(5, 1, 1), expand="section", keep_top_k=1, **{limit: 13})
    parents: dict[str | int, Any] = {"p": "one " + "more " * (9 if limit == "token_budget" else 12)}
    result = one.assemble("q", chunks, None, required_query_ids=["q1"], parents=parents, threshold=5)
    assert result.uncovered_query_ids == ()
    assert result.texts[:2] == ["one", "c"]
    more: dict[str, Any] = {limit: 99}
    roomy = one.assemble("q", chunks, None, required_query_ids=["q1"], parents=parents, **more)
    assert roomy.texts[0] == parents["p"]


@pytest.mark.parametrize("limit", ["token_budget", "token_cap"])
async def test_of_a_block_that_does_not_fit_each_child_is_tried_alone(limit: str) -> None:
    chunks = [{"text": t, "parent_id": "p", "query_ids": [t]} for t in ("one", "two")] + ["d"]
    one = pruner(expand="section", keep_top_k=0, **{limit: 12})
    result = one.assemble("q", chunks, required_query_ids=["two"], parents={"p": "one " + "and " * 40 + "two"})
    assert result.texts == ["one", "two", "d"]
    assert result.uncovered_query_ids == ()
    less: dict[str, Any] = {limit: 1}
    tight = one.assemble("q", chunks, required_query_ids=["two"], parents={"p": "one and two"}, **less)
    assert tight.texts == (["two"] if limit == "token_cap" else [])
    assert sorted(r.index for r in tight.trace.rejected) == ([0, 2] if limit == "token_cap" else [0, 1, 2])


async def test_what_the_budget_passes_over_takes_nothing_of_the_cap() -> None:
    chunks = [{"text": "a " * 9, "source_id": "s " * 30}, "b " * 9]
    result = pruner(keep_top_k=0, token_budget=30, token_cap=10).assemble("q", chunks)
    assert [c.index for c in result.evidence] == [1]
    assert result.decisions[0].by == "token_budget"


@pytest.mark.parametrize("answer", [pairs(1, 1, 5), BackendError(Reason.AUTH)])
async def test_when_keep_top_k_fills_max_chunks_the_sub_queries_are_said_to_be_uncovered(answer: Answer) -> None:
    chunks = ["a", "b", {"text": "c", "query_ids": ["q1"]}]
    result = await pruner(answer, keep_top_k=2, max_chunks=2).prune("q", chunks, required_query_ids=["q1"])
    assert [c.index for c in result.evidence] == [0, 1]
    assert result.uncovered_query_ids == result.trace.uncovered_query_ids == ("q1",)
    assert result.decisions[2].by == "max_chunks"
    roomier = pruner().assemble("q", chunks, required_query_ids=["q1"], max_chunks=3)
    assert roomier.uncovered_query_ids == ()


@settings(max_examples=150)
@given(chunks_strategy, dials_strategy, st.integers(1, 60), st.integers(1, 30))
def test_no_sub_query_is_left_out_for_whom_there_was_room(
    chunks: list[dict[str, Any]], dials: dict[str, Any], budget: int, cap: int
) -> None:
    """Beside the reranker's best few and the other sub-queries, each as it was given."""
    dials = {**dials, "token_budget": budget, "token_cap": cap}
    dials.pop("max_chunks", None)
    one = pruner(**dials)
    parents: dict[str | int, Any] = {"a": "The backup is kept 14 days.\n\nNot on the plan.", "b": "is not kept " * 9}
    asked: dict[str, Any] = {"principals": ["me"], "required_query_ids": ["a", "b"]}
    result = one.assemble("q", chunks, **asked, parents=parents)
    ranked = one.assemble(
        "q", chunks, **asked, token_budget=None, token_cap=None, fallback_top_n=None, max_per_source=None,
        max_per_parent=None, expand="off", evidence_order="reranker"
    ).evidence  # fmt: skip
    best_few = {c.index for c in ranked[: dials.get("keep_top_k", 2)]}
    shown = {index for c in result.evidence for index in (c.index, *c.merged)}
    held = [c for c in ranked if c.index in shown and (c.index in best_few or not {"a", "b"}.isdisjoint(c.query_ids))]
    for name in result.uncovered_query_ids:
        for other in (c for c in ranked if name in c.query_ids):
            both = [*held, other]
            blocks = Words().count(render_evidence(result_of(both)))
            assert blocks > budget or sum(Words().count(c.text) for c in both) > cap


LONG = "The backups of a workspace are kept in the region of the customer and can be restored at will "


async def test_a_conflict_is_named_while_one_of_the_two_is_kept() -> None:
    chunks = [LONG + "for 14 days.", LONG + "for 30 days.", "c", "d"]
    both = await pruner(pairs(5, 4, 1, 1), dedup="texts", keep_top_k=0).prune("q", chunks)
    assert [c.indices for c in both.conflicts] == [(0, 1)]
    assert both.conflicts[0].tokens == (("14",), ("30",))
    assert [c.indices for c in both.trace.conflicts] == [(0, 1)]
    neither = await pruner(pairs(1, 1, 5, 1), dedup="texts", keep_top_k=0).prune("q", chunks)
    assert neither.conflicts == ()


async def test_children_of_one_parent_become_one_block() -> None:
    parent = "First paragraph.\n\nSecond paragraph.\n\nThird paragraph."
    chunks = [{"text": f"{n} paragraph.", "parent_id": "p"} for n in ("First", "Third")] + ["other", "more"]
    result = await pruner(pairs(5, 5, 1, 1), expand="paragraph", keep_top_k=0).prune(
        "q", chunks, fetch_parent=lambda _: parent
    )
    assert result.chunks == [chunks[0]]
    assert "First" in result.texts[0]
    assert "Third" in result.texts[0]
    assert (result.decisions[1].by, result.decisions[1].of) == ("merged", 0)


async def test_a_chunk_whose_parent_does_not_fit_is_shown_alone() -> None:
    chunks = [{"text": "needle", "parent_id": "p", "heading_path": ["Terms"]}, "b", "c"]
    result = await pruner(pairs(5, 5, 5), expand="section", keep_top_k=0, token_budget=20).prune(
        "q", chunks, fetch_parent=lambda _: "needle " * 90
    )
    assert result.texts == ["needle", "b", "c"]
    assert Words().count(render_evidence(result)) <= (result.trace.used_tokens or 0) <= 20


async def test_a_parent_is_cut_once_however_often_its_children_are_tried_anew() -> None:
    families = "abc"
    chunks = [{"text": f"{p}{n} is kept.", "parent_id": p} for p in families for n in range(3)]
    parents: dict[str | int, Any] = {
        p: "\n\n".join(f"Before. {p}{n} is kept. After." for n in range(3)) for p in families
    }
    split: list[str] = []
    one = pruner(expand="sentences", keep_top_k=0, token_budget=30)

    def noting(text: str) -> list[int]:
        split.append(text)
        return [n for n, sign in enumerate(text, 1) if sign == "." or n == len(text)]

    one._split = noting
    result = one.assemble("q", chunks, None, parents=parents)
    assert "Unexpanded" in [stage.stage for stage in result.trace.stages]
    assert sorted(split) == sorted(set(split))
    assert len(split) == 9


async def test_parents_are_fetched_for_what_was_selected_only() -> None:
    asked: list[Any] = []
    chunks = [{"text": t, "parent_id": t} for t in "abcd"]
    await pruner(pairs(5, 1, 1, 1), expand="section", keep_top_k=1).prune(
        "q", chunks, fetch_parent=lambda name: asked.append(name)
    )
    assert asked == ["a"]


async def test_without_a_new_dial_no_stage_runs_but_the_threshold() -> None:
    result = await pruner(pairs(5, 1, 1, 1)).prune("q", ["a", "a", "b", "c"])
    assert [stage.stage for stage in result.trace.stages] == ["Threshold"]


async def test_the_trace_names_the_policy_and_equal_rules_have_equal_hashes() -> None:
    one = pruner(policy="support", mmr_lambda=0.5, token_budget=100)
    traces = [
        one.assemble("q", ["a", "b"]).trace,
        one.assemble("q", ["a", "b"], policy="sales").trace,
        one.assemble("q", ["a", "b"], mmr_lambda=0.6).trace,
    ]
    assert [t.policy for t in traces] == ["support", "sales", "support"]
    assert traces[0].policy_sha256 == traces[1].policy_sha256 != traces[2].policy_sha256
    assert (traces[0].mmr_lambda, traces[0].budget) == (0.5, 100)


@pytest.mark.parametrize(
    "dial", [name for name, field in PrunerConfig.model_fields.items() if field.annotation is float]
)
def test_rules_are_equal_however_a_number_is_written(dial: str) -> None:
    def rules(value: Any) -> PrunerConfig:
        return PrunerConfig(**{dial: value})

    default = PrunerConfig.model_fields[dial].default
    assert {repr(rules(value).selection_dials()) for value in (default, float(default), str(default))} == {
        repr(PrunerConfig().selection_dials())
    }
    assert len({rules(value).policy_sha256 for value in (1, 1.0, "1")}) == 1


async def test_an_infinite_score_survives_the_traces_json() -> None:
    trace = pruner().assemble("q", [{"text": "a", "score": float("inf")}]).trace
    assert Trace.model_validate_json(trace.model_dump_json()) == trace


async def test_the_trace_keeps_the_three_scores_apart() -> None:
    chunks = [{"text": "a", "score": 7.5, "id": "x"}, {"text": "b", "score": -2.0, "id": "y"}, "c", "d"]
    result = await pruner(pairs(3, 5, 1, 1), mmr_lambda=0.5, keep_top_k=0).prune("q", chunks)
    rows = [(s.chunk_id, s.reranker_score, s.grade, s.mmr_score, s.selection_order) for s in result.trace.selected]
    assert rows == [("x", 7.5, 3, 0.25, 1), ("y", -2.0, 5, 0.5, 0)]
    assert [s.evidence_id for s in result.trace.selected] == ["E1", "E2"]


def test_a_trace_can_be_written_whatever_names_the_caller_gives() -> None:
    odd = "file\udce9.txt"
    row = {"text": PASSAGE, "id": odd, "parent_id": odd, "query_ids": [odd]}
    result = pruner(dedup="ids").assemble("q", [row, row], required_query_ids=[odd, f"{odd}?"])
    assert Trace.model_validate_json(result.trace.model_dump_json()) == result.trace
    assert result.decisions[0].id == odd
    assert odd.encode("utf-8", "replace").decode() in explanation(result.trace)
