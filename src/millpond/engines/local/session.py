"""exec, seen from the caller: frames over a connection of its own (see supervisor/session.py)."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

from millpond.engines.local.supervisor.session import HEADER

_FRAME = 65536


class LocalSession:
    """See `millpond.engines.base.ExecSession`.  One thread may read while another writes."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(None)
        self._received = bytearray()
        self._code: int | None = None
        self._ended = False
        self._guard = threading.Lock()

    def read(self, timeout_s: float) -> bytes | None:
        """Output; None when there was none in time; b"" once the command has ended."""
        until = time.monotonic() + timeout_s
        while not self._ended:
            frame = self._frame()
            if frame is not None:
                kind, payload = frame
                if kind == b"O":
                    return payload
                if kind == b"X":
                    self._code = int(payload)
                    self._ended = True
                continue
            if not select.select([self._socket], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            self._fill()
        return b""

    def _fill(self) -> None:
        try:
            data = self._socket.recv(_FRAME)
        except OSError:
            data = b""
        self._received += data
        self._ended = not data

    def _frame(self) -> tuple[bytes, bytes] | None:
        if len(self._received) < HEADER.size:
            return None
        kind, size = HEADER.unpack_from(self._received)
        end = HEADER.size + size
        if len(self._received) < end:
            return None
        payload = bytes(self._received[HEADER.size : end])
        del self._received[:end]
        return kind, payload

    def write(self, data: bytes) -> None:
        """Input."""
        for start in range(0, len(data), _FRAME):
            self._send(b"I", data[start : start + _FRAME])

    def finish(self) -> None:
        """No more input will come."""
        self._send(b"I", b"")

    def resize(self, rows: int, columns: int) -> None:
        self._send(b"R", f"{rows} {columns}".encode())

    def _send(self, kind: bytes, payload: bytes) -> None:
        with self._guard, contextlib.suppress(OSError):
            self._socket.sendall(HEADER.pack(kind, len(payload)) + payload)

    def exit_code(self) -> int | None:
        """128 + signal if it was killed; None while it runs, and if the connection broke."""
        return self._code

    def close(self) -> None:
        self._socket.close()
        self._ended = True
