"""What can go wrong, by whose fault it is.

::

    PrunerError
    ├── ConfigError         a dial, key or install is wrong: raised when it is set
    ├── RequestError        the caller's query or chunks are unusable: always raised
    └── GradingError        the grading failed: becomes a fallback, with its reason
        ├── BackendError    the provider or the network failed
        └── ReplyError      the provider answered, with nothing to grade by

Only `GradingError` triggers a fallback. Anything else that is raised is a bug and propagates.
"""

from enum import StrEnum

__all__ = ["BackendError", "ConfigError", "GradingError", "PrunerError", "Reason", "ReplyError", "RequestError"]


class Reason(StrEnum):
    """Why a result is not `ok`; each is a stable code that a dashboard can count."""

    TOO_FEW_CHUNKS = "too_few_chunks"
    NOT_WORTH_IT = "not_worth_it"
    BASELINE = "baseline"
    MISSING_GRADES = "missing_grades"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    PROVIDER_ERROR = "provider_error"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    CONTEXT_OVERFLOW = "context_overflow"
    PROMPT_TRUNCATED = "prompt_truncated"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNPARSEABLE = "unparseable"
    SCHEMA_MISMATCH = "schema_mismatch"
    UNINFORMATIVE = "uninformative"
    OVERLOADED = "overloaded"


class PrunerError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PrunerError):
    """A dial, a key or an install is wrong; the message says which and what to do."""


class RequestError(PrunerError):
    """The caller's query or chunks cannot be used; never turned into a fallback."""


class GradingError(PrunerError):
    """The grading failed; the pipeline falls back to the reranker's order.

    Args:
        reason: the code that the result will carry.
        message: for the log; never holds chunk or query text.
    """

    def __init__(self, reason: Reason, message: str = "") -> None:
        super().__init__(message or str(reason))
        self.reason = reason


class BackendError(GradingError):
    """The provider or the network failed.

    Args:
        reason: the code that the result will carry.
        message: for the log; never holds chunk or query text.
        retryable: whether the same request may succeed in a moment (429, 5xx, network).
        retry_after: seconds the provider asked us to wait, when it said so.
    """

    def __init__(
        self, reason: Reason, message: str = "", *, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(reason, message)
        self.retryable = retryable
        self.retry_after = retry_after


class ReplyError(GradingError):
    """The provider answered, but nothing in the answer is a grade."""
