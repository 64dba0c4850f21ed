"""Three-year cost of own cards beside the price of renting them."""

from __future__ import annotations

from datetime import UTC
from fractions import Fraction
from typing import Final

from millpond.billing.tco import Tco, TcoGiven, tco
from millpond.reports.tables import Fact, Field, Kind, Report, Row, Section, rows_of
from millpond.reports.texts import Texts

COST_FIELDS = (Field("item"), Field("amount", Kind.MONEY, sums=True))
EVEN_FIELDS = (Field("share_sold", Kind.RATIO), Field("hour_cost", Kind.PRICE), Field("margin", Kind.MONEY))
ALIKE: Final = Fraction(1, 2000)
"""Shares that are nearer than this look the same in the table."""

SHARES: Final = tuple(Fraction(percent, 100) for percent in range(100, 10, -10))


def tco_report(given: TcoGiven, lang: str) -> Report:
    """What it costs, and a card-hour's cost by the share of them that is sold; the break-even share has its row."""
    texts, made = Texts(lang), tco(given)
    costs = (
        (texts("tco.depreciation"), made.depreciation),
        (texts("tco.power"), made.power),
        (texts("tco.running"), made.running),
    )
    facts = (
        Fact("cards", given.cards, Kind.COUNT),
        Fact("years", given.years, Kind.COUNT),
        Fact("card_hours", made.card_hours * 3_600_000, Kind.CARD_HOURS),
        Fact("currency", given.currency.code),
        Fact("total_cost", made.total, Kind.MONEY),
        Fact("rental", given.rental, Kind.PRICE),
        Fact("break_even", made.break_even, Kind.RATIO),
    )
    return Report(
        "tco", UTC, tuple(fact for fact in facts if fact.value is not None),
        (
            Section("tco_costs", COST_FIELDS, rows_of(costs), (("amount", made.total),)),
            Section("tco_even", EVEN_FIELDS, rows_of(_even(given, made))),
        ),
        ("tco",),
    )  # fmt: skip


def _even(given: TcoGiven, made: Tco) -> list[Row]:
    shares = list(SHARES)
    even = made.break_even
    if even is not None and 0 < even < 1 and all(abs(even - share) > ALIKE for share in shares):
        shares.append(even)
    return [
        (share, made.hour_cost(share), None if given.rental is None else made.margin(share, given.rental))
        for share in sorted(set(shares), reverse=True)
    ]
