"""Whether the configured pool could ever hold a job, even empty."""

from __future__ import annotations

import threading

from millpond.authz.actors import SYSTEM
from millpond.db.session import Tx
from millpond.db.stores.nodes import node_list, node_print
from millpond.domain.errors import Refused
from millpond.domain.reasons import Code, Reason
from millpond.domain.records import JobRecord, World
from millpond.scheduling.fit import ask_make
from millpond.scheduling.reasons import static_reason
from millpond.scheduling.state import State
from millpond.scheduling.world import job_make, snapshot_make

IMPOSSIBLE = frozenset({Code.TOO_LARGE, Code.NO_SUCH_CARD})
"""Reasons that no waiting can cure, so such a job is refused at once."""


class EmptyPool:
    """The nodes without any job, kept until one of them is another one.  Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[str, State] | None = None

    def check(self, tx: Tx, job: JobRecord) -> None:
        """`Refused` with the scheduler's reason if the pool could never hold the job.

        A pool that has not been seen yet refuses nothing.
        """
        now = int(job.submitted_at.timestamp())
        known = node_print(tx, SYSTEM)
        with self._lock:
            if self._made is None or self._made[0] != known:
                world = World(node_list(tx, SYSTEM), (), (), (), (), (), {})
                self._made = (known, State(snapshot_make(world, now)))
            state = self._made[1]
            asked = job_make(job, now)
            reason = static_reason(state, asked, ask_make(asked)) if state.pool.by_name else None
        if reason is not None and reason.code in IMPOSSIBLE:
            raise Refused(
                f"job {job.name}: {reason.text}",
                code=reason.code.value,
                hint="millpond cards shows what there is",
                details=_numbers(reason),
            )


def _numbers(reason: Reason) -> dict[str, object]:
    numbers = {"need": reason.need, "have": reason.have, "limit": reason.limit, "free": reason.free}
    return {key: value for key, value in numbers.items() if value is not None}
