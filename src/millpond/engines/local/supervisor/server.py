"""The unix socket: one JSON object a line, answered in the order in which results come.

{"id": 1, "op": "start", "order": {...}}   →   {"id": 1, "ok": {...}} or {"id": 1, "error": {"kind", "message"}}
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from .attempts import Record
from .core import Core
from .files import socket_address
from .keeper import KEEPERS_SOCKET
from .orders import Problem
from .process import peer_uid

SOCKET = "supervisor.sock"
LINE_BYTES = 4 * 1024 * 1024

Operation = Callable[["Connection", Record, Callable[[Record], None]], None]


class Connection:
    """One caller."""

    def __init__(self, core: Core, peer: socket.socket, operations: dict[str, Operation]) -> None:
        self.socket = peer
        self._core = core
        self._operations = operations
        self._received = bytearray()
        self._to_send = bytearray()
        self._open = True
        core.selector.register(peer, selectors.EVENT_READ, self._ready)

    def _ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush()
        if mask & selectors.EVENT_READ and self._open:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self.socket.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._received += data
        while self._open and (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            self._handle(line)
        if len(self._received) > LINE_BYTES:
            self.close()

    def _handle(self, line: bytes) -> None:
        number: Any = None
        try:
            request = json.loads(line)
            number = request.get("id")
            self._operation(request["op"])(self, request, lambda value: self.send({"id": number, "ok": value}))
        except Problem as problem:
            self.send({"id": number, "error": {"kind": problem.kind, "message": str(problem)}})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            traceback.print_exc(file=sys.stderr)
            self.send({"id": number, "error": {"kind": "refused", "message": f"malformed request: {error!r}"}})

    def _operation(self, name: str) -> Operation:
        try:
            return self._operations[name]
        except KeyError:
            raise Problem("refused", f"there is no operation {name!r}") from None

    def send(self, message: Record) -> None:
        if self._open:
            self._to_send += json.dumps(message, separators=(",", ":")).encode() + b"\n"
            self._flush()

    def _flush(self) -> None:
        try:
            while self._to_send:
                del self._to_send[: self.socket.send(self._to_send)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._to_send else 0)
        self._core.selector.modify(self.socket, wanted, self._ready)

    def close(self) -> None:
        if self._open:
            self.release().close()

    def release(self) -> socket.socket:
        """Stop serving this caller; the socket is somebody else's from now on."""
        self._open = False
        self._core.selector.unregister(self.socket)
        return self.socket


class Server:
    """Listens for callers and for keepers' news."""

    def __init__(self, core: Core, operations: dict[str, Operation], news: Callable[[str, int], None]) -> None:
        self._core = core
        self._operations = operations
        self._news = news
        self._keepers = _bind(core, KEEPERS_SOCKET, socket.SOCK_DGRAM)
        core.selector.register(self._keepers, selectors.EVENT_READ, self._hear)

    def listen(self) -> None:
        """From now on callers are answered."""
        self._listener = _bind(self._core, SOCKET, socket.SOCK_STREAM)
        self._listener.listen(64)
        self._core.selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self, _: int) -> None:
        with contextlib.suppress(OSError):
            peer, _address = self._listener.accept()
            peer.setblocking(False)
            if peer_uid(peer) not in {0, os.geteuid()}:
                peer.close()
                return
            Connection(self._core, peer, self._operations)

    def _hear(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                words = self._keepers.recv(256).decode(errors="replace").split()
                if len(words) == 2 and words[1].isdigit():
                    self._news(words[0], int(words[1]))


def _bind(core: Core, name: str, kind: socket.SocketKind) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
    made.setblocking(False)
    with contextlib.suppress(FileNotFoundError):
        (core.run_dir / name).unlink()
    with socket_address(core.run_dir, name) as address:
        made.bind(address)
    (core.run_dir / name).chmod(0o600)
    return made
