"""Holds and past evictions.  Written by the planner's loop only."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actors import Actor
from millpond.authz.policy import system_only
from millpond.db.session import Tx
from millpond.db.stores.rows import columns_of, fields_of, insert_many, rows_text, values_of
from millpond.db.tables.holds import EVICTIONS, HOLDS
from millpond.domain.records import EvictionRecord, HoldRecord

HOLD_COLUMNS = columns_of(HOLDS, HoldRecord)
EVICTION_COLUMNS = columns_of(EVICTIONS, EvictionRecord)
_HOLDS = select(*HOLD_COLUMNS).order_by(HOLDS.c.job)
_FIELDS = fields_of(HoldRecord)
_PUT = insert_many(HOLDS, _FIELDS)
_HOLDS_PUT = _PUT.on_conflict_do_update(
    index_elements=["job"], set_={name: _PUT.excluded[name] for name in ("seats", "until", "victims")}
)


def holds_replace(tx: Tx, actor: Actor, put: Iterable[HoldRecord], drop: Iterable[str]) -> None:
    """Take away the holds of the jobs in `drop`, then store those in `put` (one a job).  System only."""
    system_only(actor)
    gone, new = sorted(set(drop)), tuple(put)
    if gone:
        tx.execute(delete(HOLDS).where(HOLDS.c.job.in_(gone)))
    if new:
        tx.execute(_HOLDS_PUT, rows_text(tx, HOLDS, _FIELDS, map(attrgetter(*_FIELDS), new)))


def hold_list(tx: Tx, actor: Actor) -> tuple[HoldRecord, ...]:
    """All holds, by job.  System only."""
    system_only(actor)
    return tuple(HoldRecord(*row) for row in tx.execute(_HOLDS))


def eviction_add(tx: Tx, actor: Actor, evictions: Iterable[EvictionRecord]) -> None:
    """Remember evictions for the cool-down: of each pair of leaves, the last one stays.  System only."""
    system_only(actor)
    latest: dict[tuple[str, str, bool], EvictionRecord] = {}
    for eviction in evictions:
        key = (eviction.claimant, eviction.victim, eviction.borrowed)
        if key not in latest or latest[key].time < eviction.time:
            latest[key] = eviction
    if not latest:
        return
    statement = upsert(EVICTIONS)
    statement = statement.on_conflict_do_update(
        index_elements=["claimant", "victim", "borrowed"],
        set_={"time": func.greatest(EVICTIONS.c.time, statement.excluded.time)},
    )
    tx.execute(statement, [values_of(latest[key], fields_of(EvictionRecord)) for key in sorted(latest)])
