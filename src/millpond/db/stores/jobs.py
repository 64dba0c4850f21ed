"""Jobs: insert, look up, list, lock and save."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, any_, func, insert, literal, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import IntegrityError

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, system_only, tenants_visible
from millpond.db.session import JOBS_CHANNEL, Tx, notify, notify_all, rows_check, rows_locked
from millpond.db.stores.rows import (
    columns_of,
    cursor_read,
    cursor_write,
    fields_of,
    limit_check,
    reachable,
    rows_text,
    update_many,
    values_of,
)
from millpond.db.tables.jobs import JOBS
from millpond.domain.errors import Conflict, Forbidden, NotFound, Refused
from millpond.domain.jobs import JOB_TRANSITIONS, JobState
from millpond.domain.records import JobRecord, Page

JOB_COLUMNS = columns_of(JOBS, JobRecord)
_FIELDS = fields_of(JobRecord)
_FIXED = frozenset({"id", "tenant", "project", "user", "queue", "spec", "submitted_at"})
_MUTABLE = tuple(name for name in _FIELDS if name not in _FIXED)
_INSERT = insert(JOBS)
_SAVED = ("id", *_MUTABLE)
_UPDATE = update_many(JOBS, _MUTABLE)
_REACHABLE = reachable(JOB_TRANSITIONS)
LIVE = JOBS.c.live_queue.is_not(None)


def job_insert(tx: Tx, actor: Actor, record: JobRecord) -> JobRecord:
    """Store a new job, as its user.  Tells `millpond_jobs`; waking the planner is the caller's to do.

    `Conflict` if a live job of the project has the name; `Refused` if tenant, project or leaf does not exist.
    After either the transaction is over: let the error out of it.
    """
    authorize(actor, Action.JOB_SUBMIT, record.tenant)
    if not actor.system and record.user != actor.user:
        raise Forbidden(f"{actor.user} may not submit as {record.user}")
    try:
        tx.execute(_INSERT, values_of(record, _FIELDS))
    except IntegrityError as error:
        raise _insert_error(record, error) from error
    rows_locked(tx, {record.id: record.state})
    notify(tx, JOBS_CHANNEL, record.id)
    return record


def job_get(tx: Tx, actor: Actor, job: str) -> JobRecord:
    """`NotFound` if there is none, or it belongs to a tenant that `actor` does not see."""
    row = tx.execute(_visible(actor, Action.JOB_READ).where(JOBS.c.id == job)).one_or_none()
    if row is None:
        raise no_job(job)
    return JobRecord(*row)


def jobs_get(tx: Tx, actor: Actor, jobs: Collection[str]) -> dict[str, JobRecord]:
    """Those of the ids that exist and that `actor` sees."""
    rows = tx.execute(_visible(actor, Action.JOB_READ).where(JOBS.c.id.in_(sorted(jobs))))
    return {record.id: record for record in (JobRecord(*row) for row in rows)}


def job_get_by_name(tx: Tx, actor: Actor, tenant: str, project: str | None, name: str) -> JobRecord:
    """The live job of that name, else the last one submitted.  `project` ``None``: in any project, "" in none."""
    authorize(actor, Action.JOB_READ, tenant)
    statement = select(*JOB_COLUMNS).where(JOBS.c.tenant == tenant, JOBS.c.name == name)
    if project is not None:
        statement = statement.where(_project_is(project))
    row = tx.execute(statement.order_by(LIVE.desc(), JOBS.c.submitted_at.desc(), JOBS.c.id.desc()).limit(1)).first()
    if row is None:
        raise no_job(name)
    return JobRecord(*row)


def job_list(
    tx: Tx,
    actor: Actor,
    *,
    tenant: str = "",
    project: str | None = None,
    user: str = "",
    states: Collection[JobState] = (),
    queue: str = "",
    name: str = "",
    after: str = "",
    limit: int = 100,
) -> Page[JobRecord]:
    """Jobs that `actor` sees, the last submitted first; empty filters let all pass.  One query.

    ``after`` is `Page.next` of the page before.
    """
    limit_check(limit)
    statement = _visible(actor, Action.JOB_READ)
    if tenant:
        authorize(actor, Action.JOB_READ, tenant)
        statement = statement.where(JOBS.c.tenant == tenant)
    if project is not None:
        statement = statement.where(_project_is(project))
    if user:
        statement = statement.where(JOBS.c.user == user)
    if states:
        statement = statement.where(JOBS.c.state.in_(sorted(states)))
        if JobState.SUCCEEDED not in states and JobState.FAILED not in states and JobState.CANCELLED not in states:
            statement = statement.where(LIVE)
    if queue:
        statement = statement.where(JOBS.c.queue == queue)
    if name:
        statement = statement.where(JOBS.c.name == name)
    if after:
        moment, job = cursor_read(after)
        place = tuple_(literal(moment, JOBS.c.submitted_at.type), literal(job))
        statement = statement.where(tuple_(JOBS.c.submitted_at, JOBS.c.id) < place)
    statement = statement.order_by(JOBS.c.submitted_at.desc(), JOBS.c.id.desc()).limit(limit + 1)
    records = tuple(JobRecord(*row) for row in tx.execute(statement).all())
    if len(records) <= limit:
        return Page(records)
    last = records[limit - 1]
    return Page(records[:limit], cursor_write(last.submitted_at, last.id))


def jobs_lock(tx: Tx, actor: Actor, jobs: Collection[str]) -> dict[str, JobRecord]:
    """Lock these jobs until the transaction ends, in id order, and read them.  Ids that `actor` does not see are
    missing from the answer; one that it sees but may not control raises `Forbidden`."""
    if not jobs:
        return {}
    ids = any_(literal(sorted(jobs), ARRAY(Text)))
    statement = _visible(actor, Action.JOB_READ).where(JOBS.c.id == ids)
    rows = tx.execute(statement.order_by(JOBS.c.id).with_for_update(key_share=True))
    records = {record.id: record for record in (JobRecord(*row) for row in rows)}
    for record in records.values():
        authorize(actor, Action.JOB_CONTROL, record.tenant, owner=record.user)
    rows_locked(tx, {record.id: record.state for record in records.values()})
    return records


def jobs_blocked_by(tx: Tx, actor: Actor, jobs: Collection[str]) -> dict[str, JobRecord]:
    """Live jobs that wait for any of these, locked.  System only."""
    system_only(actor)
    if not jobs:
        return {}
    statement = (
        select(*JOB_COLUMNS)
        .where(LIVE, JOBS.c.blocked != [], JOBS.c.blocked.op("&&")(literal(sorted(jobs), JOBS.c.blocked.type)))
        .order_by(JOBS.c.id)
        .with_for_update(key_share=True)
    )
    records = {record.id: record for record in (JobRecord(*row) for row in tx.execute(statement))}
    rows_locked(tx, {record.id: record.state for record in records.values()})
    return records


def job_save(tx: Tx, actor: Actor, record: JobRecord) -> None:
    """`jobs_save` of one."""
    jobs_save(tx, actor, (record,))


def jobs_save(tx: Tx, actor: Actor, records: Iterable[JobRecord]) -> None:
    """Write locked (or just inserted) jobs back whole, in one round trip, and tell `millpond_jobs`.

    What never changes (id, tenant, project, user, queue, spec, submit time) is not written.  Raises `RuntimeError`
    for a job that this transaction has not locked, `IllegalTransition` for a state it cannot reach.
    """
    rows: Sequence[JobRecord] = tuple(records)
    for record in rows:
        authorize(actor, Action.JOB_CONTROL, record.tenant, owner=record.user)
    if not rows:
        return
    rows_check(tx, {record.id: record.state for record in rows}, _REACHABLE)
    tx.execute(_UPDATE, rows_text(tx, JOBS, _SAVED, map(attrgetter(*_SAVED), rows)))
    notify_all(tx, JOBS_CHANNEL, (record.id for record in rows))


def job_counts(tx: Tx, actor: Actor) -> dict[tuple[str, JobState], int]:
    """Live jobs by leaf and state, for metrics."""
    authorize(actor, Action.METRICS_READ)
    statement = select(JOBS.c.queue, JOBS.c.state, func.count()).where(LIVE).group_by(JOBS.c.queue, JOBS.c.state)
    return {(queue, state): int(count) for queue, state, count in tx.execute(statement)}


def jobs_recent(tx: Tx, actor: Actor, since: datetime, limit: int = 2_000) -> tuple[JobRecord, ...]:
    """The latest `limit` jobs submitted after `since`, ended ones too.  System only."""
    system_only(actor)
    statement = select(*JOB_COLUMNS).where(JOBS.c.submitted_at > since)
    rows = tx.execute(statement.order_by(JOBS.c.submitted_at.desc(), JOBS.c.id.desc()).limit(limit)).all()
    return tuple(JobRecord(*row) for row in rows)


def no_job(job: str) -> NotFound:
    return NotFound(f"no job {job[:80]!r}", code="NO_SUCH_JOB", hint="millpond ps --all lists yours")


def _visible(actor: Actor, action: Action) -> Select[*tuple[Any, ...]]:
    visible = tenants_visible(actor, action)
    statement = select(*JOB_COLUMNS)
    return statement if visible is None else statement.where(JOBS.c.tenant.in_(sorted(visible)))


def _project_is(project: str) -> ColumnElement[bool]:
    return JOBS.c.project == project if project else JOBS.c.project.is_(None)


def _insert_error(record: JobRecord, error: IntegrityError) -> Exception:
    constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None) or ""
    where = f"{record.tenant}/{record.project}" if record.project else record.tenant
    match constraint:
        case "uq_jobs_live_name":
            return Conflict(
                f"a live job of {where} is named {record.name!r} already",
                code="NAME_TAKEN",
                hint="choose another name, or stop that job first",
                details={"name": record.name},
            )
        case "fk_jobs_live_queue":
            return Refused(
                f"there is no queue {record.queue!r}", code="NO_SUCH_QUEUE", hint="millpond quota lists them"
            )
        case "fk_jobs_tenant_project":
            return Refused(
                f"tenant {record.tenant!r} has no project {record.project!r}",
                code="NO_SUCH_PROJECT",
                hint=f"millpond tenants projects {record.tenant}",
            )
        case "fk_jobs_tenant":
            return Refused(f"there is no tenant {record.tenant!r}", code="NO_SUCH_TENANT", hint="millpond tenants")
        case "pk_jobs":
            return Conflict(f"job {record.id} exists already")
        case _:
            return error
