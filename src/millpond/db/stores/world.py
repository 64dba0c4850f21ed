"""The world for one planning pass."""

from __future__ import annotations

from sqlalchemy import func, select

from millpond.authz.actors import Actor
from millpond.authz.policy import system_only
from millpond.db.session import Tx, snapshot_check
from millpond.db.stores.attempts import attempts_live
from millpond.db.stores.holds import EVICTION_COLUMNS, hold_list
from millpond.db.stores.jobs import JOB_COLUMNS, LIVE
from millpond.db.stores.nodes import node_list
from millpond.db.stores.queues import queue_list
from millpond.db.stores.settings import settings_get
from millpond.db.tables.control import COMMITS
from millpond.db.tables.holds import EVICTIONS
from millpond.db.tables.jobs import JOBS
from millpond.domain.records import EvictionRecord, JobRecord, World

# Built once: a pass runs for every start and end, and making and hashing a statement costs as much as running it.
_JOBS = select(*JOB_COLUMNS).where(LIVE).order_by(JOBS.c.submitted_at, JOBS.c.id)
_MARK = select(func.count(), func.coalesce(func.sum(COMMITS.c.number), 0), func.max(COMMITS.c.written_at))
_EVICTIONS = select(*EVICTION_COLUMNS).order_by(EVICTIONS.c.time, EVICTIONS.c.claimant, EVICTIONS.c.victim)


def world_mark(tx: Tx, actor: Actor) -> tuple[object, ...]:
    """Differs after every transaction of a server that wrote anything, whatever it was.  Cheap.  System only.

    Read in one snapshot with the world, it says whether a later world must be read anew.
    """
    system_only(actor)
    return tuple(tx.execute(_MARK).one())


def world_load(tx: Tx, actor: Actor) -> World:
    """Everything live, as of one moment, in seven queries however many jobs there are.

    The transaction must be a snapshot: ``database.run("plan", work, snapshot=True)``.  Otherwise a job and its attempt
    could be read on two sides of a change.  System only: services that explain act for the platform here, and must
    authorize what they show of it.
    """
    system_only(actor)
    snapshot_check(tx)
    return World(
        nodes=node_list(tx, actor),
        queues=queue_list(tx, actor),
        jobs=tuple(JobRecord(*row) for row in tx.execute(_JOBS).all()),
        attempts=attempts_live(tx, actor),
        holds=hold_list(tx, actor),
        evictions=eviction_list(tx, actor),
        settings=settings_get(tx, actor),
    )


def eviction_list(tx: Tx, actor: Actor) -> tuple[EvictionRecord, ...]:
    """The last eviction of each pair of leaves, the earliest first.  System only."""
    system_only(actor)
    return tuple(EvictionRecord(*row) for row in tx.execute(_EVICTIONS).all())
