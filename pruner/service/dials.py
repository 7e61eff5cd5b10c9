"""Which dials a request may set, and from where to where the operator lets it."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from pruner.candidates import Grade
from pruner.config import PrunerConfig
from pruner.dialtypes import (
    BudgetPick,
    Cap,
    Count,
    Dedup,
    Expand,
    OrderPolicy,
    RevisionPolicy,
    Scoring,
    Share,
    SourcePolicy,
)
from pruner.service.errors import Code, Refusal
from pruner.service.strict import Strict

__all__ = ["WIDEST", "Dials", "Limits", "check_limits", "open_dials"]

Limits: TypeAlias = Mapping[str, tuple[Any, ...]]


def _level(given: Any) -> Any:
    return float(Grade[given]) if isinstance(given, str) and given in Grade.__members__ else given


_Level = Annotated[
    float,
    BeforeValidator(_level),
    Field(ge=1, le=5),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 1, "maximum": 5}, {"enum": [*Grade.__members__]}]}),
]
_Lambda = Annotated[float, Field(ge=0, le=1)]


def _dial(name: str) -> Any:
    return Field(default=None, description=PrunerConfig.model_fields[name].description)


class Dials(Strict):
    """Selection dials for this one request, within the operator's limits; what is not given is the operator's."""

    threshold: _Level | None = _dial("threshold")
    keep_top_k: Count | None = _dial("keep_top_k")
    min_score: float | None = _dial("min_score")
    max_chunks: Cap | None = _dial("max_chunks")
    token_cap: Cap | None = _dial("token_cap")
    fallback_top_n: Cap | None = _dial("fallback_top_n")
    scoring: Scoring | None = _dial("scoring")
    revision_policy: RevisionPolicy | None = _dial("revision_policy")
    dedup: Dedup | None = _dial("dedup")
    dedup_overlap: Share | None = _dial("dedup_overlap")
    dedup_jaccard: Share | None = _dial("dedup_jaccard")
    dedup_cosine: Share | None = _dial("dedup_cosine")
    dedup_across_sources: bool | None = _dial("dedup_across_sources")
    mmr_lambda: _Lambda | None = _dial("mmr_lambda")
    max_per_parent: Cap | None = _dial("max_per_parent")
    max_per_source: Cap | None = _dial("max_per_source")
    source_policy: SourcePolicy | None = _dial("source_policy")
    expand: Expand | None = _dial("expand")
    expand_sentences: Cap | None = _dial("expand_sentences")
    token_budget: Cap | None = _dial("token_budget")
    budget_pick: BudgetPick | None = _dial("budget_pick")
    extract: bool | None = _dial("extract")
    evidence_order: OrderPolicy | None = _dial("evidence_order")

    def given(self) -> dict[str, Any]:
        """Return those that were set."""
        return self.model_dump(exclude_none=True)


_RANGES: Limits = {
    "threshold": (1, 5),
    "keep_top_k": (0, 100),
    "min_score": (-1e6, 1e6),
    "max_chunks": (1, 1000),
    "token_cap": (1, 1_000_000),
    "fallback_top_n": (1, 1000),
    "dedup_overlap": (0, 1),
    "dedup_jaccard": (0, 1),
    "dedup_cosine": (0, 1),
    "mmr_lambda": (0, 1),
    "max_per_parent": (1, 1000),
    "max_per_source": (1, 1000),
    "expand_sentences": (1, 100),
    "token_budget": (1, 1_000_000),
}


def _choices(name: str) -> tuple[Any, ...]:
    kind = PrunerConfig.model_fields[name].annotation
    return (False, True) if kind is bool else get_args(kind)


# The lowest and highest value of a number, or the values there are.
WIDEST: Limits = {name: _RANGES.get(name) or _choices(name) for name in Dials.model_fields}


def check_limits(limits: Limits) -> None:
    """Refuse limits that no request could be held to.

    Raises:
        ValueError: a name is no dial of a request, or what it is limited to does not fit the dial.
    """
    for name, given in limits.items():
        if name not in WIDEST:
            raise ValueError(f"{name!r} is not a selection dial; use some of {', '.join(sorted(WIDEST))}")
        if not _is_range(WIDEST[name]):
            if not given or not all(type(one) is type(WIDEST[name][0]) and one in WIDEST[name] for one in given):
                raise ValueError(f"{name!r} needs some of {_listed(WIDEST[name])}")
        elif not _is_range(given) or len(given) != 2 or given[0] > given[1]:
            raise ValueError(f"{name!r} needs its lowest and its highest value")


def _is_range(limits: tuple[Any, ...]) -> bool:
    return all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in limits)


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(str(one).lower() if isinstance(one, bool) else one for one in values)


def open_dials(dials: Dials, limits: Limits) -> dict[str, Any]:
    """Return the dials a request sets.

    Raises:
        Refusal: one is not open to requests, or is beyond the operator's limits.
    """
    given = dials.given()
    for name, value in given.items():
        field = f"dials.{name}"
        if name not in limits:
            raise Refusal(Code.DIAL_NOT_OPEN, "the operator has not opened this dial to requests", field)
        if not _is_range(limits[name]):
            if value not in limits[name]:
                raise Refusal(Code.INVALID_REQUEST, f"must be one of {_listed(limits[name])}", field)
        elif not limits[name][0] <= value <= limits[name][1]:
            least, most = limits[name]
            raise Refusal(Code.INVALID_REQUEST, f"must be from {least:g} to {most:g}", field)
    return given
