"""Clients that teams already have, pointed at the service by nothing but a URL, over a real socket."""

from collections.abc import Iterator
from typing import Any

import cohere
import pytest

from tests.service.served import KEY, KEYS, app_of, served
from tests.service.test_rerank import needed

DOCUMENTS = ["useless", "needed", "of no use", "also needed"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(app_of(needed("needed", "also needed"), api_keys=KEYS)) as address:
        yield address


def asked(client: Any, **more: Any) -> Any:
    return client.rerank(model="rerank-v3.5", query="which?", documents=DOCUMENTS, **more)


def test_coheres_v2_client_reranks(url: str) -> None:
    with cohere.ClientV2(KEY, base_url=url) as client:
        answer = asked(client, top_n=3, max_tokens_per_doc=1000)
    assert [result.index for result in answer.results] == [1, 3]
    assert answer.results[0].relevance_score > answer.results[1].relevance_score
    assert answer.meta.api_version.version == "2"
    assert answer.meta.pruner["status"] == "ok"


def test_coheres_v1_client_reranks_and_gets_documents(url: str) -> None:
    with cohere.Client(KEY, base_url=url) as client:
        answer = asked(client, return_documents=True, max_chunks_per_doc=10)
    assert [result.document.text for result in answer.results] == ["needed", "also needed"]


@pytest.mark.anyio
async def test_coheres_async_client_reranks(url: str) -> None:
    async with cohere.AsyncClientV2(KEY, base_url=url) as client:
        answer = await asked(client)
    assert [result.index for result in answer.results] == [1, 3]


def test_coheres_client_sees_a_refused_key_and_a_refused_list_as_such(url: str) -> None:
    with cohere.ClientV2("wrong", base_url=url) as client, pytest.raises(cohere.UnauthorizedError):
        asked(client)
    with cohere.ClientV2(KEY, base_url=url) as client, pytest.raises(cohere.UnprocessableEntityError) as refused:
        client.rerank(model="m", query="q", documents=[3])
    assert refused.value.body["error"]["field"] == "documents[0]"


# Of pydantic, about litellm's own types.
@pytest.mark.filterwarnings("ignore:Items 'input_tokens':UserWarning")
@pytest.mark.parametrize("model", ["cohere/rerank-v3.5", "jina_ai/jina-reranker-v2"])
@pytest.mark.parametrize("suffix", ["", "/v1/rerank"])
def test_litellms_client_reranks(url: str, model: str, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    answer = litellm.rerank(
        model=model, query="which?", documents=DOCUMENTS, top_n=3, api_base=url + suffix, api_key=KEY
    )
    assert [result["index"] for result in answer.results] == [1, 3]


# Of pydantic, as above.
@pytest.mark.filterwarnings("ignore:Items 'input_tokens':UserWarning")
@pytest.mark.anyio
async def test_litellms_async_client_reranks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    answer = await litellm.arerank(
        model="cohere/rerank-v3.5", query="which?", documents=DOCUMENTS, top_n=3, api_base=url, api_key=KEY
    )
    assert [result["index"] for result in answer.results] == [1, 3]


def test_langchains_client_compresses_documents(url: str) -> None:
    from langchain_classic.retrievers.document_compressors import CohereRerank
    from langchain_core.documents import Document

    given = [Document(text, metadata={"place": place}) for place, text in enumerate(DOCUMENTS)]
    with cohere.Client(KEY, base_url=url) as client:
        with pytest.warns(DeprecationWarning, match="CohereRerank"):
            compressor = CohereRerank(client=client, top_n=None)
        kept = compressor.compress_documents(given, "which?")
    assert [(document.page_content, document.metadata["place"]) for document in kept] == [
        ("needed", 1),
        ("also needed", 3),
    ]
    assert kept[0].metadata["relevance_score"] > kept[1].metadata["relevance_score"]
