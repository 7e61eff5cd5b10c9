"""Haystack: a component that takes a query and ranked documents, for `Pipeline.run` and `Pipeline.run_async`."""

from dataclasses import replace
from typing import Any, Self

from pruner.errors import ConfigError
from pruner.integrations.adapter import (
    MARK,
    Chunks,
    Mark,
    Prunable,
    as_pruner,
    copies,
    dials_of,
    make_chunk,
    missing,
    outcome,
)
from pruner.pipeline import Pruner
from pruner.schema import PruneResult

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret
except ImportError as error:
    raise missing("haystack", "haystack-ai", "haystack") from error

__all__ = ["PrunerComponent"]


@component
class PrunerComponent:
    """Keeps the documents that the answer needs; each is a copy with its grade in `meta["pruner"]`.

    The pruner is made at warm-up, so that a stored pipeline can be read without a key.

    Args:
        pruner: a mapping of dials, a `PrunerConfig` or a `Pruner`. `to_dict()` stores it as its dials.
        api_key: the provider's key, stored as a `Secret`; else it comes from the config, or from the environment.

    Raises:
        ConfigError: a dial is wrong; at warm-up: a key, an extra or a model is missing.
    """

    def __init__(self, pruner: Prunable, *, api_key: Secret | None = None) -> None:
        if api_key and isinstance(pruner, Pruner):
            raise ConfigError("a Pruner has its key already: give api_key with dials or a PrunerConfig")
        self.dials = dials_of(pruner)
        self.api_key = api_key
        self._given = pruner
        self._pruner = pruner if isinstance(pruner, Pruner) else None

    def warm_up(self) -> None:
        """Make the pruner, once: connections, token table, prompt."""
        self._warm()

    async def close_async(self) -> None:
        """Give back connections and model, unless they belong to a `Pruner` that was given."""
        if self._pruner and self._pruner is not self._given:
            await self._pruner.aclose()
            self._pruner = None

    def to_dict(self) -> dict[str, Any]:
        """Describe the component in plain values."""
        return default_to_dict(self, pruner=self.dials, api_key=self.api_key)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make a component from its description."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document], decisions=list[dict[str, Any]], status=str, reason=str | None)
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Prune; documents in reranker order, best first. Faults of the provider never raise."""
        chunks = [_to_chunk(document) for document in documents]
        return _outputs(documents, chunks, self._warm().prune_sync(query, chunks))

    @component.output_types(documents=list[Document], decisions=list[dict[str, Any]], status=str, reason=str | None)
    async def run_async(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Prune; documents in reranker order, best first. Faults of the provider never raise."""
        chunks = [_to_chunk(document) for document in documents]
        return _outputs(documents, chunks, await self._warm().prune(query, chunks))

    def _warm(self) -> Pruner:
        if self._pruner is None:
            key = _resolved(self.api_key) if self.api_key else None
            self._pruner = as_pruner({**self.dials, "api_key": key} if key else self._given)
        return self._pruner


def _resolved(secret: Secret) -> Any:
    try:
        return secret.resolve_value()
    except ValueError as error:
        raise ConfigError(f"api_key: {error}") from None


def _outputs(documents: list[Document], chunks: Chunks, result: PruneResult[Any]) -> dict[str, Any]:
    return {"documents": copies(documents, chunks, result, _copy), **outcome(result)}


def _to_chunk(document: Document) -> dict[str, Any]:
    return make_chunk(document.content or "", document.meta, id=document.id, score=document.score)


def _copy(document: Document, text: str, mark: Mark) -> Document:
    # A document without text, such as a picture, stays without.
    return replace(document, content=text or document.content, meta={**document.meta, MARK: mark})
