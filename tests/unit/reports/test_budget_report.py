"""Burn-down: what is left, and when it is used up at the usual rate and at a high one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fractions import Fraction

from millpond.billing.budgets import Budget, BudgetPeriod, Standing
from millpond.billing.currencies import currency_find
from millpond.billing.money import money_parse
from millpond.billing.transfers import card_time
from millpond.reports.budgets import Burning, burndown_report
from millpond.reports.tables import Report, Row

CNY = currency_find("CNY")
HOUR = 3_600_000
LAST = date(2026, 12, 1)


def rows(report: Report, place: int) -> list[dict[str, object]]:
    section = report.sections[place]
    found: list[Row] = list(section.rows())
    return [dict(zip((field.key for field in section.fields), row, strict=True)) for row in found]


def burning(standing: Standing, daily: list[int], last: date = LAST) -> Burning:
    return Burning("alpha", standing, daily, date(2026, 11, 15), last)


def test_card_hours_at_ten_a_day() -> None:
    """100 of 200 are left, 20 of the used are held by running jobs: 8 days at 10 a day."""
    budget = Budget("b", ("org", "alpha"), card_time(200 * HOUR), BudgetPeriod.MONTH)
    standing = Standing(budget, "2026-11", card_time(100 * HOUR), card_time(20 * HOUR))
    (row,) = rows(burndown_report((), UTC, [burning(standing, [10 * HOUR] * 14)]), 0)
    assert [row[key] for key in ("limit", "used", "held", "left")] == [200 * HOUR, 100 * HOUR, 20 * HOUR, 80 * HOUR]
    assert (row["used_share"], row["rate_p50"]) == (Fraction(1, 2), 10 * HOUR)
    assert row["out_p50"] == row["out_p90"] == date(2026, 11, 23)


def test_money_that_lasts_has_no_day() -> None:
    budget = Budget("b", ("org", "alpha"), money_parse("1000.00", CNY), BudgetPeriod.MONTH)
    standing = Standing(budget, "2026-11", money_parse("100.00", CNY), money_parse("0.00", CNY))
    (row,) = rows(burndown_report((), UTC, [burning(standing, [1_000] * 14)]), 1)
    assert str(row["left"]) == "900.00 CNY"
    assert str(row["rate_p50"]) == "10.00 CNY"
    assert (row["out_p50"], row["out_p90"]) == (None, None)


def test_what_is_over_is_over_today() -> None:
    budget = Budget("b", ("org",), money_parse("10.00", CNY), BudgetPeriod.ONCE, valid=SPAN)
    standing = Standing(budget, "b", money_parse("12.00", CNY), money_parse("0.00", CNY))
    (row,) = rows(burndown_report((), UTC, [burning(standing, [])]), 1)
    assert row["out_p50"] == date(2026, 11, 15)


SPAN = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
