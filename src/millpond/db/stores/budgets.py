"""Budgets: what stands, what was used in a period, and which alerts were raised."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, system_only, tenants_visible
from millpond.billing.accounts import AccountMode
from millpond.billing.budgets import Action as Line
from millpond.billing.budgets import Alert, Budget, BudgetPeriod, Threshold
from millpond.billing.money import money_of_minor
from millpond.db.session import Tx
from millpond.db.stores.rows import insert_many, rows_print, rows_text
from millpond.db.tables.accounts import ACCOUNTS
from millpond.db.tables.budgets import BUDGET_ALERTS, BUDGETS
from millpond.db.tables.usage import ATTEMPT_USAGES, METER_MARK, USAGE_BUCKETS
from millpond.domain.errors import NotFound
from millpond.metering.hours import instant, moment_of

_NAMES = (
    "id", "node", "unit", "amount", "period", "thresholds", "valid_from", "valid_until", "created_at", "created_by",
)  # fmt: skip
_STANDING = (
    select(*(BUDGETS.c[name] for name in _NAMES))
    .where(BUDGETS.c.ended_at.is_(None))
    .order_by(BUDGETS.c.node, BUDGETS.c.unit, BUDGETS.c.period)
)
_ANY = select(
    select(BUDGETS.c.id).where(BUDGETS.c.ended_at.is_(None)).exists(),
    select(ACCOUNTS.c.tenant).where(ACCOUNTS.c.mode == AccountMode.PREPAID).exists(),
)
_MARK = select(rows_print(METER_MARK), rows_print(BUDGETS), rows_print(ACCOUNTS))
_OPEN = select(
    ATTEMPT_USAGES.c.job, ATTEMPT_USAGES.c.attempt, ATTEMPT_USAGES.c.started_at, ATTEMPT_USAGES.c.milli_seconds
).where(ATTEMPT_USAGES.c.ended_at.is_(None))
_RAISED = select(BUDGET_ALERTS.c.id)
_ALERT = ("id", "budget", "period", "percent", "raised_at")
_RAISE = insert_many(BUDGET_ALERTS, _ALERT).on_conflict_do_nothing()


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """A budget that stands, and who set it when."""

    budget: Budget
    created_at: datetime
    created_by: str

    @property
    def tenant(self) -> str:
        """Empty for the whole organisation."""
        return budget_tenant(self.budget)


def budget_tenant(budget: Budget) -> str:
    return budget.node[1] if len(budget.node) > 1 else ""


@dataclass(frozen=True, slots=True)
class Spent:
    """Card time used by one user in one project: milli-card-seconds."""

    tenant: str
    project: str
    user: str
    sku: str
    klass: str
    booked: int
    milli_seconds: int
    lost_milli_seconds: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted of an attempt that runs: milli-card-seconds since ``started``."""

    started: datetime
    milli_seconds: int


def funds_any(tx: Tx, actor: Actor) -> tuple[bool, bool]:
    """Whether any budget stands, and whether any tenant pays in advance.  Cheap.  System only."""
    system_only(actor)
    budgets, prepaid = tx.execute(_ANY).one()
    return budgets, prepaid


def spent_mark(tx: Tx, actor: Actor) -> tuple[str, ...]:
    """Another one whenever the meter has counted on, or budgets or accounts were changed.  System only."""
    system_only(actor)
    return tuple(tx.execute(_MARK).one())


def budget_list(tx: Tx, actor: Actor, tenant: str = "") -> tuple[BudgetRecord, ...]:
    """Budgets that stand: of `tenant`, or all that `actor` may see; those of the organisation for who sees all."""
    statement = _STANDING
    if tenant:
        authorize(actor, Action.BUDGET_READ, tenant)
        statement = statement.where(BUDGETS.c.tenant == tenant)
    else:
        visible = tenants_visible(actor, Action.BUDGET_READ)
        if visible is not None:
            statement = statement.where(BUDGETS.c.tenant.in_(sorted(visible)))
    return tuple(_record(row) for row in tx.execute(statement))


def budget_get(tx: Tx, actor: Actor, name: str) -> BudgetRecord:
    """By its id.  `NotFound` if it does not stand, or the actor may not see it."""
    row = tx.execute(_STANDING.where(BUDGETS.c.id == name)).one_or_none()
    visible = tenants_visible(actor, Action.BUDGET_READ)
    if row is None or (visible is not None and _record(row).tenant not in visible):
        raise NotFound(f"no budget {name!r}", hint="millpond budget list shows those that stand", code="NO_SUCH_BUDGET")
    return _record(row)


