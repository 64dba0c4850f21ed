"""Promised starts, what became of them, and how long past attempts ran.  Written by the control loops only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import Float, Integer, Interval, and_, cast, delete, false, func, insert, literal, or_, select
from sqlalchemy.dialects.postgresql import distinct_on

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, system_only, tenants_visible
from millpond.db.session import Tx
from millpond.db.stores.rows import columns_of, fields_of, values_of
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.promises import PROMISES
from millpond.db.types import Moment
from millpond.domain.jobs import AttemptState, EndReason, JobState
from millpond.domain.records import AccuracyRecord, PromiseRecord, RunRecord

_COLUMNS = columns_of(PROMISES, PromiseRecord)
_FIELDS = fields_of(PromiseRecord)
_BY_ITSELF = (EndReason.COMPLETED, EndReason.FAILED, EndReason.MAX_DURATION)
"""Ends that say how long a job runs; one that was evicted would have run on."""

RECENT = 20_000
"""So many of the latest attempts say how long jobs run."""

RESULTS = 5_000
"""So many of the latest promises teach."""


def promises_add(tx: Tx, actor: Actor, promises: Iterable[PromiseRecord]) -> None:
    """Store promises.  System only."""
    system_only(actor)
    rows = [values_of(promise, _FIELDS) for promise in promises]
    if rows:
        tx.execute(insert(PROMISES), rows)


def promise_list(tx: Tx, actor: Actor, jobs: Iterable[str] | None = None) -> dict[str, PromiseRecord]:
    """The latest promise of every waiting job that `actor` sees, or of those among `jobs`, by job."""
    visible = tenants_visible(actor, Action.JOB_READ)
    statement = (
        select(*_COLUMNS)
        .join(JOBS, and_(JOBS.c.id == PROMISES.c.job, JOBS.c.attempts + 1 == PROMISES.c.attempt))
        .where(JOBS.c.state == JobState.QUEUED)
        .ext(distinct_on(PROMISES.c.job))
        .order_by(PROMISES.c.job, PROMISES.c.made_at.desc())
    )
    if jobs is not None:
        statement = statement.where(PROMISES.c.job.in_(sorted(jobs)))
    if visible is not None:
        statement = statement.where(PROMISES.c.tenant.in_(sorted(visible)))
    return {record.job: record for record in (PromiseRecord(*row) for row in tx.execute(statement).all())}


def promise_results(tx: Tx, actor: Actor, limit: int = RESULTS) -> list[tuple[PromiseRecord, datetime | None]]:
    """The latest promises and the start of each; None where the job waits for it still.  System only."""
    system_only(actor)
    start = ATTEMPTS.c.planned_at
    waits = and_(JOBS.c.state == JobState.QUEUED, JOBS.c.attempts + 1 == PROMISES.c.attempt)
    statement = (
        select(*_COLUMNS, start)
        .join(JOBS, JOBS.c.id == PROMISES.c.job)
        .outerjoin(ATTEMPTS, and_(ATTEMPTS.c.job == PROMISES.c.job, ATTEMPTS.c.number == PROMISES.c.attempt))
        .where(or_(start.is_not(None), waits))
        .order_by(PROMISES.c.made_at.desc(), PROMISES.c.job)
        .limit(limit)
    )
    return [(PromiseRecord(*row[:-1]), row[-1]) for row in tx.execute(statement).all()]


def promise_accuracy(tx: Tx, actor: Actor, now: datetime, since: datetime, horizon: timedelta) -> list[AccuracyRecord]:
    """How the promises made after `since` did, by leaf, of the tenants whose queues `actor` sees.

    A promise is judged when its job has started, or when it should have and has not.  Promises of jobs that ended
    without a start say nothing.  One without an end counts as ending `horizon` after it was made.
    """
    authorize(actor, Action.QUEUE_READ)
    visible = tenants_visible(actor, Action.QUEUE_READ)
    start = ATTEMPTS.c.planned_at
    in_time = and_(start >= PROMISES.c.p10, or_(PROMISES.c.p90.is_(None), start <= PROMISES.c.p90))
    waits = and_(start.is_(None), JOBS.c.state == JobState.QUEUED, JOBS.c.attempts + 1 == PROMISES.c.attempt)
    late = and_(waits, PROMISES.c.p90.is_not(None), PROMISES.c.p90 < now)
    error = func.abs(func.extract("epoch", start - PROMISES.c.p50))
    width = func.extract(
        "epoch", func.coalesce(PROMISES.c.p90, PROMISES.c.made_at + literal(horizon, Interval)) - PROMISES.c.p10
    )
    middle = literal(0.5, Float)
    statement = (
        select(
            PROMISES.c.queue,
            func.count().filter(or_(start.is_not(None), late)),
            func.count().filter(and_(start.is_not(None), in_time)),
            func.count().filter(and_(waits, or_(PROMISES.c.p90.is_(None), PROMISES.c.p90 >= now))),
            func.percentile_disc(middle).within_group(error),
            func.percentile_disc(middle).within_group(width).filter(or_(start.is_not(None), late)),
        )
        .select_from(PROMISES)
        .join(JOBS, JOBS.c.id == PROMISES.c.job)
        .outerjoin(ATTEMPTS, and_(ATTEMPTS.c.job == PROMISES.c.job, ATTEMPTS.c.number == PROMISES.c.attempt))
        .where(PROMISES.c.made_at >= since)
        .group_by(PROMISES.c.queue)
        .order_by(PROMISES.c.queue)
    )
    if visible is not None:
        statement = statement.where(PROMISES.c.tenant.in_(sorted(visible)))
    return [
        AccuracyRecord(queue, judged, held, still, _rounded(missed), _rounded(wide))
        for queue, judged, held, still, missed, wide in tx.execute(statement).all()
    ]


def _rounded(seconds: Decimal | None) -> int | None:
    return None if seconds is None else round(seconds)


def promises_prune(tx: Tx, actor: Actor, before: datetime) -> int:
    """Forget promises made before a moment; how many.  System only."""
    system_only(actor)
    return tx.execute(delete(PROMISES).where(PROMISES.c.made_at < before)).rowcount


def run_list(tx: Tx, actor: Actor, now: datetime) -> list[RunRecord]:
    """How long the `RECENT` latest attempts ran, or have run until `now`, the latest first.  System only."""
    system_only(actor)
    recent = select(ATTEMPTS).order_by(ATTEMPTS.c.id.desc()).limit(RECENT).subquery("recent")
    end = func.coalesce(recent.c.ended_at, literal(now, Moment))
    seconds = cast(func.extract("epoch", end - recent.c.started_at), Integer)
    alone = and_(recent.c.state == AttemptState.ENDED, recent.c.reason.in_(_BY_ITSELF))
    statement = (
        select(JOBS.c.user, JOBS.c.name, recent.c.milli, seconds, func.coalesce(alone, false()))
        .join(JOBS, JOBS.c.id == recent.c.job)
        .where(recent.c.started_at.is_not(None))
        .order_by(recent.c.started_at.desc(), recent.c.id.desc())
    )
    return [RunRecord(*row) for row in tx.execute(statement).all()]
