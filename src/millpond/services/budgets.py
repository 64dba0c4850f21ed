"""Budgets: card-hours or money that a node of the organisation may use, set, looked at, taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.billing.budgets import ANY, Budget, BudgetPeriod, Standing, Threshold, budget_check
from millpond.billing.counter import Payer
from millpond.billing.money import Money
from millpond.billing.standings import ORG
from millpond.billing.transfers import CARD_SECONDS, fact_id
from millpond.db.funds import FundsReader, runs_of
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores import budgets as store
from millpond.db.stores.accounts import account_list, accounts_get
from millpond.db.stores.attempts import attempts_live
from millpond.db.stores.jobs import jobs_get
from millpond.db.stores.prices import price_books
from millpond.db.stores.tenants import project_get, tenant_get
from millpond.domain.errors import InvalidInput
from millpond.domain.names import label_parse
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run

ROOT: Final = "/"
"""How the organisation itself is written; below it ``tenant``, ``tenant/project``, ``tenant/project/user``."""


@dataclass(frozen=True, slots=True)
class BudgetSheet:
    """A budget and how it stands; ``standing`` None: its span has not begun, or is over."""

    record: store.BudgetRecord
    standing: Standing | None


@dataclass(frozen=True, slots=True)
class BudgetGiven:
    """What somebody asks for: money or card time."""

    node: str
    limit: Money
    period: BudgetPeriod
    thresholds: tuple[Threshold, ...]
    valid: tuple[datetime, datetime] | None = None


def node_text(budget: Budget) -> str:
    """``/`` for the organisation; else as `node_parse` reads it."""
    return "/".join(budget.node[1:]) or ROOT


def node_parse(text: str) -> tuple[str, ...]:
    """``/``, ``tenant``, ``tenant/project``, ``tenant/project/user``, or ``tenant/*/user`` over all projects."""
    stripped = text.strip().strip("/")
    if not stripped:
        return (ORG,)
    parts = stripped.split("/")
    if len(parts) > 3:
        raise InvalidInput(f"{text[:80]!r} is not a node", hint="write tenant/project/user, or fewer; / means all")
    for index, part in enumerate(parts):
        if part != ANY or index == 0:
            label_parse(part, ("tenant", "project", "user")[index])
    return (ORG, *parts)


def budget_list(deps: Services, actor: Actor, tenant: str = "") -> tuple[BudgetSheet, ...]:
    """Budgets that stand, with what is used and running: of `tenant`, or all that the actor may see."""

    def work(tx: Tx) -> tuple[BudgetSheet, ...]:
        return _sheets(tx, store.budget_list(tx, actor, tenant), deps.clock())

    return deps.database.run("budget_list", work, snapshot=True)


def budget_get(deps: Services, actor: Actor, name: str) -> BudgetSheet:
    """By its id."""

    def work(tx: Tx) -> BudgetSheet:
        return _sheets(tx, (store.budget_get(tx, actor, name),), deps.clock())[0]

    return deps.database.run("budget_get", work, snapshot=True)


def budget_set(
    deps: Services, actor: Actor, given: BudgetGiven, once: Once, render: Callable[[BudgetSheet], object]
) -> Reply:
    """Set a budget; one of the same node, unit and period stands no more.

    A tenant's own budget is set by the platform; those of its projects and users by the tenant.  `InvalidInput` for a
    node that nobody knows, or money of another currency than the tenant pays in.
    """
    now = deps.clock()
    node = node_parse(given.node)
    name = fact_id("budget", *node, given.limit.currency.code, given.period.value, now.isoformat())
    budget = Budget(name, node, given.limit, given.period, given.thresholds, given.valid)
    authorize(actor, Action.BUDGET_WRITE, store.writer_tenant(budget))

    def work(tx: Tx) -> BudgetSheet:
        _node_check(tx, actor, budget)
        record = store.budget_add(tx, actor, budget, now)
        data = {**_told(budget), "thresholds": [[line.percent, line.action.value] for line in budget.thresholds]}
        event_write(deps, tx, actor, "budget.set", tenant=record.tenant, data=data)
        notify(tx, WORK_CHANNEL, "schedule")
        return _sheets(tx, (record,), now)[0]

    return once_run(deps, "budget_set", actor, once, work, render)


def budget_remove(deps: Services, actor: Actor, name: str) -> None:
    """It stands no more; jobs that waited for it may start."""

    def work(tx: Tx) -> None:
        record = store.budget_get(tx, actor, name)
        store.budget_end(tx, actor, record, deps.clock())
        event_write(deps, tx, actor, "budget.removed", tenant=record.tenant, data=_told(record.budget))
        notify(tx, WORK_CHANNEL, "schedule")

    deps.database.run("budget_remove", work)


def _node_check(tx: Tx, actor: Actor, budget: Budget) -> None:
    node = budget.node
    if len(node) > 1:
        tenant_get(tx, actor, node[1])
    if len(node) > 2 and node[2] != ANY:
        project_get(tx, actor, node[1], node[2])
    if budget.limit.currency == CARD_SECONDS:
        return
    accounts = account_list(tx, SYSTEM) if len(node) == 1 else tuple(accounts_get(tx, SYSTEM, [node[1]]).values())
    if not accounts:
        who = node[1] if len(node) > 1 else "nobody"
        raise InvalidInput(
            f"{who} has no account, so nothing costs money",
            hint="millpond accounts open opens one; or set a budget in card-hours",
            code="NO_SUCH_ACCOUNT",
        )
    if not any(account.currency == budget.limit.currency for account in accounts):
        budget_check(budget, accounts[0].currency)


def _sheets(tx: Tx, records: tuple[store.BudgetRecord, ...], now: datetime) -> tuple[BudgetSheet, ...]:
    budgets = [record.budget for record in records]
    if not budgets:
        return ()
    accounts = {account.tenant: account for account in account_list(tx, SYSTEM)}
    priced = any(budget.limit.currency != CARD_SECONDS for budget in budgets)
    books = price_books(tx, SYSTEM, accounts.values()) if priced else {}
    payers = {tenant: Payer(accounts[tenant], book) for tenant, book in books.items()}
    attempts = attempts_live(tx, SYSTEM)
    jobs = jobs_get(tx, SYSTEM, sorted({attempt.job for attempt in attempts}))
    runs = runs_of(attempts, jobs, store.counted_read(tx, SYSTEM), payers, now)
    standings = FundsReader().standings(tx, budgets, runs, accounts, payers, now)
    by_id = {standing.budget.id: standing for standing in standings}
    return tuple(BudgetSheet(record, by_id.get(record.budget.id)) for record in records)


def _told(budget: Budget) -> dict[str, object]:
    limit = budget.limit
    unit = "milli-card-seconds" if limit.currency == CARD_SECONDS else limit.currency.code
    amount: object = limit.minor() if limit.currency == CARD_SECONDS else limit.text()
    return {
        "budget": budget.id,
        "node": node_text(budget),
        "limit": amount,
        "unit": unit,
        "period": budget.period.value,
    }
