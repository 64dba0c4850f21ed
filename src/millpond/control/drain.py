"""Emptying the pool for `down`: every attempt is asked to leave and its job queued again; nothing new starts."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from millpond.authz.actors import SYSTEM
from millpond.control.apply import ApplyMemory, apply_run
from millpond.control.context import EVENT_SOURCE, Control
from millpond.control.observe import cursor_load, observe_run
from millpond.control.steps import Drain, steps_store
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_live
from millpond.db.stores.events import events_append
from millpond.db.stores.jobs import jobs_get
from millpond.domain.errors import Unavailable
from millpond.domain.jobs import EndReason

MARGIN_S = 20.0
"""After the last deadline the engine must have killed everything within this time."""


def everybody_leave(control: Control, epoch: int, grace: timedelta) -> int:
    """Ask every live attempt to leave within its own grace, at most `grace`, and wait until all have left; how many.

    Raises `Unavailable` if one does not go although its deadline is long past.
    """
    now = control.clock()
    asked = control.database.run("drain", lambda tx: _all_drain(tx, epoch, grace, now))
    until = time.monotonic() + grace.total_seconds() + MARGIN_S
    cursor, memory = cursor_load(control), ApplyMemory()
    while control.database.run("live", lambda tx: bool(attempts_live(tx, SYSTEM))):
        apply_run(control, epoch, memory)
        cursor, _ = observe_run(control, epoch, cursor, 0.5)
        if time.monotonic() > until:
            raise Unavailable("some jobs do not end", hint="millpond down --keep-jobs leaves them running")
    return asked


def _all_drain(tx: Tx, epoch: int, grace: timedelta, now: datetime) -> int:
    fence(tx, epoch)
    live = attempts_live(tx, SYSTEM)  # with those that leave already: their deadline may be farther than `grace`
    jobs = jobs_get(tx, SYSTEM, sorted({attempt.job for attempt in live}))
    steps = [
        Drain(
            attempt.job,
            attempt.id,
            EndReason.PREEMPTED,
            now + min(grace, timedelta(seconds=jobs[attempt.job].spec.checkpoint.grace)),
        )
        for attempt in live
    ]
    events_append(tx, EVENT_SOURCE, steps_store(tx, steps, epoch, now).events)
    return len(steps)
