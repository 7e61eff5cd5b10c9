"""LangChain's listwise reranker and chain filter."""

from langchain_classic.retrievers.document_compressors import LLMChainFilter
from langchain_classic.retrievers.document_compressors.listwise_rerank import LLMListwiseRerank
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI

from examples.migrate.worker import Case, serve


def listwise(case: Case) -> list[int]:
    """Rank by one call."""
    llm = ChatOpenAI(model="gpt-4o-mini", base_url=case.url, api_key="key", timeout=case.timeout)
    documents = [Document(text, id=str(place)) for place, text in enumerate(case.texts)]
    compressor = LLMListwiseRerank.from_llm(llm, top_n=10)
    kept = compressor.compress_documents(documents, case.query)
    return [int(document.id or 0) for document in kept]


def chain_filter(case: Case) -> list[int]:
    """Ask about each document by itself."""
    llm = ChatOpenAI(model="gpt-4o-mini", base_url=case.url, api_key="key", timeout=case.timeout)
    documents = [Document(text, id=str(place)) for place, text in enumerate(case.texts)]
    compressor = LLMChainFilter.from_llm(llm)
    kept = compressor.compress_documents(documents, case.query)
    return [int(document.id or 0) for document in kept]


if __name__ == "__main__":
    serve({"LLMListwiseRerank": listwise, "LLMChainFilter": chain_filter})
