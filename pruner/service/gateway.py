"""The one way from a route to the pruner: what a caller may set, whom the mode prunes for, what is counted."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pruner.errors import ConfigError, Reason, RequestError
from pruner.pipeline import Pruner
from pruner.rollout import Rollout
from pruner.schema import Grade, Grading, PruneResult, Status
from pruner.sentences import load_splitter
from pruner.service.errors import Code, Refusal
from pruner.service.logs import request_id
from pruner.service.metrics import Metrics
from pruner.service.models import RecordedGrading

__all__ = ["Gateway"]

T = TypeVar("T")


class Gateway:
    """Prunes as the mode says.

    Args:
        pruner: selects anew.
        rollout: decides who gets the pruned list.
        metrics: hear of every answer.
    """

    def __init__(self, pruner: Pruner, rollout: Rollout, metrics: Metrics) -> None:
        self._pruner, self._rollout, self._metrics = pruner, rollout, metrics

    async def prune(
        self,
        query: str,
        chunks: Sequence[T],
        *,
        history: Sequence[str] = (),
        key: str | None = None,
        dials: Mapping[str, Any] = {},
        **asked: Any,
    ) -> PruneResult[T]:
        """Prune one list, or do not; `key` says whose it is, `asked` is of `Rollout.prune`.

        Raises:
            Refusal: the dials do not agree, or the list cannot be used.
        """
        self._check(dials)
        about: dict[str, Any] = {"history": history, "key": key, "dials": dials, "request_id": request_id.get()}
        try:
            result = await self._rollout.prune(query, chunks, **about, **asked)
        except RequestError as error:
            raise Refusal(Code.INVALID_REQUEST, str(error)) from None
        self._metrics.result(result)
        self._metrics.unwatched(self._rollout.unwatched)
        return result

    def assemble(
        self, query: str, chunks: Sequence[T], recorded: RecordedGrading, dials: Mapping[str, Any], **asked: Any
    ) -> PruneResult[T]:
        """Select by recorded grades; `asked` is of `Pruner.assemble`.

        Raises:
            Refusal: the dials do not agree, or the grades are of another list.
        """
        self._check(dials)
        return self._pruner.assemble(query, chunks, _grading(recorded, len(chunks)), **asked, **dials)

    def _check(self, dials: Mapping[str, Any]) -> None:
        """Refuse dials before anything is paid for."""
        try:
            config = self._pruner.config.with_dials(**dials)
            if config.extract or config.expand == "sentences":
                load_splitter()
        except ConfigError as error:
            raise Refusal(Code.INVALID_REQUEST, str(error), "dials") from None


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
