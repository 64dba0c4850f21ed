"""What reports are made of: reads over many rows, summed where they lie.

Everything is limited to the tenants whose reports the caller may read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Date, Integer, cast, extract, func, select
from sqlalchemy.sql.elements import KeyedColumnElement

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.db.session import Tx
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.usage import ATTEMPT_USAGES, USAGE_BUCKETS
from millpond.domain.jobs import EndReason, JobState

_ROOM_REASONS = (EndReason.PREEMPTED, EndReason.RECLAIMED, EndReason.MOVED)
_AT_ONCE = 2_000

_U = USAGE_BUCKETS.c
USAGE_KEYS: dict[str, tuple[Column[Any], ...]] = {
    "team": (_U.tenant,),
    "project": (_U.tenant, _U.project),
    "user": (_U.tenant, _U.username),
    "model": (_U.sku,),
    "job": (_U.tenant, _U.project, _U.username, _U.job, _U.sku, _U.klass),
}


def report_tenants(actor: Actor, tenant: str) -> frozenset[str] | None:
    """Whose figures a report may show: of `tenant`, or of all that the caller may see (``None``: everybody)."""
    if tenant:
        authorize(actor, Action.REPORT_READ, tenant)
        return frozenset({tenant})
    return tenants_visible(actor, Action.REPORT_READ)


def usage_groups(
    tx: Tx, actor: Actor, by: str, tenant: str, span: tuple[datetime, datetime], zone: str
) -> Iterator[tuple[Any, ...]]:
    """(keys…, milli-card-seconds, lost ones) of what was booked in [from, to), in order of the keys.

    ``by``: a key of `USAGE_KEYS`, or ``day`` of `zone`.  Rows come as they are read.
    """
    keys: tuple[ColumnElement[Any], ...] = USAGE_KEYS.get(by, ())
    if by == "day":
        keys = (cast(func.timezone(zone, _U.booked), Date).label("day"),)
    sums = (
        cast(func.sum(_U.milli_seconds), _U.milli_seconds.type),
        cast(func.sum(_U.lost_milli_seconds), _U.milli_seconds.type),
    )
    statement = select(*keys, *sums).where(_U.booked >= span[0], _U.booked < span[1], *_of(_U.tenant, actor, tenant))
    statement = statement.group_by(*keys).order_by(*keys)
    return (tuple(row) for row in tx.execute(statement, execution_options={"yield_per": _AT_ONCE}))


def attempt_counts(
    tx: Tx, actor: Actor, tenant: str, span: tuple[datetime, datetime]
) -> Sequence[tuple[str, str, str, int, int, int]]:
    """Attempts that began in [from, to): (project, model, class, attempts, evicted ones, milli-card-seconds lost)."""
    made = ATTEMPT_USAGES.c
    statement = (
        select(
            made.project, made.sku, made.klass, func.count(),
            func.count().filter(made.reason.in_(_ROOM_REASONS)),
            cast(func.coalesce(func.sum(made.lost_milli_seconds), 0), made.milli.type),
        )
        .where(made.started_at >= span[0], made.started_at < span[1], *_of(made.tenant, actor, tenant))
        .group_by(made.project, made.sku, made.klass)
        .order_by(made.project, made.sku, made.klass)
    )  # fmt: skip
    return [tuple(row) for row in tx.execute(statement)]


def queue_waits(
    tx: Tx, actor: Actor, tenant: str, span: tuple[datetime, datetime]
) -> Sequence[tuple[str, int, int, int, int | None, int | None, int | None]]:
    """(leaf, jobs, started, waiting, P50, P95, longest) of jobs submitted in [from, to); seconds, nearest rank."""
    waited = cast(func.floor(extract("epoch", ATTEMPTS.c.started_at - JOBS.c.submitted_at)), Integer)
    statement = (
        select(
            JOBS.c.queue, func.count(), func.count(ATTEMPTS.c.started_at),
            func.count().filter(JOBS.c.state == JobState.QUEUED, ATTEMPTS.c.started_at.is_(None)),
            func.percentile_disc(0.5).within_group(waited), func.percentile_disc(0.95).within_group(waited),
            func.max(waited),
        )
        .outerjoin(ATTEMPTS, (ATTEMPTS.c.job == JOBS.c.id) & (ATTEMPTS.c.number == 1))
        .where(JOBS.c.submitted_at >= span[0], JOBS.c.submitted_at < span[1], *_of(JOBS.c.tenant, actor, tenant))
        .group_by(JOBS.c.queue)
        .order_by(JOBS.c.queue)
    )  # fmt: skip
    return [tuple(row) for row in tx.execute(statement)]


def attempt_ends(tx: Tx, actor: Actor, span: tuple[datetime, datetime]) -> Sequence[tuple[EndReason, int, int]]:
    """Of the platform's attempts that ended in [from, to): (reason, how many, milli-card-seconds of work lost)."""
    authorize(actor, Action.REPORT_READ)
    lost = cast(func.sum(ATTEMPTS.c.lost_milli_seconds), ATTEMPTS.c.lost_milli_seconds.type)
    statement = (
        select(ATTEMPTS.c.reason, func.count(), lost)
        .where(ATTEMPTS.c.ended_at >= span[0], ATTEMPTS.c.ended_at < span[1])
        .group_by(ATTEMPTS.c.reason)
    )
    return [tuple(row) for row in tx.execute(statement)]


def _of(column: KeyedColumnElement[Any], actor: Actor, tenant: str) -> tuple[ColumnElement[bool], ...]:
    tenants = report_tenants(actor, tenant)
    return () if tenants is None else (column.in_(sorted(tenants)),)
