"""Free TCP ports, never the same for two live attempts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

FIRST, LAST = 20_000, 31_999
"""Below the range that Linux gives to outgoing connections."""


class Ports:
    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._next = FIRST + int.from_bytes(os.urandom(2), "little") % (LAST - FIRST)

    def keep(self, ports: Iterable[int]) -> None:
        """These belong to a live attempt."""
        self._taken.update(ports)

    def release(self, ports: Iterable[int]) -> None:
        self._taken.difference_update(ports)

    def take(self) -> int:
        """A port that nobody listens on now; 0 if there is none."""
        for _ in range(LAST - FIRST + 1):
            port = self._next
            self._next = FIRST + (port + 1 - FIRST) % (LAST - FIRST + 1)
            if port not in self._taken and _free(port):
                self._taken.add(port)
                return port
        return 0


def _free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except OSError:
            return False
        return True
