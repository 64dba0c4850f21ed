"""How budgets stand at a moment: what the meter has counted, and what running jobs may still use.

Pure.  What a running job may still use is what is left of its ``max_duration``, as far as the period goes, and never
less than the time that nobody has counted yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from millpond.billing.budgets import Budget, Standing
from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_zero
from millpond.billing.rating import amount_of
from millpond.billing.transfers import CARD_SECONDS, card_time
from millpond.metering.hours import Period

ORG: Final = "org"
"""The one organisation that the platform serves: the root of every path."""


@dataclass(frozen=True, slots=True)
class Share:
    """What was used at a path in a period.  ``cost``: net of tax; ``None`` where nothing says what it costs."""

    path: tuple[str, ...]
    milli_seconds: int
    cost: Money | None = None

    def in_unit(self, unit: Currency) -> Money:
        if unit == CARD_SECONDS:
            return card_time(self.milli_seconds)
        return self.cost if self.cost is not None and self.cost.currency == unit else money_zero(unit)


@dataclass(frozen=True, slots=True)
class Run:
    """A running attempt, counted until ``counted``.  ``until``: its deadline.  ``price``: of a card-hour, now."""

    path: tuple[str, ...]
    milli: int
    counted: int
    until: int | None
    price: Money | None = None

    def left(self, period: Period, now: int) -> int:
        """Milli-card-seconds that it may still use in the period, beyond what is counted."""
        until = now if self.until is None else max(self.until, now)
        return self.milli * max(0, min(until, period.end) - max(self.counted, period.start))

    def left_in(self, unit: Currency, period: Period, now: int) -> Money:
        if unit == CARD_SECONDS:
            return card_time(self.left(period, now))
        if self.price is None or self.price.currency != unit:
            return money_zero(unit)
        return amount_of(self.left(period, now), self.price)


def standing_make(budget: Budget, period: Period, used: Iterable[Share], runs: Iterable[Run], now: int) -> Standing:
    """A budget in its period, at an instant."""
    unit = budget.limit.currency
    spent = running = money_zero(unit)
    for share in used:
        if budget.covers(share.path):
            spent += share.in_unit(unit)
    for run in runs:
        if budget.covers(run.path):
            running += run.left_in(unit, period, now)
    return Standing(budget, period.name, spent, running)
