"""What the tables of the ledger refuse, whoever writes: rows written by hand, past the store."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from millpond.billing.grants import GrantKind
from millpond.db.session import Database
from tests.unit.billing.books import grant, yuan
from tests.unit.db.bank import given, owned

TOP_UP = grant(GrantKind.PAID, "10.00")
WALLET = TOP_UP.account.id
ID = "0" * 32

Rows = Connection[tuple[Any, ...]]


def transfer(rows: Rows, *, pending: bool, entries: int) -> None:
    rows.execute(
        "INSERT INTO ledger_transfers VALUES (%s, '{test}', %s, NULL, '', %s, NULL, NULL, now(), NULL, now())",
        (ID, pending, entries),
    )


def resolution(rows: Rows, outcome: str, entries: int) -> None:
    rows.execute(
        "INSERT INTO ledger_resolutions VALUES (%s, true, %s, %s, NULL, NULL, now(), NULL, now())",
        (ID, outcome, entries),
    )


def entries(
    rows: Rows, phase: str, wallet: int, cash: int, *, unit: str = "CNY", after: str = "0", of: str = ID
) -> None:
    given = {"of": of, "phase": phase, "wallet": WALLET, "unit": unit, "out": wallet, "in": cash, "after": after}
    rows.execute(
        "INSERT INTO ledger_entries SELECT %(of)s, %(phase)s, account, unit, amount, now() + %(after)s::interval,"
        " now() FROM (VALUES (%(wallet)s, %(unit)s, %(out)s::bigint), ('cash/CNY', 'CNY', %(in)s))"
        " AS v(account, unit, amount)",
        given,
    )


def uneven(rows: Rows) -> None:
    transfer(rows, pending=False, entries=2)
    entries(rows, "posted", -5, 6)


def bare(rows: Rows) -> None:
    transfer(rows, pending=False, entries=2)


def fewer(rows: Rows) -> None:
    transfer(rows, pending=False, entries=3)
    entries(rows, "posted", -5, 5)


def late(rows: Rows) -> None:
    """More entries, that sum to zero, for a transfer that was written long ago."""
    found = rows.execute("SELECT id, booked_at FROM ledger_transfers").fetchone()
    assert found is not None
    rows.execute(
        "INSERT INTO ledger_entries VALUES (%(id)s, 'held', %(wallet)s, 'CNY', -5, %(at)s, now()),"
        " (%(id)s, 'held', 'cash/CNY', 'CNY', 5, %(at)s, now())",
        {"id": found[0], "at": found[1], "wallet": WALLET},
    )


def mixed(rows: Rows) -> None:
    transfer(rows, pending=False, entries=2)
    entries(rows, "posted", -5, 5, unit="USD")


def another_time(rows: Rows) -> None:
    transfer(rows, pending=False, entries=2)
    entries(rows, "posted", -5, 5, after="1 day")


def held(rows: Rows) -> None:
    transfer(rows, pending=True, entries=2)
    entries(rows, "held", -5, 5)


def more_than_held(rows: Rows) -> None:
    held(rows)
    resolution(rows, "posted", 2)
    entries(rows, "posted", -6, 6)


def other_way_round(rows: Rows) -> None:
    held(rows)
    resolution(rows, "posted", 2)
    entries(rows, "posted", 5, -5)


def resolved_twice(rows: Rows) -> None:
    held(rows)
    resolution(rows, "voided", 0)
    resolution(rows, "expired", 0)


def resolved_but_posted(rows: Rows) -> None:
    transfer(rows, pending=False, entries=2)
    entries(rows, "posted", -5, 5)
    resolution(rows, "voided", 0)


def posted_without_end(rows: Rows) -> None:
    held(rows)
    entries(rows, "posted", -5, 5)


def closed(rows: Rows) -> None:
    rows.execute("UPDATE accounts SET sealed_until = now() + interval '1 day' WHERE tenant = 'alpha'")
    transfer(rows, pending=False, entries=2)
    entries(rows, "posted", -5, 5)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (uneven, "do not sum to zero"),
        (bare, "does not have the entries"),
        (fewer, "does not have the entries"),
        (late, "does not have the entries"),
        (mixed, "fk_ledger_entries_account_unit"),
        (another_time, "has another time"),
        (more_than_held, "more is posted of transfer"),
        (other_way_round, "more is posted of transfer"),
        (resolved_twice, "pk_ledger_resolutions"),
        (resolved_but_posted, "fk_ledger_resolutions_transfer_pending"),
        (posted_without_end, "another time"),
        (closed, "the month of a booking"),
    ],
)
def test_a_wrong_booking_is_refused(bank: Database, write: Any, said: str) -> None:
    given(bank, TOP_UP)
    refused(bank, write, said)


def test_the_right_one_is_taken(bank: Database) -> None:
    """What the bookings above break, unbroken: else they would prove nothing."""
    given(bank, TOP_UP)
    with bank.connection() as connection, connection.transaction():
        held(connection)
        resolution(connection, "posted", 2)
        entries(connection, "posted", -4, 4)
        rows = connection.execute("SELECT count(*) FROM ledger_entries WHERE transfer = %s", (ID,))
        assert rows.fetchone() == (4,)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE ledger_accounts SET posted = -1 WHERE kind = 'wallet'", "ck_ledger_accounts_available"),
        ("UPDATE ledger_accounts SET held = 1001 WHERE kind = 'wallet'", "ck_ledger_accounts_available"),
        ("UPDATE ledger_accounts SET held = -1 WHERE kind = 'wallet'", "ck_ledger_accounts_held"),
        ("UPDATE ledger_accounts SET posted = 1 WHERE owner IS NULL", "ck_ledger_accounts_platform"),
        ("UPDATE ledger_accounts SET kind = 'credit' WHERE kind = 'wallet'", "ck_ledger_accounts_id"),
        ("DELETE FROM ledger_accounts", "append-only"),
        ("INSERT INTO grants SELECT * FROM grants", "pk_grants"),
        ("DELETE FROM accounts WHERE tenant = 'alpha'", "fk_"),
        ("UPDATE accounts SET sealed_until = opened_at - interval '1 s'", "ck_accounts_sealed_until"),
        ("UPDATE accounts SET tax_rate = 1.5", "ck_accounts_tax_rate"),
        ("UPDATE ledger_transfers SET text = 'other'", "append-only"),
        ("DELETE FROM ledger_transfers", "append-only"),
        ("TRUNCATE ledger_transfers CASCADE", "append-only"),
        ("UPDATE ledger_resolutions SET outcome = 'voided'", "append-only"),
        ("DELETE FROM ledger_resolutions", "append-only"),
        ("TRUNCATE ledger_resolutions CASCADE", "append-only"),
        ("UPDATE ledger_entries SET amount = 1", "append-only"),
        ("DELETE FROM ledger_entries", "append-only"),
        ("TRUNCATE ledger_entries CASCADE", "append-only"),
        ("UPDATE grants SET amount = 2000", "append-only"),
        ("DELETE FROM grants", "append-only"),
        ("TRUNCATE grants CASCADE", "append-only"),
    ],
)
def test_no_row_is_bent(bank: Database, statement: str, said: str) -> None:
    given(bank, TOP_UP)
    refused(bank, lambda rows: rows.execute(statement), said)


def refused(bank: Database, write: Any, said: str) -> None:
    with bank.connection() as connection:
        with pytest.raises(psycopg.IntegrityError, match=said), connection.transaction():
            write(connection)
        assert connection.execute("SELECT count(*) FROM ledger_transfers").fetchone() == (1,)
    assert owned(bank).balance(TOP_UP.account).posted == yuan("10.00")
