"""Answers kept for `Idempotency-Key`: the same request asked again gets the same answer, and nothing happens twice.

Keys belong to the user that sent them, so every authenticated actor may use these; no role is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, insert, select

from millpond.authz.actors import Actor
from millpond.authz.policy import system_only
from millpond.db.session import Tx
from millpond.db.tables.control import COMMITS, IDEMPOTENCY
from millpond.domain.errors import Conflict, InvalidInput

KEY_LENGTH = 255
_MARKS_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The HTTP status and body (JSON text) that the first request got."""

    status: int
    body: str


def idempotency_get(tx: Tx, actor: Actor, key: str, request_hash: str) -> StoredAnswer | None:
    """The answer that was given to this key, or ``None``: then do the work and `idempotency_put` in this transaction.

    Holds a lock on the key until the transaction ends, so that a second request at the same moment waits for the
    first one's answer.  `Conflict` if the key was used for a different request.
    """
    if not 1 <= len(key) <= KEY_LENGTH or not key.isprintable():
        raise InvalidInput(f"an Idempotency-Key has 1 to {KEY_LENGTH} printable characters")
    tx.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"{actor.user}\n{key}", 0))))
    row = tx.execute(
        select(IDEMPOTENCY.c.request_hash, IDEMPOTENCY.c.status, IDEMPOTENCY.c.body).where(
            IDEMPOTENCY.c.actor == actor.user, IDEMPOTENCY.c.key == key
        )
    ).one_or_none()
    if row is None:
        return None
    if row.request_hash != request_hash:
        raise Conflict(
            "this Idempotency-Key was used for a different request", code="IDEMPOTENCY_KEY", hint="use a fresh key"
        )
    return StoredAnswer(row.status, row.body)


def idempotency_put(tx: Tx, actor: Actor, key: str, request_hash: str, status: int, body: str) -> None:
    """Keep the answer, in the transaction that did the work."""
    tx.execute(
        insert(IDEMPOTENCY).values(actor=actor.user, key=key, request_hash=request_hash, status=status, body=body)
    )


def idempotency_prune(tx: Tx, actor: Actor, before: datetime) -> int:
    """Forget answers older than `before`; how many.  System only.  Marks of connections long closed go too."""
    system_only(actor)
    tx.execute(delete(COMMITS).where(COMMITS.c.written_at < func.now() - _MARKS_KEPT))
    return tx.execute(delete(IDEMPOTENCY).where(IDEMPOTENCY.c.created_at < before)).rowcount
