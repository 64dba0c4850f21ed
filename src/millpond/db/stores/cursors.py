"""How far each engine's facts have been read.  System only; stored in the transaction that stores the facts."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert as upsert

from millpond.authz.actors import Actor
from millpond.authz.policy import system_only
from millpond.db.session import Tx
from millpond.db.tables.control import CURSORS


def cursor_get(tx: Tx, actor: Actor, engine: str) -> int:
    """0 if nothing was read yet."""
    system_only(actor)
    return int(tx.execute(select(CURSORS.c.cursor).where(CURSORS.c.engine == engine)).scalar() or 0)


def cursor_set(tx: Tx, actor: Actor, engine: str, cursor: int) -> None:
    system_only(actor)
    statement = upsert(CURSORS).values(engine=engine, cursor=cursor)
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=["engine"], set_={"cursor": statement.excluded.cursor, "updated_at": func.now()}
        )
    )
