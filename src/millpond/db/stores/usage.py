"""What the meter has counted: bookings of a month, ends for minimums, and all of one job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BigInteger, ColumnElement, and_, cast, extract, select

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import Reach, authorize, reach
from millpond.db.session import Tx
from millpond.db.tables.usage import ATTEMPT_USAGES, METER_MARK, USAGE_BUCKETS
from millpond.metering.attempts import AttemptUsage
from millpond.metering.facts import Shape
from millpond.metering.hours import moment_of
from millpond.metering.meter import Ended
from millpond.metering.sealing import Booking

_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """Use of one attempt in one clock hour; ``booked``: the hour that carries it."""

    hour: datetime
    booked: datetime
    attempt: int
    milli_seconds: int
    lost_milli_seconds: int


def _epoch(column: ColumnElement[datetime]) -> ColumnElement[int]:
    return cast(extract("epoch", column), BigInteger)


_ATTEMPT = [
    ATTEMPT_USAGES.c[name]
    for name in (
        "tenant", "job", "attempt", "project", "username", "sku", "klass", "service", "milli", "started_at", "ended_at",
        "reason", "lost", "disputed", "milli_seconds", "lost_milli_seconds", "start_event", "end_event",
    )
]  # fmt: skip
_BUCKETS = USAGE_BUCKETS.c
_BOOKINGS = select(
    _epoch(_BUCKETS.booked),
    _epoch(_BUCKETS.hour),
    _BUCKETS.job,
    _BUCKETS.attempt,
    _BUCKETS.sku,
    _BUCKETS.klass,
    _BUCKETS.project,
    _BUCKETS.username,
    _BUCKETS.service,
    _BUCKETS.milli_seconds,
    _BUCKETS.lost_milli_seconds,
)
_ORDER = (
    _BUCKETS.job,
    _BUCKETS.attempt,
    _BUCKETS.hour,
    _BUCKETS.booked,
    _BUCKETS.project,
    _BUCKETS.username,
    _BUCKETS.sku,
    _BUCKETS.klass,
    _BUCKETS.service,
)


def metered_until(tx: Tx) -> int:
    """The instant up to which everything is booked; 0 before the meter has run."""
    found = tx.execute(select(_epoch(METER_MARK.c.settled_until))).scalar()
    return int(found or 0)


def booking_list(tx: Tx, actor: Actor, tenant: str, begin: int, end: int) -> Iterator[Booking]:
    """Bookings that [begin, end), instants, carries; by job, attempt and hour, so that hashes are repeatable."""
    authorize(actor, Action.USAGE_READ, tenant)
    statement = _BOOKINGS.where(
        _BUCKETS.tenant == tenant, _BUCKETS.booked >= moment_of(begin), _BUCKETS.booked < moment_of(end)
    ).order_by(*_ORDER)
    shapes: dict[tuple[object, ...], Shape] = {}
    rows = tx.execute(statement, execution_options={"yield_per": _BATCH})
    for booked, hour, job, attempt, sku, klass, project, user, service, milli_seconds, lost in rows:
        key = (sku, klass, project, user, service)
        shape = shapes.get(key)
        if shape is None:
            shape = shapes[key] = Shape(0, sku, klass, project, user, service)
        yield Booking(booked, hour, job, attempt, shape, milli_seconds, lost)


def ended_list(tx: Tx, actor: Actor, tenant: str, begin: int, end: int) -> Iterator[Ended]:
    """Attempts that ended in [begin, end), instants, and are billed; by job and attempt."""
    authorize(actor, Action.USAGE_READ, tenant)
    usage = ATTEMPT_USAGES.c
    statement = (
        select(
            usage.job,
            usage.attempt,
            usage.milli,
            usage.sku,
            usage.klass,
            usage.project,
            usage.username,
            usage.service,
            _epoch(usage.started_at),
            _epoch(usage.ended_at),
            usage.lost,
        )
        .where(
            usage.tenant == tenant,
            usage.ended_at > moment_of(begin),
            usage.ended_at <= moment_of(end),
            ~usage.disputed,
        )
        .order_by(usage.job, usage.attempt)
    )
    for job, attempt, milli, sku, klass, project, user, service, started, ended, lost in tx.execute(statement):
        yield Ended(job, attempt, Shape(milli, sku, klass, project, user, service), started, ended, lost)


def job_buckets(
    tx: Tx,
    actor: Actor,
    tenant: str,
    job: str,
    booked: tuple[datetime, datetime],
    hours: tuple[datetime, datetime],
    owner: tuple[str, str, str, str],
) -> tuple[BucketRecord, ...]:
    """Buckets of a job that a month carries, of hours in a half-open time, by hour.

    ``owner``: project, user, model and class.
    """
    authorize(actor, Action.USAGE_READ, tenant)
    project, user, sku, klass = owner
    statement = (
        select(_BUCKETS.hour, _BUCKETS.booked, _BUCKETS.attempt, _BUCKETS.milli_seconds, _BUCKETS.lost_milli_seconds)
        .where(
            and_(_BUCKETS.tenant == tenant, _BUCKETS.job == job, _BUCKETS.project == project),
            and_(_BUCKETS.username == user, _BUCKETS.sku == sku, _BUCKETS.klass == klass),
            and_(_BUCKETS.booked >= booked[0], _BUCKETS.booked < booked[1]),
            and_(_BUCKETS.hour >= hours[0], _BUCKETS.hour < hours[1]),
        )
        .order_by(*_ORDER)
    )
    return tuple(BucketRecord(*row) for row in tx.execute(statement))


def attempt_list(tx: Tx, actor: Actor, tenant: str, job: str) -> list[AttemptUsage]:
    """Attempts of a job that have started, the first first; of one's own jobs only where the right ends there."""
    authorize(actor, Action.USAGE_READ, tenant)
    kept = ATTEMPT_USAGES.c
    statement = select(*_ATTEMPT).where(kept.tenant == tenant, kept.job == job).order_by(kept.attempt)
    if reach(actor, Action.USAGE_READ, tenant) is not Reach.ALL:
        statement = statement.where(kept.username == actor.user)
    return [AttemptUsage(*row) for row in tx.execute(statement)]
