"""Small builders for tests of the ledger: yuan, moments of one day, transfers between few accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from millpond.billing.currencies import currency_find
from millpond.billing.money import Money
from millpond.billing.transfers import Account, AccountKind, Entry, Times, Transfer

CNY = currency_find("CNY")
START = datetime(2026, 11, 1, 0, 0, tzinfo=UTC)

WALLET = Account("alpha", AccountKind.WALLET, CNY)
ACCRUED = Account("alpha", AccountKind.ACCRUED, CNY)
CASH = Account("", AccountKind.CASH, CNY)


def yuan(text: str) -> Money:
    return Money(Decimal(text), CNY)


def at(hours: int, minutes: int = 0) -> datetime:
    """So long after the first of November."""
    return START + timedelta(hours=hours, minutes=minutes)


def times(hours: int, minutes: int = 0, *, later: int = 0) -> Times:
    """Booked then, and written `later` hours later."""
    return Times(at(hours, minutes), at(hours + later, minutes))


def moved(
    name: str, amount: str, source: Account, target: Account, hours: int = 0, *, pending: bool = False, later: int = 0
) -> Transfer:
    """`amount` from `source` to `target`."""
    value = yuan(amount)
    entries = (Entry(source, -value), Entry(target, value))
    return Transfer(("test", name), entries, times(hours, later=later), pending=pending)
