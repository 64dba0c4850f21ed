"""The outermost layer: request ids, access log, HTTP metrics, body limits, and the last net for defects."""

from __future__ import annotations

import re
import secrets
import time
from urllib.parse import unquote

import structlog
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, get_tracer, use_span
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millpond.api.bodies import body_parse, text_check
from millpond.api.metrics import HttpMetrics
from millpond.api.problems import defect_log, problem_of, problem_response, problem_status, problem_unknown
from millpond.api.schemas.base import Problem
from millpond.domain.errors import InvalidInput

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})

_log = structlog.get_logger("millpond.api")
_tracer = get_tracer("millpond.api")


class RequestLayer:
    """Wraps the whole application (pure ASGI, so that streams pass through untouched)."""

    def __init__(self, app: ASGIApp, *, body_limit: int, metrics: HttpMetrics) -> None:
        self._app = app
        self._body_limit = body_limit
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.monotonic()
        sent_id = Headers(scope=scope).get("Request-Id", "")
        request_id = sent_id if _REQUEST_ID.match(sent_id) else secrets.token_hex(8)
        scope["millpond.request_id"] = request_id
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["Request-Id"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        span = _tracer.start_span(scope["method"], context=extract(Headers(scope=scope)), kind=SpanKind.SERVER)
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await self._serve(scope, receive, send_marked)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:  # noqa: BLE001 - the last net: a defect becomes a 500 with an id, and a log entry
            defect_log(error, request_id)
            if status == 0:
                await self._answer(problem_unknown(), scope, receive, send_marked)
        finally:
            seconds = time.monotonic() - begun
            route = _route_name(scope)
            self._metrics.seen(scope["method"], route, status, seconds)
            span.update_name(f"{scope['method']} {route}")
            span.set_attributes({"http.route": route, "http.response.status_code": status, "request.id": request_id})
            span.end()
            level = "debug" if scope["path"] in _QUIET else "info"
            getattr(_log, level)(
                "request",
                request_id=request_id,
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000),
                user=scope.get("millpond.user", ""),
            )

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            text_check(scope["path"], "path")
            text_check(unquote(scope["query_string"].decode("latin-1")), "query")
            body = await self._body(scope, receive)
            if body is None:
                await self._answer(problem_status(413, f"at most {self._body_limit} bytes"), scope, receive, send)
                return
            scope["millpond.body"] = body_parse(body) if body.strip() else None
        except InvalidInput as error:
            await self._answer(problem_of(error), scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; ``None`` if it is larger than the limit (it is not read on then)."""
        declared = Headers(scope=scope).get("Content-Length", "0")
        if declared.isdigit() and (len(declared) > 15 or int(declared) > self._body_limit):
            return None
        if scope["method"] in {"GET", "HEAD"} and declared == "0" and "transfer-encoding" not in Headers(scope=scope):
            return b""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._body_limit:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _answer(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"Connection": "close"} if problem.status == 413 else None
        await problem_response(problem, scope["millpond.request_id"], headers)(scope, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives `body` once, then whatever follows (the disconnect)."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _route_name(scope: Scope) -> str:
    """The template of the route, so that ids in paths do not multiply the metrics."""
    route = scope.get("route")
    path = getattr(route, "path", "")
    return path if isinstance(path, str) and path else "unmatched"
