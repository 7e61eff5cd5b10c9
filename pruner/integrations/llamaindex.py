"""LlamaIndex: a node postprocessor, for a query engine after its retriever and rerankers."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field

from pruner.errors import RequestError
from pruner.fetching import FetchParent
from pruner.integrations.adapter import (
    MARK,
    Chunks,
    FetchField,
    Keys,
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
from pruner.schema import Chunk, PruneResult

try:
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
    from llama_index_instrumentation import get_dispatcher
except ImportError:
    raise missing("llamaindex", "llama-index-core", "llamaindex") from None

__all__ = ["PruneEndEvent", "PrunerPostprocessor"]

_dispatcher = get_dispatcher(__name__)


class PruneEndEvent(ReRankEndEvent):
    """The nodes kept, as any listener to rerankers reads them, and what was decided on each node given."""

    decisions: list[dict[str, Any]]
    uncovered_query_ids: list[str]
    status: str
    reason: str | None

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name."""
        return "PruneEndEvent"


class PrunerPostprocessor(BaseNodePostprocessor):
    """Keeps the nodes that the answer needs; each is a copy with its grade in `metadata["pruner"]`.

    The grade is not shown to the generator or an embedding model. Instrumentation sees a `ReRankStartEvent` with the
    nodes that the principals may see, and a `PruneEndEvent`.

    Args:
        pruner: a `Pruner`, a `PrunerConfig`, or a mapping of dials. `to_dict()` stores it as its dials,
            and refuses one with a backend of your own.
        metadata_keys: field of a `Chunk` → key of the metadata that holds it, None: none does. By default its own name,
            then `page_label` (`page`); where there is neither, the node's own source, parent, offsets and embedding.
        principals: whom the caller speaks for, as for `Pruner.prune`; make one postprocessor for each, of one pruner.
        required_query_ids: sub-queries that each get their best node first.
        fetch_parent: returns the parent of a `parent_id`, as for `Pruner.prune`; it is not stored.
        framework: what every postprocessor takes, such as `callback_manager`.

    Raises:
        ConfigError: a dial is wrong, or a key, an extra or a model is missing.
        TypeError: there is no such argument.
    """

    pruner: PrunerField
    metadata_keys: KeysField = Field(default_factory=dict)
    principals: NamesField = ()
    required_query_ids: NamesField = ()
    fetch_parent: FetchField = Field(default=None, exclude=True, repr=False)

    def __init__(
        self,
        pruner: Prunable,
        *,
        metadata_keys: Mapping[str, str | None] | None = None,
        principals: Collection[str] = (),
        required_query_ids: Collection[str] = (),
        fetch_parent: FetchParent | None = None,
        **framework: Any,
    ) -> None:
        _refuse_unknown(type(self), framework)
        super().__init__(  # type: ignore[call-arg]
            pruner=pruner,
            metadata_keys=metadata_keys or {},
            principals=principals,
            required_query_ids=required_query_ids,
            fetch_parent=fetch_parent,
            **framework,
        )

    @classmethod
    def class_name(cls) -> str:
        """Return the name that `to_dict()` stores."""
        return "PrunerPostprocessor"

    def __getstate__(self) -> dict[str, Any]:
        """Keep the pruner: what cannot be pickled the framework leaves out, in the object itself too, and goes on."""
        pruner = self.pruner
        state = super().__getstate__()
        state["__dict__"]["pruner"] = pruner
        return state

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query, chunks = self._begin(nodes, query_bundle)
        return _end(nodes, chunks, self.pruner.prune_sync(query, chunks, **self._asked()))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query, chunks = self._begin(nodes, query_bundle)
        return _end(nodes, chunks, await self.pruner.prune(query, chunks, **self._asked()))

    def _begin(self, nodes: list[NodeWithScore], bundle: QueryBundle | None) -> tuple[str, Chunks]:
        if bundle is None:
            raise RequestError("there is nothing to prune by: give query_str or query_bundle")
        keys = lookup(self.metadata_keys, page="page_label")
        chunks = [_to_chunk(node, keys) for node in nodes]
        seen = visible(nodes, chunks, self.principals)
        started = ReRankStartEvent(query=bundle, nodes=seen, top_n=len(seen), model_name=self.pruner.model)
        _dispatcher.event(started)
        return bundle.query_str, chunks

    def _asked(self) -> dict[str, Any]:
        names = {"principals": self.principals, "required_query_ids": self.required_query_ids}
        return {**names, "fetch_parent": self.fetch_parent}


def _refuse_unknown(made: type[BaseNodePostprocessor], given: Mapping[str, object]) -> None:
    """Refuse what the framework would pass over: under a misspelt name, an `acl` would be read by nobody."""
    if unknown := given.keys() - made.model_fields.keys() - {"class_name"}:
        taken = ", ".join(made.model_fields)
        raise TypeError(f"{made.__name__} takes no argument {min(unknown)!r}; it takes {taken}")


def _end(nodes: list[NodeWithScore], chunks: Chunks, result: PruneResult[Any]) -> list[NodeWithScore]:
    kept = copies(nodes, chunks, result, _copy)
    _dispatcher.event(PruneEndEvent(nodes=kept, **outcome(result)))
    return kept


def _to_chunk(scored: NodeWithScore, keys: Keys) -> Chunk:
    node = scored.node
    return make_chunk(
        node.get_content(MetadataMode.NONE),
        node.metadata,
        keys,
        id=node.node_id,
        score=scored.score,
        source_id=node.source_node and node.source_node.node_id,
        parent_id=node.parent_node and node.parent_node.node_id,
        start_char=getattr(node, "start_char_idx", None),
        end_char=getattr(node, "end_char_idx", None),
        embedding=node.embedding,
    )


def _copy(scored: NodeWithScore, text: str, mark: Mark) -> NodeWithScore:
    node: BaseNode = scored.node.model_copy(
        update={
            "metadata": {**scored.node.metadata, MARK: mark},
            "excluded_llm_metadata_keys": _with_mark(scored.node.excluded_llm_metadata_keys),
            "excluded_embed_metadata_keys": _with_mark(scored.node.excluded_embed_metadata_keys),
        }
    )
    if text != node.get_content(MetadataMode.NONE):
        node.set_content(text)
        for offset in ("start_char_idx", "end_char_idx"):
            if hasattr(node, offset):  # Of the text as it was.
                setattr(node, offset, None)
    return scored.model_copy(update={"node": node})


def _with_mark(keys: list[str]) -> list[str]:
    return keys if MARK in keys else [*keys, MARK]
