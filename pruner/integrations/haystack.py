"""Haystack: a component that takes a query and ranked documents, for `Pipeline.run` and `Pipeline.run_async`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pruner.errors import ConfigError
from pruner.fetching import FetchParent
from pruner.integrations.adapter import (
    MARK,
    Chunks,
    Keys,
    Mark,
    Prunable,
    as_pruner,
    copies,
    dials_of,
    lookup,
    make_chunk,
    missing,
    outcome,
)
from pruner.pipeline import Pruner
from pruner.schema import Chunk, PruneResult

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret, deserialize_callable, serialize_callable
    from haystack.utils.auth import SecretType
except ImportError:
    raise missing("haystack", "haystack-ai", "haystack") from None

__all__ = ["PrunerComponent"]


_OUTPUTS: dict[str, Any] = {
    "documents": list[Document],
    "decisions": list[dict[str, Any]],
    "uncovered_query_ids": list[str],
    "status": str,
    "reason": str | None,
}


class _Maker:
    """Makes the pruner when it is needed; copies share it, and a pickle has the dials and no key."""

    def __init__(self, given: Prunable, secret: Secret | None = None) -> None:
        self.given, self.secret = given, secret
        self._made = given if isinstance(given, Pruner) else None

    def make(self) -> Pruner:
        if self._made is None:
            key = _resolved(self.secret) if self.secret else None
            self._made = as_pruner({**dials_of(self.given), "api_key": key} if key else self.given)
        return self._made

    async def close(self) -> None:
        if self._made and self._made is not self.given:
            await self._made.aclose()
            self._made = None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        named = self.secret if self.secret and self.secret.type is SecretType.ENV_VAR else None
        return _Maker, (self.given if isinstance(self.given, Pruner) else dials_of(self.given), named)


@component
class PrunerComponent:
    """Keeps the documents that the answer needs; each is a copy with its grade in `meta["pruner"]`.

    The pruner is made at warm-up, so that a stored pipeline can be read without a key.

    Args:
        pruner: a mapping of dials, a `PrunerConfig` or a `Pruner`. `to_dict()` stores it as its dials,
            and refuses one with a backend of your own.
        api_key: the provider's key, stored as a `Secret`; else it comes from the config, or from the environment.
        metadata_keys: field of a `Chunk` → key of the meta that holds it, None: none does. By default its own name,
            then `page_number` (`page`) and `split_idx_start` (`start_char`); the embedding is the document's own.
        fetch_parent: returns the parent of a `parent_id`, as for `Pruner.prune`; stored as the name of a function.

    Raises:
        ConfigError: a dial is wrong; at warm-up: a key, an extra or a model is missing.
    """

    def __init__(
        self,
        pruner: Prunable,
        *,
        api_key: Secret | None = None,
        metadata_keys: Mapping[str, str | None] | None = None,
        fetch_parent: FetchParent | None = None,
    ) -> None:
        if api_key and isinstance(pruner, Pruner):
            raise ConfigError("a Pruner has its key already: give api_key with dials or a PrunerConfig")
        if not isinstance(pruner, Pruner):
            dials_of(pruner)  # A wrong dial is told here, not at warm-up.
        self._keys = lookup(metadata_keys or {}, page="page_number", start_char="split_idx_start")
        self.metadata_keys = dict(metadata_keys or {})
        self.fetch_parent = fetch_parent
        self._maker = _Maker(pruner, api_key)

    @property
    def dials(self) -> dict[str, Any]:
        """The dials, as they are stored."""
        return dials_of(self._maker.given)

    @property
    def api_key(self) -> Secret | None:
        """The secret that was given."""
        return self._maker.secret

    def warm_up(self) -> None:
        """Make the pruner, once: connections, token table, prompt."""
        self._maker.make()

    async def close_async(self) -> None:
        """Give back connections and model, unless they belong to a `Pruner` that was given."""
        await self._maker.close()

    def to_dict(self) -> dict[str, Any]:
        """Describe the component in plain values."""
        fetch = serialize_callable(self.fetch_parent) if self.fetch_parent else None
        own = {"pruner": self.dials, "api_key": self.api_key, "metadata_keys": self.metadata_keys}
        return default_to_dict(self, **own, fetch_parent=fetch)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make a component from its description."""
        own = data.get("init_parameters", {})
        if name := own.get("fetch_parent"):
            data = {**data, "init_parameters": {**own, "fetch_parent": deserialize_callable(name)}}
        return default_from_dict(cls, data)

    @component.output_types(**_OUTPUTS)
    def run(
        self,
        query: str,
        documents: list[Document],
        principals: list[str] | None = None,
        required_query_ids: list[str] | None = None,
    ) -> dict[str, Any]:
        """Prune.

        Args:
            query: the question.
            documents: in reranker order, best first.
            principals: whom the caller speaks for, as for `Pruner.prune`.
            required_query_ids: sub-queries that each get their best document first.

        Raises:
            RequestError: the arguments are unusable. Faults of the provider never raise.
        """
        chunks, asked = self._begin(documents, principals, required_query_ids)
        return _outputs(documents, chunks, self._maker.make().prune_sync(query, chunks, **asked))

    @component.output_types(**_OUTPUTS)
    async def run_async(
        self,
        query: str,
        documents: list[Document],
        principals: list[str] | None = None,
        required_query_ids: list[str] | None = None,
    ) -> dict[str, Any]:
        """Prune.

        Args:
            query: the question.
            documents: in reranker order, best first.
            principals: whom the caller speaks for, as for `Pruner.prune`.
            required_query_ids: sub-queries that each get their best document first.

        Raises:
            RequestError: the arguments are unusable. Faults of the provider never raise.
        """
        chunks, asked = self._begin(documents, principals, required_query_ids)
        return _outputs(documents, chunks, await self._maker.make().prune(query, chunks, **asked))

    def _begin(
        self, documents: list[Document], principals: list[str] | None, required_query_ids: list[str] | None
    ) -> tuple[Chunks, dict[str, Any]]:
        chunks = [_to_chunk(document, self._keys) for document in documents]
        names = {"principals": principals or (), "required_query_ids": required_query_ids or ()}
        return chunks, {**names, "fetch_parent": self.fetch_parent}


def _resolved(secret: Secret) -> Any:
    try:
        return secret.resolve_value()
    except ValueError as error:
        raise ConfigError(f"api_key: {error}") from None


def _outputs(documents: list[Document], chunks: Chunks, result: PruneResult[Any]) -> dict[str, Any]:
    return {"documents": copies(documents, chunks, result, _copy), **outcome(result)}


def _to_chunk(document: Document, keys: Keys) -> Chunk:
    return make_chunk(
        document.content or "",
        document.meta,
        keys,
        id=document.id,
        score=document.score,
        embedding=document.embedding,
    )


def _copy(document: Document, text: str, mark: Mark) -> Document:
    # A document without text, such as a picture, stays without.
    return replace(document, content=text or document.content, meta={**document.meta, MARK: mark})
