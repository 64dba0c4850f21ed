"""Policy numbers that operators change at run time (seconds; the names of `scheduling.snapshot.Settings`)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.db.session import Tx
from millpond.db.tables.control import SETTINGS

_VALUES = select(SETTINGS.c.name, SETTINGS.c.value).order_by(SETTINGS.c.name)


def settings_get(tx: Tx, actor: Actor) -> dict[str, int]:
    """Only what was set; for the rest the program's defaults hold."""
    authorize(actor, Action.QUEUE_READ)
    rows = tx.execute(_VALUES)
    return {name: int(value) for name, value in rows}


def settings_put(tx: Tx, actor: Actor, values: Mapping[str, int | None]) -> None:
    """Set these; ``None`` goes back to the default."""
    authorize(actor, Action.QUOTA_APPLY)
    unset = sorted(name for name, value in values.items() if value is None)
    rows = [{"name": name, "value": value} for name, value in sorted(values.items()) if value is not None]
    if unset:
        tx.execute(delete(SETTINGS).where(SETTINGS.c.name.in_(unset)))
    if rows:
        statement = upsert(SETTINGS)
        statement = statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value})
        tx.execute(statement, rows)
