"""Attempts.  Written by the control loops only; read with the job's rights."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import attrgetter

from sqlalchemy import Text, any_, bindparam, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import IntegrityError

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import system_only, tenants_visible
from millpond.db.session import JOBS_CHANNEL, Tx, notify_all, rows_check, rows_locked
from millpond.db.stores.rows import columns_of, fields_of, insert_many, reachable, rows_text, update_many
from millpond.db.tables.attempts import ATTEMPTS, UNTOLD_SQL
from millpond.domain.errors import Conflict
from millpond.domain.jobs import ATTEMPT_TRANSITIONS, AttemptState
from millpond.domain.records import AttemptRecord

ATTEMPT_COLUMNS = columns_of(ATTEMPTS, AttemptRecord)
_FIELDS = fields_of(AttemptRecord)
_FIXED = frozenset({"id", "job", "number", "tenant", "seats", "epoch", "planned_at", "milli", "sku"})
_MUTABLE = tuple(name for name in _FIELDS if name not in _FIXED)
_SAVED = ("id", *_MUTABLE)
_INSERT = insert_many(ATTEMPTS, _FIELDS)
_UPDATE = update_many(ATTEMPTS, _MUTABLE)
_LOCK = (
    select(*ATTEMPT_COLUMNS)
    .where(ATTEMPTS.c.id == any_(bindparam("ids", type_=ARRAY(Text))))
    .order_by(ATTEMPTS.c.id)
    .with_for_update(key_share=True)
)
_LIVE = select(*ATTEMPT_COLUMNS).where(ATTEMPTS.c.state != AttemptState.ENDED).order_by(ATTEMPTS.c.id)
_REACHABLE = reachable(ATTEMPT_TRANSITIONS)


def attempts_insert(tx: Tx, actor: Actor, records: Iterable[AttemptRecord]) -> None:
    """Record attempts before anything is started.  System only.  `Conflict` if a job has a live attempt already;
    then the transaction is over.
    """
    system_only(actor)
    rows = tuple(records)
    if not rows:
        return
    try:
        tx.execute(_INSERT, rows_text(tx, ATTEMPTS, _FIELDS, map(attrgetter(*_FIELDS), rows)))
    except IntegrityError as error:
        raise Conflict(
            "one of these jobs has a live attempt, or that attempt number, already",
            code="ATTEMPT_EXISTS",
            details={"attempts": [record.id for record in rows[:20]]},
        ) from error
    rows_locked(tx, {record.id: record.state for record in rows})
    notify_all(tx, JOBS_CHANNEL, (record.job for record in rows))


def attempts_lock(tx: Tx, actor: Actor, attempts: Collection[str]) -> dict[str, AttemptRecord]:
    """Lock these attempts until the transaction ends, in id order, and read them.  System only.

    Lock jobs before attempts, always, so that two transactions cannot wait for each other.
    """
    system_only(actor)
    if not attempts:
        return {}
    rows = tx.execute(_LOCK, {"ids": sorted(attempts)})
    records = {record.id: record for record in (AttemptRecord(*row) for row in rows)}
    rows_locked(tx, {record.id: record.state for record in records.values()})
    return records


def attempts_save(tx: Tx, actor: Actor, records: Iterable[AttemptRecord]) -> None:
    """Write locked attempts back, in one round trip, and tell `millpond_jobs`.  System only.

    What never changes (job, number, seats, epoch, amount, plan time) is not written.  Raises as `jobs_save`.
    """
    system_only(actor)
    rows = tuple(records)
    if not rows:
        return
    rows_check(tx, {record.id: record.state for record in rows}, _REACHABLE)
    tx.execute(_UPDATE, rows_text(tx, ATTEMPTS, _SAVED, map(attrgetter(*_SAVED), rows)))
    notify_all(tx, JOBS_CHANNEL, (record.job for record in rows))


def attempt_list(tx: Tx, actor: Actor, job: str) -> tuple[AttemptRecord, ...]:
    """The attempts of a job that `actor` sees, the first first."""
    visible = tenants_visible(actor, Action.JOB_READ)
    statement = select(*ATTEMPT_COLUMNS).where(ATTEMPTS.c.job == job).order_by(ATTEMPTS.c.number)
    if visible is not None:
        statement = statement.where(ATTEMPTS.c.tenant.in_(sorted(visible)))
    return tuple(AttemptRecord(*row) for row in tx.execute(statement).all())


def attempts_get(tx: Tx, actor: Actor, attempts: Collection[str]) -> dict[str, AttemptRecord]:
    """Those of the ids that exist and that `actor` sees.  One query."""
    visible = tenants_visible(actor, Action.JOB_READ)
    statement = select(*ATTEMPT_COLUMNS).where(ATTEMPTS.c.id.in_(sorted(attempts)))
    if visible is not None:
        statement = statement.where(ATTEMPTS.c.tenant.in_(sorted(visible)))
    return {record.id: record for record in (AttemptRecord(*row) for row in tx.execute(statement).all())}


def attempts_unapplied(tx: Tx, actor: Actor, limit: int = 500) -> tuple[AttemptRecord, ...]:
    """Attempts of which the engine must yet be told, the oldest first.  System only.

    That is: planned or starting and never told; draining or ended and not told so (``applied`` differs).
    """
    system_only(actor)
    statement = (
        select(*ATTEMPT_COLUMNS).where(text(UNTOLD_SQL)).order_by(ATTEMPTS.c.planned_at, ATTEMPTS.c.id).limit(limit)
    )
    return tuple(AttemptRecord(*row) for row in tx.execute(statement).all())


def attempts_live(tx: Tx, actor: Actor) -> tuple[AttemptRecord, ...]:
    """Every attempt that has not ended, by id.  System only."""
    system_only(actor)
    return tuple(AttemptRecord(*row) for row in tx.execute(_LIVE).all())
