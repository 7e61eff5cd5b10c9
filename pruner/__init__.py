"""Drop the retrieved chunks an answer does not need, in one small-LLM call between reranker and generator."""

from pruner.config import PrunerConfig
from pruner.errors import (
    BackendError,
    ConfigError,
    GradingError,
    PrunerError,
    Reason,
    ReplyError,
    RequestError,
)
from pruner.pipeline import Pruner, prune, prune_sync
from pruner.schema import Chunk, Decision, Grade, Grading, PruneResult, Status, Trace, Usage

__all__ = [
    "BackendError",
    "Chunk",
    "ConfigError",
    "Decision",
    "Grade",
    "Grading",
    "GradingError",
    "PruneResult",
    "Pruner",
    "PrunerConfig",
    "PrunerError",
    "Reason",
    "ReplyError",
    "RequestError",
    "Status",
    "Trace",
    "Usage",
    "prune",
    "prune_sync",
]
