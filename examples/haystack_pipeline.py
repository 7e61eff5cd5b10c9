"""Haystack: a pipeline of retriever, pruner and prompt builder. The prompt is printed where a model would read it.

Run it, with `pip install ".[demo,haystack]"`: `python -m examples.haystack_pipeline`.
"""

import os
from typing import Any

# Read when the framework is imported; without this it reports each run to its makers.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

# Ours is imported first, as it says which extra is missing.
from pruner.integrations.haystack import PrunerComponent

# isort: split
from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder

from examples.common import DEFAULT_QUESTION, corpus, pruner_from_arguments

TEMPLATE = "Answer from this:\n{% for d in documents %}{{ d.content }}\n\n{% endfor %}Question: {{ query }}"


@component
class Documentation:
    """Finds documentation by BM25."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Return the best fifteen."""
        found = corpus().search(query)
        return {
            "documents": [
                Document(id=str(chunk.id), content=chunk.text, score=chunk.score, meta={"title": chunk.title})
                for chunk in found
            ]
        }


def main() -> None:
    """Ask."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", Documentation())
    pipeline.add_component("pruner", PrunerComponent(pruner_from_arguments(__doc__)))
    pipeline.add_component("prompt", PromptBuilder(TEMPLATE, required_variables=["documents", "query"]))
    pipeline.connect("retriever.documents", "pruner.documents")
    pipeline.connect("pruner.documents", "prompt.documents")
    question = {"query": DEFAULT_QUESTION}
    out = pipeline.run(dict.fromkeys(["retriever", "pruner", "prompt"], question), include_outputs_from={"pruner"})
    for document in out["pruner"]["documents"]:
        print(document.meta["pruner"]["grade"], document.meta["title"])
    print(out["prompt"]["prompt"])


if __name__ == "__main__":
    main()
