import asyncio
import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from pruner import BackendError, Chunk, ConfigError, Reason, RequestError
from pruner.integrations.functions import PrunedList, PrunedRetriever, pruned
from tests.integrations.scripted import TEXTS, make_pruner, pairs, requests_of

GRADES = pairs(1, 1, 5, 2, 3)
KEPT = ["alpha", "beta", "gamma", "epsilon"]


@dataclass(frozen=True)
class Page:
    hits: list[Any]
    total: int = 5


class Model(BaseModel):
    hits: list[Any]
    total: int = 5


def test_the_kept_come_as_a_list_with_the_whole_result() -> None:
    kept = pruned(pruner=make_pruner(GRADES))(lambda query: TEXTS)("q")
    assert isinstance(kept, PrunedList)
    assert kept == KEPT
    assert (kept.result.status, len(kept.result.decisions)) == ("ok", 5)
    assert json.loads(json.dumps(kept)) == KEPT


@pytest.mark.parametrize("call", [lambda f: f(3, "the question"), lambda f: f(k=3, question="the question")])
def test_the_query_is_found_by_the_name_of_its_parameter(call: Any) -> None:
    pruner = make_pruner(GRADES)

    @pruned(query="question", pruner=pruner)
    def find(k: int, question: str = "none") -> list[str]:
        return TEXTS

    call(find)
    assert "the question" in requests_of(pruner)[0].user


@pytest.mark.parametrize("name", ["query", "question", "q"])
def test_a_parameter_named_for_it_holds_the_question_wherever_it_stands(name: str) -> None:
    pruner, names = make_pruner(GRADES, GRADES), dict[str, Any]()
    exec(f"def search(collection, k=3, {name}='', *more): return {TEXTS}", names)
    find = PrunedRetriever(SimpleNamespace(search=names["search"]), pruner).search
    find("terms", 5, "the question")
    find("terms", **{name: "the question"})
    assert all("the question" in r.user and "terms" not in r.user for r in requests_of(pruner))


class Collections:
    def search(self, collection: str, wanted: str) -> list[str]:
        return TEXTS

    async def asearch(self, collection: str, wanted: str) -> list[str]:
        return TEXTS


def test_a_retriever_is_told_which_parameter_holds_the_question() -> None:
    pruner = make_pruner(GRADES, GRADES)
    store = PrunedRetriever(Collections(), pruner, query="wanted")
    assert store.search("terms", "the question") == KEPT
    assert asyncio.run(store.asearch("terms", wanted="the question")) == KEPT
    assert all("the question" in r.user and "terms" not in r.user for r in requests_of(pruner))
    with pytest.raises(ConfigError, match="has no parameter 'query' that could hold the query"):
        PrunedRetriever(Collections(), pruner, query="query")


def test_without_its_parentheses_the_decorator_says_so() -> None:
    bare: Any = pruned
    with pytest.raises(ConfigError, match=r"write @pruned\(\)"):
        bare(lambda query: TEXTS)


def test_an_async_generator_is_refused_at_once_and_a_generator_is_not() -> None:
    async def stream(query: str) -> Any:
        for text in TEXTS:
            yield text

    def each(query: str) -> Iterator[str]:
        yield from TEXTS

    class Streams:
        search = staticmethod(stream)

    for wrap in (lambda: pruned(pruner=make_pruner())(stream), lambda: PrunedRetriever(Streams(), make_pruner())):
        with pytest.raises(ConfigError, match="stream is an async generator, which cannot be pruned; return a list"):
            wrap()
    assert pruned(pruner=make_pruner(GRADES))(each)("q") == KEPT


def test_a_default_counts_as_the_query() -> None:
    pruner = make_pruner(GRADES)

    @pruned(query="question", pruner=pruner)
    def find(question: str = "the usual") -> list[str]:
        return TEXTS

    find()
    assert "the usual" in requests_of(pruner)[0].user


@pytest.mark.parametrize(("groups", "kept"), [(["staff"], ["open", "staff"]), ([], ["open"]), (None, ["open"])])
def test_whom_the_caller_speaks_for_is_found_by_the_name_of_its_parameter(groups: Any, kept: list[str]) -> None:
    rows: list[dict[str, Any]] = [{"text": "open"}, {"text": "staff", "acl": ["staff"]}]

    class Store:
        def search(self, query: str, groups: list[str] | None = None) -> list[dict[str, Any]]:
            return rows

        async def asearch(self, query: str, groups: list[str] | None = None) -> list[dict[str, Any]]:
            return rows

    store = PrunedRetriever(Store(), make_pruner(*[pairs(5, 5)] * 2, keep_top_k=0), principals="groups")
    assert [row["text"] for row in store.search("q", groups)] == kept
    assert [row["text"] for row in asyncio.run(store.asearch("q", groups=groups))] == kept


