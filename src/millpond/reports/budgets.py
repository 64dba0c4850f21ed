"""Burn-down of budgets: what is used, held and left, and when it will be used up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from fractions import Fraction

from millpond.billing.budgets import Standing
from millpond.billing.money import Money, money_round
from millpond.billing.runout import runout_forecast
from millpond.billing.transfers import CARD_SECONDS
from millpond.reports.tables import Cell, Fact, Field, Kind, Report, Row, Section, rows_of


def _fields(kind: Kind) -> tuple[Field, ...]:
    amounts = ("limit", "used", "held", "left")
    return (
        Field("scope"),
        Field("unit"),
        Field("period"),
        *(Field(key, kind) for key in amounts),
        Field("used_share", Kind.RATIO),
        Field("rate_p50", kind),
        Field("rate_p90", kind),
        Field("out_p50", Kind.DAY),
        Field("out_p90", Kind.DAY),
    )


@dataclass(frozen=True, slots=True)
class Burning:
    """A budget in its period.  ``daily``: smallest units used on each whole day before ``today``, oldest first.

    ``last``: the first day after its period, which is when it begins anew.
    """

    scope: str
    standing: Standing
    daily: Sequence[int]
    today: date
    last: date


def burndown_report(facts: tuple[Fact, ...], zone: tzinfo, budgets: Iterable[Burning]) -> Report:
    """Card-hours and money apart.  A day on which a budget is used up is blank where it lasts to the end."""
    hours: list[Row] = []
    money: list[Row] = []
    for item in budgets:
        card_time = item.standing.budget.limit.currency == CARD_SECONDS
        (hours if card_time else money).append(_row(item, card_time=card_time))
    return Report(
        "burndown", zone, facts,
        (
            Section("burndown_hours", _fields(Kind.CARD_HOURS), rows_of(hours)),
            Section("burndown_money", _fields(Kind.PRICE), rows_of(money)),
        ),
        ("forecast",),
    )  # fmt: skip


def _row(item: Burning, *, card_time: bool) -> Row:
    standing = item.standing
    limit = standing.budget.limit
    left = limit - standing.taken
    found = runout_forecast(left.minor(), item.daily, item.today)
    rates = [money_round(rate / 10**limit.currency.minor_units, limit.currency)
             for rate in (found.rate_p50, found.rate_p90)]  # fmt: skip
    amounts = (limit, standing.used, standing.running, left)
    return (
        item.scope,
        "" if card_time else limit.currency.code,
        standing.period,
        *(_amount(amount, card_time=card_time) for amount in amounts),
        Fraction(standing.used.minor(), limit.minor()),
        *(_amount(rate, card_time=card_time) for rate in rates),
        *(day if day is not None and day < item.last else None for day in (found.p50, found.p90)),
    )


def _amount(amount: Money, *, card_time: bool) -> Cell:
    """Card time in milli-card-seconds, the smallest unit of `CARD_SECONDS`."""
    return amount.minor() if card_time else amount
