"""The guard: a thread of the server that brings back the parts that die beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from millpond.domain.errors import MillpondError

log = structlog.get_logger("millpond.guard")

LOOK_EVERY_S = 1.0
PAUSE_LAST_S = 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """A process that must live: a cheap look, and how to bring it back (may do nothing if it lives)."""

    name: str
    alive: Callable[[], bool]
    revive: Callable[[], object]


class Guard:
    """Looks once a second.  A part that cannot be brought back is tried again, ever more slowly."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30.0)

    def _run(self) -> None:
        pause = LOOK_EVERY_S
        while not self._stopping.wait(pause):
            pause = LOOK_EVERY_S if self.look() else min(PAUSE_LAST_S, pause * 2)

    def look(self) -> bool:
        """Look at every part once, and bring back what is dead; whether all live."""
        return sum(not self._look(part) for part in self._parts) == 0

    def _look(self, part: Part) -> bool:
        if part.alive():
            return True
        log.warning("part is dead, bringing it back", part=part.name)
        try:
            part.revive()
        except (MillpondError, OSError) as error:
            log.warning("part does not come back", part=part.name, error=str(error))
            return False
        log.info("part is back", part=part.name)
        return True
