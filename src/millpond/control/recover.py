"""Making the records and the engine agree: at the start of every term, and once a minute for safety.

What the engine knows and the records do not want is killed; what should run and the engine has lost is queued again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import structlog

from millpond.authz.actors import SYSTEM
from millpond.control.context import ENGINE_SOURCE, EVENT_SOURCE, Control
from millpond.control.transitions import attempt_ended, event_make
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_live, attempts_lock, attempts_save
from millpond.db.stores.cursors import cursor_get
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.jobs import jobs_lock, jobs_save
from millpond.db.stores.nodes import node_sync
from millpond.domain.jobs import AttemptState, EndReason
from millpond.domain.records import AttemptRecord, JobRecord

log = structlog.get_logger("millpond.control.recover")

_TOLD = frozenset({AttemptState.STARTING, AttemptState.RUNNING, AttemptState.DRAINING})


@dataclass(frozen=True, slots=True)
class Difference:
    """``missing``: attempts that the engine has taken once and knows no more.  ``orphans``: the other way round."""

    missing: tuple[str, ...]
    orphans: tuple[str, ...]


def difference_find(
    before: Collection[AttemptRecord], after: Collection[AttemptRecord], known: Collection[str]
) -> Difference:
    """Pure: compare live attempts with those that the engine does not know to be gone.

    `before` was read before the engine was asked and `after` when all its facts were stored: an attempt is missing only
    if it was told before, is still live after, and no fact of its end is on the way.  One that the engine was never
    told of is nobody's loss: the applier will tell it.
    """
    told = {attempt.id for attempt in before if attempt.applied in _TOLD}
    ours = {attempt.id for attempt in after}
    # One that was live before may have ended since the engine was asked: no orphan, or found to be one the next time.
    mine = ours | {attempt.id for attempt in before}
    return Difference(tuple(sorted((told & ours) - set(known))), tuple(sorted(set(known) - mine)))


def inventory_sync(control: Control) -> None:
    """Store the nodes as the engine finds them now."""
    inventory = control.engine.inventory()
    now = control.clock()
    control.database.run("inventory", lambda tx: node_sync(tx, SYSTEM, ENGINE_SOURCE, inventory.nodes, now))


def reconcile_run(control: Control, epoch: int) -> bool:
    """Compare once and mend.  False: facts are still on the way, so nothing can be said yet; try again soon."""
    before = control.database.run("live", _live_load)
    known = [status.attempt for status in control.engine.recover()]
    cursor = control.database.run("cursor", lambda tx: cursor_get(tx, SYSTEM, ENGINE_SOURCE))
    if control.engine.observe(cursor).facts:
        return False
    found = difference_find(before, control.database.run("live", _live_load), known)
    for orphan in found.orphans:
        log.warning("killing an attempt that no record wants", attempt=orphan)
        control.metrics.alarms.labels("attempt.orphan").inc()
        control.engine.stop(orphan, 0)
    if found.missing:
        log.warning("attempts lost by the engine", attempts=found.missing)
        control.metrics.alarms.labels("attempt.lost").inc(len(found.missing))
        now = control.clock()
        control.database.run("lost", lambda tx: _lost_store(tx, control, found.missing, epoch, now))
    return True


def _live_load(tx: Tx) -> tuple[AttemptRecord, ...]:
    return tuple(attempts_live(tx, SYSTEM))


def _lost_store(tx: Tx, control: Control, names: tuple[str, ...], epoch: int, now: datetime) -> None:
    fence(tx, epoch)
    jobs = jobs_lock(tx, SYSTEM, sorted({name.rpartition("-")[0] for name in names}))
    attempts = attempts_lock(tx, SYSTEM, names)
    events: list[NewEvent] = []
    changed_jobs: list[JobRecord] = []
    changed: list[AttemptRecord] = []
    for attempt in attempts.values():
        if attempt.state is AttemptState.ENDED:
            continue
        reason = attempt.drain_reason or EndReason.LOST_LEASE
        cap = control.policy.lost_work_cap
        moved = attempt_ended(jobs[attempt.job], attempt, reason, None, now, cap, told=False)
        events.append(event_make("attempt.lost", now, moved.job, moved.attempt))
        events.extend(moved.events)
        changed_jobs.append(moved.job)
        changed.append(moved.attempt)
    jobs_save(tx, SYSTEM, changed_jobs)
    attempts_save(tx, SYSTEM, changed)
    if events:
        events_append(tx, EVENT_SOURCE, events)
