"""The configured queues, always replaced as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.session import Tx
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.queues import QUEUES
from millpond.db.tables.tenants import TENANTS
from millpond.domain.errors import Conflict, InvalidInput, NotFound
from millpond.domain.queues import QueueConfig, queue_tenant

_LOCK = "SELECT pg_advisory_xact_lock(7522537965574647666)"


_CONFIGS = select(QUEUES.c.config).order_by(QUEUES.c.position)


def queue_list(tx: Tx, actor: Actor) -> tuple[QueueConfig, ...]:
    """All queues in the order in which they were written.  The pool is shared, so every member sees all of them."""
    authorize(actor, Action.QUEUE_READ)
    return tuple(tx.execute(_CONFIGS).scalars())


def queue_get(tx: Tx, actor: Actor, name: str) -> QueueConfig:
    authorize(actor, Action.QUEUE_READ)
    config = tx.execute(select(QUEUES.c.config).where(QUEUES.c.name == name)).scalar_one_or_none()
    if config is None:
        raise NotFound(f"no queue {name[:200]!r}", code="NO_SUCH_QUEUE", hint="millpond quota lists them")
    found: QueueConfig = config
    return found


def queues_replace(tx: Tx, actor: Actor, queues: Sequence[QueueConfig]) -> None:
    """Make `queues` the whole set.

    Raises `InvalidInput` for a name that appears twice, `NotFound` for a tenant that does not exist, `Conflict` when
    a leaf that would go (or cease to be a leaf) has live jobs.
    """
    authorize(actor, Action.QUOTA_APPLY)
    names = [queue.name for queue in queues]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInput(f"these queues appear twice: {', '.join(twice)}")
    tx.exec_driver_sql(_LOCK)
    _tenants_check(tx, queues)
    _live_check(tx, [queue.name for queue in queues if queue.leaf])
    try:
        _queues_write(tx, queues)
    except IntegrityError as error:
        # A job was submitted between the check and now.
        raise Conflict("a queue that would go has just got a job", code="QUEUE_IN_USE", hint="apply again") from error


def _queues_write(tx: Tx, queues: Sequence[QueueConfig]) -> None:
    tx.execute(delete(QUEUES).where(QUEUES.c.name.not_in([queue.name for queue in queues])))
    if queues:
        statement = upsert(QUEUES)
        statement = statement.on_conflict_do_update(
            index_elements=["name"],
            set_={name: statement.excluded[name] for name in ("position", "config")},
        )
        rows = [{"name": queue.name, "position": place, "config": queue} for place, queue in enumerate(queues)]
        tx.execute(statement, rows)


def _tenants_check(tx: Tx, queues: Sequence[QueueConfig]) -> None:
    wanted = sorted({queue_tenant(queue.name) for queue in queues})
    statement = select(TENANTS.c.name).where(TENANTS.c.name.in_(wanted), TENANTS.c.deleted_at.is_(None))
    known = set(tx.execute(statement.with_for_update(read=True)).scalars())
    missing = [tenant for tenant in wanted if tenant not in known]
    if missing:
        raise NotFound(
            f"no tenant {', '.join(missing)}",
            code="NO_SUCH_TENANT",
            hint=f"millpond tenants create {missing[0]}",
            details={"tenants": missing},
        )


def _live_check(tx: Tx, leaves: Sequence[str]) -> None:
    """The foreign key would refuse it too; this says which queue and how many jobs."""
    rows = tx.execute(
        select(JOBS.c.live_queue, func.count())
        .where(JOBS.c.live_queue.is_not(None), JOBS.c.live_queue.not_in(leaves))
        .group_by(JOBS.c.live_queue)
        .order_by(JOBS.c.live_queue)
    ).all()
    if rows:
        lines = ", ".join(f"{queue} ({count})" for queue, count in rows)
        raise Conflict(
            f"queues with live jobs cannot go: {lines}",
            code="QUEUE_IN_USE",
            hint="stop these jobs, or keep the queues with a cap of 0 until they have ended",
            details={"queues": {str(queue): int(count) for queue, count in rows}},
        )
