"""The past of the ledger: balances as of a moment, lines of an account, and all of it for an audit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Select, Text, and_, any_, bindparam, case, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.ledger import Balance, Ledger
from millpond.billing.money import money_of_minor
from millpond.billing.sheets import StatementLine
from millpond.billing.transfers import Account, AccountKind, Resolution, Transfer
from millpond.db.session import Tx
from millpond.db.stores.ledger_rows import ENTRIES, RESOLUTIONS, TRANSFERS, records_build, transfers_read
from millpond.db.stores.rows import cursor_read, cursor_write, limit_check
from millpond.db.tables.ledger import (
    HELD,
    LEDGER_ACCOUNTS,
    LEDGER_ENTRIES,
    LEDGER_RESOLUTIONS,
    LEDGER_TRANSFERS,
    POSTED,
)
from millpond.domain.errors import Refused
from millpond.domain.records import Page

_BATCH = 2_000
HISTORY_LIMIT = 300_000
"""Transfers that one export holds in memory: about half a gigabyte."""

_FAR = datetime(9999, 1, 1, tzinfo=UTC)
_IDS = bindparam("ids", type_=ARRAY(Text))


def books_as_of(
    tx: Tx, actor: Actor, owner: str, booked_before: datetime | None, known_before: datetime | None
) -> Ledger:
    """All balances of a tenant by what was booked, or known, before a moment; versions are all 0: nothing may be
    decided on them."""
    authorize(actor, Action.ACCOUNT_READ, owner)
    booked, known = booked_before or _FAR, known_before or _FAR
    seen = and_(LEDGER_ENTRIES.c.booked_at < booked, LEDGER_ENTRIES.c.created_at < known)
    ended = and_(
        LEDGER_RESOLUTIONS.c.transfer == LEDGER_ENTRIES.c.transfer,
        LEDGER_RESOLUTIONS.c.booked_at < booked,
        LEDGER_RESOLUTIONS.c.created_at < known,
    )
    is_held = LEDGER_ENTRIES.c.phase == HELD
    posted = func.coalesce(func.sum(LEDGER_ENTRIES.c.amount).filter(~is_held), 0)
    taken = and_(is_held, LEDGER_ENTRIES.c.amount < 0, LEDGER_RESOLUTIONS.c.transfer.is_(None))
    held = func.coalesce(func.sum(-LEDGER_ENTRIES.c.amount).filter(taken), 0)
    named = (LEDGER_ACCOUNTS.c.kind, LEDGER_ACCOUNTS.c.unit, LEDGER_ACCOUNTS.c.of)
    statement = (
        select(*named, posted, held)
        .join(LEDGER_ENTRIES, LEDGER_ENTRIES.c.account == LEDGER_ACCOUNTS.c.id)
        .outerjoin(LEDGER_RESOLUTIONS, ended)
        .where(LEDGER_ACCOUNTS.c.owner == owner, seen)
        .group_by(LEDGER_ACCOUNTS.c.id, *named)
    )
    books = Ledger()
    for kind, unit, grant, has, holds in tx.execute(statement):
        account = Account(owner, kind, unit, grant)
        books.recall(account, Balance(money_of_minor(int(has), unit), money_of_minor(int(holds), unit)), 0)
    return books


def line_page(
    tx: Tx,
    actor: Actor,
    owner: str,
    *,
    kinds: Collection[AccountKind] = (),
    grant: str = "",
    booked_from: datetime | None = None,
    booked_before: datetime | None = None,
    after: str = "",
    limit: int = 100,
) -> Page[StatementLine]:
    """What was posted to accounts of a tenant, the last first.  ``after``: `Page.next` of the page before."""
    authorize(actor, Action.ACCOUNT_READ, owner)
    limit_check(limit)
    wanted: list[ColumnElement[bool]] = [LEDGER_ACCOUNTS.c.owner == owner, LEDGER_ENTRIES.c.phase == POSTED]
    if kinds:
        wanted.append(LEDGER_ACCOUNTS.c.kind.in_(sorted(kinds)))
    if grant:
        wanted.append(LEDGER_ACCOUNTS.c.of == grant)
    if booked_from is not None:
        wanted.append(LEDGER_ENTRIES.c.booked_at >= booked_from)
    if booked_before is not None:
        wanted.append(LEDGER_ENTRIES.c.booked_at < booked_before)
    place = (LEDGER_ENTRIES.c.booked_at, LEDGER_ENTRIES.c.transfer, LEDGER_ENTRIES.c.account)
    if after:
        moment, key = cursor_read(after)
        transfer, _, account = key.partition(" ")
        wanted.append(tuple_(*place) < tuple_(literal(moment, place[0].type), literal(transfer), literal(account)))
    statement = _lines().where(*wanted).order_by(*(column.desc() for column in place)).limit(limit + 1)
    records = tuple(
        StatementLine(
            Account(owner, row.kind, row.unit, row.of),
            money_of_minor(row.amount, row.unit),
            row.transfer,
            row.source,
            row.text,
            row.booked_at,
            row.created_at,
            None if row.begin is None else (row.begin, row.end),
        )
        for row in tx.execute(statement)
    )
    if len(records) <= limit:
        return Page(records)
    last = records[limit - 1]
    return Page(records[:limit], cursor_write(last.booked_at, f"{last.transfer} {last.account.id}"))


def transfers_find(tx: Tx, actor: Actor, owner: str, transfers: Collection[str]) -> tuple[Transfer, ...]:
    """Those of the ids that exist.  For those who may read the account of `owner`."""
    authorize(actor, Action.ACCOUNT_READ, owner)
    return tuple(transfer for transfer, _ in transfers_read(tx, transfers).values())


def history_read(
    tx: Tx, actor: Actor, owner: str = "", booked_before: datetime | None = None, limit: int = HISTORY_LIMIT
) -> Ledger:
    """The records of one tenant or (empty) of everybody, as a ledger that can be asked and written out.

    Its balances are those as of moments (`Ledger.balance` with one).  It takes memory for every transfer: `Refused` for
    more than `limit`.
    """
    authorize(actor, Action.ACCOUNT_READ, owner)
    history = Ledger()
    for transfer, resolution in _records(tx, owner, booked_before or _FAR, limit + 1):
        history.recall_transfer(transfer, resolution)
    if len(history.transfers) > limit:
        raise Refused(
            f"there are more than {limit} transfers, too many for one text",
            hint="export one tenant, or what was booked before an earlier day",
            code="TOO_MANY",
        )
    return history


def ledger_audit(tx: Tx, actor: Actor) -> list[str]:
    """What is wrong with the balances, a sentence each: those that are not the sums of their entries, and units whose
    accounts do not sum to zero.  One pass over the entries."""
    authorize(actor, Action.ACCOUNT_READ)
    counted = _sums(tx)
    kept = select(LEDGER_ACCOUNTS.c.id, LEDGER_ACCOUNTS.c.posted, LEDGER_ACCOUNTS.c.held)
    found = [
        f"ledger account {name}: it keeps {posted} posted and {held} held, its entries say {sums[0]} and {sums[1]}"
        for name, posted, held in tx.execute(
            kept.where(LEDGER_ACCOUNTS.c.owner.is_not(None)).order_by(LEDGER_ACCOUNTS.c.id)
        )
        for sums in (counted.get(name, (0, 0)),)
        if sums != (posted, held)
    ]
    totals = select(LEDGER_ENTRIES.c.unit, func.sum(LEDGER_ENTRIES.c.amount)).where(LEDGER_ENTRIES.c.phase == POSTED)
    for unit, total in tx.execute(totals.group_by(LEDGER_ENTRIES.c.unit)):
        if total:
            found.append(f"all ledger accounts in {unit} sum to {total}, not to zero")
    return found


def _sums(tx: Tx) -> Mapping[str, tuple[int, int]]:
    """Account → posted and held, counted anew."""
    open_ = and_(LEDGER_ENTRIES.c.phase == HELD, LEDGER_ENTRIES.c.amount < 0, LEDGER_RESOLUTIONS.c.transfer.is_(None))
    statement = (
        select(
            LEDGER_ENTRIES.c.account,
            func.coalesce(func.sum(LEDGER_ENTRIES.c.amount).filter(LEDGER_ENTRIES.c.phase == POSTED), 0),
            func.coalesce(func.sum(-LEDGER_ENTRIES.c.amount).filter(open_), 0),
        )
        .outerjoin(LEDGER_RESOLUTIONS, LEDGER_RESOLUTIONS.c.transfer == LEDGER_ENTRIES.c.transfer)
        .group_by(LEDGER_ENTRIES.c.account)
    )
    return {account: (int(posted), int(held)) for account, posted, held in tx.execute(statement)}


def _lines() -> Select[tuple[object, ...]]:
    ended = and_(LEDGER_TRANSFERS.c.pending, LEDGER_RESOLUTIONS.c.transfer.is_not(None))

    def service(name: str) -> ColumnElement[datetime]:
        return case((ended, LEDGER_RESOLUTIONS.c[name]), else_=LEDGER_TRANSFERS.c[name])

    return (
        select(
            LEDGER_ACCOUNTS.c.kind,
            LEDGER_ACCOUNTS.c.unit,
            LEDGER_ACCOUNTS.c.of,
            LEDGER_ENTRIES.c.amount,
            LEDGER_ENTRIES.c.transfer,
            LEDGER_TRANSFERS.c.source,
            LEDGER_TRANSFERS.c.text,
            LEDGER_ENTRIES.c.booked_at,
            LEDGER_ENTRIES.c.created_at,
            service("service_from").label("begin"),
            service("service_to").label("end"),
        )
        .join(LEDGER_ACCOUNTS, LEDGER_ACCOUNTS.c.id == LEDGER_ENTRIES.c.account)
        .join(LEDGER_TRANSFERS, LEDGER_TRANSFERS.c.id == LEDGER_ENTRIES.c.transfer)
        .outerjoin(LEDGER_RESOLUTIONS, LEDGER_RESOLUTIONS.c.transfer == LEDGER_ENTRIES.c.transfer)
    )


def _records(tx: Tx, owner: str, booked_before: datetime, limit: int) -> Iterator[tuple[Transfer, Resolution | None]]:
    """By time of writing, a batch at a time."""
    transfers = TRANSFERS.where(LEDGER_TRANSFERS.c.booked_at < booked_before).limit(limit)
    if owner:
        mine = (
            select(LEDGER_ENTRIES.c.transfer)
            .join(LEDGER_ACCOUNTS, LEDGER_ACCOUNTS.c.id == LEDGER_ENTRIES.c.account)
            .where(LEDGER_ACCOUNTS.c.owner == owner)
        )
        transfers = transfers.where(LEDGER_TRANSFERS.c.id.in_(mine))
    rows = tx.execute(transfers.order_by(LEDGER_TRANSFERS.c.created_at, LEDGER_TRANSFERS.c.id))
    for part in rows.partitions(_BATCH):
        yield from records_build(
            tx,
            part,
            RESOLUTIONS.where(LEDGER_RESOLUTIONS.c.transfer == any_(_IDS)),
            ENTRIES.where(LEDGER_ENTRIES.c.transfer == any_(_IDS)),
        ).values()
