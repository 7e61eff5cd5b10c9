"""No framework: a search function and a retriever object that return only what the answer needs.

Run it, with `pip install ".[demo]"`: `python -m examples.plain_function`.
"""

from examples.common import DEFAULT_QUESTION, corpus, pruner_from_arguments
from pruner import Chunk
from pruner.integrations.functions import PrunedRetriever, pruned


def main() -> None:
    """Ask."""
    pruner = pruner_from_arguments(__doc__)

    @pruned(query="question", pruner=pruner)
    def search(question: str, k: int = 15) -> list[Chunk]:
        return corpus().search(question, k)

    hits = search(DEFAULT_QUESTION)
    for chunk in hits:
        print(chunk.metadata["pruner"]["grade"], chunk.title)
    print(f"{len(hits)} of {len(hits.result.decisions)} kept, status {hits.result.status}")

    retriever = PrunedRetriever(corpus(), pruner)
    print(len(retriever.search(DEFAULT_QUESTION, 15)), "kept by the wrapped object")


if __name__ == "__main__":
    main()
