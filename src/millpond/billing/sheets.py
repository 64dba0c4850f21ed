"""What an account stands at, of now or as of a moment: its grants, what is free, what is owed.

In PostgreSQL nothing of it is stored: it is read off the balances, or summed from the entries before a moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from millpond.billing.currencies import Currency
from millpond.billing.grants import Grant
from millpond.billing.ledger import Balance, Books
from millpond.billing.money import Money, money_zero
from millpond.billing.transfers import CARD_SECONDS, Account, AccountKind


@dataclass(frozen=True, slots=True)
class GrantSheet:
    """``live``: it may be spent; one that has expired keeps what is held of it until the hold is resolved."""

    grant: Grant
    balance: Balance
    live: bool


@dataclass(frozen=True, slots=True)
class Sheet:
    """``posted``, ``held`` and ``available`` are of money, ``packs`` of card time; ``available`` of live grants only.

    ``owed``: positive when the customer owes.  ``accrued``: used and paid for, not yet invoiced.  ``deferred``: the
    price of card time that is not used yet.
    """

    owner: str
    at: datetime
    posted: Money
    held: Money
    available: Money
    packs: Balance
    packs_available: Money
    owed: Money
    accrued: Money
    deferred: Money
    grants: tuple[GrantSheet, ...]


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One posted entry: ``amount`` seen from the holder, positive for what came.  ``service``: when it was used."""

    account: Account
    amount: Money
    transfer: str
    source: tuple[str, ...]
    text: str
    booked_at: datetime
    created_at: datetime
    service: tuple[datetime, datetime] | None


def sheet_make(books: Books, grants: Iterable[Grant], owner: str, currency: Currency, at: datetime) -> Sheet:
    """Of grants that exist at `at`, in the order in which they are burnt."""
    mine = [grant for grant in grants if grant.owner == owner and grant.granted_at <= at]
    rows = tuple(
        GrantSheet(grant, books.balance(grant.account), grant.live(at))
        for grant in sorted(mine, key=lambda grant: grant.burn_key)
    )
    money, time = _sums(rows, currency), _sums(rows, CARD_SECONDS)

    def posted(kind: AccountKind) -> Money:
        return books.balance(Account(owner, kind, currency)).posted

    return Sheet(
        owner,
        at,
        money[0],
        money[1],
        money[2],
        Balance(time[0], time[1]),
        time[2],
        -posted(AccountKind.RECEIVABLE),
        posted(AccountKind.ACCRUED),
        posted(AccountKind.DEFERRED),
        rows,
    )


def _sums(rows: Iterable[GrantSheet], unit: Currency) -> tuple[Money, Money, Money]:
    """(posted, held, available of live ones) of the grants in a unit."""
    posted = held = available = money_zero(unit)
    for row in rows:
        if row.grant.amount.currency == unit:
            posted += row.balance.posted
            held += row.balance.held
            if row.live:
                available += row.balance.available
    return posted, held, available
