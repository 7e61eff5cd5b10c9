"""The integrations by one set of names, so that one test can hold them all to the same promises."""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from haystack import Document as HaystackDocument
from langchain_core._api import LangChainBetaWarning
from langchain_core.documents import Document as LangChainDocument
from langchain_core.load import dumps, loads
from llama_index.core.schema import NodeWithScore, TextNode

from pruner import Pruner
from pruner.integrations.agents import ToolText, prune_tool_output, prune_tool_output_sync
from pruner.integrations.functions import PrunedRetriever, pruned
from pruner.integrations.haystack import PrunerComponent
from pruner.integrations.langchain import PrunerCompressor
from pruner.integrations.llamaindex import PrunerPostprocessor
from tests.integrations.scripted import TEXTS

Docs = list[Any]


@dataclass(frozen=True)
class Harness:
    """How one integration is used.

    Attributes:
        docs: five documents of its own kind, each with an id, a score and metadata.
        prune: from pruner, query and documents to what the integration returns.
        aprune: the same, awaited.
        kept: the documents in what it returned.
        id, metadata: of a kept document.
        marks: the marks of all kept documents in what it returned.
        stored: a kept document after the framework's own way to text and back.
    """

    name: str
    docs: Callable[[], Docs]
    prune: Callable[[Pruner, str, Docs], Any]
    aprune: Callable[[Pruner, str, Docs], Any]
    kept: Callable[[Any], Docs]
    id: Callable[[Any], str]
    metadata: Callable[[Any], dict[str, Any]]
    marks: Callable[[Any], list[dict[str, Any]]]
    stored: Callable[[Any], Any]


def _metadata(place: int) -> dict[str, Any]:
    return {"source": f"s{place}", "tags": ["x", place], "relevance_score": 1 - place / 10}


def _dicts() -> Docs:
    return [{"text": t, "id": f"id{i}", "score": 1 - i / 10, "metadata": _metadata(i)} for i, t in enumerate(TEXTS)]


def _run_function(pruner: Pruner, query: str, docs: Docs) -> Any:
    return pruned(query="question", pruner=pruner)(lambda question: docs)(query)


async def _arun_function(pruner: Pruner, query: str, docs: Docs) -> Any:
    @pruned(query="question", pruner=pruner)
    async def find(question: str) -> Docs:
        return docs

    return await find(query)


class _Retriever:
    def __init__(self, docs: Docs) -> None:
        self.docs = docs

    def retrieve(self, query: str) -> Docs:
        return self.docs

    async def asearch(self, query: str) -> Docs:
        return self.docs


def _tool_items(out: ToolText) -> Docs:
    return json.loads(out.partition("\n[")[0] or "[]")  # type: ignore[no-any-return]


def _tool_marks(out: ToolText) -> list[dict[str, Any]]:
    result = out.result
    if result is None:
        return []
    common = {"status": str(result.status), "reason": result.reason}
    return [{"grade": d.grade, "expected": d.expected, "by": d.by, **common} for d in result.decisions if d.kept]


def _plain(document: Any) -> Any:
    return json.loads(json.dumps(document))


def _through_langchain(document: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        return loads(dumps(document), allowed_objects=[LangChainDocument])


def _marks(read: Callable[[Any], dict[str, Any]], kept: Callable[[Any], Docs]) -> Callable[[Any], Any]:
    return lambda out: [read(document)["pruner"] for document in kept(out)]


def _same(out: Any) -> Docs:
    return out  # type: ignore[no-any-return]


def _item_metadata(document: Any) -> dict[str, Any]:
    return document["metadata"]  # type: ignore[no-any-return]


HARNESSES = [
    Harness(
        "langchain",
        lambda: [LangChainDocument(id=f"id{i}", page_content=t, metadata=_metadata(i)) for i, t in enumerate(TEXTS)],
        lambda pruner, query, docs: PrunerCompressor(pruner=pruner).compress_documents(docs, query),
        lambda pruner, query, docs: PrunerCompressor(pruner=pruner).acompress_documents(docs, query),
        _same,
        lambda d: d.id,
        lambda d: d.metadata,
        _marks(lambda d: d.metadata, _same),
        _through_langchain,
    ),
    Harness(
        "llamaindex",
        lambda: [
            NodeWithScore(node=TextNode(id_=f"id{i}", text=t, metadata=_metadata(i)), score=1 - i / 10)
            for i, t in enumerate(TEXTS)
        ],
        lambda pruner, query, docs: PrunerPostprocessor(pruner=pruner).postprocess_nodes(docs, query_str=query),
        lambda pruner, query, docs: PrunerPostprocessor(pruner=pruner).apostprocess_nodes(docs, query_str=query),
        _same,
        lambda d: d.node.node_id,
        lambda d: d.node.metadata,
        _marks(lambda d: d.node.metadata, _same),
        lambda d: NodeWithScore(node=TextNode.from_dict(d.node.to_dict()), score=d.score),
    ),
    Harness(
        "haystack",
        lambda: [
            HaystackDocument(id=f"id{i}", content=t, meta=_metadata(i), score=1 - i / 10) for i, t in enumerate(TEXTS)
        ],
        lambda pruner, query, docs: PrunerComponent(pruner).run(query=query, documents=docs),
        lambda pruner, query, docs: PrunerComponent(pruner).run_async(query=query, documents=docs),
        lambda out: out["documents"],
        lambda d: d.id,
        lambda d: d.meta,
        _marks(lambda d: d.meta, lambda out: out["documents"]),
        lambda d: HaystackDocument.from_dict(d.to_dict()),
    ),
    Harness(
        "function",
        _dicts,
        _run_function,
        _arun_function,
        _same,
        lambda d: d["id"],
        _item_metadata,
        _marks(lambda d: d, _same),
        _plain,
    ),
    Harness(
        "retriever",
        _dicts,
        lambda pruner, query, docs: PrunedRetriever(_Retriever(docs), pruner).retrieve(query),
        lambda pruner, query, docs: PrunedRetriever(_Retriever(docs), pruner).asearch(query),
        _same,
        lambda d: d["id"],
        _item_metadata,
        _marks(lambda d: d, _same),
        _plain,
    ),
    Harness(
        "agents",
        _dicts,
        lambda pruner, query, docs: prune_tool_output_sync(query, docs, pruner=pruner),
        lambda pruner, query, docs: prune_tool_output(query, docs, pruner=pruner),
        _tool_items,
        lambda d: d["id"],
        _item_metadata,
        _tool_marks,
        _plain,
    ),
]
