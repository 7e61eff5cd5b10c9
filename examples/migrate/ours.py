"""The same documents through `pruner`, by each integration."""

from collections.abc import Sequence

from haystack import Document as HaystackDocument
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from examples.migrate.worker import Case, serve
from pruner import Pruner, PrunerConfig
from pruner.integrations.functions import pruned
from pruner.integrations.haystack import PrunerComponent
from pruner.integrations.langchain import PrunerCompressor
from pruner.integrations.llamaindex import PrunerPostprocessor


def make_pruner(case: Case) -> Pruner:
    """Make the pruner of a case."""
    return Pruner(PrunerConfig(model="openai:gpt-4o-mini", base_url=case.url, timeout=case.timeout))


def langchain(case: Case) -> list[int]:
    """Prune in LangChain."""
    documents = [Document(text, id=str(place)) for place, text in enumerate(case.texts)]
    compressor = PrunerCompressor(pruner=make_pruner(case))
    kept = compressor.compress_documents(documents, case.query)
    return [int(document.id or 0) for document in kept]


def llamaindex(case: Case) -> list[int]:
    """Prune in LlamaIndex."""
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(place))) for place, text in enumerate(case.texts)]
    postprocessor = PrunerPostprocessor(pruner=make_pruner(case))
    kept = postprocessor.postprocess_nodes(nodes, query_str=case.query)
    return [int(node.node.node_id) for node in kept]


def haystack(case: Case) -> list[int]:
    """Prune in Haystack."""
    documents = [HaystackDocument(content=text, id=str(place)) for place, text in enumerate(case.texts)]
    ranker = PrunerComponent(make_pruner(case))
    kept = ranker.run(query=case.query, documents=documents)["documents"]
    return [int(document.id) for document in kept]


def function(case: Case) -> list[int]:
    """Prune what a function returns."""

    @pruned(pruner=make_pruner(case))
    def search(query: str) -> Sequence[str]:
        return case.texts

    return [case.texts.index(text) for text in search(case.query)]


if __name__ == "__main__":
    serve({"LangChain": langchain, "LlamaIndex": llamaindex, "Haystack": haystack, "function": function})
