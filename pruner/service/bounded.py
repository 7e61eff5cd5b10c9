"""The service's pruner: grades while there is room, and tells metrics and health of every grading."""

from collections.abc import Collection, Sequence
from typing import Any

from pruner.backends import Backend
from pruner.config import PrunerConfig
from pruner.errors import Reason
from pruner.pipeline import Pruner
from pruner.schema import Grading, Status
from pruner.service.health import Health
from pruner.service.limits import Admission
from pruner.service.metrics import Metrics

__all__ = ["BoundedPruner"]


class BoundedPruner(Pruner):
    """A pruner whose gradings are shed, at once and for nothing, while there are as many as there may be.

    Whoever asks for a grading counts, a request that waits for it or a shadow that nobody waits for.
    """

    def __init__(
        self, config: PrunerConfig, backend: Backend, admission: Admission, metrics: Metrics, health: Health
    ) -> None:
        super().__init__(config, backend=backend)
        self._admission, self._metrics, self._health = admission, metrics, health

    async def grade(
        self,
        query: str,
        chunks: Sequence[Any],
        *,
        history: Sequence[str] = (),
        principals: Collection[str] = (),
        **dials: Any,
    ) -> Grading:
        """Ask for the grades, or say `overloaded`."""
        with self._admission.grading() as room:
            if room:
                grading = await super().grade(query, chunks, history=history, principals=principals, **dials)
            else:
                grading = self._grading(len(chunks), Status.FALLBACK, Reason.OVERLOADED)
        self._metrics.grading(grading)
        self._health.grading(grading)
        return grading
