"""Why jobs wait, for streams: one plan shared by all of them, made anew at most once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from millpond.domain.reasons import Reason
from millpond.domain.records import JobRecord
from millpond.scheduling.decisions import Wait
from millpond.services.planning import Sight
from millpond.services.standing import Standings

MAX_AGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """Waiting jobs at one moment (``now`` in Unix seconds)."""

    now: int
    waits: Mapping[str, Wait]
    jobs: Mapping[str, JobRecord]

    def position(self, job: str) -> int | None:
        """Place in its leaf; ``None`` if it does not wait."""
        wait = self.waits.get(job)
        return wait.position if wait is not None else None

    def reasons(self, job: str, sight: Sight) -> tuple[Reason, ...]:
        """All reasons that bind, as far as the reader may see."""
        wait = self.waits.get(job)
        return tuple(sight.reason(reason, self.jobs) for reason in wait.reasons) if wait is not None else ()


class Outlooks:
    """Thread-safe; whoever asks while one is being made waits for it."""

    def __init__(self, standings: Standings) -> None:
        self._standings = standings
        self._lock = threading.Lock()
        self._made: tuple[float, Outlook] | None = None

    def recent(self) -> Outlook:
        """An outlook not older than `MAX_AGE_S`."""
        with self._lock:
            if self._made is not None and time.monotonic() - self._made[0] < MAX_AGE_S:
                return self._made[1]
            began = time.monotonic()
            standing = self._standings.now()
            waits = {wait.job: wait for wait in standing.plan.wait}
            outlook = Outlook(standing.plan.now, waits, standing.pool.jobs())
            self._made = (began, outlook)
            return outlook
