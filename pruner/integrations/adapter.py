"""What the integrations share: a pruner from what a user has at hand, documents to chunks, and copies back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from numbers import Real
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from pruner.config import PrunerConfig
from pruner.errors import ConfigError
from pruner.pipeline import Pruner
from pruner.schema import Decision, PruneResult

__all__ = [
    "MARK",
    "Chunks",
    "Mark",
    "Prunable",
    "PrunerField",
    "as_pruner",
    "copies",
    "dials_of",
    "make_chunk",
    "missing",
    "outcome",
]

# The metadata key under which a kept copy carries its mark.
MARK = "pruner"

Mark: TypeAlias = dict[str, Any]
Chunks: TypeAlias = list[dict[str, Any]]
Prunable: TypeAlias = Pruner | PrunerConfig | Mapping[str, Any]

D = TypeVar("D")


def missing(module: str, package: str, extra: str) -> ConfigError:
    """Return what to raise when the package that a module needs cannot be imported."""
    return ConfigError(f'pruner.integrations.{module} needs {package}: pip install "listwise-pruner[{extra}]"')


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
        ConfigError: a dial is wrong.
    """
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


def make_chunk(text: str, metadata: Mapping[Any, Any], *, id: str | None, score: object) -> dict[str, Any]:
    """Describe a document to the pruner: its score, title and date too, where they are what they should be."""
    title, day = metadata.get("title"), metadata.get("date")
    return {
        "text": text,
        "id": id,
        "score": float(score) if isinstance(score, Real) and not isinstance(score, bool) else None,
        "title": title if isinstance(title, str) else None,
        "date": day if isinstance(day, str | date) else None,
        "metadata": metadata,
    }


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
    """Return as plain values the decisions, those on what was dropped too, the status and the reason."""
    return {"decisions": [_plain(decision) for decision in result.decisions], **_status(result)}


def _plain(decision: Decision) -> dict[str, Any]:
    grade = None if decision.grade is None else int(decision.grade)
    return {**asdict(decision), "grade": grade, "by": str(decision.by)}


def _status(result: PruneResult[Any]) -> dict[str, str | None]:
    return {"status": str(result.status), "reason": None if result.reason is None else str(result.reason)}
