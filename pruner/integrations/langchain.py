"""LangChain: a document compressor, for `ContextualCompressionRetriever` and for chains."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field

from pruner.fetching import FetchParent
from pruner.integrations.adapter import (
    MARK,
    Chunks,
    FetchField,
    KeysField,
    Mark,
    NamesField,
    Prunable,
    PrunerField,
    copies,
    lookup,
    make_chunk,
    missing,
    outcome,
    visible,
)
from pruner.schema import PruneResult

try:
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.runnables import Runnable, RunnableLambda
except ImportError:
    raise missing("langchain", "langchain-core", "langchain") from None

__all__ = ["PrunerCompressor"]


class PrunerCompressor(BaseDocumentCompressor):
    """Keeps the documents that the answer needs; each is a copy with its grade in `metadata["pruner"]`.

    Callbacks see a run `PrunerCompressor`. Its inputs are the documents that the principals may see, its outputs those
    kept, the decisions on all and the status.

    Args:
        pruner: a `Pruner`, a `PrunerConfig`, or a mapping of dials. `model_dump()` stores it as its dials,
            and refuses one with a backend of your own.
        score_key: key of the metadata that holds the reranker's score; documents without it have none.
        metadata_keys: field of a `Chunk` → key of the metadata that holds it, None: none does. By default its own name,
            then `source` (`source_id`), `doc_id` (`parent_id`) and `start_index` (`start_char`).
        principals: whom the caller speaks for, as for `Pruner.prune`; make one compressor for each, of one pruner.
        required_query_ids: sub-queries that each get their best document first.
        fetch_parent: returns the parent of a `parent_id`, as for `Pruner.prune`; it is not stored.

    Raises:
        ConfigError: a dial is wrong, or a key, an extra or a model is missing.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    pruner: PrunerField
    score_key: str = "relevance_score"
    metadata_keys: KeysField = Field(default_factory=dict)
    principals: NamesField = ()
    required_query_ids: NamesField = ()
    fetch_parent: FetchField = Field(default=None, exclude=True, repr=False)

    def __init__(
        self,
        pruner: Prunable,
        *,
        score_key: str = "relevance_score",
        metadata_keys: Mapping[str, str | None] | None = None,
        principals: Collection[str] = (),
        required_query_ids: Collection[str] = (),
        fetch_parent: FetchParent | None = None,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            pruner=pruner,
            score_key=score_key,
            metadata_keys=metadata_keys or {},
            principals=principals,
            required_query_ids=required_query_ids,
            fetch_parent=fetch_parent,
        )

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Prune; documents in reranker order, best first. Faults of the provider never raise."""
        run, seen = self._run(documents, query)
        return run.invoke(seen, {"callbacks": callbacks})["documents"]  # type: ignore[no-any-return]

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Prune; documents in reranker order, best first. Faults of the provider never raise."""
        run, seen = self._run(documents, query)
        return (await run.ainvoke(seen, {"callbacks": callbacks}))["documents"]  # type: ignore[no-any-return]

    def _run(self, documents: Sequence[Document], query: str) -> tuple[Runnable[Any, dict[str, Any]], dict[str, Any]]:
        """Return the run, and its inputs as callbacks see them: without what the caller may not see."""
        chunks = self._to_chunks(documents)

        def prune(seen: dict[str, Any]) -> dict[str, Any]:
            return _outputs(documents, chunks, self.pruner.prune_sync(query, chunks, **self._asked()))

        async def aprune(seen: dict[str, Any]) -> dict[str, Any]:
            return _outputs(documents, chunks, await self.pruner.prune(query, chunks, **self._asked()))

        seen = {"query": query, "documents": visible(documents, chunks, self.principals)}
        return RunnableLambda(prune, aprune, name=type(self).__name__), seen

    def _asked(self) -> dict[str, Any]:
        names = {"principals": self.principals, "required_query_ids": self.required_query_ids}
        return {**names, "fetch_parent": self.fetch_parent}

    def _to_chunks(self, documents: Sequence[Document]) -> Chunks:
        keys = lookup(self.metadata_keys, source_id="source", parent_id="doc_id", start_char="start_index")
        return [
            make_chunk(d.page_content, d.metadata, keys, id=d.id, score=d.metadata.get(self.score_key))
            for d in documents
        ]


def _outputs(documents: Sequence[Document], chunks: Chunks, result: PruneResult[Any]) -> dict[str, Any]:
    return {"documents": copies(documents, chunks, result, _copy), **outcome(result)}


def _copy(document: Document, text: str, mark: Mark) -> Document:
    return document.model_copy(update={"page_content": text, "metadata": {**document.metadata, MARK: mark}})
