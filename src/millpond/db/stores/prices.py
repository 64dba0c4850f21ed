"""Price versions: list prices, and what was agreed with one tenant."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, false, func, or_, select

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.billing.accounts import AccountRecord
from millpond.billing.currencies import Currency
from millpond.billing.money import Money
from millpond.billing.prices import PriceBook, PriceRecord, PriceVersion, versions_aligned, versions_ended
from millpond.db.session import Tx
from millpond.db.stores.rows import insert_many, rows_text
from millpond.db.tables.accounts import ACCOUNTS
from millpond.db.tables.prices import PRICES
from millpond.metering.hours import Hours, instant, moment_of
from millpond.zones import zone_find

_NAMES = ("account", "version", "sku", "klass", "currency", "price", "starts_at", "ends_at", "created_at", "created_by")
_ADD = insert_many(PRICES, _NAMES)
_ROWS = select(*(PRICES.c[name] for name in _NAMES)).order_by(
    PRICES.c.account.nulls_first(), PRICES.c.currency, PRICES.c.sku, PRICES.c.klass, PRICES.c.starts_at, PRICES.c.id
)


def price_book(tx: Tx, actor: Actor, account: AccountRecord) -> PriceBook:
    """What `account` pays, in its currency and from full hours of its zone; what was agreed goes before the list."""
    return price_books(tx, actor, [account])[account.tenant]


def price_books(tx: Tx, actor: Actor, accounts: Iterable[AccountRecord]) -> dict[str, PriceBook]:
    """As `price_book`, of several accounts in one query, by tenant."""
    wanted = {account.tenant: account for account in accounts}
    for tenant in sorted(wanted):
        authorize(actor, Action.PRICE_READ, tenant)
    if not wanted:
        return {}
    rows = tx.execute(_ROWS.where(or_(PRICES.c.account.is_(None), PRICES.c.account.in_(sorted(wanted))))).all()
    lists: dict[Currency, list[PriceVersion]] = {}
    agreed: dict[tuple[str, Currency], list[PriceVersion]] = {}
    for row in rows:
        if row.account:
            agreed.setdefault((row.account, row.currency), []).append(_version(row))
        else:
            lists.setdefault(row.currency, []).append(_version(row))
    zones = {account.zone: Hours(zone_find(account.zone)) for account in wanted.values()}
    return {
        tenant: _book(
            [*lists.get(account.currency, ()), *agreed.get((tenant, account.currency), ())], zones[account.zone]
        )
        for tenant, account in wanted.items()
    }


def _book(versions: list[PriceVersion], hours: Hours) -> PriceBook:
    return PriceBook(versions_aligned(versions_ended(versions), hours))


def price_list(tx: Tx, actor: Actor, tenant: str = "") -> tuple[PriceRecord, ...]:
    """List prices, and what was agreed with `tenant`, or with all that `actor` may see; by whom, what and when."""
    if tenant:
        authorize(actor, Action.PRICE_READ, tenant)
        agreed: ColumnElement[bool] = PRICES.c.account == tenant
    else:
        visible = tenants_visible(actor, Action.PRICE_READ)
        agreed = PRICES.c.account.is_not(None) if visible is None else PRICES.c.account.in_(sorted(visible))
    rows = tx.execute(_ROWS.where(or_(PRICES.c.account.is_(None), agreed))).all()
    versions = [_version(row) for row in rows]
    groups: dict[tuple[str, Currency], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault((row.account, row.currency), []).append(index)
    ends: list[int | None] = [None] * len(rows)
    for places in groups.values():
        for index, ended in zip(places, versions_ended([versions[place] for place in places]), strict=True):
            ends[index] = ended.end
    return tuple(
        PriceRecord(row.account, version, end, row.created_at, row.created_by)
        for row, version, end in zip(rows, versions, ends, strict=True)
    )


def prices_lock(tx: Tx, actor: Actor, tenant: str) -> None:
    """Nobody else adds prices until this transaction ends.  `tenant` empty: to the list."""
    authorize(actor, Action.PRICE_WRITE, tenant)
    tx.execute(select(func.pg_advisory_xact_lock(func.hashtextextended("prices", 0))))


def prices_of(tx: Tx, actor: Actor, currency: Currency) -> dict[str, list[PriceVersion]]:
    """All versions in a currency as they were added, by tenant (empty: the list).  For those who may add prices."""
    authorize(actor, Action.PRICE_WRITE)
    found: dict[str, list[PriceVersion]] = {"": []}
    for row in tx.execute(_ROWS.where(PRICES.c.currency == currency)):
        found.setdefault(row.account, []).append(_version(row))
    return found


def prices_closed(tx: Tx, actor: Actor, currency: Currency, tenant: str = "") -> tuple[str, datetime] | None:
    """Of the accounts that prices of `tenant` (empty: the list) count for, the one closed furthest, and until when.

    ``None`` where no month was closed.
    """
    authorize(actor, Action.PRICE_WRITE, tenant)
    mine = ACCOUNTS.c.tenant == tenant if tenant else ~false()
    statement = (
        select(ACCOUNTS.c.tenant, ACCOUNTS.c.sealed_until)
        .where(and_(mine, ACCOUNTS.c.currency == currency, ACCOUNTS.c.sealed_until > ACCOUNTS.c.opened_at))
        .order_by(ACCOUNTS.c.sealed_until.desc(), ACCOUNTS.c.tenant)
        .limit(1)
    )
    row = tx.execute(statement).one_or_none()
    return None if row is None else (row.tenant, row.sealed_until)


def prices_add(tx: Tx, actor: Actor, tenant: str, versions: Iterable[PriceVersion], now: datetime) -> None:
    """Add versions of `tenant` (empty: the list), which `billing.prices.version_check` has found to fit."""
    authorize(actor, Action.PRICE_WRITE, tenant)
    rows = [
        (
            tenant, one.version, one.sku, one.klass, one.price.currency, str(one.price.amount), moment_of(one.start),
            None if one.end is None else moment_of(one.end), now, actor.user,
        )
        for one in versions
    ]  # fmt: skip
    if rows:
        tx.execute(_ADD, rows_text(tx, PRICES, _NAMES, rows))


def _version(row: Row[Any]) -> PriceVersion:
    price = Money(row.price.normalize() + 0, row.currency)
    end = None if row.ends_at is None else instant(row.ends_at)
    return PriceVersion(row.version, row.sku, row.klass, price, instant(row.starts_at), end, bool(row.account))
