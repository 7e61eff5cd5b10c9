"""Drop the retrieved chunks an answer does not need, in one small-LLM call between reranker and generator."""

from pruner.budget import TokenBudget
from pruner.citations import CitationReport, check_citations
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
from pruner.evidence import evidence_rules, render_evidence
from pruner.pipeline import Pruner
from pruner.schema import Candidate, Chunk, Conflict, Decision, Grade, Grading, PruneResult, Status, Trace, Usage
from pruner.shared import prune, prune_sync

__all__ = [
    "BackendError",
    "Candidate",
    "Chunk",
    "CitationReport",
    "ConfigError",
    "Conflict",
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
    "TokenBudget",
    "Trace",
    "Usage",
    "check_citations",
    "evidence_rules",
    "prune",
    "prune_sync",
    "render_evidence",
]
