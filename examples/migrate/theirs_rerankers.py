"""The two rerankers of the package `rerankers` that ask an LLM."""

import litellm
from rerankers.models.llm_relevance_filter import LLMRelevanceFilter
from rerankers.models.rankgpt_rankers import RankGPTRanker

from examples.migrate.worker import Case, serve


def rank_gpt(case: Case) -> list[int]:
    """Ask for a permutation; without `rank_end` not one passage is shown."""
    vars(litellm).update(api_base=case.url, request_timeout=case.timeout)  # It takes neither as an argument.
    ranker = RankGPTRanker("openai/gpt-4o-mini", api_key="key", verbose=0)
    ranked = ranker.rank(case.query, case.texts, rank_end=len(case.texts))
    return [int(result.document.doc_id) for result in ranked.results]


def relevance_filter(case: Case) -> list[int]:
    """Ask for a label of each document."""
    connection = {"api_base": case.url, "api_key": "key", "timeout": case.timeout}
    ranker = LLMRelevanceFilter("openai/gpt-4o-mini", verbose=0, **connection)
    ranked = ranker.rank(case.query, case.texts)
    return [int(result.document.doc_id) for result in ranked.results if result.score]


if __name__ == "__main__":
    serve({"RankGPTRanker": rank_gpt, "LLMRelevanceFilter": relevance_filter})
