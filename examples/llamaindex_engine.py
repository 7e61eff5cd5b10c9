"""LlamaIndex: a query engine with a retriever and the pruner. Its mock LLM repeats the prompt that it is given.

Run it, with `pip install ".[demo,llamaindex]"`: `python -m examples.llamaindex_engine`.
"""

# Ours is imported first, as it says which extra is missing.
from pruner.integrations.llamaindex import PrunerPostprocessor

# isort: split
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from examples.common import DEFAULT_QUESTION, corpus, pruner_from_arguments


class Documentation(BaseRetriever):
    """Finds documentation by BM25."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=str(chunk.id), text=chunk.text, metadata={"title": chunk.title}), score=chunk.score
            )
            for chunk in corpus().search(query_bundle.query_str)
        ]


def main() -> None:
    """Ask."""
    postprocessor = PrunerPostprocessor(pruner=pruner_from_arguments(__doc__))
    engine = RetrieverQueryEngine.from_args(Documentation(), llm=MockLLM(), node_postprocessors=[postprocessor])
    response = engine.query(DEFAULT_QUESTION)
    for node in response.source_nodes:
        print(node.metadata["pruner"]["grade"], node.metadata["title"])
    print(response)


if __name__ == "__main__":
    main()
