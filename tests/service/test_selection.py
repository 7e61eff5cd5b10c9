"""What the library's selection takes and answers, over HTTP: whom and what a list is for, every dial, evidence."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pruner.config import PrunerConfig
from pruner.schema import GradingRequest, RawGrading
from pruner.service.dials import WIDEST, Dials
from pruner.service.logs import JsonFormatter
from tests.service.served import THREE, app_of, first_needed, grades, post, prune

pytestmark = pytest.mark.anyio

SECRET = {"text": "a secret", "acl": ["staff"]}
PLANS = [
    {"text": "The Basic plan keeps backups for 14 days.", "query_ids": ["basic"], "source_id": "terms-2025"},
    {"text": "The Basic plan keeps backups for 30 days.", "query_ids": ["basic"], "source_id": "terms-2023"},
    {"text": "The choir meets on Tuesday.", "query_ids": ["pro"], "source_id": "choir"},
]
PARENT = "Backups run every night.\n\nneeded, and a word more.\n\nRestoring is free."
NULL = {"type": "null"}
CHILD = [{"text": "needed", "parent_id": "p"}, "useless", "of no use"]


async def assemble(**body: Any) -> dict[str, Any]:
    response = await post(app_of(), "/v1/assemble", body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def refused(path: str = "/v1/prune", app: Any = None, **body: Any) -> tuple[int, str, str | None]:
    response = await post(app or app_of(), path, body)
    error = response.json()["error"]
    return response.status_code, error["code"], error["field"]


@pytest.mark.parametrize(
    ("principals", "kept", "by"), [([], [1], "access"), (["guest"], [1], "access"), (["staff"], [0], "grade")]
)
async def test_a_chunk_is_answered_to_those_on_its_acl_only(principals: list[str], kept: list[int], by: str) -> None:
    answer = await prune(app_of(), chunks=[SECRET, "needed", "useless"], principals=principals)
    assert (answer["kept"], answer["decisions"][0]["by"]) == (kept, by)


async def test_what_the_principals_may_not_see_reaches_no_model_no_answer_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def answer(request: GradingRequest) -> RawGrading:
        asked.append(request.user)
        return first_needed(request)

    caplog.set_level("DEBUG")
    app = app_of(answer, log_content=True, decision_log=tmp_path / "log.jsonl")
    body = {"query": "which?", "chunks": [SECRET, "needed", "useless"], "texts": True, "trace": True, "evidence": True}
    response = await post(app, "/v1/prune", {**body, "tokens": True})
    body = {"chunks": body["chunks"], "grading": {"grades": [5, 5, 1]}, "texts": True}
    again = await post(app, "/v1/assemble", body)
    lines = "".join(JsonFormatter(content=True).format(record) for record in caplog.records)
    decisions = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    assert ("needed" in lines, "needed" in decisions) == (True, True)
    assert "secret" not in response.text + again.text + lines + decisions + asked[0]
    assert response.json()["tokens"]["chunks"][0] == 0


async def test_the_acl_of_a_document_that_a_reranker_ranked_holds_too() -> None:
    results = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    answer = await prune(app_of(), chunks=None, documents=["needed", {**SECRET, "url": "x"}], results=results)
    assert (answer["kept"], answer["decisions"][0]["by"]) == ([0], "access")


async def test_a_required_sub_query_gets_its_chunk_and_what_nothing_serves_is_said() -> None:
    answer = await prune(app_of(), chunks=PLANS, required_query_ids=["pro", "cancelling"])
    assert (answer["kept"], answer["uncovered_query_ids"]) == ([0, 2], ["cancelling"])
    assert answer["decisions"][2]["by"] == "coverage"


async def test_near_equal_chunks_that_contradict_are_named_by_place() -> None:
    answer = await prune(app_of(), chunks=PLANS, dials={"dedup": "texts", "threshold": 1})
    assert answer["conflicts"] == [{"indices": [0, 1], "kind": "number", "tokens": [["14"], ["30"]]}]


async def test_conflicts_of_ranked_documents_go_by_their_places_in_the_documents() -> None:
    results = [{"index": place, "relevance_score": 0.5} for place in (2, 1, 0)]
    changes = {"chunks": None, "documents": PLANS, "results": results, "dials": {"dedup": "texts", "threshold": 1}}
    assert [c["indices"] for c in (await prune(app_of(), **changes))["conflicts"]] == [[1, 0]]


@pytest.mark.parametrize(
    ("dials", "shown"),
    [
        ({}, "needed"),
        ({"expand": "paragraph"}, "needed, and a word more."),
        ({"expand": "section"}, PARENT),
        ({"expand": "section", "extract": True}, "needed, and a word more."),
    ],
)
async def test_texts_are_what_parents_and_extracts_make_of_them(dials: dict[str, Any], shown: str) -> None:
    changes = {"query": "word", "chunks": CHILD, "parents": {"p": PARENT}, "dials": dials, "texts": True}
    assert shown in (await prune(app_of(), **changes))["texts"][0]


async def test_a_parent_is_found_by_a_number_too_and_one_that_nobody_names_is_ignored() -> None:
    chunks = [{"text": "needed", "parent_id": 7}, "useless", "of no use"]
    parents = {"7": {"text": "needed more"}, "8": "another"}
    answer = await prune(app_of(), chunks=chunks, parents=parents, dials={"expand": "section"}, texts=True)
    assert answer["texts"] == ["needed more"]


async def test_a_parent_that_the_principals_may_not_see_is_not_shown() -> None:
    parents = {"p": {"text": PARENT, "acl": ["staff"]}}
    changes: dict[str, Any] = {"chunks": CHILD, "parents": parents, "dials": {"expand": "section"}, "texts": True}
    assert (await prune(app_of(), **changes))["texts"] == ["needed"]
    assert (await prune(app_of(), **changes, principals=["staff"]))["texts"] == [PARENT]


async def test_evidence_comes_on_request_as_blocks_and_the_rules_for_them() -> None:
    changes = {"chunks": [{"text": "a < b", "source_id": "terms", "page": 3}, *PLANS[:2]]}
    dials = {"dedup": "texts", "threshold": 1}
    plain = await prune(app_of(), **changes, dials=dials)
    assert plain["evidence"] is None
    evidence = (await prune(app_of(), **changes, dials=dials, evidence=True))["evidence"]
    assert evidence["blocks"].startswith('<evidence id="E1" source="terms" page="3">\na &lt; b\n</evidence>\n')
    assert "E2 and E3 say nearly the same" in evidence["rules"]


async def test_assembling_takes_and_answers_the_same() -> None:
    answer = await assemble(
        query="word",
        chunks=[*CHILD, SECRET, {**PLANS[2], "text": "x"}],
        grading={"grades": [5, 1, 1, 5, 1]},
        parents={"p": PARENT},
        principals=["guest"],
        required_query_ids=["pro", "basic"],
        dials={"expand": "section", "extract": True, "keep_top_k": 0},
        texts=True,
        evidence=True,
    )
    assert (answer["kept"], answer["uncovered_query_ids"]) == ([0, 4], ["basic"])
    assert "and a word more" in answer["texts"][0]
    assert "every night" not in answer["texts"][0] + answer["evidence"]["blocks"]


async def test_a_copy_that_a_dial_of_the_request_drops_is_not_graded() -> None:
    seen: list[int] = []

    def answer(request: GradingRequest) -> RawGrading:
        seen.append(request.n)
        return RawGrading(text=grades(request.n, 1))

    chunks = ["one and the same text", "one and the same text", "useless", "of no use"]
    decisions = (await prune(app_of(answer), chunks=chunks, dials={"dedup": "texts"}))["decisions"]
    assert seen == [3]
    assert (decisions[1]["by"], decisions[1]["of"]) == ("near_duplicate", 0)


async def test_chunks_with_embeddings_are_compared_by_them() -> None:
    vectors = {"alpha": [1, 0], "beta": [1.0, 0.001], "gamma": [0, 1]}
    chunks = [{"text": text, "embedding": vector} for text, vector in vectors.items()]
    answer = await prune(app_of(), chunks=chunks, dials={"dedup": "texts", "threshold": 1})
    assert (answer["kept"], answer["decisions"][1]["by"]) == ([0, 2], "near_duplicate")


@pytest.mark.parametrize(
    ("dials", "kept"),
    [
        ({"max_chunks": 2}, [0, 1]),
        ({"max_per_source": 1}, [0, 3]),
        ({"max_per_parent": 1}, [0, 2, 3]),
        ({"token_budget": 30}, [0]),
        ({"evidence_order": "edges"}, [0, 2, 3, 1]),
        ({"revision_policy": "active"}, [0, 1, 2]),
        ({"mmr_lambda": 0.0, "max_chunks": 2}, [0, 2]),
    ],
)
async def test_a_selection_dial_holds_for_the_one_request(dials: dict[str, Any], kept: list[int]) -> None:
    chunks = [
        {"text": "backups are kept for days", "source_id": "a", "parent_id": 1},
        {"text": "backups are kept for weeks", "source_id": "a", "parent_id": 1},
        {"text": "rice is boiled in much water", "source_id": "a", "parent_id": 2},
        {"text": "the choir meets here again", "source_id": "b", "parent_id": 3, "status": "superseded"},
    ]
    app = app_of(lambda request: RawGrading(text=grades(request.n, *range(1, request.n + 1))))
    answer = await prune(app, chunks=chunks, dials=dials)
    assert answer["kept"] == kept
    assert (await prune(app, chunks=chunks))["kept"] == [0, 1, 2, 3]


def test_a_request_may_set_every_selection_dial_but_its_name() -> None:
    assert Dials.model_fields.keys() == PrunerConfig().selection_dials().keys() - {"policy"} == WIDEST.keys()


@pytest.mark.parametrize("name", Dials.model_fields)
def test_a_dial_of_a_request_takes_what_the_library_takes(name: str) -> None:
    assert _taken(Dials, name) == _taken(PrunerConfig, name) or name == "threshold"  # Its names of levels are said too.


def _taken(model: type[BaseModel], name: str) -> list[dict[str, Any]]:
    schema = model.model_json_schema()["properties"][name]
    members = schema.get("anyOf", [{key: schema[key] for key in schema.keys() - {"default", "title", "description"}}])
    named = {"ge": "minimum", "le": "maximum"}  # A constraint of a field itself keeps pydantic's name.
    return [{named.get(key, key): value for key, value in member.items()} for member in members if member != NULL]


@pytest.mark.parametrize("name", [name for name in WIDEST if isinstance(WIDEST[name][0], str | bool)])
async def test_every_value_of_a_dial_that_has_few_is_taken(name: str) -> None:
    for value in WIDEST[name]:
        dials = {"dedup": "texts", name: value} if name == "source_policy" else {name: value}
        assert (await prune(app_of(), dials=dials))["status"] == "ok"


@pytest.mark.parametrize(
    ("limits", "dials", "code", "message"),
    [
        ({"expand": ("off", "heading")}, {"expand": "section"}, "invalid_request", "must be one of off, heading"),
        ({"extract": (False,)}, {"extract": True}, "invalid_request", "must be one of false"),
        ({"token_budget": (1, 100)}, {"token_budget": 101}, "invalid_request", "must be from 1 to 100"),
        ({"extract": (False,)}, {"dedup": "off"}, "dial_not_open", "the operator has not opened this dial to requests"),
    ],
)
async def test_a_dial_beyond_the_operators_limit_is_refused(
    limits: dict[str, Any], dials: dict[str, Any], code: str, message: str
) -> None:
    error = (await post(app_of(dials=limits), "/v1/prune", {**THREE, "dials": dials})).json()["error"]
    assert (error["code"], error["field"], error["message"]) == (code, f"dials.{next(iter(dials))}", message)


@pytest.mark.parametrize("dials", [{"extract": True}, {"expand": "sentences"}])
@pytest.mark.parametrize("path", ["/v1/prune", "/v1/assemble"])
async def test_a_dial_that_needs_an_extra_is_refused_without_it_before_anything_is_paid_for(
    path: str, dials: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(request: GradingRequest) -> RawGrading:
        raise AssertionError("asked")

    monkeypatch.setitem(__import__("sys").modules, "sentencex", None)
    body = THREE if path == "/v1/prune" else {"chunks": THREE["chunks"], "grading": {"grades": [5, 1, 1]}}
    assert await refused(path, app_of(never), **body, dials=dials) == (422, "invalid_request", "dials")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"principals": "me"}, "principals"),
        ({"principals": ["p"] * 1001}, "principals"),
        ({"required_query_ids": [1]}, "required_query_ids[0]"),
        ({"required_query_ids": ["q"] * 101}, "required_query_ids"),
        ({"parents": ["p"]}, "parents"),
        ({"parents": {"p": 3}}, "parents.p"),
        ({"parents": {"p": {"text": "a", "scroe": 1}}}, "parents.p.scroe"),
        ({"parents": {str(n): "a" for n in range(1001)}}, "parents"),
        ({"parents": {"p": "a" * 900}, "chunks": [{"text": "b", "parent_id": "p"}] * 30}, "parents"),
        ({"evidence": "yes"}, "evidence"),
        ({"fetch_parent": "http://elsewhere.test"}, "fetch_parent"),
        ({"chunks": [{"text": "a", "acl": "staff"}]}, "chunks[0].acl"),
        ({"chunks": [{"text": "a", "acl": [1]}]}, "chunks[0].acl[0]"),
        ({"chunks": [{"text": "a", "query_ids": ["q"] * 101}]}, "chunks[0].query_ids"),
        ({"chunks": [{"text": "a", "embedding": [1, "x"]}]}, "chunks[0].embedding[1]"),
        ({"chunks": [{"text": "a", "parent_id": 1.5}]}, "chunks[0].parent_id"),
        ({"chunks": [{"text": "a", "start_char": -1}]}, "chunks[0].start_char"),
        ({"dials": {"policy": "mine"}}, "dials.policy"),
        ({"dials": {"parent_timeout": 3}}, "dials.parent_timeout"),
        ({"dials": {"mmr_lambda": 1.5}}, "dials.mmr_lambda"),
        ({"dials": {"extract": 1}}, "dials.extract"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/prune", "/v1/assemble"])
async def test_what_cannot_be_used_is_refused_by_its_field(path: str, changes: dict[str, Any], field: str) -> None:
    body = dict(THREE if path == "/v1/prune" else {"chunks": THREE["chunks"], "grading": {"grades": [5, 1, 1]}})
    app = app_of(max_body=5000) if "chunks" in changes and "parents" in changes else None
    assert await refused(path, app, **{**body, **changes}) == (422, "invalid_request", field)


@pytest.mark.parametrize("field", ["acl", "query_ids", "heading_path"])
@pytest.mark.parametrize(("given", "message"), [("staff", "valid list"), (["a"] * 1001, "List should have at most")])
async def test_what_is_no_list_of_names_is_said_in_words_of_json(field: str, given: Any, message: str) -> None:
    response = await post(app_of(), "/v1/prune", {**THREE, "chunks": [{"text": "a", field: given}]})
    assert message in response.json()["error"]["message"]


async def test_numbers_of_any_size_are_answered() -> None:
    chunks = [{"text": "needed", "start_char": 10**40, "end_char": 10**400, "page": -(10**30)}, *CHILD]
    dials = {"dedup": "texts", "expand": "section"}
    answer = await prune(app_of(), chunks=chunks, parents={"p": {"text": PARENT, "start_char": 10**50}}, dials=dials)
    assert json.dumps(answer["kept"])