def test_the_parents_of_what_is_kept_are_fetched() -> None:
    @pruned(pruner=make_pruner(pairs(5, 1), keep_top_k=0, expand="section"), fetch_parent=lambda name: "All of it.")
    def find(query: str) -> list[dict[str, Any]]:
        return [{"text": "All", "parent_id": "p"}, {"text": "None", "parent_id": "q"}]

    assert [row["text"] for row in find("q")] == ["All of it."]


def test_a_parameter_for_principals_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="has no parameter 'groups' that could hold the principals"):
        pruned(principals="groups", pruner=make_pruner())(lambda query: TEXTS)


def test_a_parameter_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="find has no parameter 'question'"):

        @pruned(query="question", pruner=make_pruner())
        def find(query: str) -> list[str]:
            return TEXTS


@pytest.mark.parametrize("returned", [{"hits": TEXTS, "total": 5}, Page(TEXTS), Model(hits=TEXTS)], ids=type)
def test_the_list_may_be_within_what_is_returned(returned: Any) -> None:
    before = copy.deepcopy(returned)
    out = pruned(chunks="hits", pruner=make_pruner(GRADES))(lambda query: returned)("q")
    assert type(out) is type(returned)
    assert (out["hits"] if isinstance(out, dict) else out.hits) == KEPT
    assert returned == before


class Odd(NamedTuple):
    hits: list[str]


@pytest.mark.parametrize(
    ("returned", "chunks"), [(Odd(TEXTS), "hits"), ("alpha", None), ({"hits": TEXTS}, None), (None, None), (7, None)]
)
def test_what_holds_no_list_is_refused(returned: Any, chunks: str | None) -> None:
    with pytest.raises(RequestError):
        pruned(chunks=chunks, pruner=make_pruner(GRADES))(lambda query: returned)("q")


@pytest.mark.parametrize("kind", [tuple, iter, lambda texts: (text for text in texts)])
def test_any_iterable_counts_as_a_list(kind: Any) -> None:
    assert pruned(pruner=make_pruner(GRADES))(lambda query: kind(TEXTS))("q") == KEPT


def test_kept_chunks_and_mappings_are_copies_that_carry_their_grade() -> None:
    mapping = MappingProxyType({"text": "beta", "k": 1})
    given: list[Any] = [Chunk(text="alpha", metadata={"a": 1}), mapping, "gamma", "delta", "epsilon"]
    chunk, entry, text, _ = pruned(pruner=make_pruner(GRADES))(lambda query: given)("q")
    assert chunk.metadata == {"a": 1, "pruner": chunk.metadata["pruner"]}
    assert chunk.metadata["pruner"]["grade"] == 1
    assert (entry["k"], entry["pruner"]["by"]) == (1, "keep_top_k")
    assert text == "gamma"
    assert given[0].metadata == {"a": 1}


@dataclass
class Row:
    body: str
    tags: list[str] = field(default_factory=list)


@pytest.mark.parametrize("to_chunk", [lambda row: row.body, lambda row: {"text": row.body, "title": row.body}])
def test_other_objects_are_read_by_a_converter_and_come_back_themselves(to_chunk: Any) -> None:
    rows = [Row(text) for text in TEXTS]
    kept = pruned(pruner=make_pruner(GRADES), to_chunk=to_chunk)(lambda query: rows)("q")
    assert [id(row) for row in kept] == [id(rows[place]) for place in (0, 1, 2, 4)]


def test_other_objects_without_a_converter_are_refused() -> None:
    with pytest.raises(RequestError, match="Row"):
        pruned(pruner=make_pruner())(lambda query: [Row(text) for text in TEXTS])("q")


def test_the_same_object_twice_is_two_chunks() -> None:
    twice = {"text": "alpha"}
    kept: list[Any] = pruned(pruner=make_pruner(pairs(1, 1, 5)))(lambda query: [twice, twice, twice])("q")
    assert [entry["pruner"]["grade"] for entry in kept] == [1, 1, 5]


class Finder:
    async def __call__(self, query: str) -> list[str]:
        return TEXTS

    def method(self, query: str) -> list[str]:
        return TEXTS


def test_methods_and_objects_that_can_be_called_work() -> None:
    assert pruned(pruner=make_pruner(GRADES))(Finder().method)("q") == KEPT
    assert asyncio.run(pruned(pruner=make_pruner(GRADES))(Finder())("q")) == KEPT


