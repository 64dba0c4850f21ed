"""Averaging over the ranks of a gang, through one TCP connection from every rank to rank 0.

It uses what millpond tells every rank: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.  A real job would use NCCL; the
shape is the same: all ranks start, meet at the master's address, and do every step together.
"""

from __future__ import annotations

import os
import socket
import time
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Gang:
    """All ranks of this attempt.  With one rank it does nothing and opens no socket."""

    def __init__(self, patience: float = 30.0) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self._peers: list[socket.socket] = []
        if self.size == 1:
            return
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if self.rank == 0:
            with socket.create_server(address) as server:
                server.settimeout(patience)
                self._peers = [server.accept()[0] for _ in range(self.size - 1)]
        else:
            self._peers = [_connect(address, patience)]

    def mean(self, values: Floats) -> Floats:
        """The mean of `values` over all ranks; every rank gets the same bytes."""
        if self.size == 1:
            return values
        if self.rank == 0:
            total = values.copy()
            for peer in self._peers:
                total += _receive(peer, values.size)
            total /= self.size
            for peer in self._peers:
                peer.sendall(total.tobytes())
            return total
        self._peers[0].sendall(values.tobytes())
        return _receive(self._peers[0], values.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self._peers:
            peer.close()


def _connect(address: tuple[str, int], patience: float) -> socket.socket:
    """Rank 0 may be slower to start than we are: try until it listens."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection(address, timeout=patience)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _receive(peer: socket.socket, count: int) -> Floats:
    wanted = count * 8
    parts = bytearray()
    while len(parts) < wanted:
        part = peer.recv(wanted - len(parts))
        if not part:
            raise ConnectionError("a rank of the gang is gone")
        parts += part
    return np.frombuffer(bytes(parts), dtype=np.float64)
