"""`prune()` for those who keep no pruner: one is made when it is first needed, and shared by all calls it fits."""

import asyncio
import os
from collections.abc import Collection, Sequence
from threading import Lock
from typing import Any, TypeVar

from pruner.config import PrunerConfig
from pruner.fetching import FetchParent
from pruner.pipeline import Pruner
from pruner.running import run_sync
from pruner.schema import PruneResult

__all__ = ["prune", "prune_sync"]

T = TypeVar("T")

_KEPT = 64
_kept: dict[PrunerConfig, Pruner] = {}
_making = Lock()


async def prune(
    query: str,
    chunks: Sequence[T],
    *,
    history: Sequence[str] = (),
    principals: Collection[str] = (),
    required_query_ids: Sequence[str] = (),
    fetch_parent: FetchParent | None = None,
    **dials: Any,
) -> PruneResult[T]:
    """Prune with the dials from arguments, environment and file (`PrunerConfig.load`); see `Pruner.prune`.

    A pruner is made, in a thread, when it is first needed, and kept: one for all calls that differ in selection dials
    and `timeout` only, and of the others the 64 made last. To make one takes a second or more, on top of the first
    call's `timeout`.
    """
    config = PrunerConfig.load(**dials)
    wanted = config.for_grading()
    pruner = _kept.get(wanted)
    if pruner is None:
        pruner = await asyncio.to_thread(_make, wanted)
    return await pruner.prune(
        query,
        chunks,
        history=history,
        principals=principals,
        required_query_ids=required_query_ids,
        fetch_parent=fetch_parent,
        timeout=config.timeout,
        **config.selection_dials(),
    )


def prune_sync(query: str, chunks: Sequence[T], **options: Any) -> PruneResult[T]:
    """`prune` for synchronous code, with or without an event loop running in this thread."""
    return run_sync(lambda: prune(query, chunks, **options))


def _make(config: PrunerConfig) -> Pruner:
    """Make the pruner of a configuration, once however many threads ask, and let go of the one made first."""
    with _making:
        if config not in _kept:
            made = Pruner(config)
            while len(_kept) >= _KEPT:
                del _kept[next(iter(_kept))]
            _kept[config] = made
        return _kept[config]


def _lock_anew() -> None:
    global _making
    _making = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_lock_anew)
