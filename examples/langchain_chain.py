"""LangChain: retrieve, prune, prompt, in one chain. The prompt is printed where a model would read it.

Run it, with `pip install ".[demo,langchain]"`: `python -m examples.langchain_chain`.
"""

from collections.abc import Sequence
from typing import Any

# Ours is imported first, as it says which extra is missing.
from pruner.integrations.langchain import PrunerCompressor

# isort: split
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough

from examples.common import DEFAULT_QUESTION, corpus, pruner_from_arguments


class Documentation(BaseRetriever):
    """Finds documentation by BM25."""

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(chunk.text, id=str(chunk.id), metadata={"title": chunk.title, "relevance_score": chunk.score})
            for chunk in corpus().search(query)
        ]


def main() -> None:
    """Ask."""
    compressor = PrunerCompressor(pruner=pruner_from_arguments(__doc__))

    def keep(given: dict[str, Any]) -> Sequence[Document]:
        return compressor.compress_documents(given["documents"], given["question"])

    found = RunnableParallel(documents=Documentation(), question=RunnablePassthrough())
    documents = (found | RunnableLambda(keep)).invoke(DEFAULT_QUESTION)
    for document in documents:
        print(document.metadata["pruner"]["grade"], document.metadata["title"])
    prompt = ChatPromptTemplate.from_template("Answer from this:\n{context}\n\nQuestion: {question}")
    context = "\n\n".join(document.page_content for document in documents)
    print(prompt.invoke({"context": context, "question": DEFAULT_QUESTION}).to_string())


if __name__ == "__main__":
    main()
