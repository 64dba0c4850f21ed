"""Jobs: look, list, stop, hold, release.  Submitting is in `submissions`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores.attempts import attempt_list, attempts_lock, attempts_save
from millpond.db.stores.events import event_list
from millpond.db.stores.jobs import job_get, job_get_by_name, job_list, jobs_get, jobs_lock, jobs_save
from millpond.domain.errors import Conflict, NotFound
from millpond.domain.jobs import (
    JOB_TERMINAL,
    AttemptState,
    EndReason,
    JobState,
    QueuedAs,
    attempt_step,
    job_step,
)
from millpond.domain.names import attempt_id, id_valid
from millpond.domain.records import AttemptRecord, EventRecord, JobRecord, Page
from millpond.services.cursors import sequence_parse
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.places import project_label, tenant_resolve
from millpond.services.views import JobView, views_of


@dataclass(frozen=True, slots=True)
class JobRef:
    """A job as callers name it: its id, or its name with tenant and project (empty: the only tenant, any project)."""

    job: str
    tenant: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What a list of jobs is narrowed to; empty fields do not narrow."""

    tenant: str = ""
    project: str = ""
    user: str = ""
    states: tuple[JobState, ...] = ()
    queue: str = ""
    name: str = ""


def job_find(tx: Tx, actor: Actor, ref: JobRef) -> JobRecord:
    """The job that `ref` names: the live one of that name, else the latest.  `NotFound` if there is none in sight."""
    if id_valid(ref.job, "j"):
        return job_get(tx, actor, ref.job)
    tenant = tenant_resolve(tx, actor, ref.tenant, Action.JOB_READ)
    return job_get_by_name(tx, actor, tenant, project_label(ref.project) or None, ref.job)


def job_view(deps: Services, actor: Actor, ref: JobRef) -> JobView:
    """One job with its present attempt."""
    return deps.database.run("job_view", lambda tx: _view(tx, actor, job_find(tx, actor, ref)))


