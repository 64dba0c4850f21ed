"""What the meter has counted, for bills, reports and whoever may see it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Select, select

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import Reach, authorize, reach, system_only
from millpond.db.session import Tx
from millpond.db.stores.meter import meter_mark
from millpond.db.tables.usage import ATTEMPT_USAGES, USAGE_BUCKETS
from millpond.metering.attempts import AttemptUsage
from millpond.metering.facts import Shape
from millpond.metering.hours import instant
from millpond.metering.meter import Ended
from millpond.metering.sealing import Booking

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = 2_000
_BUCKET = [
    USAGE_BUCKETS.c[name]
    for name in (
        "booked", "hour", "job", "attempt", "project", "username", "sku", "klass", "service", "milli_seconds",
        "lost_milli_seconds",
    )
]  # fmt: skip
_ATTEMPT = [
    ATTEMPT_USAGES.c[name]
    for name in (
        "tenant", "job", "attempt", "project", "username", "sku", "klass", "service", "milli", "started_at", "ended_at",
        "reason", "lost", "disputed", "milli_seconds", "lost_milli_seconds", "start_event", "end_event",
    )
]  # fmt: skip


def usage_stream(tx: Tx, actor: Actor, tenant: str, start: int, end: int) -> Iterator[Booking]:
    """Bookings of a tenant that hours in [start, end) carry (instants), in order, some thousand rows at a time.

    The shape of a booking has the owner and the card model; its ``milli`` and ``cards`` are not known any more.
    """
    authorize(actor, Action.USAGE_READ, tenant, owner="")
    kept = USAGE_BUCKETS.c
    statement = (
        select(*_BUCKET)
        .where(kept.tenant == tenant, kept.booked >= _moment(start), kept.booked < _moment(end))
        .order_by(kept.booked, kept.hour, kept.job, kept.attempt)
    )
    for row in tx.execute(statement, execution_options={"stream_results": True, "yield_per": _ROWS}):
        booked, hour, job, attempt, project, user, sku, klass, service, seconds, lost = row
        shape = Shape(0, sku, klass, project, user, service, (), tenant)
        yield Booking(instant(booked), instant(hour), job, attempt, shape, seconds, lost)


def ended_list(tx: Tx, actor: Actor, tenant: str, start: int, end: int) -> Iterator[Ended]:
    """Attempts of a tenant that ended in [start, end), for minimum charges; none that is disputed."""
    authorize(actor, Action.USAGE_READ, tenant, owner="")
    kept = ATTEMPT_USAGES.c
    statement = (
        select(*_ATTEMPT)
        .where(kept.tenant == tenant, kept.ended_at >= _moment(start), kept.ended_at < _moment(end), ~kept.disputed)
        .order_by(kept.ended_at, kept.job, kept.attempt)
    )
    for usage in _attempts(tx, statement):
        shape = Shape(usage.milli, usage.sku, usage.klass, usage.project, usage.user, usage.service, (), tenant)
        ended = usage.ended or usage.started
        yield Ended(usage.job, usage.attempt, shape, instant(usage.started), instant(ended), usage.lost)


def attempt_list(tx: Tx, actor: Actor, tenant: str, job: str) -> list[AttemptUsage]:
    """Attempts of a job that have started, the first first; of one's own jobs only where the right ends there."""
    authorize(actor, Action.USAGE_READ, tenant)
    kept = ATTEMPT_USAGES.c
    statement = select(*_ATTEMPT).where(kept.tenant == tenant, kept.job == job).order_by(kept.attempt)
    if reach(actor, Action.USAGE_READ, tenant) is not Reach.ALL:
        statement = statement.where(kept.username == actor.user)
    return list(_attempts(tx, statement))


def attempts_get(tx: Tx, actor: Actor, keys: set[tuple[str, int]]) -> dict[tuple[str, int], AttemptUsage]:
    """These attempts, by job and number, as far as they have started.  System only."""
    system_only(actor)
    jobs = sorted({job for job, _ in keys})
    statement = select(*_ATTEMPT).where(ATTEMPT_USAGES.c.job.in_(jobs))
    found = {(usage.job, usage.attempt): usage for usage in (_attempts(tx, statement) if jobs else ())}
    return {key: usage for key, usage in found.items() if key in keys}


def meter_settled(tx: Tx, actor: Actor) -> int:
    """The instant up to which everything is counted that is known."""
    return instant(meter_mark(tx, actor).settled_until)


def _attempts(tx: Tx, statement: Select[Any]) -> Iterator[AttemptUsage]:
    for row in tx.execute(statement, execution_options={"stream_results": True, "yield_per": _ROWS}):
        yield AttemptUsage(*row)


def _moment(time: int) -> datetime:
    return _EPOCH + timedelta(seconds=time)
