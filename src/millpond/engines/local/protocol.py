"""The client's side of the supervisor's socket: pooled connections, JSON lines, typed errors."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

from millpond.engines.base import EngineError, Lost, Refused, Retry
from millpond.engines.local.supervisor.files import socket_address
from millpond.engines.local.supervisor.server import SOCKET

_ERRORS: dict[str, type[EngineError]] = {"retry": Retry, "refused": Refused, "lost": Lost}
ANSWER_S = 30.0


class Line:
    """One connection; one request at a time."""

    def __init__(self, run_dir: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._received = bytearray()
        try:
            with socket_address(run_dir, SOCKET) as address:
                self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send, and wait for the answer.  OSError or EOFError when the supervisor went away."""
        self.socket.settimeout(timeout_s)
        self.socket.sendall(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        while (end := self._received.find(b"\n")) < 0:
            data = self.socket.recv(262_144)
            if not data:
                raise EOFError("the supervisor closed the connection")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self.socket.close()


class Caller:
    """A pool of connections; thread-safe."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._idle: list[Line] = []
        self._guard = threading.Lock()
        self._closed = False

    def call(self, op: str, timeout_s: float = ANSWER_S, **fields: Any) -> dict[str, Any]:
        """The answer.  A pooled connection that died with an earlier supervisor is replaced once, which is safe because
        every operation is idempotent.  Raises `Retry`, `Refused` or `Lost`."""
        line = self._take()
        if line is not None:
            with contextlib.suppress(OSError, EOFError):
                return self._ask(line, op, timeout_s, fields)
        try:
            return self._ask(self.line(), op, timeout_s, fields)
        except (OSError, EOFError) as error:
            raise _unreachable(error) from error

    def line(self) -> Line:
        """A fresh connection of the caller's own.  Raises `Retry`."""
        try:
            return Line(self._run_dir)
        except OSError as error:
            raise _unreachable(error) from error

    def _take(self) -> Line | None:
        with self._guard:
            return self._idle.pop() if self._idle else None

    def _ask(self, line: Line, op: str, timeout_s: float, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = line.ask({"op": op, **fields}, timeout_s)
        except BaseException:
            line.close()
            raise
        with self._guard:
            if self._closed:
                line.close()
            else:
                self._idle.append(line)
        return answer_read(answer)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            lines, self._idle = self._idle, []
        for line in lines:
            line.close()


def answer_read(answer: dict[str, Any]) -> dict[str, Any]:
    """What the answer holds; raises the error that it is."""
    error = answer.get("error")
    if error is not None:
        raise _ERRORS.get(error["kind"], Retry)(error["message"])
    value: dict[str, Any] = answer["ok"]
    return value


def _unreachable(error: Exception) -> Retry:
    return Retry(f"the supervisor does not answer: {error}", hint="it is restarted by itself; look at supervisor.log")
