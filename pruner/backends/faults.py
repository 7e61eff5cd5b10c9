"""What a provider's status codes and headers mean, the same for every vendor; and why there was no answer."""

import os
import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from pruner.errors import BackendError, Reason

__all__ = [
    "MAX_TEXT",
    "UNANSWERED",
    "behind",
    "broken_off",
    "from_connection",
    "from_status",
    "retry_after",
    "status_in",
]

MAX_TEXT = 16_000
# The extension of an HTTP request that says whether it went over a connection used before, and nothing came back.
UNANSWERED = "pruner.unanswered"
# What vendors call their errors in a body, with the status that each belongs to. No other name gets into a log.
_STATUSES = {
    "authentication_error": 401,
    "billing_error": 402,
    "billing_hard_limit_reached": 400,
    "billing_not_active": 429,
    "content_filter": 400,
    "content_policy_violation": 400,
    "context_length_exceeded": 400,
    "data_inspection_failed": 400,
    "exceeded_current_quota_error": 429,
    "insufficient_quota": 429,
    "internal_server_error": 500,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
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


class _Meaning(NamedTuple):
    """What a refusal means when its body, in small letters, holds a sign; and what to do about it."""

    reason: Reason
    advice: str = ""
    signs: str = ""


_UNPAID = _Meaning(
    Reason.AUTH,
    "the account may not spend more; check its plan and billing",
    "insufficient_quota|billing_hard_limit_reached|billing_not_active|exceeded_current_quota_error"
    "|credit balance is too low|insufficient credits|insufficient balance|arrearage",
)
_NO_QUOTA = _UNPAID._replace(reason=Reason.RATE_LIMITED)
_FILTERED = _Meaning(
    Reason.REFUSED,
    signs="content_filter|content_policy_violation|content filtering policy|content management policy"
    "|responsibleaipolicyviolation|invalid_prompt|violating our usage policy|safety system"
    "|data_?inspection_?failed|content exists risk|flagged_input",
)
_NO_KEY = _Meaning(Reason.AUTH, "the key is not valid", "api_key_invalid|api key not valid")
_NO_ROOM = _Meaning(
    Reason.CONTEXT_OVERFLOW,
    "the prompt and the room for the answer are more than the model takes; serve it with a longer context",
    "max_(completion_)?tokens'? is too large.*context length",
)
_TOO_LONG = _Meaning(
    Reason.CONTEXT_OVERFLOW,
    signs="context_length_exceeded|exceed_context_size|maximum context length|maximum prompt length"
    "|maximum number of tokens allowed|context (window|size|limit)|(prompt|input) is too long|reduce the length"
    "|request_too_large|too many tokens",
)
# Of what the bodies of other statuses tell, the first that fits.
_TOLD = (_UNPAID, _FILTERED, _NO_KEY, _NO_ROOM, _TOO_LONG)
_BY_STATUS = {
    401: _Meaning(Reason.AUTH),
    402: _UNPAID._replace(reason=Reason.BAD_REQUEST),
    403: _Meaning(Reason.AUTH),
    407: _Meaning(Reason.BAD_REQUEST, "the proxy of the environment (HTTP_PROXY, HTTPS_PROXY) wants other credentials"),
    408: _Meaning(Reason.PROVIDER_ERROR),
    429: _Meaning(Reason.RATE_LIMITED),
}


def from_status(status: int, body: object = "", headers: Mapping[str, str] | None = None) -> BackendError:
    """Turn an HTTP status, or the code inside a 200 body, into our error. The message never quotes the body's text."""
    meaning = _meaning(status, str(body)[:MAX_TEXT].lower())
    reason, advice, _ = meaning
    helps = reason in (Reason.RATE_LIMITED, Reason.PROVIDER_ERROR) and meaning is not _NO_QUOTA
    retryable = helps and not 300 <= status < 400
    names = _names(body)[:1]
    if status == 404 and not names:
        advice = "no such path or model"
    message = ": ".join(filter(None, [" ".join([f"HTTP {status}", *names]), advice]))
    return BackendError(reason, message, retryable=retryable, retry_after=retry_after(headers or {}))


def _meaning(status: int, body: str) -> _Meaning:
    """Return what a status means; a client's fault (4xx) may be told better by what stands in the body."""
    if not 400 <= status < 500:
        return _Meaning(Reason.PROVIDER_ERROR)
    known = _BY_STATUS.get(status)
    told = {429: (_NO_QUOTA,), 403: (_UNPAID, _FILTERED)}.get(status, () if known else _TOLD)
    found = (meaning for meaning in told if re.search(meaning.signs, body))
    return next(found, known or _Meaning(Reason.BAD_REQUEST))


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
    if any(type(one).__name__ == "ProxyError" and str(one).startswith("407") for one in behind(error)):
        return from_status(407)
    parts = [type(error).__name__, *broken_off(error)]
    request = vars(error).get("request")
    idle = any(getattr(request, "extensions", {}).get(UNANSWERED, ()))
    message, wait = ": ".join(dict.fromkeys(parts)), 0.0 if idle else None
    return BackendError(Reason.PROVIDER_ERROR, message, retryable=True, retry_after=wait)


def broken_off(error: BaseException) -> list[str]:
    """Return how the connection below an error failed, and why, as far as known; nothing when it did not."""
    chain = behind(error)
    kinds = [type(one).__name__ for one in chain if any(c.__name__ == "TransportError" for c in type(one).__mro__)]
    return [kinds[0], *list(filter(None, map(_why, reversed(chain))))[:1]] if kinds else []


def behind(error: BaseException | None) -> list[BaseException]:
    """Return an error and what it came of; httpcore cuts the chain, but keeps the cause as the error's argument."""
    found: list[BaseException] = []
    while error is not None and all(error is not one for one in found):
        found.append(error)
        given = next((one for one in error.args if isinstance(one, BaseException)), None)
        error = error.__cause__ or given or error.__context__
    return found


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
