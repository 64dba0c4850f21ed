"""Billing accounts: how tenants pay."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter

from sqlalchemy import Text, any_, bindparam, select, update
from sqlalchemy.dialects.postgresql import ARRAY, insert

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.db.session import Tx
from millpond.db.stores.rows import columns_of, fields_of, limit_check, values_of
from millpond.db.tables.accounts import ACCOUNTS
from millpond.domain.errors import Conflict, NotFound
from millpond.domain.records import Page

_FIELDS = fields_of(AccountRecord)
_COLUMNS = columns_of(ACCOUNTS, AccountRecord)
_MUTABLE = tuple(name for name in _FIELDS if name not in {"tenant", "opened_at"})
_THESE = ACCOUNTS.c.tenant == any_(bindparam("tenants", type_=ARRAY(Text)))
_GET = select(*_COLUMNS).where(_THESE).order_by(ACCOUNTS.c.tenant)
_LOCK = _GET.with_for_update(key_share=True)


def account_add(tx: Tx, actor: Actor, record: AccountRecord) -> AccountRecord:
    """Open an account.  `Conflict` if the tenant has one."""
    authorize(actor, Action.ACCOUNT_WRITE, record.tenant)
    statement = insert(ACCOUNTS).values(values_of(record, _FIELDS)).on_conflict_do_nothing()
    if tx.execute(statement.returning(ACCOUNTS.c.tenant)).one_or_none() is None:
        raise Conflict(
            f"tenant {record.tenant!r} has an account already", hint=f"millpond accounts set {record.tenant} changes it"
        )
    return record


def account_get(tx: Tx, actor: Actor, tenant: str) -> AccountRecord:
    """`NotFound` if the tenant has none: it is metered, and never billed."""
    authorize(actor, Action.ACCOUNT_READ, tenant)
    record = accounts_get(tx, actor, [tenant]).get(tenant)
    if record is None:
        raise no_account(tenant)
    return record


def accounts_get(tx: Tx, actor: Actor, tenants: Collection[str]) -> dict[str, AccountRecord]:
    """Those of the tenants that have an account and whose accounts `actor` may read."""
    visible = tenants_visible(actor, Action.ACCOUNT_READ)
    wanted = sorted(set(tenants) if visible is None else visible & set(tenants))
    if not wanted:
        return {}
    return {record.tenant: record for record in (AccountRecord(*row) for row in tx.execute(_GET, {"tenants": wanted}))}


def account_list(tx: Tx, actor: Actor, mode: AccountMode | None = None) -> tuple[AccountRecord, ...]:
    """All that `actor` may read, by tenant."""
    return tuple(sorted(_listed(tx, actor, mode, "", None), key=attrgetter("tenant")))


def account_page(tx: Tx, actor: Actor, after: str, limit: int) -> Page[AccountRecord]:
    """As `account_list`, a page at a time.  ``after``: the last tenant of the page before."""
    records = _listed(tx, actor, None, after, limit_check(limit) + 1)
    if len(records) <= limit:
        return Page(records)
    return Page(records[:limit], records[limit - 1].tenant)


def accounts_lock(tx: Tx, actor: Actor, tenants: Collection[str]) -> dict[str, AccountRecord]:
    """Lock these accounts until the transaction ends, in order of tenant, and read them; those without are missing.

    Bookings of the tenant wait meanwhile, and what they would book in a month that is then closed is refused.
    """
    for tenant in sorted(set(tenants)):
        authorize(actor, Action.ACCOUNT_WRITE, tenant)
    if not tenants:
        return {}
    rows = tx.execute(_LOCK, {"tenants": sorted(set(tenants))})
    return {record.tenant: record for record in (AccountRecord(*row) for row in rows)}


def account_save(tx: Tx, actor: Actor, record: AccountRecord) -> AccountRecord:
    """Write an account that was locked in this transaction (`accounts_lock`)."""
    authorize(actor, Action.ACCOUNT_WRITE, record.tenant)
    statement = update(ACCOUNTS).where(ACCOUNTS.c.tenant == record.tenant).values(values_of(record, _MUTABLE))
    if not tx.execute(statement).rowcount:
        raise no_account(record.tenant)
    return record


def no_account(tenant: str) -> NotFound:
    return NotFound(
        f"tenant {tenant!r} has no billing account",
        code="NO_SUCH_ACCOUNT",
        hint=f"a platform-admin opens one: millpond accounts open {tenant} --currency CNY --zone Asia/Shanghai",
    )


def _listed(tx: Tx, actor: Actor, mode: AccountMode | None, after: str, limit: int | None) -> tuple[AccountRecord, ...]:
    visible = tenants_visible(actor, Action.ACCOUNT_READ)
    statement = select(*_COLUMNS).order_by(ACCOUNTS.c.tenant).limit(limit)
    if visible is not None:
        statement = statement.where(ACCOUNTS.c.tenant.in_(sorted(visible)))
    if mode is not None:
        statement = statement.where(ACCOUNTS.c.mode == mode)
    if after:
        statement = statement.where(ACCOUNTS.c.tenant > after)
    return tuple(AccountRecord(*row) for row in tx.execute(statement))