def _in_class(where: str) -> Any:
    if where == "method":

        class Method:
            @pruned(pruner=make_pruner(GRADES))
            def find(self, question: str, k: int = 3) -> list[str]:
                return TEXTS

        return Method().find
    if where == "classmethod outside":

        class Outside:
            @classmethod
            @pruned(pruner=make_pruner(GRADES))
            def find(cls, question: str) -> list[str]:
                return TEXTS

        return Outside.find
    if where == "classmethod inside":

        class Inside:
            @pruned(pruner=make_pruner(GRADES))
            @classmethod
            def find(cls, question: str) -> list[str]:
                return TEXTS

        return Inside.find

    class Static:
        @pruned(pruner=make_pruner(GRADES))
        @staticmethod
        def find(question: str) -> list[str]:
            return TEXTS

    return Static().find


@pytest.mark.parametrize("where", ["method", "classmethod outside", "classmethod inside", "staticmethod"])
def test_within_a_class_the_first_parameter_but_self_is_the_query(where: str) -> None:
    assert _in_class(where)("q") == KEPT
    assert _in_class(where)(question="q") == KEPT


def test_an_async_function_under_a_plain_decorator_is_still_awaited() -> None:
    async def find(query: str) -> dict[str, list[str]]:
        return {"hits": TEXTS}

    @pruned(chunks="hits", pruner=make_pruner(GRADES))
    def hidden(query: str) -> Any:
        return find(query)

    assert asyncio.run(hidden("q")) == {"hits": KEPT}


@pytest.mark.parametrize("returned", [{"docs": []}, Page([]), (1, 2), None])
def test_what_has_no_such_list_is_refused_in_one_line(returned: Any) -> None:
    with pytest.raises(RequestError, match="without 'documents'"):
        pruned(chunks="documents", pruner=make_pruner())(lambda query: returned)("q")


def test_a_callable_without_a_signature_is_refused_at_once() -> None:
    unreadable: Any = dict
    with pytest.raises(ConfigError, match="wrap it in a function"):
        pruned(pruner=make_pruner())(unreadable)


def test_a_function_keeps_its_name_and_its_errors() -> None:
    @pruned(pruner=make_pruner())
    def find(query: str) -> list[str]:
        """Find."""
        raise KeyError(query)

    assert (find.__name__, find.__doc__) == ("find", "Find.")
    with pytest.raises(KeyError):
        find("q")


def test_without_a_pruner_the_environment_says_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    replies = tmp_path / "replies"
    replies.write_text(GRADES)
    monkeypatch.setenv("PRUNER_MODEL", f"scripted:{replies}")
    assert pruned()(lambda query: TEXTS)("q") == KEPT
    assert pruned(pruner={"model": f"scripted:{replies}", "threshold": 4})(lambda query: TEXTS)("q") == KEPT[:3]


class Retriever:
    name = "mine"

    def retrieve(self, query: str, k: int = 5) -> list[str]:
        return TEXTS[:k]

    async def asearch(self, query: str) -> dict[str, Any]:
        return {"hits": TEXTS}

    def __iter__(self) -> Iterator[str]:
        return iter(TEXTS)


def test_a_retriever_prunes_and_is_otherwise_as_it_was() -> None:
    made = PrunedRetriever(Retriever(), make_pruner(GRADES))
    assert made.retrieve("q", k=5) == KEPT
    assert made.name == "mine"
    with pytest.raises(AttributeError):
        made.search("q")


def test_a_retriever_may_be_asynchronous_and_hide_its_list() -> None:
    made = PrunedRetriever(Retriever(), make_pruner(BackendError(Reason.AUTH)), chunks="hits")
    out = asyncio.run(made.asearch("q"))
    assert (out["hits"], out["hits"].result.status) == (TEXTS, "fallback")


def test_what_has_no_such_method_is_no_retriever() -> None:
    with pytest.raises(ConfigError, match="object has none of the methods"):
        PrunedRetriever(object(), make_pruner())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_retriever_can_be_copied(copied: Any) -> None:
    made = copied(PrunedRetriever(Retriever(), make_pruner(GRADES)))
    assert (made.name, made.retrieve("q")) == ("mine", KEPT)


def test_a_pickled_retriever_prunes_and_has_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    replies = tmp_path / "replies"
    replies.write_text(GRADES)
    dials = {"model": f"scripted:{replies}", "api_key": "sk-secret"}
    pickled = pickle.dumps(PrunedRetriever(Collections(), dials, query="wanted"))
    assert b"sk-" not in pickled
    assert pickle.loads(pickled).search("terms", "q") == KEPT


def test_a_retriever_with_a_backend_of_its_own_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="cannot be pickled; make it anew"):
        pickle.dumps(PrunedRetriever(Collections(), make_pruner()))