def job_page(deps: Services, actor: Actor, wanted: JobFilter, cursor: str, limit: int) -> Page[JobView]:
    """A page of jobs, the latest submitted first."""

    def work(tx: Tx) -> Page[JobView]:
        page = job_list(
            tx,
            actor,
            tenant=wanted.tenant,
            project=wanted.project or None,
            user=wanted.user,
            states=wanted.states,
            queue=wanted.queue,
            name=wanted.name,
            after=cursor,
            limit=limit,
        )
        return Page(views_of(tx, actor, page.items), page.next)

    return deps.database.run("job_page", work)


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt; ``drain_for`` is the job that it makes room for, if the caller may see that one."""

    attempt: AttemptRecord
    drain_for: str


def job_attempts(deps: Services, actor: Actor, ref: JobRef) -> tuple[AttemptView, ...]:
    """Every attempt of a job, the first first."""

    def work(tx: Tx) -> tuple[AttemptView, ...]:
        attempts = attempt_list(tx, actor, job_find(tx, actor, ref).id)
        claimants = sorted({attempt.drain_for for attempt in attempts if attempt.drain_for})
        seen = jobs_get(tx, actor, claimants) if claimants else {}
        return tuple(AttemptView(a, a.drain_for if a.drain_for in seen else "") for a in attempts)

    return deps.database.run("job_attempts", work)


def job_events(deps: Services, actor: Actor, ref: JobRef, cursor: str, limit: int) -> Page[EventRecord]:
    """Events of one job, the oldest first; whoever may read the job may read them."""

    def work(tx: Tx) -> Page[EventRecord]:
        job = job_find(tx, actor, ref)
        return event_list(tx, actor, sequence_parse(cursor), limit, tenant=job.tenant, job=job.id)

    return deps.database.run("job_events", work)


def job_stop(deps: Services, actor: Actor, ref: JobRef, grace: int | None = None) -> JobView:
    """Cancel a job: at once while it waits, else after its grace (or `grace` seconds).  An ended job stays as it is."""

    def work(tx: Tx) -> JobView:
        job = _controlled(tx, actor, ref)
        now = deps.clock()
        if job.state in JOB_TERMINAL:
            return _view(tx, actor, job)
        if job.state in (JobState.SUBMITTED, JobState.QUEUED):
            done = replace(
                job,
                state=job_step(job.state, JobState.CANCELLED),
                cancel=True,
                finished_at=now,
                message="stopped on request",
            )
            jobs_save(tx, actor, [done])
            event_write(deps, tx, actor, "job.cancelled", tenant=job.tenant, job=job.id)
            notify(tx, WORK_CHANNEL, "schedule")
            return JobView(done, None)
        seconds = min(job.spec.checkpoint.grace if grace is None else grace, deps.max_grace)
        return _drain(deps, tx, actor, job, now + timedelta(seconds=seconds), now)

    return deps.database.run("job_stop", work)


def job_hold(deps: Services, actor: Actor, ref: JobRef) -> JobView:
    """Keep a waiting job from starting until it is released.  `Conflict` for one that runs or has ended."""

    def work(tx: Tx) -> JobView:
        job = _controlled(tx, actor, ref)
        if job.held:
            return _view(tx, actor, job)
        if job.state not in (JobState.QUEUED, JobState.STOPPING):
            raise Conflict(
                f"job {job.name} is {job.state.value}, and only a waiting job can be held",
                hint="millpond stop ends it",
                code="NOT_WAITING",
            )
        queued_as = QueuedAs.HELD if job.state is JobState.QUEUED else job.queued_as
        held = replace(job, held=True, queued_as=queued_as)
        return _changed(deps, tx, actor, held, "job.held")

    return deps.database.run("job_hold", work)


def job_release(deps: Services, actor: Actor, ref: JobRef) -> JobView:
    """Let a held job go on waiting in its place.  One that is not held stays as it is."""

    def work(tx: Tx) -> JobView:
        job = _controlled(tx, actor, ref)
        if not job.held:
            return _view(tx, actor, job)
        later = job.not_before is not None and job.not_before > deps.clock()
        queued_as = job.queued_as if job.state is not JobState.QUEUED else QueuedAs.BACKOFF if later else QueuedAs.READY
        free = replace(job, held=False, queued_as=queued_as, not_before=job.not_before if later else None)
        return _changed(deps, tx, actor, free, "job.released")

    return deps.database.run("job_release", work)


def _view(tx: Tx, actor: Actor, job: JobRecord) -> JobView:
    return views_of(tx, actor, [job])[0]


def _changed(deps: Services, tx: Tx, actor: Actor, job: JobRecord, kind: str) -> JobView:
    jobs_save(tx, actor, [job])
    event_write(deps, tx, actor, kind, tenant=job.tenant, job=job.id)
    notify(tx, WORK_CHANNEL, "schedule")
    return _view(tx, actor, job)


def _controlled(tx: Tx, actor: Actor, ref: JobRef) -> JobRecord:
    """The job, locked, if the actor may control it."""
    found = job_find(tx, actor, ref)
    authorize(actor, Action.JOB_CONTROL, found.tenant, owner=found.user)
    locked = jobs_lock(tx, actor, [found.id])
    if found.id not in locked:
        raise NotFound(f"no job {ref.job[:80]!r}", code="NO_SUCH_JOB")
    return locked[found.id]


def _drain(deps: Services, tx: Tx, actor: Actor, job: JobRecord, deadline: datetime, now: datetime) -> JobView:
    """Ask the present attempt to leave; one that leaves already keeps its reason and the earlier deadline."""
    key = attempt_id(job.id, job.attempts)
    before = attempts_lock(tx, SYSTEM, [key]).get(key)
    if before is not None and before.state is AttemptState.ENDED:
        before = None
    attempt = _attempt_leaving(before, deadline, now) if before is not None else None
    stopping = job.state in (JobState.STARTING, JobState.RUNNING) and attempt is not None
    after = replace(job, cancel=True, state=job_step(job.state, JobState.STOPPING) if stopping else job.state)
    if attempt is not None and attempt != before:
        attempts_save(tx, SYSTEM, [attempt])
    if after != job:
        jobs_save(tx, actor, [after])
    if not job.cancel:
        event_write(deps, tx, actor, "job.stop_requested", tenant=job.tenant, job=job.id)
    if before is not None and attempt is not None and attempt != before:
        data: dict[str, object] = {"reason": EndReason.CANCELLED.value, "deadline": deadline.isoformat()}
        kind = "attempt.hastened" if before.state is AttemptState.DRAINING else "attempt.draining"
        event_write(deps, tx, actor, kind, tenant=job.tenant, job=job.id, attempt=attempt.id, data=data)
    notify(tx, WORK_CHANNEL, "apply")
    notify(tx, WORK_CHANNEL, "schedule")
    return JobView(after, attempt)


def _attempt_leaving(attempt: AttemptRecord, deadline: datetime, now: datetime) -> AttemptRecord:
    if attempt.state is not AttemptState.DRAINING:
        return replace(
            attempt,
            state=attempt_step(attempt.state, AttemptState.DRAINING),
            draining_at=now,
            deadline_at=deadline,
            drain_reason=EndReason.CANCELLED,
        )
    if attempt.deadline_at is not None and attempt.deadline_at <= deadline:
        return attempt
    # The engine must hear of the earlier deadline, so it counts as not yet told.
    applied = AttemptState.STARTING if attempt.applied is AttemptState.DRAINING else attempt.applied
    return replace(attempt, deadline_at=deadline, applied=applied)
