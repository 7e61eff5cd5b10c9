"""What a provider's status codes and headers mean, the same for every vendor; and why there was no answer."""

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pruner.errors import BackendError, Reason

__all__ = ["MAX_TEXT", "UNANSWERED", "broken_off", "from_connection", "from_status", "retry_after", "status_in"]

MAX_TEXT = 16_000
# The extension of an HTTP request that says whether it went over a connection used before, and nothing came back.
UNANSWERED = "pruner.unanswered"
# What vendors call their errors in a body, with the status that each belongs to. No other name gets into a log.
_STATUSES = {
    "authentication_error": 401,
    "billing_error": 402,
    "context_length_exceeded": 400,
    "insufficient_quota": 429,
    "internal_server_error": 500,
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_denied": 403,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "service_unavailable": 503,
    "timeout_error": 504,
    "too_many_requests": 429,
    "unauthorized": 401,
}
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
    """Turn an HTTP status, or the code inside a 200 body, into our error. The message never quotes the body's text."""
    reason = _reason(status, str(body)[:MAX_TEXT].lower())
    retryable = reason in (Reason.RATE_LIMITED, Reason.PROVIDER_ERROR) and not 300 <= status < 400
    message = " ".join([f"HTTP {status}", *_names(body)[:1]])
    if message == "HTTP 404":
        message += ": no such path or model"
    return BackendError(reason, message, retryable=retryable, retry_after=retry_after(headers or {}))


def status_in(error: Mapping[str, object]) -> int | None:
    """Return the status that an error in a body speaks of, by number or name; None when it names none we know."""
    code = error.get("code")
    if isinstance(code, int):
        return code
    if isinstance(code, str) and code.isascii() and code.isdecimal() and len(code) == 3:
        return int(code)
    return next((_STATUSES[name] for name in _names(error)), None)


def _names(body: object) -> list[str]:
    """Return the names that a body gives its error, of those we know; the narrowest first."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    given = [error.get("code"), error.get("type")] if isinstance(error, Mapping) else []
    return [name for name in given if isinstance(name, str) and name in _STATUSES]


def from_connection(error: BaseException) -> BackendError:
    """Turn what an SDK raises when there was no answer into our error; the message names the cause, and no text.

    Where the server has closed a connection that lay idle, the request may be sent again at once, over a new one.
    """
    parts = [type(error).__name__, *broken_off(error)]
    request = vars(error).get("request")
    idle = any(getattr(request, "extensions", {}).get(UNANSWERED, ()))
    message, wait = ": ".join(dict.fromkeys(parts)), 0.0 if idle else None
    return BackendError(Reason.PROVIDER_ERROR, message, retryable=True, retry_after=wait)


def broken_off(error: BaseException) -> list[str]:
    """Return how the connection below an error failed, and why, as far as known; nothing when it did not."""
    behind = list(_behind(error))
    kinds = [type(one).__name__ for one in behind if any(c.__name__ == "TransportError" for c in type(one).__mro__)]
    return [kinds[0], *list(filter(None, map(_why, reversed(behind))))[:1]] if kinds else []


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came of; httpcore cuts the chain, but keeps the cause as the error's argument."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        given = next((one for one in error.args if isinstance(one, BaseException)), None)
        error = error.__cause__ or given or error.__context__


def _why(error: BaseException) -> str:
    """Say in the system's words why a connection failed; they hold no text of ours and none of the other side."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=str(message)) if code:
            return message.partition(",")[0].lower()
        case ssl.SSLError(reason=str(reason)):
            return reason.replace("_", " ").lower()
        case socket.gaierror(strerror=str(message)):
            return message.lower()
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    return ""


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
