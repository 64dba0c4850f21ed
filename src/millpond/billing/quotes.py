"""Quotes: what a job may cost before it runs, as demands that a hold takes and an offer shows.

The same prices, rules and rounding as those of the bill.  There is one demand for each invoice line that the time would
fall on: the price changes in it, or a month ends.  In PostgreSQL nothing of it is stored but the hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import pairwise

from millpond.billing.burning import Demand
from millpond.billing.currencies import Currency
from millpond.billing.money import MAX_DIGITS, Money, money_sum
from millpond.billing.prices import PriceBook
from millpond.billing.rating import Rules
from millpond.domain.errors import InvalidInput

_WIDE = Context(prec=2 * MAX_DIGITS)


@dataclass(frozen=True, slots=True)
class Quote:
    """``demands`` in order of time.  ``unpriced``: milli-card-seconds that have no price yet, and hold nothing."""

    demands: tuple[Demand, ...]
    unpriced: int
    currency: Currency

    @property
    def cost(self) -> Money:
        return money_sum((demand.cost(demand.milli_seconds) for demand in self.demands), self.currency)


@dataclass(frozen=True, slots=True)
class Terms:
    """How an account pays.  ``tax_rate``: on top of prices that are net of tax; 0 where prices contain it.

    ``cuts``: instants at which its months end, in order.
    """

    currency: Currency
    tax_rate: Decimal = Decimal(0)
    cuts: tuple[int, ...] = ()


def quote_decide(
    book: PriceBook, rules: Rules, terms: Terms, sku: str, klass: str, milli: int, span: tuple[int, int]
) -> Quote:
    """The time in `span` (instants, half-open) on `milli` milli-cards, and what a minimum adds at its end."""
    start, end = span
    if milli < 0 or end < start:
        raise InvalidInput("a job runs forward, on cards", hint="check the duration and the number of cards")
    moments, versions = book.line(sku, klass)
    charged: list[tuple[Money | None, int]] = []
    for begin, until in _stretches(start, end, (*moments, *terms.cuts)):
        version = versions[bisect_right(moments, begin)]
        charged.append((version.price if version is not None else None, milli * (until - begin)))
    beyond = milli * rules.beyond(end - start) if charged else 0
    if beyond:
        price, last = charged[-1]
        charged[-1] = (price, last + beyond)
    unpriced = sum(seconds for price, seconds in charged if price is None)
    demands = tuple(Demand(seconds, price_paid(price, terms)) for price, seconds in charged if price is not None)
    return Quote(demands, unpriced, terms.currency)


def price_paid(price: Money, terms: Terms) -> Money:
    """What the customer pays for a card-hour, with tax; exact."""
    if price.currency != terms.currency:
        raise InvalidInput(
            f"the price is in {price.currency}, the account pays in {terms.currency}",
            hint=f"add a price version in {terms.currency}",
            code="CURRENCY_MISMATCH",
        )
    return Money(_WIDE.multiply(price.amount, 1 + terms.tax_rate), price.currency) if terms.tax_rate else price


def _stretches(start: int, end: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    inside = sorted({cut for cut in cuts if start < cut < end})
    edges = [start, *inside, end]
    return [(begin, until) for begin, until in pairwise(edges) if begin < until]
