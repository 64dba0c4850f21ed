"""Transfers, resolutions and entries ↔ rows.  Asked by the store of the ledger, which has asked who is asking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, Text, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY

from millpond.billing.money import money_of_minor
from millpond.billing.transfers import Account, Entry, Resolution, Times, Transfer
from millpond.db.session import Tx
from millpond.db.stores.rows import insert_many, rows_text
from millpond.db.tables.ledger import (
    HELD,
    LEDGER_ACCOUNTS,
    LEDGER_ENTRIES,
    LEDGER_RESOLUTIONS,
    LEDGER_TRANSFERS,
    POSTED,
)

_TIMES = ("service_from", "service_to", "booked_at", "invoice_at", "created_at")
_TRANSFER = ("id", "source", "pending", "expires_at", "text", "entries", *_TIMES)
_RESOLUTION = ("transfer", "outcome", "entries", *_TIMES)
_ENTRY = ("transfer", "phase", "account", "unit", "amount", "booked_at", "created_at")
_TRANSFERS_ADD = insert_many(LEDGER_TRANSFERS, _TRANSFER)
_RESOLUTIONS_ADD = insert_many(LEDGER_RESOLUTIONS, _RESOLUTION)
_ENTRIES_ADD = insert_many(LEDGER_ENTRIES, _ENTRY)

_IDS = bindparam("ids", type_=ARRAY(Text))
TRANSFERS = select(*(LEDGER_TRANSFERS.c[name] for name in _TRANSFER))
RESOLUTIONS = select(*(LEDGER_RESOLUTIONS.c[name] for name in _RESOLUTION))
ENTRIES = (
    select(
        LEDGER_ENTRIES.c.transfer,
        LEDGER_ENTRIES.c.phase,
        LEDGER_ENTRIES.c.amount,
        LEDGER_ACCOUNTS.c.owner,
        LEDGER_ACCOUNTS.c.kind,
        LEDGER_ACCOUNTS.c.unit,
        LEDGER_ACCOUNTS.c.of,
    )
    .join(LEDGER_ACCOUNTS, LEDGER_ACCOUNTS.c.id == LEDGER_ENTRIES.c.account)
    .order_by(LEDGER_ENTRIES.c.transfer, LEDGER_ENTRIES.c.account)
)


def transfers_read(tx: Tx, ids: Collection[str]) -> dict[str, tuple[Transfer, Resolution | None]]:
    """Those of the ids that exist, each with its end if it has one.  One query if there are none, three else."""
    if not ids:
        return {}
    rows = tx.execute(TRANSFERS.where(LEDGER_TRANSFERS.c.id == any_(_IDS)), {"ids": sorted(ids)}).all()
    return records_build(
        tx,
        rows,
        RESOLUTIONS.where(LEDGER_RESOLUTIONS.c.transfer == any_(_IDS)),
        ENTRIES.where(LEDGER_ENTRIES.c.transfer == any_(_IDS)),
    )


def records_build(
    tx: Tx, rows: Sequence[Row[Any]], resolutions: Select[Any], entries: Select[Any]
) -> dict[str, tuple[Transfer, Resolution | None]]:
    """Rows of `TRANSFERS` with what the two other queries find for the parameter ``ids``."""
    if not rows:
        return {}
    ids = {"ids": [row.id for row in rows]}
    of: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
    for name, phase, amount, owner, kind, unit, grant in tx.execute(entries, ids):
        entry = Entry(Account(owner, kind, unit, grant), money_of_minor(amount, unit))
        of[name, phase].append(entry)
    ends = {row.transfer: row for row in tx.execute(resolutions, ids)}
    found: dict[str, tuple[Transfer, Resolution | None]] = {}
    for row in rows:
        begin = tuple(of[row.id, HELD if row.pending else POSTED])
        transfer = Transfer(row.source, begin, _times(row), row.pending, row.expires_at, row.text)
        end = ends.get(row.id)
        resolution = None
        if end is not None:
            resolution = Resolution(row.id, end.outcome, _times(end), tuple(of[row.id, POSTED]))
        found[row.id] = (transfer, resolution)
    return found


def records_add(tx: Tx, transfers: Sequence[Transfer], resolutions: Sequence[Resolution]) -> None:
    """Write them with their entries, the entries in one statement, so that a trigger can judge each transfer whole."""
    if transfers:
        rows: Iterable[Sequence[Any]] = (
            (one.id, one.source, one.pending, one.expires_at, one.text, len(one.entries), *_moments(one.times))
            for one in transfers
        )
        tx.execute(_TRANSFERS_ADD, rows_text(tx, LEDGER_TRANSFERS, _TRANSFER, rows))
    if resolutions:
        rows = ((one.transfer, one.outcome, len(one.entries), *_moments(one.times)) for one in resolutions)
        tx.execute(_RESOLUTIONS_ADD, rows_text(tx, LEDGER_RESOLUTIONS, _RESOLUTION, rows))
    entries = [
        row for one in transfers for row in _entry_rows(one.id, HELD if one.pending else POSTED, one.times, one.entries)
    ]
    entries += [row for one in resolutions for row in _entry_rows(one.transfer, POSTED, one.times, one.entries)]
    if entries:
        tx.execute(_ENTRIES_ADD, rows_text(tx, LEDGER_ENTRIES, _ENTRY, entries))


def _entry_rows(name: str, phase: str, times: Times, entries: Iterable[Entry]) -> Iterator[tuple[Any, ...]]:
    for entry in entries:
        unit = entry.account.unit
        yield name, phase, entry.account.id, unit, entry.amount.minor(), times.booked_at, times.created_at


def _moments(times: Times) -> tuple[datetime | None, ...]:
    begin, end = times.service or (None, None)
    return begin, end, times.booked_at, times.invoice_at, times.created_at


def _times(row: Row[Any]) -> Times:
    service = None if row.service_from is None else (row.service_from, row.service_to)
    return Times(row.booked_at, row.created_at, service, row.invoice_at)
