"""The ledger in PostgreSQL: balances are read with their versions, and batches are added that were decided on them.

What a batch may do is decided by `billing.ledger`, of which the rows that it touches are loaded as a part; the tables'
constraints hold besides.  Locks are taken in one order: billing accounts (shared), then balances by id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Text, any_, bindparam, case, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.ledger import Balance, Batch, Ledger
from millpond.billing.money import Money, money_of_minor
from millpond.billing.transfers import Account, Resolution, Transfer
from millpond.db.session import Tx
from millpond.db.stores.accounts import no_account
from millpond.db.stores.ledger_rows import records_add, transfers_read
from millpond.db.stores.rows import insert_many, rows_text, update_many
from millpond.db.tables.accounts import ACCOUNTS
from millpond.db.tables.ledger import LEDGER_ACCOUNTS, LEDGER_ENTRIES, LEDGER_RESOLUTIONS, LEDGER_TRANSFERS, POSTED

_IDS = bindparam("ids", type_=ARRAY(Text))
_ACCOUNT = [LEDGER_ACCOUNTS.c[name] for name in ("id", "owner", "kind", "unit", "of", "posted", "held", "version")]
_NEW = ("id", "owner", "kind", "unit", "of")
_KEPT = ("posted", "held", "version")
_SUM = (
    select(func.coalesce(func.sum(LEDGER_ENTRIES.c.amount), 0))
    .where(LEDGER_ENTRIES.c.account == LEDGER_ACCOUNTS.c.id, LEDGER_ENTRIES.c.phase == POSTED)
    .scalar_subquery()
)
_BALANCE = select(
    *_ACCOUNT[:5],
    case((LEDGER_ACCOUNTS.c.owner.is_(None), _SUM), else_=LEDGER_ACCOUNTS.c.posted).label("posted"),
    *_ACCOUNT[6:],
)
_READ = _BALANCE.where(LEDGER_ACCOUNTS.c.id == any_(_IDS))
_READ_OWNED = select(*_ACCOUNT).where(LEDGER_ACCOUNTS.c.owner == any_(_IDS)).order_by(LEDGER_ACCOUNTS.c.id)
_LOCK = (
    select(*_ACCOUNT)
    .where(LEDGER_ACCOUNTS.c.id == any_(_IDS), LEDGER_ACCOUNTS.c.owner.is_not(None))
    .order_by(LEDGER_ACCOUNTS.c.id)
    .with_for_update(key_share=True)
)
_SEALED = (
    select(ACCOUNTS.c.tenant, ACCOUNTS.c.sealed_until)
    .where(ACCOUNTS.c.tenant == any_(_IDS))
    .order_by(ACCOUNTS.c.tenant)
    .with_for_update(read=True)
)
_OPEN = insert_many(LEDGER_ACCOUNTS, _NEW, "id").on_conflict_do_nothing()
_SAVE = update_many(LEDGER_ACCOUNTS, _KEPT)


def books_read(tx: Tx, actor: Actor, accounts: Iterable[Account]) -> Ledger:
    """Balances of now and their versions, of these accounts, in one query; others count as never written to.

    What it returns also takes batches (`Ledger.add`), so that several decisions can follow from each other before
    they are stored together.
    """
    wanted = {account.id: account for account in accounts}
    for owner in sorted({account.owner for account in wanted.values()}):
        authorize(actor, Action.ACCOUNT_READ, owner)
    return _ledger(tx.execute(_READ, {"ids": sorted(wanted)}) if wanted else ())


def books_read_owned(tx: Tx, actor: Actor, owners: Collection[str]) -> Ledger:
    """As `books_read`, of all accounts of these tenants."""
    for owner in sorted(set(owners)):
        authorize(actor, Action.ACCOUNT_READ, owner)
    return _ledger(tx.execute(_READ_OWNED, {"ids": sorted(set(owners))}) if owners else ())


def posted_read(tx: Tx, actor: Actor, account: Account, service_from: datetime, service_to: datetime) -> Money:
    """What was posted to an account for service that began in a half-open period: what is accrued for a month."""
    authorize(actor, Action.ACCOUNT_READ, account.owner)
    began = case((LEDGER_TRANSFERS.c.pending, LEDGER_RESOLUTIONS.c.service_from), else_=LEDGER_TRANSFERS.c.service_from)
    statement = (
        select(func.coalesce(func.sum(LEDGER_ENTRIES.c.amount), 0))
        .join(LEDGER_TRANSFERS, LEDGER_TRANSFERS.c.id == LEDGER_ENTRIES.c.transfer)
        .outerjoin(LEDGER_RESOLUTIONS, LEDGER_RESOLUTIONS.c.transfer == LEDGER_ENTRIES.c.transfer)
        .where(LEDGER_ENTRIES.c.account == account.id, LEDGER_ENTRIES.c.phase == POSTED)
        .where(began >= service_from, began < service_to)
    )
    return money_of_minor(int(tx.execute(statement).scalar_one()), account.unit)


def batch_store(tx: Tx, actor: Actor, batch: Batch, created_at: datetime) -> bool:
    """Add all of `batch`, or nothing; whether anything was new.  See `batches_store`."""
    return batches_store(tx, actor, (batch,), created_at)


def batches_store(tx: Tx, actor: Actor, batches: Sequence[Batch], created_at: datetime) -> bool:
    """Add these batches one after the other, in about ten statements however many there are.

    ``created_at``: when the rows are written.  A batch that is there already changes nothing; with other content it is
    a `Conflict` (``TRANSFER_DIFFERS``, ``ALREADY_RESOLVED``).  `Conflict` (``STALE_BALANCE``) when a balance that one
    was decided on has moved on: read and decide again, in a new transaction.  Else raises as `Ledger.add`, and
    `NotFound` for a tenant without an account.  After any of these let the error out of the transaction.
    """
    written = [_written(batch, created_at) for batch in batches]
    ended = {end.transfer for batch in written for end in batch.resolutions}
    new = {one.id for batch in written for one in batch.transfers}
    known = transfers_read(tx, ended - new)
    accounts = _accounts(written, (transfer for transfer, _ in known.values()))
    part = Ledger()
    _sealed_read(tx, actor, accounts.values(), part)
    expected = {account for batch in written for account in batch.expect}
    before = _accounts_lock(tx, accounts, expected, part)
    # Read again behind the locks: who held them may have written just this.
    for transfer, resolution in transfers_read(tx, new | ended).values():
        part.recall_transfer(transfer, resolution)
    transfers, resolutions = set(part.transfers), set(part.resolutions)
    added = [part.add(batch) for batch in written]
    if not any(added):
        return False
    _accounts_save(tx, part, before)
    records_add(
        tx,
        [one for name, one in part.transfers.items() if name not in transfers],
        [one for name, one in part.resolutions.items() if name not in resolutions],
    )
    return True


def _written(batch: Batch, created_at: datetime) -> Batch:
    def now(record: Transfer | Resolution) -> Any:
        return replace(record, times=replace(record.times, created_at=created_at))

    return Batch(
        tuple(now(transfer) for transfer in batch.transfers),
        tuple(now(resolution) for resolution in batch.resolutions),
        batch.expect,
    )


def _accounts(batches: Iterable[Batch], held: Iterable[Transfer]) -> dict[str, Account]:
    transfers = [transfer for batch in batches for transfer in batch.transfers]
    return {entry.account.id: entry.account for one in (*transfers, *held) for entry in one.entries}


def _sealed_read(tx: Tx, actor: Actor, accounts: Iterable[Account], part: Ledger) -> None:
    """Keeps the months of the owners from being closed meanwhile, and tells `part` which are."""
    owners = sorted({account.owner for account in accounts} - {""}) or [""]
    for owner in owners:
        authorize(actor, Action.ACCOUNT_WRITE, owner)
    sealed = {row.tenant: row.sealed_until for row in tx.execute(_SEALED, {"ids": owners})}
    for owner in filter(None, owners):
        if owner not in sealed:
            raise no_account(owner)
        part.close(owner, sealed[owner])


def _accounts_lock(
    tx: Tx, accounts: dict[str, Account], expected: set[str], part: Ledger
) -> dict[str, tuple[Account, int]]:
    """Opens what is not open, locks those of tenants, and tells `part`; id → account and version as they stand."""
    wanted = {"ids": sorted({*accounts, *expected})}
    rows = tx.execute(_LOCK, wanted).all()
    found = {row.id for row in rows}
    missing = [account for name, account in sorted(accounts.items()) if name not in found]
    if missing:
        values = ((one.id, one.owner, one.kind, one.unit, one.of) for one in missing)
        tx.execute(_OPEN, rows_text(tx, LEDGER_ACCOUNTS, _NEW, values))
        if any(account.owner for account in missing):
            rows = tx.execute(_LOCK, wanted).all()
    before: dict[str, tuple[Account, int]] = {}
    for row in rows:
        account, balance = _account(row)
        part.recall(account, balance, row.version)
        before[row.id] = (account, row.version)
    return before


def _accounts_save(tx: Tx, part: Ledger, before: dict[str, tuple[Account, int]]) -> None:
    rows = [
        (name, balance.posted.minor(), balance.held.minor(), part.version(account))
        for name, (account, version) in before.items()
        if part.version(account) != version
        for balance in (part.balance(account),)
    ]
    if rows:
        tx.execute(_SAVE, rows_text(tx, LEDGER_ACCOUNTS, ("id", *_KEPT), rows))


def _ledger(rows: Iterable[Row[Any]]) -> Ledger:
    ledger = Ledger()
    for row in rows:
        account, balance = _account(row)
        ledger.recall(account, balance, row.version)
    return ledger


def _account(row: Row[Any]) -> tuple[Account, Balance]:
    account = Account(row.owner, row.kind, row.unit, row.of)
    return account, Balance(money_of_minor(int(row.posted), row.unit), money_of_minor(int(row.held), row.unit))
