"""The reranker behind `/v1/rerank`, where one is configured."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pruner.backends.wire import http_maker
from pruner.service.errors import Code, Refusal
from pruner.service.settings import ServiceSettings

__all__ = ["Upstream"]


class _Result(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)

    index: int = Field(ge=0)
    relevance_score: float


class _Answer(BaseModel):
    results: list[_Result]


class Upstream:
    """Asks a reranker that speaks Cohere's or Jina's format.

    Args:
        url: whole, such as `https://api.example.com/v2/rerank`.
        settings: key, model and time-out.
    """

    def __init__(self, url: str, settings: ServiceSettings) -> None:
        self._url, self._model, self._timeout = url, settings.upstream_model, settings.upstream_timeout
        key = settings.upstream_key
        self._headers = {"authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        self._http = http_maker()()

    async def rank(self, query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
        """Return places and scores of the texts, best first; those it leaves out are not in it.

        Raises:
            Refusal: there is no such answer.
        """
        body: dict[str, Any] = {"query": query, "documents": list(texts), "top_n": len(texts)}
        if self._model:
            body["model"] = self._model
        if not self._url.endswith("/v2/rerank"):  # Cohere's second version knows no such field.
            body["return_documents"] = False
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._http.post(self._url, json=body, headers=self._headers)
        except TimeoutError:
            raise _failed(f"gave no answer in {self._timeout:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise _failed(f"could not be asked ({type(error).__name__})") from None
        return _read(response, len(texts))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _read(response: httpx2.Response, n: int) -> list[tuple[int, float]]:
    if response.status_code == 429:
        raise Refusal(Code.TOO_BUSY, "the reranker has too many requests; come back in a moment")
    if response.status_code != 200:
        raise _failed(f"answered {response.status_code}")
    try:
        results = _Answer.model_validate_json(response.content).results
    except ValidationError:
        raise _failed("gave an answer without results") from None
    places = [result.index for result in results]
    if len(set(places)) < len(places) or any(place >= n for place in places):
        raise _failed("named a document that there is not, or one twice")
    # Some answer in the order of the documents. Equal scores stay in theirs.
    best_first = sorted(results, key=lambda result: -result.relevance_score)
    return [(result.index, result.relevance_score) for result in best_first]


def _failed(what: str) -> Refusal:
    return Refusal(Code.UPSTREAM_FAILED, f"the reranker {what}")
