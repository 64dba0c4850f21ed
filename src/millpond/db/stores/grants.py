"""Grants: what a tenant may spend, each with the transfer that booked it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Text, any_, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, system_only
from millpond.billing.grants import Grant, Scope, grant_transfer
from millpond.billing.ledger import Batch
from millpond.billing.money import money_of_minor
from millpond.db.session import Tx
from millpond.db.stores.ledger import batches_store
from millpond.db.stores.rows import insert_many, rows_text
from millpond.db.tables.grants import GRANTS
from millpond.db.tables.ledger import LEDGER_ACCOUNTS
from millpond.domain.errors import NotFound

_NAMES = (
    "id", "source", "owner", "kind", "unit", "amount", "granted_at", "expires_at", "priority", "skus", "classes",
    "projects", "price_unit", "price", "transfer",
)  # fmt: skip
_COLUMNS = [GRANTS.c[name] for name in _NAMES]
_OWNED = (
    select(*_COLUMNS)
    .where(GRANTS.c.owner == any_(bindparam("owners", type_=ARRAY(Text))))
    .order_by(GRANTS.c.granted_at, GRANTS.c.id)
)
_LEFT = _OWNED.join(
    LEDGER_ACCOUNTS, (LEDGER_ACCOUNTS.c.owner == GRANTS.c.owner) & (LEDGER_ACCOUNTS.c.of == GRANTS.c.id)
).where((LEDGER_ACCOUNTS.c.posted != 0) | (LEDGER_ACCOUNTS.c.held != 0))
_ADD = insert_many(GRANTS, _NAMES).on_conflict_do_nothing()
_EXPIRED = (
    select(*_COLUMNS)
    .join(LEDGER_ACCOUNTS, (LEDGER_ACCOUNTS.c.owner == GRANTS.c.owner) & (LEDGER_ACCOUNTS.c.of == GRANTS.c.id))
    .where(GRANTS.c.expires_at <= bindparam("now"), LEDGER_ACCOUNTS.c.posted > LEDGER_ACCOUNTS.c.held)
    .order_by(GRANTS.c.expires_at, GRANTS.c.id)
    .limit(bindparam("limit"))
)


def grant_list(tx: Tx, actor: Actor, owner: str, *, left_only: bool = False) -> tuple[Grant, ...]:
    """All of a tenant, also those that are used up or expired, the oldest first.

    ``left_only``: without those of which nothing is left; enough to decide on, and few however long the history.
    """
    return grants_list(tx, actor, [owner], left_only=left_only)


def grants_list(tx: Tx, actor: Actor, owners: Collection[str], *, left_only: bool = False) -> tuple[Grant, ...]:
    """As `grant_list`, of several tenants in one query."""
    for owner in sorted(set(owners)):
        authorize(actor, Action.ACCOUNT_READ, owner)
    if not owners:
        return ()
    statement = _LEFT if left_only else _OWNED
    return tuple(_grant(row) for row in tx.execute(statement, {"owners": sorted(set(owners))}))


def grant_get(tx: Tx, actor: Actor, owner: str, grant: str) -> Grant:
    """`NotFound` if the tenant has no such grant."""
    authorize(actor, Action.ACCOUNT_READ, owner)
    row = tx.execute(select(*_COLUMNS).where(GRANTS.c.id == grant, GRANTS.c.owner == owner)).one_or_none()
    if row is None:
        raise NotFound(
            f"{owner} has no grant {grant[:40]!r}",
            code="NO_SUCH_GRANT",
            hint=f"millpond balance --tenant {owner} lists them",
        )
    return _grant(row)


def grant_claim(tx: Tx, actor: Actor, owner: str, grant: str) -> Grant | None:
    """The grant with that id, whoever has it, or ``None``; nobody else makes it until this transaction ends.

    For those who may write to the account of `owner`, to which the grant would go.
    """
    authorize(actor, Action.ACCOUNT_WRITE, owner)
    tx.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"grant\n{grant}", 0))))
    row = tx.execute(select(*_COLUMNS).where(GRANTS.c.id == grant)).one_or_none()
    return _grant(row) if row is not None else None


def grant_add(tx: Tx, actor: Actor, grant: Grant, created_at: datetime, then: Iterable[Batch] = ()) -> bool:
    """Book a grant, and `then` what follows from it, in one step; whether anything was new.

    Raises as `batches_store`: `Conflict` if it exists with other content.
    """
    authorize(actor, Action.ACCOUNT_WRITE, grant.owner)
    transfer = grant_transfer(grant, created_at)
    added = batches_store(tx, actor, (Batch((transfer,)), *then), created_at)
    _grant_write(tx, grant, transfer.id)
    return added


def grant_renew(tx: Tx, actor: Actor, grant: Grant, transfer: str) -> None:
    """Keep a grant for credit that comes back after its own has expired; `transfer` has booked its amount."""
    authorize(actor, Action.ACCOUNT_WRITE, grant.owner)
    _grant_write(tx, grant, transfer)


def _grant_write(tx: Tx, grant: Grant, transfer: str) -> None:
    scope = (sorted(names) for names in (grant.scope.skus, grant.scope.classes, grant.scope.projects))
    price = (None, None) if grant.price is None else (grant.price.currency, grant.price.minor())
    row = (
        grant.id, grant.source, grant.owner, grant.kind, grant.amount.currency, grant.amount.minor(),
        grant.granted_at, grant.expires_at, grant.priority, *scope, *price, transfer,
    )  # fmt: skip
    tx.execute(_ADD, rows_text(tx, GRANTS, _NAMES, [row]))


def grants_expired(tx: Tx, actor: Actor, now: datetime, limit: int = 100) -> tuple[Grant, ...]:
    """Grants that have expired with something left that is not held, the earliest first.  System only."""
    system_only(actor)
    return tuple(_grant(row) for row in tx.execute(_EXPIRED, {"now": now, "limit": limit}))


def _grant(row: Row[Any]) -> Grant:
    price = None if row.price is None else money_of_minor(row.price, row.price_unit)
    scope = Scope(frozenset(row.skus), frozenset(row.classes), frozenset(row.projects))
    amount = money_of_minor(row.amount, row.unit)
    return Grant(row.source, row.owner, row.kind, amount, row.granted_at, row.expires_at, row.priority, scope, price)
