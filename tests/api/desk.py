"""A small engine for the API's tests: logs are what the test wrote, exec is an echo."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field

from millpond.engines.base import (
    AttemptStatus,
    Capabilities,
    Inventory,
    Isolation,
    LogChunk,
    Lost,
    Observed,
    StartOrder,
)


@dataclass
class Echo:
    """Sends back what it is sent, in upper case; ``argv[0] == "fail"`` ends at once with code 3."""

    argv: tuple[str, ...]
    sizes: list[tuple[int, int]] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._out: queue.Queue[bytes] = queue.Queue()
        self._code: int | None = None
        self._out.put(b"ready\n")
        if self.argv[0] == "fail":
            self._end(3)

    def _end(self, code: int) -> None:
        self._code = code
        self._out.put(b"")

    def read(self, timeout_s: float) -> bytes | None:
        try:
            return self._out.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def write(self, data: bytes) -> None:
        self._out.put(data.upper())

    def finish(self) -> None:
        self._end(0)

    def resize(self, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))

    def exit_code(self) -> int | None:
        return self._code

    def close(self) -> None:
        self.closed.set()
        self._out.put(b"")


class DeskEngine:
    """Implements `Engine`; ``faults`` and ``sessions`` are to be looked at, ``broken`` is raised by `inventory`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[tuple[str, int], bytes] = {}
        self.faults: list[tuple[str, int | None]] = []
        self.sessions: list[Echo] = []
        self.broken: Exception | None = None

    def say(self, attempt: str, data: bytes, rank: int = 0) -> None:
        """The rank writes `data`."""
        with self._lock:
            self._logs[attempt, rank] = self._logs.get((attempt, rank), b"") + data

    def capabilities(self) -> Capabilities:
        return Capabilities("desk", {"whole": Isolation.NONE}, True, False, True, True, ("USR1",), 100)

    def inventory(self) -> Inventory:
        if self.broken is not None:
            raise self.broken
        return Inventory(())

    def start(self, order: StartOrder) -> None: ...

    def signal(self, attempt: str, what: str, deadline_ms: int | None = None) -> None: ...

    def stop(self, attempt: str, grace_ms: int) -> None: ...

    def observe(self, cursor: int, wait_s: float = 0.0) -> Observed:
        return Observed((), cursor)

    def recover(self) -> tuple[AttemptStatus, ...]:
        return ()

    def logs(self, attempt: str, rank: int, offset: int = 0, limit: int = 65536) -> LogChunk:
        with self._lock:
            if (attempt, rank) not in self._logs:
                raise Lost(f"no output of {attempt}")
            data = self._logs[attempt, rank][offset : offset + limit]
        return LogChunk(rank, offset + len(data), data)

    def exec(self, attempt: str, rank: int, argv: tuple[str, ...], tty: bool = False) -> Echo:
        session = Echo(argv)
        self.sessions.append(session)
        return session

    def reshape(self, node: str, card: int, geometry: tuple[str, ...]) -> None: ...

    def fault(self, node: str, card: int | None) -> None:
        self.faults.append((node, card))

    def close(self) -> None: ...
