"""What a provider's status codes and headers mean, the same for every vendor."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pruner.errors import BackendError, Reason

__all__ = ["from_status", "retry_after"]

_OVERFLOW = (
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "too many tokens",
)


def from_status(status: int, body: object = "", headers: Mapping[str, str] | None = None) -> BackendError:
    """Turn an HTTP status, or the code inside a 200 body, into our error. The message never quotes the body."""
    reason = _reason(status, str(body).lower())
    retryable = reason in (Reason.RATE_LIMITED, Reason.PROVIDER_ERROR) and not 300 <= status < 400
    return BackendError(reason, f"HTTP {status}", retryable=retryable, retry_after=retry_after(headers or {}))


def _reason(status: int, body: str) -> Reason:
    if status in (401, 403):
        return Reason.AUTH
    if status == 429:
        return Reason.RATE_LIMITED
    if status >= 500 or status < 400 or status == 408:
        return Reason.PROVIDER_ERROR
    return Reason.CONTEXT_OVERFLOW if any(sign in body for sign in _OVERFLOW) else Reason.BAD_REQUEST


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date); None when absent or senseless."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after", "")
        return max(0.0, float(value)) if _is_number(value) else _seconds_until(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _is_number(value: str) -> bool:
    return value.strip().replace(".", "", 1).isdecimal()


def _seconds_until(date: str) -> float | None:
    if not date:
        return None
    moment = parsedate_to_datetime(date)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
