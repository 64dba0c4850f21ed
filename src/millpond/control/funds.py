"""What a planning pass stores of money: alerts of budgets, and holds with the attempts that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from millpond.authz.actors import SYSTEM
from millpond.billing.counter import FundsRead
from millpond.billing.holds import Held
from millpond.control.context import EVENT_SOURCE
from millpond.control.steps import Begin, Stale, Step
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.budgets import alerts_add
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.ledger import batches_store
from millpond.db.stores.money_holds import money_holds_add
from millpond.domain.errors import Conflict


def alerts_store(tx: Tx, read: FundsRead, epoch: int, now: datetime) -> None:
    """Tell of lines that budgets have reached, each once a period."""
    fence(tx, epoch)
    alerts_add(tx, SYSTEM, read.alerts, now)
    nodes = {standing.budget.id: standing.budget.node for standing in read.standings}
    events = [
        NewEvent(
            "budget.alert", now, "control", "".join(nodes[alert.budget][1:2]),
            data={
                "budget": alert.budget, "node": "/".join(nodes[alert.budget][1:]) or "/", "period": alert.period,
                "percent": alert.percent, "taken": alert.taken.text(), "limit": alert.limit.text(),
                "unit": alert.limit.currency.code,
            },
        )
        for alert in read.alerts
    ]  # fmt: skip
    events_append(tx, EVENT_SOURCE, events)


def held_store(tx: Tx, held: Mapping[str, Held], steps: Iterable[Step], now: datetime) -> None:
    """Hold money for the attempts that begin, in their transaction.  `Stale` where a balance has moved on since."""
    begun = {step.job: step for step in steps if isinstance(step, Begin)}
    wanted = [(one.hold, begun[job]) for job, one in held.items() if job in begun and one.hold.draws]
    batches = [held[step.job].batch for _, step in wanted]
    try:
        batches_store(tx, SYSTEM, batches, now)
    except Conflict as conflict:
        if conflict.reason != "STALE_BALANCE":
            raise
        raise Stale(f"money has moved meanwhile: {conflict}") from conflict
    money_holds_add(tx, SYSTEM, ((hold, step.number, step.milli) for hold, step in wanted), now)
