"""Haystack's ranker that asks an LLM."""

from haystack import Document
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.rankers import LLMRanker
from haystack.utils import Secret

from examples.migrate.worker import Case, serve


def llm_ranker(case: Case) -> list[int]:
    """Ask for the indices of what is relevant."""
    key = Secret.from_token("key")
    llm = OpenAIChatGenerator(model="gpt-4o-mini", api_base_url=case.url, api_key=key, timeout=case.timeout)
    documents = [Document(content=text, id=str(place)) for place, text in enumerate(case.texts)]
    ranker = LLMRanker(chat_generator=llm, top_k=10)
    kept = ranker.run(query=case.query, documents=documents)["documents"]
    return [int(document.id) for document in kept]


if __name__ == "__main__":
    serve({"LLMRanker": llm_ranker})
