"""The one way from a route to the pruner: sheds what is too much, and tells metrics and health what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pruner.errors import ConfigError, Reason, RequestError
from pruner.pipeline import Pruner
from pruner.schema import Grade, Grading, PruneResult, Status
from pruner.service.errors import Code, Refusal
from pruner.service.health import Health
from pruner.service.limits import Admission
from pruner.service.metrics import Metrics
from pruner.service.models import Dials, RecordedGrading

__all__ = ["Direct", "Gateway", "Grader", "open_dials"]

T = TypeVar("T")


class Grader(Protocol):
    """Whatever prunes a list; `Direct`, or what stands before it."""

    async def prune(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        key: str | None = None,
        dials: Mapping[str, Any] = {},
    ) -> PruneResult[T]:
        """Prune one list; `key` is the caller's, and says whose list it is."""


class Direct:
    """Prunes every list."""

    def __init__(self, pruner: Pruner) -> None:
        self._pruner = pruner

    async def prune(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        key: str | None = None,
        dials: Mapping[str, Any] = {},
    ) -> PruneResult[T]:
        """Grade and assemble."""
        grading = await self._pruner.grade(query, chunks, history=history)
        return self._pruner.assemble(query, chunks, grading, **dials)


class Gateway:
    """Prunes while there is room, else answers by the reranker's order at once."""

    def __init__(self, pruner: Pruner, grader: Grader, admission: Admission, metrics: Metrics, health: Health) -> None:
        self._pruner, self._grader, self._admission = pruner, grader, admission
        self._metrics, self._health = metrics, health

    async def prune(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        key: str | None = None,
        dials: Mapping[str, Any] = {},
    ) -> PruneResult[T]:
        """Prune one list.

        Raises:
            Refusal: the dials do not agree, or the list cannot be used.
        """
        self._check(dials)
        with self._admission.grading() as room:
            try:
                if room:
                    result = await self._grader.prune(query, chunks, history=history, key=key, dials=dials)
                else:
                    result = self._shed(query, chunks, dials)
            except RequestError as error:
                raise Refusal(Code.INVALID_REQUEST, str(error)) from None
        self._metrics.result(result)
        self._health.result(result)
        return result

    def assemble(
        self, query: str, chunks: Sequence[T], recorded: RecordedGrading, dials: Mapping[str, Any]
    ) -> PruneResult[T]:
        """Select by recorded grades.

        Raises:
            Refusal: the dials do not agree, or the grades are of another list.
        """
        self._check(dials)
        return self._pruner.assemble(query, chunks, _grading(recorded, len(chunks)), **dials)

    def _check(self, dials: Mapping[str, Any]) -> None:
        """Refuse dials before anything is paid for."""
        try:
            self._pruner.config.with_dials(**dials)
        except ConfigError as error:
            raise Refusal(Code.INVALID_REQUEST, str(error), "dials") from None

    def _shed(self, query: str, chunks: Sequence[T], dials: Mapping[str, Any]) -> PruneResult[T]:
        nothing = (None,) * len(chunks)
        model = self._pruner.config.model
        grading = Grading(nothing, nothing, Status.FALLBACK, Reason.OVERLOADED, model=model)
        return self._pruner.assemble(query, chunks, grading, **dials)


def open_dials(dials: Dials, limits: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return the dials a request sets.

    Raises:
        Refusal: one is not open to requests, or is beyond the operator's limits.
    """
    given = dials.given()
    for name, value in given.items():
        field = f"dials.{name}"
        if name not in limits:
            raise Refusal(Code.DIAL_NOT_OPEN, "the operator has not opened this dial to requests", field)
        if isinstance(value, str):
            if value not in limits[name]:
                raise Refusal(Code.INVALID_REQUEST, f"must be one of {', '.join(map(str, limits[name]))}", field)
        elif not limits[name][0] <= value <= limits[name][1]:
            least, most = limits[name]
            raise Refusal(Code.INVALID_REQUEST, f"must be from {least:g} to {most:g}", field)
    return given


def _grading(recorded: RecordedGrading, n: int) -> Grading:
    expected = recorded.expected or [None] * n
    for field, values in (("grades", recorded.grades), ("expected", expected)):
        if len(values) != n:
            message = f"holds {len(values)} for a list of {n}; give one for each, null where there is none"
            raise Refusal(Code.INVALID_REQUEST, message, f"grading.{field}")
    if any(place >= n for place in recorded.left_out):
        raise Refusal(Code.INVALID_REQUEST, f"names a place beyond the list of {n}", "grading.left_out")
    whole = None not in recorded.grades
    return Grading(
        tuple(None if grade is None else Grade(grade) for grade in recorded.grades),
        tuple(expected),
        recorded.status or (Status.OK if whole else Status.PARTIAL),
        recorded.reason or (None if whole or recorded.status else Reason.MISSING_GRADES),
        left_out=tuple(recorded.left_out),
    )
