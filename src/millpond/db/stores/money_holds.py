"""Which attempt money is held for, until it is taken or freed.  System only; the money is in the ledger's transfers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, or_, select, update

from millpond.authz.actors import Actor
from millpond.authz.policy import system_only
from millpond.billing.holds import Hold
from millpond.db.session import Tx
from millpond.db.stores.rows import insert_many, rows_text
from millpond.db.tables.attempts import ATTEMPTS
from millpond.db.tables.money_holds import MONEY_HOLDS
from millpond.db.tables.usage import ATTEMPT_USAGES
from millpond.domain.jobs import AttemptState

_NAMES = (
    "id", "tenant", "job", "attempt", "number", "project", "sku", "klass", "milli", "starts_at", "ends_at", "demands",
    "draws", "created_at",
)  # fmt: skip
_ADD = insert_many(MONEY_HOLDS, _NAMES)


@dataclass(frozen=True, slots=True)
class MoneyHold:
    """``draws``: grants and smallest units, in burn order.  ``started``: the meter has counted the attempt to its end;
    else it ended before it began."""

    id: str
    tenant: str
    job: str
    attempt: int
    number: int
    project: str
    sku: str
    klass: str
    starts_at: datetime
    ends_at: datetime
    draws: tuple[tuple[str, int], ...]
    started: bool


def money_holds_add(tx: Tx, actor: Actor, holds: Iterable[tuple[Hold, int, int]], now: datetime) -> None:
    """Holds with the number of their attempt and its milli-cards, in the transaction that stores both."""
    system_only(actor)
    rows = [_row(hold, attempt, milli, now) for hold, attempt, milli in holds]
    if rows:
        tx.execute(_ADD, rows_text(tx, MONEY_HOLDS, _NAMES, rows))


def money_holds_due(tx: Tx, actor: Actor, limit: int = 100) -> list[MoneyHold]:
    """Open holds of attempts that are over: metered to their end, or never begun.  The eldest first."""
    system_only(actor)
    kept, usage, attempts = MONEY_HOLDS.c, ATTEMPT_USAGES.c, ATTEMPTS.c
    names = ("id", "tenant", "job", "attempt", "number", "project", "sku", "klass", "starts_at", "ends_at", "draws")
    statement = (
        select(*(kept[name] for name in names), usage.ended_at.is_not(None).label("started"))
        .select_from(MONEY_HOLDS)
        .outerjoin(ATTEMPT_USAGES, and_(usage.job == kept.job, usage.attempt == kept.attempt))
        .outerjoin(ATTEMPTS, and_(attempts.job == kept.job, attempts.number == kept.attempt))
        .where(
            kept.resolved_at.is_(None),
            or_(
                usage.ended_at.is_not(None),
                and_(attempts.state == AttemptState.ENDED, attempts.started_at.is_(None)),
            ),
        )
        .order_by(kept.created_at, kept.id)
        .limit(limit)
    )
    return [
        MoneyHold(*row[:10], tuple((str(grant), int(minor)) for grant, minor in row.draws), bool(row.started))
        for row in tx.execute(statement)
    ]


def money_hold_resolve(tx: Tx, actor: Actor, name: str, now: datetime) -> bool:
    """Whether it was open, and is closed now."""
    system_only(actor)
    kept = MONEY_HOLDS.c
    statement = update(MONEY_HOLDS).where(kept.id == name, kept.resolved_at.is_(None)).values(resolved_at=now)
    return bool(tx.execute(statement.returning(kept.id)).all())


def _row(hold: Hold, attempt: int, milli: int, now: datetime) -> tuple[Any, ...]:
    request = hold.request
    _, job, _, number = request.source
    begin, end = request.service or (now, now)
    demands = [[demand.milli_seconds, demand.price.text()] for demand in request.demands]
    draws = [[draw.grant.id, draw.amount.minor()] for draw in hold.draws]
    use = request.use
    return (
        hold.id, request.owner, job, attempt, int(number), use.project, use.sku, use.klass, milli, begin, end, demands,
        draws, now,
    )  # fmt: skip
