"""The one shape of every refusal, and its codes."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pruner.service.logs import request_id

__all__ = ["RESPONSES", "STATUS", "Code", "Problem", "Refusal", "handle_errors", "invalid", "refusal_response"]

# Of what a caller sent, at most this much is named in an answer.
_LONGEST_NAME = 100
RETRY_AFTER = 1


class Code(StrEnum):
    """Why a request got no answer; each is stable."""

    INVALID_JSON = "invalid_json"
    UNAUTHORIZED = "unauthorized"
    HOST_NOT_ALLOWED = "host_not_allowed"
    DIAL_NOT_OPEN = "dial_not_open"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TIMEOUT = "body_timeout"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_REQUEST = "invalid_request"
    TOO_MANY_REQUESTS = "too_many_requests"
    INTERNAL = "internal"
    UPSTREAM_FAILED = "upstream_failed"
    TOO_BUSY = "too_busy"
    NOT_READY = "not_ready"


STATUS = {
    Code.INVALID_JSON: 400,
    Code.UNAUTHORIZED: 401,
    Code.HOST_NOT_ALLOWED: 403,
    Code.DIAL_NOT_OPEN: 403,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.BODY_TIMEOUT: 408,
    Code.BODY_TOO_LARGE: 413,
    Code.UNSUPPORTED_MEDIA_TYPE: 415,
    Code.INVALID_REQUEST: 422,
    Code.TOO_MANY_REQUESTS: 429,
    Code.INTERNAL: 500,
    Code.UPSTREAM_FAILED: 502,
    Code.TOO_BUSY: 503,
    Code.NOT_READY: 503,
}
# What the framework itself refuses.
_OF_STATUS = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED}
_CLOSING = (Code.BODY_TIMEOUT, Code.BODY_TOO_LARGE, Code.UNAUTHORIZED, Code.TOO_BUSY, Code.TOO_MANY_REQUESTS)


class Fault(BaseModel):
    """What is wrong, and with what."""

    code: Code = Field(description="stable, for programs")
    message: str = Field(description="what happened and what to do, for people")
    field: str | None = Field(description="the field of the body that is wrong, such as `chunks[3].score`")
    request_id: str = Field(description="also in the header `x-request-id` and in the logs")


class Problem(BaseModel):
    """The body of every refusal."""

    error: Fault


class Refusal(HTTPException):
    """A request that gets no answer; raised anywhere below the routes.

    Args:
        code: why.
        message: what happened and what to do; no text of query or chunks.
        field: of the body.
    """

    def __init__(self, code: Code, message: str, field: str | None = None) -> None:
        super().__init__(STATUS[code], message, _headers(code))
        self.code = code
        self.field = field

    def fault(self) -> Fault:
        """Return what the answer says of it."""
        field = None if self.field is None else _shown(self.field)
        return Fault(code=self.code, message=_shown(self.detail, 500), field=field, request_id=request_id.get())


def _headers(code: Code) -> dict[str, str]:
    headers = {"connection": "close"} if code in _CLOSING else {}
    if STATUS[code] in (429, 503):
        headers["retry-after"] = str(RETRY_AFTER)
    if code is Code.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return headers


def refusal_response(error: Refusal) -> Response:
    """Write a refusal in its shape."""
    body = Problem(error=error.fault()).model_dump_json()
    return Response(body, error.status_code, error.headers, "application/json")


def _shown(text: str, longest: int = _LONGEST_NAME) -> str:
    """Make what a caller chose harmless to send back: encodable and short."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def handle_errors(app: FastAPI) -> None:
    """Have everything that the framework and the routes raise on purpose answered in one shape."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(ClientDisconnect, _on_gone)


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Refusal):
        return refusal_response(error)
    code = _OF_STATUS.get(error.status_code, Code.INVALID_JSON)
    refusal = Refusal(code, f"{error.detail}: see /openapi.json")
    refusal.headers = {**(error.headers or {}), **(refusal.headers or {})}
    return refusal_response(refusal)


def _on_gone(request: Request, error: Exception) -> Response:
    """Answer nobody; the status is for the log."""
    return Response(status_code=499)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refusal_response(invalid(error.errors()))


def invalid(faults: Sequence[Mapping[str, Any]]) -> Refusal:
    """Make a refusal of what pydantic found."""
    # Where a value may be of several types, the deepest fault is the one that was meant.
    first = max(faults, key=lambda fault: len(fault["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] in ("tuple_type", "too_long"):
        message = message.replace("Tuple", "List").replace("tuple", "list")  # JSON has no tuples.
    if first["type"] == "extra_forbidden":
        message = "unknown field"
    if first["type"] == "missing" and tuple(first["loc"]) == ("body",):
        message = "the body is empty: send a JSON object, see /openapi.json"
    return Refusal(Code.INVALID_REQUEST, message, field_name(first["loc"]))


def field_name(loc: Sequence[Any]) -> str | None:
    """Write the place of a fault as a path: `("body", "chunks", 3, "id", "str")` → `chunks[3].id`."""
    parts = list(loc[1:] if loc[:1] == ("body",) else loc)
    if parts and parts[-1] in ("str", "int", "float", "none"):  # Of a union, the member that was tried.
        parts.pop()
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return re.sub(r"^\.", "", path) or None


def _described(status: int) -> dict[str, Any]:
    codes = ", ".join(f"`{code}`" for code in Code if STATUS[code] == status)
    return {"model": Problem, "description": codes}


# For the OpenAPI document: what any route with a body may refuse.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: _described(status) for status in (400, 401, 403, 408, 413, 415, 422, 429, 500, 503)
}
