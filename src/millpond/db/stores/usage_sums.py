"""Card time summed where it lies: by tenant, project, user, model, class, job or day.

Everything is limited to what the caller may read: where the right ends at what is one's own, to rows of that user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any, cast

from sqlalchemy import BigInteger, ColumnElement, Date, and_, false, func, literal, or_, select, tuple_
from sqlalchemy import cast as as_type

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import Reach, authorize, reach, tenants_visible
from millpond.db.session import Tx
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.usage import ATTEMPT_USAGES, METER_ALARMS, USAGE_BUCKETS
from millpond.metering.usage import USAGE_KEYS, AlarmRecord, UsageBy, UsageSpan, UsageSum

_AT_ONCE = 2_000
_U = USAGE_BUCKETS.c

_ANY = or_(func.sum(_U.milli_seconds) != 0, func.sum(_U.lost_milli_seconds) != 0)
"""What was counted and taken back whole, because its end was told late, was not used."""


_COLUMNS: dict[str, ColumnElement[Any]] = {
    "tenant": _U.tenant,
    "project": _U.project,
    "user": _U.username,
    "sku": _U.sku,
    "class": _U.klass,
    "job": _U.job,
}


def usage_sums(
    tx: Tx, actor: Actor, by: UsageBy, span: UsageSpan, after: Sequence[str | date] = (), limit: int | None = None
) -> Iterator[UsageSum]:
    """Sums in order of their keys, those after ``after`` only; rows come as they are read."""
    keys = [_key(name, span.zone).label(f"key_{name}") for name in USAGE_KEYS[by]]
    inner = (
        select(*keys, *_sums(_U.milli_seconds, _U.lost_milli_seconds))
        .where(*_span(actor, span))
        .group_by(*keys, _U.job, _U.attempt)
        .having(_ANY)
        .subquery()
    )
    outer = [inner.c[key.name] for key in keys]
    name: ColumnElement[str] = literal("")
    if by is UsageBy.JOB:
        found = select(JOBS.c.name).where(JOBS.c.id == inner.c.key_job).scalar_subquery()
        name = func.coalesce(found, "")
    sums = _sums(inner.c.used, inner.c.lost)
    statement = select(*outer, *sums, func.count(), name).group_by(*outer).order_by(*outer).limit(limit)
    if after:
        statement = statement.where(tuple_(*outer) > tuple_(*after))
    width = len(outer)
    for row in tx.execute(statement, execution_options={"yield_per": _AT_ONCE}):
        yield UsageSum(tuple(row[:width]), *row[width:])


def usage_total(tx: Tx, actor: Actor, span: UsageSpan) -> UsageSum:
    """The sum of everything, with no keys."""
    inner = (
        select(*_sums(_U.milli_seconds, _U.lost_milli_seconds))
        .where(*_span(actor, span))
        .group_by(_U.job, _U.attempt)
        .having(_ANY)
        .subquery()
    )
    used, lost, attempts = tx.execute(select(*_sums(inner.c.used, inner.c.lost), func.count())).one()
    return UsageSum((), used or 0, lost or 0, attempts)


def alarm_list(
    tx: Tx, actor: Actor, span: UsageSpan, before: tuple[datetime, str] | None = None, limit: int = 100
) -> list[AlarmRecord]:
    """Contradictions about times of ``span``, the last first, and only before the one that ``before`` names.

    Where the right ends at what is one's own: about attempts of that user.
    """
    kept = METER_ALARMS.c
    names = ("id", "time", "code", "tenant", "job", "attempt", "card", "text", "raised_at")
    statement = (
        select(*(kept[name] for name in names))
        .where(*_alarms(actor, span))
        .order_by(kept.time.desc(), kept.id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(tuple_(kept.time, kept.id) < tuple_(*before))
    return [AlarmRecord(*row) for row in tx.execute(statement)]


def alarm_count(tx: Tx, actor: Actor, span: UsageSpan) -> int:
    """How many `alarm_list` has in all."""
    statement = select(func.count()).where(*_alarms(actor, span))
    return int(tx.execute(statement).scalar_one())


def _alarms(actor: Actor, span: UsageSpan) -> tuple[ColumnElement[bool], ...]:
    kept, attempts = METER_ALARMS.c, ATTEMPT_USAGES.c
    owner = select(attempts.username).where(attempts.job == kept.job, attempts.attempt == kept.attempt)
    seen = _of(actor, span.tenant, kept.tenant, owner.scalar_subquery())
    return kept.time >= span.start, kept.time < span.end, seen


def _key(name: str, zone: str) -> ColumnElement[Any]:
    return as_type(func.timezone(zone, _U.booked), Date) if name == "day" else _COLUMNS[name]


def _sums(used: ColumnElement[int], lost: ColumnElement[int]) -> tuple[ColumnElement[int], ColumnElement[int]]:
    return as_type(func.sum(used), BigInteger).label("used"), as_type(func.sum(lost), BigInteger).label("lost")


def _span(actor: Actor, span: UsageSpan) -> tuple[ColumnElement[bool], ...]:
    return (
        _U.booked >= span.start,
        _U.booked < span.end,
        _of(actor, span.tenant, _U.tenant, _U.username),
    )


def _of(actor: Actor, tenant: str, tenants: ColumnElement[str], users: ColumnElement[str]) -> ColumnElement[bool]:
    """Rows that the actor may read, of one tenant or of all in sight."""
    if tenant:
        authorize(actor, Action.USAGE_READ, tenant)
        seen: frozenset[str] | None = frozenset({tenant})
    else:
        seen = tenants_visible(actor, Action.USAGE_READ)
    if seen is None:
        return cast("ColumnElement[bool]", tenants.is_not(None))
    whole = sorted(name for name in seen if reach(actor, Action.USAGE_READ, name) is Reach.ALL)
    own = sorted(seen.difference(whole))
    parts: list[ColumnElement[bool]] = [tenants.in_(whole)] if whole else []
    if own:
        parts.append(and_(tenants.in_(own), users == actor.user))
    return or_(*parts) if parts else false()
