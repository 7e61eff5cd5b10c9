"""What the integrations share: a pruner from what a user has at hand, documents to chunks, and copies back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from decimal import Decimal
from numbers import Real
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from pruner.access import may_see
from pruner.config import PrunerConfig
from pruner.errors import ConfigError, RequestError
from pruner.fetching import FetchParent
from pruner.pipeline import Pruner
from pruner.preparation import to_chunks
from pruner.schema import Chunk, Decision, PruneResult

__all__ = [
    "MARK",
    "METADATA_FIELDS",
    "Chunks",
    "FetchField",
    "Keys",
    "KeysField",
    "Mark",
    "MissingExtraError",
    "NamesField",
    "Prunable",
    "PrunerField",
    "as_pruner",
    "copies",
    "dials_of",
    "lookup",
    "make_chunk",
    "missing",
    "outcome",
    "visible",
]

# What of a chunk a document's metadata may hold; id, text and score have their places in each framework.
METADATA_FIELDS = tuple(name for name in Chunk.model_fields if name not in ("text", "id", "score", "metadata"))
# The metadata key under which a kept copy carries its mark.
MARK = "pruner"

Mark: TypeAlias = dict[str, Any]
Chunks: TypeAlias = list[Chunk]
Keys: TypeAlias = Mapping[str, tuple[str, ...]]
Prunable: TypeAlias = Pruner | PrunerConfig | Mapping[str, Any]

D = TypeVar("D")


class MissingExtraError(ConfigError, ImportError):
    """The package that an integration needs is not installed; caught as either of its bases."""


def missing(module: str, package: str, extra: str) -> MissingExtraError:
    """Return what to raise, from None, when the package that a module needs cannot be imported."""
    return MissingExtraError(f'pruner.integrations.{module} needs {package}: pip install "listwise-pruner[{extra}]"')


def as_pruner(given: Prunable) -> Pruner:
    """Return the pruner given, or make the one that a config or a mapping of dials describes.

    A mapping says it all: what it leaves out has its default, and only a key comes from the environment, so that a
    stored pipeline is the same everywhere and holds no key.

    Raises:
        ConfigError: a dial is wrong, or a key, an extra or a model is missing.
    """
    if isinstance(given, Pruner):
        return given
    return Pruner(_with_key(_config_of(given)) if isinstance(given, Mapping) else _config_of(given))


def dials_of(given: Prunable) -> dict[str, Any]:
    """Return the dials as JSON values, without the key: the form in which a framework stores the pruner.

    Raises:
        ConfigError: a dial is wrong, or the pruner asks a backend of its caller's, which no dial names.
    """
    if isinstance(given, Pruner) and not given._owned:
        raise ConfigError("a Pruner with a backend of its own cannot be stored; make it anew where it is needed")
    return _config_of(given).model_dump(mode="json", exclude={"api_key"}, exclude_unset=True)


PrunerField = Annotated[
    Pruner, BeforeValidator(as_pruner), PlainSerializer(dials_of), WithJsonSchema({"type": "object"})
]
"""Type of a framework model's field for a pruner: stored, and described, as its dials."""


def _config_of(given: Prunable) -> PrunerConfig:
    if isinstance(given, PrunerConfig):
        return given
    if isinstance(given, Pruner):
        return given.config
    if isinstance(given, Mapping):
        return PrunerConfig(**given)
    raise ConfigError(f"give a Pruner, a PrunerConfig or a mapping of dials, not {type(given).__name__}")


def _with_key(config: PrunerConfig) -> PrunerConfig:
    return config if config.api_key else PrunerConfig.load(**config.model_dump(exclude={"api_key"}))


def _names(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(name, str) for name in given):
        raise ConfigError("principals and required_query_ids must be lists of str")
    return tuple(given)


def _checked_keys(given: object) -> dict[str, str | None]:
    keys: dict[Any, Any] = dict(given) if isinstance(given, Mapping) else {"": given}
    if unknown := [name for name in keys if name not in METADATA_FIELDS]:
        raise ConfigError(f"metadata_keys has no field {unknown[0]!r}; it has {', '.join(METADATA_FIELDS)}")
    if wrong := [name for name, key in keys.items() if not isinstance(key, str | None)]:
        raise ConfigError(f"metadata_keys: the key for {wrong[0]!r} must be a str or None")
    return keys


