"""Money and budgets as a planning pass reads them, with the world, in one snapshot.

A pool without budgets and without tenants that pay in advance costs one small query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.billing.budgets import Budget, Standing, alerts_due, budget_period
from millpond.billing.counter import FundsRead, Payer
from millpond.billing.money import Money
from millpond.billing.rating import amount_of
from millpond.billing.standings import ORG, Run, Share, standing_make
from millpond.billing.transfers import CARD_SECONDS
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_list
from millpond.db.stores.budgets import (
    Counted,
    Spent,
    alerts_raised,
    budget_list,
    counted_read,
    funds_any,
    spent_mark,
    spent_read,
)
from millpond.db.stores.grants import grants_list
from millpond.db.stores.ledger import books_read_owned
from millpond.db.stores.prices import price_books
from millpond.domain.jobs import AttemptState
from millpond.domain.records import AttemptRecord, JobRecord, World
from millpond.metering.hours import Period, instant
from millpond.zones import zone_find

Window = tuple[int, int, bool]


class FundsReader:
    """Keeps between reads the sums that the meter has not added to."""

    def __init__(self) -> None:
        self._mark: tuple[str, ...] = ()
        self._spent: dict[Window, list[Spent]] = {}

    def read(self, tx: Tx, world: World, now: datetime) -> FundsRead | None:
        """None where nobody's money matters.  `tx` is the snapshot in which `world` was read."""
        budgets, prepaid = funds_any(tx, SYSTEM)
        if not budgets and not prepaid:
            self._spent.clear()
            return None
        accounts = {account.tenant: account for account in account_list(tx, SYSTEM)}
        records = [record.budget for record in budget_list(tx, SYSTEM)]
        priced = any(budget.limit.currency != CARD_SECONDS for budget in records)
        paying = [one for one in accounts.values() if priced or one.mode is AccountMode.PREPAID]
        advance = sorted(one.tenant for one in paying if one.mode is AccountMode.PREPAID)
        books = price_books(tx, SYSTEM, paying)
        grants = grants_list(tx, SYSTEM, advance, left_only=True)
        payers = {
            one.tenant: Payer(
                one,
                books[one.tenant],
                tuple(grant for grant in grants if grant.owner == one.tenant),
                months_end(one, now),
            )
            for one in paying
        }
        jobs = {job.id: job for job in world.jobs} if records else {}
        runs = runs_of(world.attempts, jobs, counted_read(tx, SYSTEM), payers, now) if records else []
        standings = self.standings(tx, records, runs, accounts, payers, now) if records else ()
        raised = alerts_raised(tx, SYSTEM, [budget.id for budget in records]) if records else frozenset()
        alerts = tuple(alert for standing in standings for alert in alerts_due(standing, raised))
        return FundsRead(standings, payers, books_read_owned(tx, SYSTEM, advance), now, alerts)

    def standings(
        self,
        tx: Tx,
        budgets: Iterable[Budget],
        runs: Sequence[Run],
        accounts: Mapping[str, AccountRecord],
        payers: Mapping[str, Payer],
        now: datetime,
    ) -> tuple[Standing, ...]:
        """How these budgets stand; those whose span is over, or has not begun, are left out."""
        mark = spent_mark(tx, SYSTEM)
        if mark != self._mark:
            self._mark, self._spent = mark, {}
        found: list[Standing] = []
        for budget in budgets:
            period = budget_period(budget, now, zone_find(_zone(budget, accounts)))
            if period is not None:
                used = self._shares(tx, budget, period, payers)
                found.append(standing_make(budget, period, used, runs, instant(now)))
        return tuple(found)

    def _shares(self, tx: Tx, budget: Budget, period: Period, payers: Mapping[str, Payer]) -> list[Share]:
        priced = budget.limit.currency != CARD_SECONDS
        window = (period.start, period.end, priced)
        if window not in self._spent:
            self._spent[window] = spent_read(tx, SYSTEM, period.start, period.end, None, hours=priced)
        spent = self._spent[window]
        if not priced:
            return [Share((ORG, one.tenant, one.project, one.user), one.milli_seconds) for one in spent]
        return _priced(spent, payers)


def months_end(account: AccountRecord, now: datetime) -> tuple[int, ...]:
    """When the months of the account end, a year on."""
    zone = zone_find(account.zone)
    local = now.astimezone(zone)
    first = 12 * local.year + local.month
    return tuple(instant(datetime(month // 12, month % 12 + 1, 1, tzinfo=zone)) for month in range(first, first + 13))


def _zone(budget: Budget, accounts: Mapping[str, AccountRecord]) -> str:
    """The tenant's zone; else the one that all accounts share, or UTC."""
    account = accounts.get(budget.node[1]) if len(budget.node) > 1 else None
    if account is not None:
        return account.zone
    zones = {one.zone for one in accounts.values()}
    return zones.pop() if len(zones) == 1 else "UTC"


def runs_of(
    attempts: Iterable[AttemptRecord],
    jobs: Mapping[str, JobRecord],
    counted: Mapping[tuple[str, int], Counted],
    payers: Mapping[str, Payer],
    now: datetime,
) -> list[Run]:
    """What runs on cards, for budgets."""
    return [
        _run(attempt, jobs[attempt.job], counted.get((attempt.job, attempt.number)), payers.get(attempt.tenant), now)
        for attempt in attempts
        if attempt.state is not AttemptState.ENDED and attempt.milli and attempt.job in jobs
    ]


def _run(attempt: AttemptRecord, job: JobRecord, counted: Counted | None, payer: Payer | None, now: datetime) -> Run:
    begin = instant(counted.started if counted is not None else attempt.started_at or now)
    until: int | None = None
    if job.spec.max_duration is not None:
        until = instant(attempt.started_at or now) + job.spec.max_duration
    if attempt.deadline_at is not None:
        until = min(until, instant(attempt.deadline_at)) if until is not None else instant(attempt.deadline_at)
    price: Money | None = None
    if payer is not None:
        version = payer.book.at(attempt.sku, job.spec.queue.value, instant(now))
        price = version.price if version is not None else None
    done = counted.milli_seconds // attempt.milli if counted is not None else 0
    path = (ORG, attempt.tenant, job.project, job.user)
    return Run(path, attempt.milli, begin + done, until, price)


def _priced(spent: Iterable[Spent], payers: Mapping[str, Payer]) -> list[Share]:
    """Sums by price, each rounded once, as on a bill; without tax."""
    sums: dict[tuple[tuple[str, ...], Money], int] = {}
    for one in spent:
        payer = payers.get(one.tenant)
        version = payer.book.at(one.sku, one.klass, one.booked) if payer is not None else None
        if payer is None or version is None:
            continue
        charged = one.milli_seconds - (0 if payer.account.bill_lost_work else one.lost_milli_seconds)
        key = ((ORG, one.tenant, one.project, one.user), version.price)
        sums[key] = sums.get(key, 0) + charged
    return [Share(path, total, amount_of(total, price)) for (path, price), total in sums.items()]
