"""The world kept between two reads: only what has changed since is read anew.

PostgreSQL itself says what has changed, whoever wrote it and in whatever order transactions committed.  A version of a
row bears the number of the transaction that wrote it (``xmin``), and a snapshot knows the oldest transaction that was
not over when it was taken.  What an older one wrote, the earlier snapshot saw; so the versions that a later snapshot
shows and the earlier one did not are among those of that number or a later one.  The few others that this finds are
read twice, which changes nothing.  What has gone is found by counting: what was kept and what is new, less what there
is now.

After a restart of the database numbers may be given again (a crash), or belong to another history (a restored one), so
everything is read anew then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Select, Table, bindparam, func, literal_column, select

from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import ATTEMPT_COLUMNS
from millpond.db.stores.holds import hold_list
from millpond.db.stores.jobs import JOB_COLUMNS, LIVE
from millpond.db.stores.nodes import node_list
from millpond.db.stores.queues import queue_list
from millpond.db.stores.rows import rows_print
from millpond.db.stores.settings import settings_get
from millpond.db.stores.world import eviction_list, world_load, world_mark
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.control import SETTINGS
from millpond.db.tables.holds import EVICTIONS, HOLDS
from millpond.db.tables.jobs import JOBS
from millpond.db.tables.nodes import NODES
from millpond.db.tables.queues import QUEUES
from millpond.domain.jobs import AttemptState
from millpond.domain.records import AttemptRecord, JobRecord, World

R = TypeVar("R")
Mark: TypeAlias = tuple[object, ...]
"""`millpond.db.stores.world.world_mark`."""

_NUMBERS = 1 << 32
"""Rows bear the low half of a transaction's number, which goes round and round."""

_LIVE = ATTEMPTS.c.state != AttemptState.ENDED


def _count(condition: Any) -> Any:
    return select(func.count()).where(condition).scalar_subquery()


_HEAD = select(
    literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint"),
    literal_column("pg_postmaster_start_time()"),
    _count(LIVE),
    _count(_LIVE),
    *(rows_print(table) for table in (NODES, QUEUES, HOLDS, EVICTIONS, SETTINGS)),
)


def _later(statement: Select[Any], table: Table) -> Select[Any]:
    """Versions written by the transaction ``since`` or a later one."""
    number: ColumnElement[int] = literal_column(f"{table.name}.xmin::text::bigint")
    return statement.where((number - bindparam("since") + _NUMBERS) % _NUMBERS < _NUMBERS // 2)


_JOBS = _later(select(*JOB_COLUMNS).where(LIVE), JOBS)
_ATTEMPTS = _later(select(*ATTEMPT_COLUMNS).where(_LIVE), ATTEMPTS)
_JOB_IDS = select(JOBS.c.id).where(LIVE)
_ATTEMPT_IDS = select(ATTEMPTS.c.id).where(_LIVE)


@dataclass(frozen=True, slots=True)
class WorldRead:
    """A world and its mark.  What did not change since the read before is the same object."""

    world: World
    mark: Mark


@dataclass(frozen=True, slots=True)
class _Head:
    """What a snapshot says of itself.  ``horizon``: no older transaction was under way."""

    horizon: int
    started: object
    jobs: int
    attempts: int
    prints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    head: _Head
    jobs: dict[str, JobRecord]
    attempts: dict[str, AttemptRecord]
    read: WorldRead


class Worlds:
    """Reads of one database, each from what the one before has left.  Threads may share it; one reads at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._kept: _Kept | None = None

    def read(self) -> WorldRead:
        """The world as of one moment after the call: equal to what `world_load` would give then.

        It is read as the platform itself; who shows it must authorize what he shows.
        """
        return self.read_also(_nothing)[0]

    def read_also(self, work: Callable[[Tx, World], R]) -> tuple[WorldRead, R]:
        """The same, and what `work` reads of that moment.  It may run more than once, as for `Database.run`."""

        def both(tx: Tx) -> tuple[_Kept, R]:
            kept = _follow(tx, before)
            return kept, work(tx, kept.read.world)

        with self._lock:
            before = self._kept
            self._kept, also = self._database.run("world", both, snapshot=True)
            return self._kept.read, also


def _nothing(tx: Tx, world: World) -> None:
    del tx, world


def _follow(tx: Tx, before: _Kept | None) -> _Kept:
    horizon, started, live, seated, *prints = tx.execute(_HEAD).one()
    head = _Head(horizon, started, live, seated, tuple(prints))
    if before is None or before.head.started != head.started or before.head.horizon > head.horizon:
        return _load(tx, head)
    since = {"since": before.head.horizon % _NUMBERS}
    jobs = {record.id: record for record in (JobRecord(*row) for row in tx.execute(_JOBS, since).all())}
    attempts = {record.id: record for record in (AttemptRecord(*row) for row in tx.execute(_ATTEMPTS, since).all())}
    jobs = _merged(tx, before.jobs, jobs, head.jobs, _JOB_IDS)
    attempts = _merged(tx, before.attempts, attempts, head.attempts, _ATTEMPT_IDS)
    return _Kept(head, jobs, attempts, WorldRead(_world(tx, before, head, jobs, attempts), world_mark(tx, SYSTEM)))


def _load(tx: Tx, head: _Head) -> _Kept:
    world = world_load(tx, SYSTEM)
    jobs = {job.id: job for job in world.jobs}
    attempts = {attempt.id: attempt for attempt in world.attempts}
    return _Kept(head, jobs, attempts, WorldRead(world, world_mark(tx, SYSTEM)))


def _merged(tx: Tx, old: dict[str, Any], new: dict[str, Any], count: int, ids: Select[Any]) -> dict[str, Any]:
    """`old` with what is `new`, without what has gone: what there is now are `count` rows with those `ids`."""
    changed = {name: record for name, record in new.items() if old.get(name) != record}
    if not changed and len(old) == count:
        return old
    merged = {**old, **changed}
    if len(merged) != count:
        there = set(tx.execute(ids).scalars())
        merged = {name: record for name, record in merged.items() if name in there}
    return merged


def _world(tx: Tx, before: _Kept, head: _Head, jobs: dict[str, JobRecord], attempts: dict[str, AttemptRecord]) -> World:
    """The world before with what has changed; the very same one if nothing has."""
    world = before.read.world
    if jobs is not before.jobs:
        world = replace(world, jobs=tuple(sorted(jobs.values(), key=attrgetter("submitted_at", "id"))))
    if attempts is not before.attempts:
        world = replace(world, attempts=tuple(sorted(attempts.values(), key=attrgetter("id"))))
    nodes, queues, holds, evictions, settings = (
        old != new for old, new in zip(before.head.prints, head.prints, strict=True)
    )
    if nodes:
        world = replace(world, nodes=node_list(tx, SYSTEM))
    if queues:
        world = replace(world, queues=queue_list(tx, SYSTEM))
    if holds:
        world = replace(world, holds=hold_list(tx, SYSTEM))
    if evictions:
        world = replace(world, evictions=eviction_list(tx, SYSTEM))
    if settings:
        world = replace(world, settings=settings_get(tx, SYSTEM))
    return world
