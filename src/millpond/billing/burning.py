"""Burning: who pays for card time, out of which grant, and how much.

Pure arithmetic between `grants` and `holds`.  In PostgreSQL nothing of it is stored but its outcome: the entries of a
hold and of its posting, one for each grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final

from millpond.billing.grants import Grant, Use
from millpond.billing.ledger import Books
from millpond.billing.money import Money, money_zero
from millpond.billing.prices import MILLI_SECONDS_PER_CARD_HOUR
from millpond.billing.rating import amount_of
from millpond.billing.transfers import CARD_SECONDS, card_time
from millpond.domain.errors import InvalidInput

CARD_HOUR: Final = MILLI_SECONDS_PER_CARD_HOUR


@dataclass(frozen=True, slots=True)
class Purse:
    """A grant, and how much of it may be taken now."""

    grant: Grant
    available: Money


def purse_list(books: Books, grants: Iterable[Grant], owner: str, use: Use, now: datetime) -> tuple[Purse, ...]:
    """What `owner` may spend on `use` now, in burn order; purses that are held whole stand there too, empty."""
    usable = [grant for grant in grants if grant.owner == owner and grant.live(now) and grant.scope.covers(use)]
    usable.sort(key=lambda grant: grant.burn_key)
    return tuple(Purse(grant, books.balance(grant.account).available) for grant in usable)


@dataclass(frozen=True, slots=True)
class Demand:
    """Card time at a price for a card-hour.

    ``before``: milli-card-seconds of the same invoice line that money has paid already.  Costs telescope over it: the
    parts of a line sum to the line rounded once, in however many parts it is charged.
    """

    milli_seconds: int
    price: Money
    before: int = 0

    def __post_init__(self) -> None:
        if self.milli_seconds < 0 or self.before < 0 or self.price.amount < 0:
            raise InvalidInput("card time and prices are not negative", hint="take card time back with a credit note")

    def cost(self, milli_seconds: int) -> Money:
        """Of the first so many milli-card-seconds."""
        cost = amount_of(self.before + milli_seconds, self.price)
        return cost - amount_of(self.before, self.price) if self.before else cost

    def covered(self, paid: Money) -> int:
        """Milli-card-seconds, of those demanded, that `paid` is enough for, with what the line has paid before."""
        if not self.price:
            return self.milli_seconds
        paid += amount_of(self.before, self.price)
        enough = paid.share(CARD_HOUR, 1) / Fraction(self.price.amount)
        return min(max(enough.numerator // enough.denominator - self.before, 0), self.milli_seconds)


@dataclass(frozen=True, slots=True)
class Draw:
    grant: Grant
    amount: Money


@dataclass(frozen=True, slots=True)
class Burn:
    """Who pays a demand.  ``short``: money that nobody pays.  ``packed``: milli-card-seconds that packs of time pay."""

    draws: tuple[Draw, ...]
    short: Money
    packed: int

    @property
    def money(self) -> Money:
        """What the draws of money sum to."""
        total = money_zero(self.short.currency)
        for draw in self.draws:
            if draw.amount.currency == total.currency:
                total += draw.amount
        return total


def burn_decide(purses: Sequence[Purse], demand: Demand) -> Burn:
    """Burns `purses` in the order given.  Packs of card time pay time, all others money in the demand's currency.

    Money drawn and ``short`` together are the cost of the time that no pack paid, rounded once.
    """
    currency = demand.price.currency
    nothing = money_zero(currency)
    draws: list[Draw] = []
    drawn, packed = nothing, 0
    due = demand.cost(demand.milli_seconds)
    for purse in purses:
        unit = purse.available.currency
        if unit == CARD_SECONDS:
            left = max(0, demand.milli_seconds - packed - demand.covered(drawn))
            take = min(card_time(left), purse.available)
            packed += take.minor()
            due = max(demand.cost(demand.milli_seconds - packed) - drawn, nothing)
        elif unit == currency:
            take = min(due, purse.available)
            drawn += take
            due -= take
        else:
            continue
        if take:
            draws.append(Draw(purse.grant, take))
    return Burn(tuple(draws), due, packed)