def budget_add(tx: Tx, actor: Actor, budget: Budget, created_at: datetime) -> BudgetRecord:
    """Set a budget.  One of the same node, unit and period stands no more: what was set stays on record."""
    authorize(actor, Action.BUDGET_WRITE, writer_tenant(budget))
    node = list(budget.node)
    same = (BUDGETS.c.node == budget.node) & (BUDGETS.c.unit == budget.limit.currency)
    same &= (BUDGETS.c.period == budget.period) & BUDGETS.c.ended_at.is_(None)
    # Two who set the same one at once: one after the other.
    tx.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('budgets', 0))"))
    tx.execute(update(BUDGETS).where(same).values(ended_at=created_at))
    begin, end = budget.valid or (None, None)
    tx.execute(
        insert(BUDGETS).values(
            id=budget.id,
            tenant=budget_tenant(budget),
            node=node,
            unit=budget.limit.currency,
            amount=budget.limit.minor(),
            period=budget.period,
            thresholds=[[line.percent, line.action.value] for line in budget.thresholds],
            valid_from=begin,
            valid_until=end,
            created_at=created_at,
            created_by=actor.user,
        )
    )
    return BudgetRecord(budget, created_at, actor.user)


def budget_end(tx: Tx, actor: Actor, record: BudgetRecord, now: datetime) -> None:
    """It stands no more."""
    authorize(actor, Action.BUDGET_WRITE, writer_tenant(record.budget))
    here = (BUDGETS.c.id == record.budget.id) & BUDGETS.c.ended_at.is_(None)
    tx.execute(update(BUDGETS).where(here).values(ended_at=now))


def writer_tenant(budget: Budget) -> str:
    """Where one needs the right to set it: a tenant's own budget is the platform's to set, those below it its own."""
    return budget_tenant(budget) if len(budget.node) > 2 else ""


def spent_read(
    tx: Tx, actor: Actor, start: int, end: int, tenants: Collection[str] | None, *, hours: bool
) -> list[Spent]:
    """What the hours in [start, end) carry (instants), of these tenants or of all.  System only.

    ``hours``: by hour, model and class, to be priced; otherwise one sum a user of a project.
    """
    system_only(actor)
    kept = USAGE_BUCKETS.c
    owner = [kept.tenant, kept.project, kept.username]
    finer = [kept.sku, kept.klass, kept.booked] if hours else []
    sums = [func.sum(kept.milli_seconds), func.sum(kept.lost_milli_seconds)]
    statement = select(*owner, *finer, *sums).where(kept.booked >= moment_of(start), kept.booked < moment_of(end))
    if tenants is not None:
        statement = statement.where(kept.tenant.in_(sorted(tenants)))
    rows = tx.execute(statement.group_by(*owner, *finer))
    if not hours:
        return [Spent(row[0], row[1], row[2], "", "", start, int(row[3]), int(row[4])) for row in rows]
    return [Spent(row[0], row[1], row[2], row[3], row[4], instant(row[5]), int(row[6]), int(row[7])) for row in rows]


def counted_read(tx: Tx, actor: Actor) -> dict[tuple[str, int], Counted]:
    """What the meter has counted so far of attempts that it knows to run, by job and number.  System only."""
    system_only(actor)
    return {(job, attempt): Counted(started, total) for job, attempt, started, total in tx.execute(_OPEN)}


def alerts_raised(tx: Tx, actor: Actor, budgets: Collection[str]) -> frozenset[str]:
    """Alerts that these budgets have raised.  System only."""
    system_only(actor)
    return frozenset(tx.execute(_RAISED.where(BUDGET_ALERTS.c.budget.in_(sorted(budgets)))).scalars())


def alerts_add(tx: Tx, actor: Actor, alerts: Iterable[Alert], now: datetime) -> None:
    """Remember these.  System only."""
    system_only(actor)
    rows = [(alert.id, alert.budget, alert.period, alert.percent, now) for alert in alerts]
    if rows:
        tx.execute(_RAISE, rows_text(tx, BUDGET_ALERTS, _ALERT, rows))


def _record(row: Row[Any]) -> BudgetRecord:
    thresholds = tuple(Threshold(percent, Line(action)) for percent, action in row.thresholds)
    valid = None if row.period is not BudgetPeriod.ONCE else (row.valid_from, row.valid_until)
    limit = money_of_minor(row.amount, row.unit)
    return BudgetRecord(Budget(row.id, row.node, limit, row.period, thresholds, valid), row.created_at, row.created_by)
