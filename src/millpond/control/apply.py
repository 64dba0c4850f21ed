"""Telling the engine: attempts whose state it has not heard of are started, asked to leave, or forbidden.

Every call is idempotent by attempt id, so a crash between the call and the note that it was made only repeats it.
Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import structlog

from millpond.authz.actors import SYSTEM
from millpond.control.context import EVENT_SOURCE, Control
from millpond.control.orders import geometries, job_places, order_make
from millpond.control.transitions import UNTOLD, Moved, attempt_ended, attempt_told
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_live, attempts_lock, attempts_save, attempts_unapplied
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.jobs import jobs_get, jobs_lock, jobs_save
from millpond.db.stores.nodes import node_list
from millpond.db.stores.tenants import tenant_list
from millpond.domain.jobs import AttemptState, EndReason
from millpond.domain.nodes import NodeSpec
from millpond.domain.records import AttemptRecord, JobRecord
from millpond.engines.base import EngineError, Geometry, Lost, Refused

log = structlog.get_logger("millpond.control.apply")

BATCH = 32
"""Attempts told before the note is stored: large enough to spare commits, small enough to start the first at once."""


@dataclass(frozen=True, slots=True)
class Untold:
    """Attempts to tell the engine of, with what their orders need."""

    attempts: tuple[AttemptRecord, ...] = ()
    jobs: Mapping[str, JobRecord] = field(default_factory=dict)
    specs: Mapping[str, NodeSpec] = field(default_factory=dict)
    shapes: Mapping[tuple[str, int], Geometry] = field(default_factory=dict)
    """How the cards that have slices must be divided, by node and card."""


@dataclass(slots=True)
class ApplyMemory:
    """What the applier need not read twice: the user id of a tenant never changes, nor is one given again."""

    uids: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """How the engine answered: the state it took (with this deadline), or why it never will, or neither (try again)."""

    attempt: str
    job: str
    state: AttemptState | None = None
    refused: str = ""
    deadline: datetime | None = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """``again``: calls to be made again later, ``broken`` of them met a defect; ``refused``: attempts that ended
    because the engine never will."""

    told: int = 0
    again: int = 0
    refused: int = 0
    broken: int = 0


def apply_run(control: Control, epoch: int, memory: ApplyMemory, fresh: Untold | None = None) -> ApplyResult:
    """Tell the engine everything that it has not heard; with `fresh`, only what a pass has just stored."""
    untold = control.database.run("untold", _untold_load) if fresh is None else fresh
    if any(job.tenant not in memory.uids for job in untold.jobs.values()):
        memory.uids.update(control.database.run("uids", _uids_load))
    told, again, refused, broken = 0, 0, 0, 0
    for begin in range(0, len(untold.attempts), BATCH):
        answers = [
            _attempt_tell(control, epoch, attempt, untold, memory) for attempt in untold.attempts[begin : begin + BATCH]
        ]
        settled = [answer for answer in answers if answer.state is not None or answer.refused]
        again += len(answers) - len(settled)
        broken += sum(answer.broken for answer in answers)
        told += len(settled)
        refused += sum(bool(answer.refused) for answer in settled)
        if settled:
            work = partial(_told_store, control=control, answers=settled, epoch=epoch, now=control.clock())
            control.database.run("told", work)
    return ApplyResult(told, again, refused, broken)


def _untold_load(tx: Tx) -> Untold:
    attempts = tuple(attempts_unapplied(tx, SYSTEM))
    if not attempts:
        return Untold()
    jobs = jobs_get(tx, SYSTEM, sorted({attempt.job for attempt in attempts}))
    sliced = any(seat.slice for attempt in attempts for seat in attempt.seats)
    shapes = geometries(attempts_live(tx, SYSTEM)) if sliced else {}
    return Untold(attempts, jobs, {node.spec.name: node.spec for node in node_list(tx, SYSTEM)}, shapes)


def _uids_load(tx: Tx) -> dict[str, int]:
    return {tenant.name: tenant.uid for tenant in tenant_list(tx, SYSTEM)}


def _attempt_tell(control: Control, epoch: int, attempt: AttemptRecord, untold: Untold, memory: ApplyMemory) -> Told:
    job = untold.jobs[attempt.job]
    verb = attempt.state.value
    try:
        state = _engine_call(control, epoch, job, attempt, untold, memory)
    except Refused as error:
        control.metrics.orders.labels(verb, "refused").inc()
        log.warning("order refused", attempt=attempt.id, error=str(error))
        return Told(attempt.id, job.id, refused=error.message)
    except EngineError as error:
        control.metrics.orders.labels(verb, "retry").inc()
        log.info("order put off", attempt=attempt.id, error=str(error))
        return Told(attempt.id, job.id)
    except Exception:
        # A defect that one order meets must not keep the others from the engine.
        control.metrics.orders.labels(verb, "error").inc()
        log.exception("order failed", attempt=attempt.id)
        return Told(attempt.id, job.id, broken=True)
    control.metrics.orders.labels(verb, "ok").inc()
    return Told(attempt.id, job.id, state, deadline=attempt.deadline_at)


def _engine_call(
    control: Control,
    epoch: int,
    job: JobRecord,
    attempt: AttemptRecord,
    untold: Untold,
    memory: ApplyMemory,
) -> AttemptState:
    if attempt.state in (AttemptState.PLANNED, AttemptState.STARTING):
        places = job_places(control.policy.jobs_dir, job.id)
        order = order_make(
            job,
            attempt,
            jobs_dir=control.policy.jobs_dir,
            specs=untold.specs,
            tenant_uid=memory.uids[job.tenant],
            epoch=epoch,
            isolated=control.policy.isolated,
            resume=attempt.number > 1 and _has_content(places.checkpoint),
        )
        for place in dict.fromkeys((seat.node, card) for seat in attempt.seats if seat.slice for card in seat.cards):
            control.engine.reshape(*place, untold.shapes.get(place, ()))
        control.engine.start(order)
        return AttemptState.STARTING
    if attempt.state is AttemptState.ENDED or attempt.applied in UNTOLD or attempt.deadline_at is None:
        # Never started as far as we know: forbid it.  If it did start, this kills it.
        control.engine.stop(attempt.id, 0)
        return attempt.state
    deadline_ms = (attempt.deadline_at - _EPOCH) // timedelta(milliseconds=1)
    try:
        control.engine.signal(attempt.id, job.spec.checkpoint.signal, deadline_ms)
    except Lost:
        control.engine.stop(attempt.id, 0)
    return AttemptState.DRAINING


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _has_content(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _told_store(tx: Tx, control: Control, answers: Sequence[Told], epoch: int, now: datetime) -> None:
    fence(tx, epoch)
    refused = [answer for answer in answers if answer.refused]
    jobs = jobs_lock(tx, SYSTEM, sorted({answer.job for answer in refused})) if refused else {}
    attempts = attempts_lock(tx, SYSTEM, sorted({answer.attempt for answer in answers}))
    changed_jobs: list[JobRecord] = []
    changed: list[AttemptRecord] = []
    events: list[NewEvent] = []
    for answer in answers:
        before = attempts[answer.attempt]
        if answer.state is not None:
            after = attempt_told(before, answer.state, answer.deadline)
        else:
            moved = _refusal(jobs[answer.job], before, answer.refused, control.policy.lost_work_cap, now)
            after = moved.attempt
            changed_jobs.append(moved.job)
            events.extend(moved.events)
        if after != before:
            changed.append(after)
    jobs_save(tx, SYSTEM, changed_jobs)
    attempts_save(tx, SYSTEM, changed)
    if events:
        events_append(tx, EVENT_SOURCE, events)


def _refusal(job: JobRecord, attempt: AttemptRecord, why: str, cap: int, now: datetime) -> Moved:
    reason = attempt.drain_reason or EndReason.START_FAILED
    return attempt_ended(job, attempt, reason, None, now, cap, why)