NamesField = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Type of a framework model's field for principals or sub-queries."""

FetchField = Annotated[FetchParent | None, WithJsonSchema({"type": "null"})]
"""Type of a framework model's field for what returns parents; it has no form in which it could be stored."""

KeysField = Annotated[dict[str, str | None], BeforeValidator(_checked_keys)]
"""Type of a framework model's field for `metadata_keys`: chunk field → key of the metadata, None: do not look."""


def lookup(given: Mapping[str, str | None], **usual: str) -> Keys:
    """Say under which keys of the metadata a chunk's fields are looked up; the first that is there counts.

    Args:
        given: field → key in place of the usual ones; None: the field is not looked up.
        usual: field → the framework's own key for it, looked up after the field's name.

    Raises:
        ConfigError: there is no such field.
    """
    keys = {name: tuple(filter(None, (name, usual.get(name)))) for name in METADATA_FIELDS}
    return keys | {name: (key,) if key else () for name, key in _checked_keys(given).items()}


def make_chunk(
    text: str, metadata: Mapping[Any, Any], keys: Keys, *, id: str | None, score: object, **known: Any
) -> Chunk:
    """Make a chunk of a document.

    What the metadata hold for a field is left out where it is not what it should be; an `acl` that cannot be read
    admits no one.

    Args:
        text: of the document.
        metadata: of the document.
        keys: from `lookup`.
        id: of the document.
        score: the reranker's, also as a Decimal or written out; none if it is no number.
        known: fields that the document itself has, for where the metadata say nothing.
    """
    found = {name: value for name, value in known.items() if value is not None}
    for name, places in keys.items():
        if key := next((key for key in places if metadata.get(key) is not None), None):
            found[name] = metadata[key]
    own = {"text": text, "id": id, "score": _number(score), "metadata": metadata}
    try:
        return to_chunks([{**own, **found}])[0]
    except RequestError:
        readable = {name: value for name, value in found.items() if _can_be_read(name, value)}
        closed = {"acl": ()} if "acl" in found.keys() - readable.keys() else {}
        return to_chunks([{**own, **readable, **closed}])[0]


def _number(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, Real | Decimal | str):
        return None
    with suppress(ValueError, OverflowError):
        return float(given)
    return None


def _can_be_read(name: str, value: object) -> bool:
    try:
        to_chunks([{"text": "", name: value}])
    except RequestError:
        return False
    return True


def visible(documents: Sequence[D], chunks: Chunks, principals: Collection[str]) -> list[D]:
    """Return the documents that the caller may see: what callbacks and tracers are told of."""
    return [document for document, chunk in zip(documents, chunks, strict=True) if may_see(chunk, principals)]


def copies(
    documents: Sequence[D], chunks: Sequence[object], result: PruneResult[Any], copy: Callable[[D, str, Mark], D]
) -> list[D]:
    """Return a copy of each kept document, in the order of the result.

    Args:
        documents: as given, one for each chunk.
        chunks: what was pruned, distinct objects.
        result: the outcome; its chunks are among `chunks`.
        copy: makes a copy from a document, its text as the result has it, and its mark.
    """
    places = {id(chunk): place for place, chunk in enumerate(chunks)}
    kept = ((places[id(chunk)], text) for chunk, text in zip(result.chunks, result.texts, strict=True))
    return [copy(documents[place], text, _mark(result, result.decisions[place])) for place, text in kept]


def _mark(result: PruneResult[Any], decision: Decision) -> Mark:
    plain = _plain(decision)
    return {name: plain[name] for name in ("grade", "expected", "by")} | _status(result)


def outcome(result: PruneResult[Any]) -> dict[str, Any]:
    """Return as plain values the decisions, those on what was dropped too, what is uncovered, status and reason."""
    uncovered = list(result.uncovered_query_ids)
    decisions = [_plain(decision) for decision in result.decisions]
    return {"decisions": decisions, "uncovered_query_ids": uncovered, **_status(result)}


def _plain(decision: Decision) -> dict[str, Any]:
    grade = None if decision.grade is None else int(decision.grade)
    return {**asdict(decision), "grade": grade, "by": str(decision.by)}


def _status(result: PruneResult[Any]) -> dict[str, str | None]:
    return {"status": str(result.status), "reason": None if result.reason is None else str(result.reason)}
