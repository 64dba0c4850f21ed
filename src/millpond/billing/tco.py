"""What a card-hour of one's own costs over the years, and how much of the time must be sold to be cheaper than renting.

Straight arithmetic: no interest, no inflation.  Fractions until the last step.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_round
from millpond.domain.errors import InvalidInput

HOURS_A_YEAR: Final = 8_760


@dataclass(frozen=True, slots=True)
class TcoGiven:
    """One server of ``cards``.  ``residual`` is the part of ``server`` that it is still worth at the end (0.10).

    ``power_kw``: drawn by the server; ``pue``: what the building draws for each watt of it; ``energy``: price of a kWh;
    ``yearly``: room, staff and network a year.  ``rental``: what a card-hour costs elsewhere, None: not compared.
    """

    server: Money
    cards: int
    energy: Money
    yearly: Money
    power_kw: Decimal
    years: int = 3
    residual: Decimal = Decimal("0.10")
    pue: Decimal = Decimal("1.3")
    rental: Money | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.cards <= 1_000_000 or not 1 <= self.years <= 30:
            raise InvalidInput("a server has 1 to 1 000 000 cards and lasts 1 to 30 years")
        if not 0 <= self.residual <= 1 or not 1 <= self.pue <= 10 or not 0 <= self.power_kw <= 10_000_000:
            raise InvalidInput("a residual is 0 to 1, a PUE 1 to 10, and power in kW not negative")
        negative = [part for part in (self.server, self.energy, self.yearly, self.rental) if part and part.amount < 0]
        if negative:
            raise InvalidInput(f"{negative[0]} is negative", hint="costs and prices are 0 or more")

    @property
    def currency(self) -> Currency:
        return self.server.currency

    @property
    def hours(self) -> int:
        return self.years * HOURS_A_YEAR


@dataclass(frozen=True, slots=True)
class Tco:
    """``total`` is depreciation, energy and the yearly costs.  ``break_even``: the share sold at which a card-hour
    costs the rental price; above 1 renting is cheaper even if every hour is sold."""

    depreciation: Money
    power: Money
    running: Money
    total: Money
    card_hours: int
    break_even: Fraction | None
    exact: Fraction

    def hour_cost(self, sold: Fraction) -> Money:
        """Of a card-hour, when `sold` of all card-hours pay for it (0 < sold <= 1)."""
        if not 0 < sold <= 1:
            raise InvalidInput(f"{sold} of the card-hours cannot be sold", hint="more than 0, at most 1")
        return money_round(self.exact / self.card_hours / sold, self.total.currency)

    def margin(self, sold: Fraction, rental: Money) -> Money:
        """What is left of all card-hours sold at `rental`, over the whole time."""
        return money_round(Fraction(rental.amount) * self.card_hours * sold - self.exact, self.total.currency)


def tco(given: TcoGiven) -> Tco:
    """The cost over the whole time."""
    currency = given.currency
    depreciation = Fraction(given.server.amount) * (1 - Fraction(given.residual))
    power = Fraction(given.power_kw) * Fraction(given.pue) * given.hours * Fraction(given.energy.amount)
    running = Fraction(given.yearly.amount) * given.years
    exact = depreciation + power + running
    card_hours = given.cards * given.hours
    even = None
    if given.rental is not None and given.rental.amount:
        even = exact / card_hours / Fraction(given.rental.amount)
    parts = [money_round(part, currency) for part in (depreciation, power, running)]
    return Tco(parts[0], parts[1], parts[2], money_round(exact, currency), card_hours, even, exact)
