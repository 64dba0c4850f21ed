"""Steps: what a loop has decided to do, as data, and how it is stored.

A decision is made on a world read a moment ago.  `steps_store` locks the rows it concerns and does each step only if
what it rests on still holds; otherwise it raises `Stale`, the transaction rolls back, and the loop decides again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from millpond.authz.actors import SYSTEM
from millpond.control.transitions import Moved, attempt_begin, attempt_drain, event_make, job_finished
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_insert, attempts_lock, attempts_save
from millpond.db.stores.events import NewEvent
from millpond.db.stores.jobs import jobs_lock, jobs_save
from millpond.domain.jobs import AttemptState, EndReason, JobState, QueuedAs
from millpond.domain.records import AttemptRecord, JobRecord, SeatRecord


class Stale(Exception):
    """What a decision rested on has changed since; decide again."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the next attempt of queued job `job` on these seats; `number` is the attempt it will be."""

    job: str
    number: int
    seats: tuple[SeatRecord, ...]
    milli: int
    rank: str
    sku: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask `attempt` of `job` to leave by `deadline`, for `claimant` if it makes room for somebody."""

    job: str
    attempt: str
    reason: EndReason
    deadline: datetime
    claimant: str = ""
    borrowed: bool = False
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """Finish a queued job without running it (again)."""

    job: str
    state: JobState
    message: str


@dataclass(frozen=True, slots=True)
class Unblock:
    """Update what a queued job waits for: its backoff is over, or dependencies have succeeded."""

    job: str
    blocked: tuple[str, ...]


Step = Begin | Drain | Finish | Unblock


@dataclass(frozen=True, slots=True)
class Stored:
    """What `steps_store` did: events still to be appended by the caller, in order, and the attempts that the engine
    must hear of, with their jobs."""

    events: tuple[NewEvent, ...]
    began: int
    drained: int
    attempts: tuple[AttemptRecord, ...]
    jobs: Mapping[str, JobRecord]


def steps_store(tx: Tx, steps: Sequence[Step], epoch: int, now: datetime) -> Stored:
    """Lock, verify, move and save in a handful of statements.  Raises `Stale` if any step no longer fits."""
    claimants = {step.claimant for step in steps if isinstance(step, Drain) and step.claimant}
    jobs = dict(jobs_lock(tx, SYSTEM, sorted({step.job for step in steps} | claimants)))
    for name in sorted(claimants):
        if name not in jobs or not _waits(jobs[name]):
            raise Stale(f"job {name} no longer claims anything")
    wanted = sorted({step.attempt for step in steps if isinstance(step, Drain)})
    attempts = dict(attempts_lock(tx, SYSTEM, wanted)) if wanted else {}
    done = steps_apply(steps, jobs, attempts, epoch, now)
    jobs_save(tx, SYSTEM, [after for after in done.jobs.values() if after != jobs.get(after.id)])
    attempts_insert(tx, SYSTEM, list(done.new))
    attempts_save(tx, SYSTEM, [after for after in done.attempts.values() if after != attempts[after.id]])
    drained = sum(isinstance(step, Drain) for step in steps)
    return Stored(done.events, len(done.new), drained, (*done.attempts.values(), *done.new), done.jobs)


@dataclass(frozen=True, slots=True)
class Applied:
    """Records after the steps; `new` attempts are to be inserted."""

    jobs: Mapping[str, JobRecord]
    attempts: Mapping[str, AttemptRecord]
    new: tuple[AttemptRecord, ...]
    events: tuple[NewEvent, ...]


def steps_apply(
    steps: Iterable[Step],
    jobs: Mapping[str, JobRecord],
    attempts: Mapping[str, AttemptRecord],
    epoch: int,
    now: datetime,
) -> Applied:
    """The pure part of `steps_store`: locked records in, records and events out."""
    jobs, attempts = dict(jobs), dict(attempts)
    new: list[AttemptRecord] = []
    events: list[NewEvent] = []
    for step in steps:
        job = jobs.get(step.job)
        if job is None:
            raise Stale(f"job {step.job} is gone")
        if isinstance(step, Begin):
            moved = _begin(step, job, epoch, now)
            new.append(moved.attempt)
        elif isinstance(step, Drain):
            moved = _drain(step, job, attempts.get(step.attempt), now)
            attempts[step.attempt] = moved.attempt
        else:
            jobs[step.job], more = _settle(step, job, now)
            events.extend(more)
            continue
        jobs[step.job] = moved.job
        events.extend(moved.events)
    return Applied(jobs, attempts, tuple(new), tuple(events))


def _waits(job: JobRecord) -> bool:
    return job.state is JobState.QUEUED and not (job.held or job.cancel or job.blocked)


def _begin(step: Begin, job: JobRecord, epoch: int, now: datetime) -> Moved:
    if not _waits(job) or job.attempts + 1 != step.number:
        raise Stale(f"job {job.id} no longer waits to be started")
    return attempt_begin(job, step.seats, step.milli, step.rank, epoch, now, step.sku)


def _drain(step: Drain, job: JobRecord, attempt: AttemptRecord | None, now: datetime) -> Moved:
    if attempt is None or attempt.state is AttemptState.ENDED:
        raise Stale(f"attempt {step.attempt} has ended")
    if step.claimant and attempt.state is AttemptState.DRAINING:
        raise Stale(f"attempt {step.attempt} is leaving already")
    moved = attempt_drain(job, attempt, step.reason, step.deadline, now, step.claimant, step.borrowed)
    if not step.claimant:
        return moved
    data: dict[str, object] = {"for": step.claimant, "why": step.reason.value, "lost_milli_seconds": step.lost}
    evicted = event_make("job.evicted", now, moved.job, moved.attempt, data)
    return replace(moved, events=(*moved.events, evicted))


def _settle(step: Finish | Unblock, job: JobRecord, now: datetime) -> tuple[JobRecord, tuple[NewEvent, ...]]:
    if job.state is not JobState.QUEUED:
        raise Stale(f"job {job.id} no longer waits")
    if isinstance(step, Finish):
        done, event = job_finished(job, step.state, step.message, now)
        return done, (event,)
    over = job.not_before is None or job.not_before <= now
    if job.queued_as is QueuedAs.BACKOFF and over:
        job = replace(job, queued_as=QueuedAs.READY, not_before=None)
    return replace(job, blocked=step.blocked), ()
