"""Small builders for tests of the ledger: yuan, moments of one day, transfers between few accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from millpond.billing.burning import CARD_HOUR, Demand, Draw
from millpond.billing.currencies import currency_find
from millpond.billing.grants import Grant, GrantKind, Scope, Use, grant_transfer
from millpond.billing.holds import HoldRequest
from millpond.billing.ledger import Batch, Ledger
from millpond.billing.money import Money
from millpond.billing.transfers import Account, AccountKind, Entry, Times, Transfer, card_time

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


PRICE = Money(Decimal("2.40"), CNY)
ALL = Scope()
CARD = Use("A800-80GB", "batch", "p1")


def grant(
    kind: GrantKind,
    amount: str,
    name: str = "g",
    *,
    owner: str = "alpha",
    hours: int = 0,
    expires: int | None = None,
    priority: int = 100,
    scope: Scope = ALL,
) -> Grant:
    """Money for `owner`, from `hours` on."""
    end = None if expires is None else at(expires)
    return Grant(("test", name), owner, kind, yuan(amount), at(hours), end, priority, scope)


def pack(card_hours: int, price: str, name: str = "pack", *, expires: int | None = None) -> Grant:
    """Card time."""
    end = None if expires is None else at(expires)
    amount = card_time(card_hours * CARD_HOUR)
    return Grant(("test", name), "alpha", GrantKind.PACK, amount, at(0), end, price=yuan(price))


def opened(*grants: Grant) -> Ledger:
    """A ledger with these grants in it."""
    ledger = Ledger()
    for one in grants:
        ledger.add(Batch((grant_transfer(one, one.granted_at),)))
    return ledger


def hours(number: str, price: str = "2.40", before: str = "0") -> Demand:
    """So many card-hours."""
    seconds, earlier = (int(Decimal(text) * CARD_HOUR) for text in (number, before))
    return Demand(seconds, yuan(price), earlier)


def request(name: str, *demands: Demand, owner: str = "alpha") -> HoldRequest:
    return HoldRequest(("hold", name), owner, CARD, demands, CNY)


def drawn(draws: tuple[Draw, ...]) -> dict[str, str]:
    """Name of the grant → what is drawn from it."""
    return {draw.grant.source[-1]: draw.amount.text() for draw in draws}
