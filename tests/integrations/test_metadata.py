"""What documents carry beside their text reaches the selection, through each framework's own objects."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from haystack import Document as HaystackDocument
from haystack import Pipeline
from haystack.components.preprocessors import DocumentSplitter
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document as LangChainDocument
from langchain_core.retrievers import BaseRetriever
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core import Document as LlamaDocument
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler

from pruner import BackendError, ConfigError, Pruner, PruneResult, Reason, RequestError
from pruner.integrations import haystack, langchain, llamaindex
from pruner.integrations.adapter import METADATA_FIELDS, lookup, make_chunk
from pruner.integrations.haystack import PrunerComponent
from pruner.integrations.langchain import PrunerCompressor
from pruner.integrations.llamaindex import PruneEndEvent, PrunerPostprocessor
from pruner.schema import Chunk
from tests.integrations.scripted import make_pruner, pairs, requests_of

ALL = pairs(5, 5, 5, 5, 5)
EVERYTHING: dict[str, Any] = {
    "title": "Terms",
    "token_count": 3,
    "parent_id": "p",
    "source_id": "s",
    "revision_id": "2025",
    "status": "active",
    "authority": "official",
    "date": "2025-01-31",
    "query_ids": ["q1"],
    "page": 3,
    "start_char": 10,
    "end_char": 14,
    "heading_path": ["Terms", "Backups"],
    "acl": ["staff"],
    "embedding": [0.5, 1.0],
}


@dataclass(frozen=True)
class Framework:
    """How documents with metadata go through one.

    Attributes:
        document: from a text and its metadata.
        run: from pruner, documents and options to the kept texts; the options are those of `Pruner.prune` and
            `metadata_keys`.
        usual: the framework's own keys.
    """

    document: Callable[[str, dict[str, Any]], Any]
    run: Callable[..., list[str]]
    usual: dict[str, str]


def _compress(pruner: Pruner, documents: list[Any], **options: Any) -> list[str]:
    return [d.page_content for d in PrunerCompressor(pruner, **options).compress_documents(documents, "q")]


def _postprocess(pruner: Pruner, nodes: list[Any], **options: Any) -> list[str]:
    kept = PrunerPostprocessor(pruner, **options).postprocess_nodes(nodes, query_str="q")
    return [scored.node.get_content() for scored in kept]


def _in_pipeline(pruner: Pruner, documents: list[Any], **options: Any) -> list[str]:
    made = Pipeline()
    own = {name: options.pop(name, None) for name in ("metadata_keys", "fetch_parent")}
    made.add_component("pruner", PrunerComponent(pruner, **own))
    out = made.run({"pruner": {"query": "q", "documents": documents, **options}})
    return [d.content for d in out["pruner"]["documents"]]


FRAMEWORKS = {
    "langchain": Framework(
        lambda text, metadata: LangChainDocument(text, metadata=metadata),
        _compress,
        {"source_id": "source", "parent_id": "doc_id", "start_char": "start_index"},
    ),
    "llamaindex": Framework(
        lambda text, metadata: NodeWithScore(node=TextNode(text=text, metadata=metadata)),
        _postprocess,
        {"page": "page_label"},
    ),
    "haystack": Framework(
        lambda text, metadata: HaystackDocument(content=text, meta=metadata),
        _in_pipeline,
        {"page": "page_number", "start_char": "split_idx_start"},
    ),
}
each = pytest.mark.parametrize("framework", [pytest.param(f, id=name) for name, f in FRAMEWORKS.items()])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Chunk]:
    """Collect the chunks that the pruner is given."""
    found: list[Chunk] = []
    prune = Pruner.prune

    async def look(self: Pruner, query: str, chunks: Any, **options: Any) -> PruneResult[Any]:
        found.extend(chunks)
        return await prune(self, query, chunks, **options)

    monkeypatch.setattr(Pruner, "prune", look)
    return found


@each
def test_every_field_of_a_chunk_is_read_from_metadata_under_its_own_name(
    framework: Framework, seen: list[Chunk]
) -> None:
    assert EVERYTHING.keys() == set(METADATA_FIELDS)
    framework.run(make_pruner(ALL), [framework.document("text", EVERYTHING)], principals=["staff"])
    want = Chunk(text="text", **EVERYTHING)
    assert [getattr(seen[0], name) for name in EVERYTHING] == [getattr(want, name) for name in EVERYTHING]
    assert seen[0].metadata == EVERYTHING


@each
def test_the_frameworks_own_keys_are_read_too(framework: Framework, seen: list[Chunk]) -> None:
    own = dict.fromkeys(framework.usual.values(), 7)
    framework.run(make_pruner(ALL), [framework.document("text", own)])
    assert {name: getattr(seen[0], name) for name in framework.usual} == dict.fromkeys(framework.usual, 7)


@each
def test_a_key_that_the_user_names_is_read_in_place_of_the_usual_ones(framework: Framework, seen: list[Chunk]) -> None:
    metadata = {"acl": ["no one"], "groups": ["staff"], "page": 3, "page_label": 3, "page_number": 3}
    keys = {"acl": "groups", "page": None}
    framework.run(make_pruner(ALL), [framework.document("text", metadata)], metadata_keys=keys)
    assert (seen[0].acl, seen[0].page) == (("staff",), None)


@each
@pytest.mark.parametrize(("principals", "kept"), [([], ["open"]), (["staff"], ["open", "staff"])])
def test_who_may_not_see_a_document_does_not_get_it(
    framework: Framework, principals: list[str], kept: list[str]
) -> None:
    pruner = make_pruner(ALL, keep_top_k=0)
    documents = [framework.document("open", {}), framework.document("staff", {"acl": ["staff"]})]
    assert framework.run(pruner, documents, principals=principals) == kept
    assert ("staff" in requests_of(pruner)[0].user) is bool(principals)


@each
@pytest.mark.parametrize("acl", [{"read": ["staff"]}, object(), [["staff"]], 7.5, [None]], ids=str)
def test_an_acl_that_cannot_be_read_admits_no_one(framework: Framework, acl: Any) -> None:
    documents = [framework.document("open", {}), framework.document("closed", {"acl": acl})]
    assert framework.run(make_pruner(ALL), documents, principals=["staff", "read"]) == ["open"]


@each
def test_other_metadata_that_cannot_be_read_are_left_out(framework: Framework, seen: list[Chunk]) -> None:
    odd = {name: {"odd": object()} for name in METADATA_FIELDS if name != "acl"} | {"authority": "official"}
    assert framework.run(make_pruner(ALL), [framework.document("text", odd)]) == ["text"]
    assert (seen[0].authority, seen[0].page, seen[0].embedding) == ("official", seen[0].page, None)


@each
def test_a_required_sub_query_gets_its_document(framework: Framework) -> None:
    documents = [framework.document(text, {"query_ids": [text]}) for text in "abcd"]
    grades = pairs(5, 1, 1, 1)
    kept = framework.run(make_pruner(grades, keep_top_k=1), documents, required_query_ids=["d"])
    assert kept == ["a", "d"]


@pytest.mark.parametrize("wrong", [{"principals": "staff"}, {"required_query_ids": [1]}], ids=str)
@pytest.mark.parametrize(
    "run",
    [
        lambda names: PrunerCompressor(make_pruner(), **names),
        lambda names: PrunerPostprocessor(make_pruner(), **names),
        lambda names: PrunerComponent(make_pruner()).run(query="q", documents=[], **names),
    ],
)
def test_names_that_are_no_list_are_refused_in_one_line(run: Callable[[Any], Any], wrong: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, RequestError), match=rf"{next(iter(wrong))}.* must be .*lists? of str") as caught:
        run(wrong)
    assert "\n" not in str(caught.value)


@each
@pytest.mark.parametrize("keys", [{"acls": "groups"}, {"acl": 7}, {"text": "body"}, "acl"])
def test_keys_of_no_field_are_refused_in_one_line(framework: Framework, keys: Any) -> None:
    with pytest.raises(ConfigError, match="metadata_keys") as caught:
        framework.run(make_pruner(ALL), [], metadata_keys=keys)
    assert "\n" not in str(caught.value)


LONG = "Backups of Basic are kept for 14 days. " * 30


def test_what_the_splitter_of_langchain_notes_is_read(seen: list[Chunk]) -> None:
    splitter = RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=50, add_start_index=True)
    pieces = splitter.split_documents([LangChainDocument(LONG, metadata={"source": "terms.txt", "page": 0})])
    _compress(make_pruner(keep_top_k=99), pieces)
    assert len(seen) > 3
    assert {(c.source_id, c.page) for c in seen} == {("terms.txt", 0)}
    assert all(LONG.startswith(c.text, c.start_char) for c in seen if c.start_char is not None)
    assert all(c.start_char is not None for c in seen)


def test_what_the_splitter_of_haystack_notes_is_read(seen: list[Chunk]) -> None:
    given = HaystackDocument(content=LONG, embedding=[0.1, 0.2])
    splitter = DocumentSplitter(split_by="word", split_length=30)
    splitter.warm_up()
    _in_pipeline(make_pruner(keep_top_k=99), [*splitter.run([given])["documents"], given])
    assert len(seen) > 3
    assert {c.source_id for c in seen[:-1]} == {given.id}
    assert all(c.start_char is not None and LONG.startswith(c.text, c.start_char) for c in seen[:-1])
    assert (seen[0].page, seen[-1].embedding) == (1, [0.1, 0.2])


def parent_of(name: str | int) -> str:
    return f"Before. text Of {name}."


@each
def test_the_parents_of_what_is_kept_are_fetched(framework: Framework) -> None:
    pruner = make_pruner(ALL, expand="section", keep_top_k=0)
    document = framework.document("text", {"parent_id": "p"})
    assert framework.run(pruner, [document], fetch_parent=parent_of) == ["Before. text Of p."]


def test_what_fetches_parents_is_stored_where_a_function_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("HAYSTACK_DESERIALIZATION_ALLOWLIST", "tests.*")
    component = PrunerComponent({}, fetch_parent=parent_of)
    assert PrunerComponent.from_dict(component.to_dict()).fetch_parent is parent_of
    compressor = PrunerCompressor({}, fetch_parent=parent_of)
    assert PrunerCompressor.model_validate_json(compressor.model_dump_json()).fetch_parent is None
    postprocessor = PrunerPostprocessor({}, fetch_parent=parent_of)
    assert PrunerPostprocessor.from_json(postprocessor.to_json()).fetch_parent is None
    for made in (PrunerCompressor, PrunerPostprocessor):
        assert made.model_json_schema()


def test_what_the_parsers_of_llamaindex_note_is_read(seen: list[Chunk]) -> None:
    text = "\n\n".join(f"# Part {n}\n\nBackups of plan {n} are kept for {n} days." for n in range(5))
    given = LlamaDocument(text=text)
    nodes = MarkdownNodeParser().get_nodes_from_documents([given])
    nodes[0].embedding = [0.1, 0.2]
    nodes[1].relationships[NodeRelationship.PARENT] = RelatedNodeInfo(node_id="part")
    _postprocess(make_pruner(keep_top_k=99), [NodeWithScore(node=node) for node in nodes])
    assert len(seen) == 5
    assert {c.source_id for c in seen} == {given.node_id}
    assert all(text[c.start_char : c.end_char] == c.text for c in seen)
    assert (seen[0].embedding, seen[1].parent_id) == ([0.1, 0.2], "part")


class Fixed(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[LangChainDocument]:
        return [LangChainDocument("open"), LangChainDocument("staff", metadata={"groups": ["staff"]})]


def test_one_pruner_serves_a_compressor_for_each_caller() -> None:
    pruner = make_pruner(*[ALL] * 4, keep_top_k=0)
    for principals, kept in (([], ["open"]), (["staff"], ["open", "staff"])):
        made = PrunerCompressor(pruner, metadata_keys={"acl": "groups"}, principals=principals)
        retriever = ContextualCompressionRetriever(base_compressor=made, base_retriever=Fixed())
        assert [d.page_content for d in retriever.invoke("q")] == kept
        assert [d.page_content for d in asyncio.run(retriever.ainvoke("q"))] == kept


@pytest.mark.parametrize("use_async", [False, True])
def test_a_pipeline_says_which_sub_queries_are_uncovered(use_async: bool) -> None:
    documents = [HaystackDocument(content=text, meta={"query_ids": [text]}) for text in "abc"]
    made = Pipeline()
    made.add_component("pruner", PrunerComponent(make_pruner(ALL)))
    data = {"pruner": {"query": "q", "documents": documents, "required_query_ids": ["a", "z"]}}
    out = asyncio.run(made.run_async(data)) if use_async else made.run(data)
    assert out["pruner"]["uncovered_query_ids"] == ["z"]


class Listener(BaseEventHandler):
    heard: list[Any]

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.heard.append(event)


def test_an_event_says_which_sub_queries_are_uncovered() -> None:
    root, listener = get_dispatcher(), Listener(heard=[])
    root.add_event_handler(listener)
    try:
        _postprocess(make_pruner(ALL), [NodeWithScore(node=TextNode(text="a"))] * 3, required_query_ids=["z"])
    finally:
        root.event_handlers.remove(listener)
    assert [e.uncovered_query_ids for e in listener.heard if isinstance(e, PruneEndEvent)] == [["z"]]


class Runs(BaseCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.heard.append((serialized, inputs, kwargs))

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.heard.append((outputs, kwargs))

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.heard.append((error, kwargs))


def _of_langchain(made: PrunerCompressor, metadata: list[dict[str, Any]], use_async: bool) -> list[Any]:
    runs, documents = Runs(), [LangChainDocument(f"text {n}", metadata=m) for n, m in enumerate(metadata)]
    if use_async:
        asyncio.run(made.acompress_documents(documents, "q", callbacks=[runs]))
    else:
        made.compress_documents(documents, "q", callbacks=[runs])
    return runs.heard


def _of_llamaindex(made: PrunerPostprocessor, metadata: list[dict[str, Any]], use_async: bool) -> list[Any]:
    nodes = [NodeWithScore(node=TextNode(text=f"text {n}", metadata=m)) for n, m in enumerate(metadata)]
    root, listener = get_dispatcher(), Listener(heard=[])
    root.add_event_handler(listener)
    try:
        if use_async:
            asyncio.run(made.apostprocess_nodes(nodes, query_str="q"))
        else:
            made.postprocess_nodes(nodes, query_str="q")
    finally:
        root.event_handlers.remove(listener)
    return listener.heard


@pytest.mark.parametrize("use_async", [False, True])
@pytest.mark.parametrize("answer", [ALL, BackendError(Reason.AUTH)], ids=["graded", "fallback"])
@pytest.mark.parametrize(("make", "report"), [(PrunerCompressor, _of_langchain), (PrunerPostprocessor, _of_llamaindex)])
@pytest.mark.parametrize("acl", [["hr"], [], {"odd": object()}], ids=str)
def test_what_a_caller_may_not_see_is_reported_to_no_listener(
    make: Any, report: Any, answer: Any, acl: Any, use_async: bool
) -> None:
    made = make(make_pruner(answer, keep_top_k=0), metadata_keys={"acl": "groups"}, principals=["staff"])
    heard = report(made, [{}, {"groups": acl}, {"groups": ["staff"]}], use_async)
    said = repr(heard)
    assert len(heard) == 2
    assert ("text 0" in said, "text 1" in said, "text 2" in said) == (True, False, True)


OPTIONS: dict[str, Any] = {"metadata_keys": {"acl": "groups", "page": None}}
NAMES: dict[str, Any] = {"principals": ["staff"], "required_query_ids": ["q"]}


def test_what_is_stored_has_the_keys_and_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    compressor = PrunerCompressor({}, **OPTIONS, **NAMES)
    postprocessor = PrunerPostprocessor({}, **OPTIONS, **NAMES)
    component = PrunerComponent({}, **OPTIONS)
    assert PrunerComponent.from_dict(component.to_dict()).metadata_keys == OPTIONS["metadata_keys"]
    read = [
        PrunerCompressor.model_validate_json(compressor.model_dump_json()),
        PrunerPostprocessor.from_json(postprocessor.to_json()),
    ]
    for made in read:
        assert (made.metadata_keys, made.principals) == (OPTIONS["metadata_keys"], ("staff",))  # type: ignore[attr-defined]
        assert made.required_query_ids == ("q",)  # type: ignore[attr-defined]


values = st.none() | st.text(max_size=3) | st.integers() | st.floats() | st.lists(st.integers() | st.text(max_size=3))
anything = st.recursive(values, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=2), v, max_size=2))


@given(st.dictionaries(st.sampled_from([*METADATA_FIELDS, "source", "x", 3]), anything), st.text(max_size=5))
def test_whatever_the_metadata_a_chunk_is_made_and_no_acl_is_lost(metadata: dict[Any, Any], text: str) -> None:
    chunk = make_chunk(text, metadata, lookup({}, source_id="source"), id="i", score=0.5)
    assert (chunk.text, chunk.id, chunk.score) == (text, "i", 0.5)
    assert (chunk.acl is None) is (metadata.get("acl") is None)


def test_the_modules_keys_are_in_their_documentation() -> None:
    for name, module in {"langchain": langchain, "llamaindex": llamaindex, "haystack": haystack}.items():
        source = (module.__doc__ or "") + "".join(c.__doc__ or "" for c in vars(module).values() if isinstance(c, type))
        assert not [key for key in FRAMEWORKS[name].usual.values() if f"`{key}`" not in source]
