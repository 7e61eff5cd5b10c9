"""What every request passes first: its id, who may call, how many at once, headers, the log line. Nothing escapes."""

import time
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pruner.service.auth import ANYONE, Keys, host_name, is_loopback
from pruner.service.errors import Code, Refusal, refusal_response
from pruner.service.limits import Admission
from pruner.service.logs import log, new_request_id, request_id
from pruner.service.metrics import Metrics
from pruner.service.settings import ServiceSettings
from pruner.service.tracing import Tracing

__all__ = ["NOTE", "Front", "Note"]

# Where in the scope the routes write what the log line, the metrics and the span say.
NOTE = "pruner.note"
_WORK = ("/v1/", "/v2/", "/rerank", "/mcp")
_QUIET = ("/healthz", "/readyz", "/metrics")
# Bytes; as many may wait in a connection before its server waits for the client.
_PIECE = 65_536
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

Note = MutableMapping[str, Any]


class Front:
    """The outermost middleware."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServiceSettings,
        admission: Admission,
        metrics: Metrics,
        tracing: Tracing | None,
    ) -> None:
        self._app, self._settings = app, settings
        self._keys, self._admission = Keys(settings.api_keys), admission
        self._metrics, self._tracing = metrics, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens below."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token = request_id.set(new_request_id(headers.get("x-request-id", "")))
        note: Note = {"code": 499}  # What a client that left would have got.
        scope[NOTE] = note
        started = time.perf_counter()
        try:
            with self._span(scope, headers, note):
                await self._answer(scope, receive, _Sender(send, note), headers)
        finally:
            self._record(scope, note, time.perf_counter() - started)
            request_id.reset(token)

    async def _answer(self, scope: Scope, receive: Receive, send: "_Sender", headers: Headers) -> None:
        try:
            with self._admitted(scope, headers):
                await self._app(scope, receive, send)
        except Refusal as refusal:
            await refusal_response(refusal)(scope, receive, send)
        except Exception as error:  # noqa: BLE001  # Whatever it is, it is logged, and the client gets an answer.
            log.error("a bug: please report it", exc_info=error)
            if not send.begun:
                bug = Refusal(Code.INTERNAL, "a bug in the service; its log has the request id")
                await refusal_response(bug)(scope, receive, send)

    @contextmanager
    def _admitted(self, scope: Scope, headers: Headers) -> Iterator[None]:
        """Let a request in if its caller may have it, before a byte of its body is read."""
        path, method = scope["path"], scope["method"]
        if not self._for_probes(path):
            self._check_host(headers.get("host", ""))
        work = path.startswith(_WORK)
        if not work and (path != "/metrics" or self._settings.metrics_public):
            yield
            return
        key = self._keys.name_of(headers.get("authorization", ""))
        if key is None:
            raise Refusal(Code.UNAUTHORIZED, "send a key this service knows, as Authorization: Bearer KEY")
        scope[NOTE]["key"] = key
        if not work:
            yield
            return
        if method == "POST":
            self._check_form(headers)
        with self._admission.request(key), self._metrics.in_flight.track_inprogress():
            yield

    def _for_probes(self, path: str) -> bool:
        """Tell whether a path is for those who call by the address of a pod: it gives nothing away, or to a key only.

        The metrics of a service that is for this machine alone are for no page that names it by its own.
        """
        settings = self._settings
        opened = settings.api_keys or settings.allow_unauthenticated or settings.metrics_public
        return path in ("/healthz", "/readyz") or (path == "/metrics" and bool(opened))

    def _check_host(self, header: str) -> None:
        """Refuse names that are not ours: without a key, a page elsewhere could name us by its own and call."""
        name = host_name(header)
        allowed = self._settings.allowed_hosts
        closed = not self._settings.api_keys and not self._settings.allow_unauthenticated
        if name not in allowed if allowed else closed and not is_loopback(name):
            raise Refusal(Code.HOST_NOT_ALLOWED, "this service does not answer to that Host; see allowed_hosts")

    def _check_form(self, headers: Headers) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(Code.UNSUPPORTED_MEDIA_TYPE, "send JSON, with content-type: application/json")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refusal(Code.UNSUPPORTED_MEDIA_TYPE, "send the body as it is, without a content-encoding")
        # A body of a length that is not told is counted where it is read.
        if int(headers.get("content-length", 0)) > self._settings.max_body:
            raise Refusal(Code.BODY_TOO_LARGE, f"at most {self._settings.max_body} bytes are taken")

    def _span(self, scope: Scope, headers: Headers, note: Note) -> AbstractContextManager[None]:
        if self._tracing is None or scope["path"] in _QUIET:
            return nullcontext()
        return self._tracing.request(scope["method"], _route(scope), headers, note)

    def _record(self, scope: Scope, note: Note, seconds: float) -> None:
        path = _route(scope)
        self._metrics.request(path, note["code"])
        fields = {"method": scope["method"], "path": path, "seconds": round(seconds, 4), **note}
        if fields.get("key") == ANYONE:
            del fields["key"]
        (log.debug if path in _QUIET else log.info)("request", extra={"fields": fields})


def _route(scope: Scope) -> str:
    """Return the path of the route that a request is for, also before it is looked for; there are not many."""
    if "route" in scope:
        return str(scope["route"].path)
    return str(scope["path"]) if scope["path"] in scope["app"].state.paths else "other"


class _Sender:
    """Sends, with the headers every answer has, and remembers the status."""

    def __init__(self, send: Send, note: Note) -> None:
        self._send, self._note = send, note
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self._note["code"] = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = request_id.get()
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        for part in _parts(message):
            await self._send(part)


def _parts(message: Message) -> Iterator[Message]:
    """Yield a large body in pieces, so that a request is in flight until its client has read all but the last."""
    body = message.get("body", b"")
    last = (max(len(body), 1) - 1) // _PIECE * _PIECE
    for begin in range(0, last, _PIECE):
        yield {**message, "body": body[begin : begin + _PIECE], "more_body": True}
    yield {**message, "body": body[last:]} if last else message
