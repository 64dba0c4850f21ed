"""Billing accounts: opened for a tenant, looked at, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.accounts import AccountRecord, account_changed, account_opened
from millpond.billing.currencies import currency_find
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores import accounts as store
from millpond.db.stores.ledger import books_read_owned
from millpond.db.stores.tenants import tenant_get
from millpond.domain.errors import InvalidInput
from millpond.domain.records import Page
from millpond.metering.hours import Hours, instant
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run
from millpond.zones import zone_find

Change = Mapping[str, Any]
"""Fields of `AccountRecord`; a currency by its code, and ``None`` for what stays."""


def account_list(deps: Services, actor: Actor, cursor: str, limit: int) -> Page[AccountRecord]:
    """Accounts that the actor may read, by tenant.  ``cursor``: the last tenant of the page before."""
    return deps.database.run("account_list", lambda tx: store.account_page(tx, actor, cursor, limit))


def account_get(deps: Services, actor: Actor, tenant: str) -> AccountRecord:
    """`NotFound` for a tenant without an account."""
    return deps.database.run("account_get", lambda tx: store.account_get(tx, actor, tenant))


def account_open(
    deps: Services, actor: Actor, tenant: str, given: Change, once: Once, render: Callable[[AccountRecord], object]
) -> Reply:
    """Open an account: its use is billed from ``opened_at``, a full clock hour that has come; else this one.

    `Conflict` if the tenant has one; `InvalidInput` for an unknown currency or zone.
    """
    authorize(actor, Action.ACCOUNT_WRITE, tenant)
    now = deps.clock()
    opened_at = _opened(given["zone"], given.get("opened_at"), now)
    blank = AccountRecord(tenant, currency_find(given["currency"]), given["zone"], opened_at, opened_at)
    record = account_opened(_with(blank, {name: value for name, value in given.items() if name != "opened_at"}))

    def work(tx: Tx) -> AccountRecord:
        tenant_get(tx, actor, tenant)
        store.account_add(tx, actor, record)
        event_write(deps, tx, actor, "account.opened", tenant=tenant, data=account_texts(record))
        notify(tx, WORK_CHANNEL, "schedule")
        return record

    return once_run(deps, "account_open", actor, once, work, render)


def account_set(deps: Services, actor: Actor, tenant: str, given: Change) -> AccountRecord:
    """Change settings; they count for the open month as a whole.  `Conflict` for what may not change any more."""
    authorize(actor, Action.ACCOUNT_WRITE, tenant)

    def work(tx: Tx) -> AccountRecord:
        before = store.accounts_lock(tx, actor, [tenant]).get(tenant)
        if before is None:
            raise store.no_account(tenant)
        booked = bool(books_read_owned(tx, actor, [tenant]).accounts)
        after = account_changed(before, _with(before, given), booked=booked)
        if after == before:
            return before
        store.account_save(tx, actor, after)
        old, new = account_texts(before), account_texts(after)
        changed = {name: [old[name], new[name]] for name in old if old[name] != new[name]}
        event_write(deps, tx, actor, "account.changed", tenant=tenant, data={"changes": changed})
        notify(tx, WORK_CHANNEL, "schedule")
        return after

    return deps.database.run("account_set", work)


def account_texts(record: AccountRecord) -> dict[str, object]:
    """Plain values, without the buyer's texts: events keep no addresses."""
    private = {"title", "address", "tax_id"}
    return {
        field.name: "(set)" if field.name in private and value else _text(value)
        for field in fields(record)
        for value in (getattr(record, field.name),)
    }


def _text(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value if isinstance(value, bool | int) else str(value)


def _with(record: AccountRecord, given: Change) -> AccountRecord:
    values = {name: value for name, value in given.items() if value is not None}
    if "currency" in values:
        values["currency"] = currency_find(values["currency"])
    if "zone" in values:
        zone_find(values["zone"])
    return replace(record, **values)


def _opened(zone: str, wanted: datetime | None, now: datetime) -> datetime:
    if wanted is not None and wanted.tzinfo is None:
        raise InvalidInput(f"{wanted.isoformat()} has no zone", hint="write it like 2026-11-01T00:00:00+08:00")
    hours = Hours(zone_find(zone))
    begin = hours.around(instant(wanted or now))[0]
    opened_at = datetime.fromtimestamp(begin, UTC)
    if wanted is not None and opened_at != wanted:
        raise InvalidInput(
            f"{wanted.isoformat()} is not a full clock hour in {zone}",
            hint=f"use is counted by clock hours; write {hours.text(begin)}",
        )
    if opened_at > now:
        raise InvalidInput(
            f"{hours.text(begin)} has not come", hint="open the account then, or from now: nothing is booked before it"
        )
    return opened_at
