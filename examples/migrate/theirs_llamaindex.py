"""LlamaIndex's rerankers that ask an LLM."""

from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.llms.openai import OpenAI

from examples.migrate.worker import Case, serve


def llm_rerank(case: Case) -> list[int]:
    """Ask for numbers and relevances."""
    llm = OpenAI(model="gpt-4o-mini", api_base=case.url, api_key="key", timeout=case.timeout)
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(place))) for place, text in enumerate(case.texts)]
    postprocessor = LLMRerank(llm=llm, top_n=10)
    kept = postprocessor.postprocess_nodes(nodes, query_str=case.query)
    return [int(node.node.node_id) for node in kept]


def rank_gpt(case: Case) -> list[int]:
    """Ask for a permutation."""
    llm = OpenAI(model="gpt-4o-mini", api_base=case.url, api_key="key", timeout=case.timeout)
    nodes = [NodeWithScore(node=TextNode(text=text, id_=str(place))) for place, text in enumerate(case.texts)]
    postprocessor = RankGPTRerank(llm=llm, top_n=10)
    kept = postprocessor.postprocess_nodes(nodes, query_str=case.query)
    return [int(node.node.node_id) for node in kept]


if __name__ == "__main__":
    serve({"LLMRerank": llm_rerank, "RankGPTRerank": rank_gpt})
