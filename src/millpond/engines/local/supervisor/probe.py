"""One HTTP request to a rank, without blocking the loop: is it ready?"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable


class Probe:
    """Asks http://127.0.0.1:<port><path> once; `done` hears whether the answer was 2xx."""

    def __init__(self, selector: selectors.BaseSelector, port: int, path: str, done: Callable[[bool], None]) -> None:
        self._selector = selector
        self._done = done
        self._answer = b""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: millpond\r\nConnection: close\r\n\r\n"
        self._request = request.encode()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._ended = False
        self._socket.connect_ex(("127.0.0.1", port))
        selector.register(self._socket, selectors.EVENT_WRITE, self._writable)

    def _writable(self, _: int) -> None:
        try:
            self._socket.send(self._request)
        except OSError:
            self.end(False)
            return
        self._selector.modify(self._socket, selectors.EVENT_READ, self._readable)

    def _readable(self, _: int) -> None:
        try:
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._answer += data
        if len(self._answer) >= 12 or not data:
            words = self._answer[:12].split(b" ")
            self.end(len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].startswith(b"2"))

    def end(self, ready: bool) -> None:
        """Close, and say so once."""
        if not self._ended:
            self._ended = True
            self._selector.unregister(self._socket)
            self._socket.close()
            self._done(ready)
