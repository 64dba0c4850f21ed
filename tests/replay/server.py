"""The server: answers by method and path, one after the other, the last one again and again."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """`body` is sent as JSON unless it is bytes.  ``drop``: hang up without an answer."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


class Replay:
    """Say what is answered with `on`; look at `requests` afterwards."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.requests: list[Request] = []
        self._answers: dict[tuple[str, str], list[Answer]] = {}
        self._lock = threading.Lock()

    def on(self, method: str, path: str, *answers: Answer | Any) -> None:
        made = [answer if isinstance(answer, Answer) else Answer(answer) for answer in answers]
        self._answers[method, path] = made

    def page(self, path: str, *items: Any) -> None:
        self.on("GET", path, {"items": list(items), "next": ""})

    def stream(self, path: str, *events: tuple[str, Any], connections: int = 1) -> None:
        """The events, on each of so many connections; later connections get the last one's again."""
        self.on("GET", path, *[sse(events)] * connections)

    def take(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            answers = self._answers.get((request.method, request.path))
            if not answers:
                return problem(404, "NOT_FOUND", f"nothing is recorded for {request.method} {request.path}")
            return answers.pop(0) if len(answers) > 1 else answers[0]

    def sent(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]


def sse(events: Any, first_id: int = 1) -> Answer:
    text = "".join(
        f"event: {name}\nid: {number}\ndata: {json.dumps(data)}\n\n"
        for number, (name, data) in enumerate(events, first_id)
    )
    return Answer((": alive\n\n" + text).encode(), headers={"Content-Type": "text/event-stream"})


def problem(status: int, code: str, detail: str, **more: Any) -> Answer:
    body = {"type": f"urn:millpond:problem:{code.lower()}", "title": code, "status": status, "detail": detail}
    return Answer({**body, "code": code, **more}, status, {"Content-Type": "application/problem+json"})


@contextmanager
def replaying() -> Iterator[Replay]:
    """A server on a free port of the loopback interface."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    replay = Replay(f"http://127.0.0.1:{server.server_address[1]}")
    server.replay = replay  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield replay
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up early is what some tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    def _handle(self) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(
            self.command, parts.path, parse_qs(parts.query), dict(self.headers), json.loads(raw) if raw else None
        )
        answer = self.server.replay.take(request)  # type: ignore[attr-defined]
        self.close_connection = True
        if answer.drop:
            return
        content = answer.content
        self.send_response(answer.status)
        for key, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests say what went wrong themselves."""
