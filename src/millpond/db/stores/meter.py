"""The meter's own rows: how far it has read, what it remembers, what it has counted.  System only, one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Text, any_, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actors import Actor
from millpond.authz.policy import system_only
from millpond.db.session import Tx
from millpond.db.stores.events import EVENT_COLUMNS
from millpond.db.stores.nodes import node_list
from millpond.db.stores.rows import insert_many, rows_given, rows_text
from millpond.db.tables.accounts import ACCOUNTS
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.events import EVENTS
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.usage import ATTEMPT_USAGES, METER_ALARMS, METER_MARK, METER_STATE, USAGE_BUCKETS
from millpond.domain.jobs import EndReason, JobType
from millpond.domain.records import EventRecord
from millpond.metering.alarms import Alarm
from millpond.metering.attempts import AttemptUsage
from millpond.metering.facts import fact_id

KINDS = ("attempt.started", "attempt.checkpointed", "attempt.ended")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDS = bindparam("ids", type_=ARRAY(Text))
_BUCKET = (
    "tenant", "job", "attempt", "project", "username", "sku", "klass", "service", "booked", "hour", "milli_seconds",
    "lost_milli_seconds",
)  # fmt: skip
_ADD = insert_many(USAGE_BUCKETS, _BUCKET)
_ADD = _ADD.on_conflict_do_update(
    constraint=USAGE_BUCKETS.primary_key,
    set_={name: USAGE_BUCKETS.c[name] + _ADD.excluded[name] for name in _BUCKET[-2:]},
)
_STARTED = (
    "tenant", "job", "attempt", "project", "username", "sku", "klass", "service", "milli", "started_at", "start_event",
)  # fmt: skip
_START = insert_many(ATTEMPT_USAGES, _STARTED).on_conflict_do_nothing()
_CHANGED = (
    "job", "attempt", "milli_seconds", "lost_milli_seconds", "ended_at", "reason", "end_event", "lost", "disputed",
)  # fmt: skip
_ALARM = ("id", "time", "code", "tenant", "job", "attempt", "card", "text", "raised_at")
_RAISE = insert_many(METER_ALARMS, _ALARM).on_conflict_do_nothing()
_STATE = insert_many(METER_STATE, ("name", "value"))
_STATE = _STATE.on_conflict_do_update(index_elements=["name"], set_={"value": _STATE.excluded.value})


@dataclass(frozen=True, slots=True)
class Mark:
    """``cursor``: the last event that was read.  ``settled_until``: up to when open attempts are counted."""

    cursor: int
    settled_until: datetime


@dataclass(frozen=True, slots=True)
class Known:
    """Who pays for an attempt, and what it takes."""

    milli: int
    sku: str
    klass: str
    project: str
    user: str
    service: bool


@dataclass(frozen=True, slots=True)
class AttemptChange:
    """What is new about an attempt: sums to add, its end, and whether its work was lost or it is disputed."""

    job: str
    attempt: int
    milli_seconds: int = 0
    lost_milli_seconds: int = 0
    ended: datetime | None = None
    reason: EndReason | None = None
    end_event: int | None = None
    lost: bool | None = None
    disputed: bool = False


def meter_mark(tx: Tx, actor: Actor) -> Mark:
    """How far the meter is; the beginning of time if it never ran."""
    system_only(actor)
    row = tx.execute(select(METER_MARK.c.cursor, METER_MARK.c.settled_until).where(METER_MARK.c.id == 1)).first()
    return Mark(0, _EPOCH) if row is None else Mark(int(row.cursor), row.settled_until)


def meter_mark_set(tx: Tx, actor: Actor, mark: Mark) -> None:
    system_only(actor)
    statement = upsert(METER_MARK).values(id=1, cursor=mark.cursor, settled_until=mark.settled_until)
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=["id"],
            set_={"cursor": statement.excluded.cursor, "settled_until": statement.excluded.settled_until},
        )
    )


def meter_events(tx: Tx, actor: Actor, after: int, limit: int) -> tuple[list[EventRecord], int]:
    """The next events that meter anything, the oldest first, and up to which sequence the log was looked at."""
    system_only(actor)
    last = tx.execute(select(func.coalesce(func.max(EVENTS.c.sequence), after))).scalar_one()
    statement = (
        select(*EVENT_COLUMNS)
        .where(EVENTS.c.sequence > after, EVENTS.c.sequence <= last, EVENTS.c.kind.in_(KINDS))
        .order_by(EVENTS.c.sequence)
        .limit(limit)
    )
    found = [EventRecord(*row) for row in tx.execute(statement)]
    return found, found[-1].sequence if len(found) == limit else max(after, int(last))


def meter_state_read(tx: Tx, actor: Actor) -> dict[str, Any]:
    system_only(actor)
    return {row.name: row.value for row in tx.execute(select(METER_STATE.c.name, METER_STATE.c.value))}


def meter_state_write(tx: Tx, actor: Actor, changed: Mapping[str, Any], gone: Collection[str]) -> None:
    system_only(actor)
    if gone:
        tx.execute(delete(METER_STATE).where(METER_STATE.c.name == any_(_IDS)), {"ids": sorted(gone)})
    if changed:
        tx.execute(_STATE, rows_text(tx, METER_STATE, ("name", "value"), sorted(changed.items())))


def sealed_read(tx: Tx, actor: Actor, tenants: Collection[str]) -> dict[str, tuple[str, datetime | None]]:
    """Zone of each tenant's account and what of it is sealed (``None``: nothing yet), kept so until the end of the
    transaction: an invoice that is being issued meanwhile waits, or we wait for it."""
    system_only(actor)
    statement = (
        select(ACCOUNTS.c.tenant, ACCOUNTS.c.zone, ACCOUNTS.c.sealed_until, ACCOUNTS.c.opened_at)
        .where(ACCOUNTS.c.tenant == any_(_IDS))
        .order_by(ACCOUNTS.c.tenant)
        .with_for_update(read=True)
    )
    rows = tx.execute(statement, {"ids": sorted(tenants)}) if tenants else ()
    return {row.tenant: (row.zone, row.sealed_until if row.sealed_until > row.opened_at else None) for row in rows}


def usage_add(tx: Tx, actor: Actor, rows: Sequence[tuple[object, ...]]) -> None:
    """Add to the buckets: rows of tenant, job, attempt, project, user, sku, class, service, booked, hour, and sums."""
    system_only(actor)
    if rows:
        tx.execute(_ADD, rows_text(tx, USAGE_BUCKETS, _BUCKET, sorted(rows)))


def attempts_started(tx: Tx, actor: Actor, attempts: Iterable[AttemptUsage]) -> None:
    """Rows of attempts that have started; one that is known stays as it is."""
    system_only(actor)
    rows = [
        (a.tenant, a.job, a.attempt, a.project, a.user, a.sku, a.klass, a.service, a.milli, a.started, a.start_event)
        for a in sorted(attempts, key=lambda one: (one.job, one.attempt))
    ]
    if rows:
        tx.execute(_START, rows_text(tx, ATTEMPT_USAGES, _STARTED, rows))


def attempts_changed(tx: Tx, actor: Actor, changes: Iterable[AttemptChange]) -> None:
    """Add the sums of these attempts, and say which have ended or lost their work."""
    system_only(actor)
    rows = sorted(changes, key=lambda one: (one.job, one.attempt))
    if not rows:
        return
    given, kept = rows_given(ATTEMPT_USAGES, _CHANGED), ATTEMPT_USAGES.c
    statement = (
        update(ATTEMPT_USAGES)
        .where(kept.job == given.c.job, kept.attempt == given.c.attempt)
        .values(
            milli_seconds=kept.milli_seconds + given.c.milli_seconds,
            lost_milli_seconds=kept.lost_milli_seconds + given.c.lost_milli_seconds,
            ended_at=func.coalesce(given.c.ended_at, kept.ended_at),
            reason=func.coalesce(given.c.reason, kept.reason),
            end_event=func.coalesce(given.c.end_event, kept.end_event),
            lost=func.coalesce(given.c.lost, kept.lost),
            disputed=or_(kept.disputed, given.c.disputed),
        )
    )
    values = (
        (c.job, c.attempt, c.milli_seconds, c.lost_milli_seconds, c.ended, c.reason, c.end_event, c.lost, c.disputed)
        for c in rows
    )
    tx.execute(statement, rows_text(tx, ATTEMPT_USAGES, _CHANGED, values))


def alarms_add(tx: Tx, actor: Actor, alarms: Iterable[tuple[str, Alarm]], now: datetime) -> None:
    """Alarms with the tenant that each is about; one that is known stays as it is."""
    system_only(actor)
    rows = [
        (
            fact_id("alarm", alarm.job, alarm.attempt, alarm.code.value, alarm.time),
            _EPOCH + timedelta(seconds=alarm.time), alarm.code, tenant, alarm.job, alarm.attempt, alarm.card,
            alarm.text, now,
        )
        for tenant, alarm in alarms
    ]  # fmt: skip
    if rows:
        tx.execute(_RAISE, rows_text(tx, METER_ALARMS, _ALARM, rows))


def attempts_known(tx: Tx, actor: Actor, attempts: Collection[str]) -> dict[str, Known]:
    """What the rows of attempts and jobs say, for events of a time when they did not say who pays."""
    system_only(actor)
    statement = (
        select(
            ATTEMPTS.c.id, ATTEMPTS.c.milli, ATTEMPTS.c.sku, ATTEMPTS.c.seats, JOBS.c.project, JOBS.c.user, JOBS.c.spec
        )
        .join(JOBS, JOBS.c.id == ATTEMPTS.c.job)
        .where(ATTEMPTS.c.id == any_(_IDS))
    )
    rows = tx.execute(statement, {"ids": sorted(attempts)}) if attempts else ()
    models = (
        {node.spec.name: node.spec.cards.model for node in node_list(tx, actor) if node.spec.cards} if attempts else {}
    )
    return {
        row.id: Known(
            row.milli,
            row.sku or next((models[seat.node] for seat in row.seats if seat.node in models), ""),
            row.spec.queue.value,
            row.project,
            row.user,
            row.spec.type is JobType.SERVICE,
        )
        for row in rows
    }
