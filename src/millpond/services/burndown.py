"""Daily use under each budget, for its forecast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountRecord
from millpond.billing.budgets import Budget, budget_period
from millpond.billing.money import Money
from millpond.billing.prices import PriceBook
from millpond.billing.rating import amount_of
from millpond.billing.standings import ORG
from millpond.billing.transfers import CARD_SECONDS
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_list
from millpond.db.stores.budgets import Spent, spent_read
from millpond.db.stores.prices import price_books
from millpond.metering.hours import instant
from millpond.reports.budgets import Burning
from millpond.services.budgets import BudgetSheet, node_text
from millpond.zones import zone_find

DAYS = 28
"""Whole days that a forecast looks back: four weeks."""


def burning_read(tx: Tx, sheets: Iterable[BudgetSheet], now: datetime) -> list[Burning]:
    """Budgets whose span is now, with what was used on each of the last days (in the zone of the tenant's account)."""
    standing = [sheet for sheet in sheets if sheet.standing is not None]
    if not standing:
        return []
    accounts = {account.tenant: account for account in account_list(tx, SYSTEM)}
    books = price_books(tx, SYSTEM, accounts.values())
    since = now - timedelta(days=DAYS + 2)
    spent = spent_read(tx, SYSTEM, instant(since), instant(now), None, hours=True)
    return [_burning(sheet, spent, accounts, books, now) for sheet in standing]


def _burning(
    sheet: BudgetSheet,
    spent: Sequence[Spent],
    accounts: Mapping[str, AccountRecord],
    books: Mapping[str, PriceBook],
    now: datetime,
) -> Burning:
    budget = sheet.record.budget
    account = accounts.get(sheet.record.tenant)
    zone = zone_find(account.zone) if account is not None else UTC
    today = now.astimezone(zone).date()
    days: dict[date, int] = {today - timedelta(days=back): 0 for back in range(DAYS, 0, -1)}
    for row in spent:
        day = datetime.fromtimestamp(row.booked, zone).date()
        if day in days and budget.covers((ORG, row.tenant, row.project, row.user)):
            days[day] += _minor(budget, row, accounts, books)
    used = [day for day, amount in days.items() if amount]
    # Days before anything was used say nothing about a rate.
    daily = [amount for day, amount in days.items() if used and day >= used[0]]
    period = budget_period(budget, now, zone)
    end = now if period is None else datetime.fromtimestamp(period.end, zone)
    assert sheet.standing is not None  # noqa: S101  `burning_read` leaves the others out
    return Burning(node_text(budget), sheet.standing, daily, today, end.astimezone(zone).date())


def _minor(budget: Budget, row: Spent, accounts: Mapping[str, AccountRecord], books: Mapping[str, PriceBook]) -> int:
    """What a row of use counts in the budget's unit: milli-card-seconds, or money at the price of its hour."""
    account = accounts.get(row.tenant)
    if budget.limit.currency == CARD_SECONDS:
        return row.milli_seconds
    if account is None or account.currency != budget.limit.currency:
        return 0
    version = books[row.tenant].at(row.sku, row.klass, row.booked)
    if version is None:
        return 0
    billed = row.milli_seconds - (0 if account.bill_lost_work else row.lost_milli_seconds)
    cost: Money = amount_of(billed, version.price)
    return cost.minor()
