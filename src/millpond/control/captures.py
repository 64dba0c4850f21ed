"""What becomes of money that was held before a start: an attempt that is over pays what the meter counted, the rest is
free again; one that never began pays nothing.  Each in one fenced transaction, once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountRecord
from millpond.billing.burning import Demand, Draw
from millpond.billing.grants import Grant, Use
from millpond.billing.holds import Hold, HoldRequest, hold_capture, hold_void
from millpond.billing.ledger import Batch
from millpond.billing.money import money_of_minor
from millpond.billing.quotes import quote_decide
from millpond.billing.transfers import Times
from millpond.control.context import EVENT_SOURCE, Control
from millpond.db.funds import months_end
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_get
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.grants import grant_list
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.db.stores.money_holds import MoneyHold, money_hold_resolve, money_holds_due
from millpond.db.stores.prices import price_book
from millpond.db.stores.usage import attempt_list
from millpond.domain.errors import Conflict
from millpond.domain.names import attempt_id
from millpond.metering.attempts import AttemptUsage
from millpond.metering.hours import instant


def holds_settle(control: Control, epoch: int) -> int:
    """Settle the holds of attempts that are over; how many.  What a race undid is left for the next time."""
    due = control.database.run("holds_due", lambda tx: money_holds_due(tx, SYSTEM))
    settled = 0
    for hold in due:
        try:
            work = partial(_settle, kept=hold, epoch=epoch, now=control.clock())
            settled += control.database.run("hold_settle", work)
        except Conflict as conflict:
            if conflict.reason != "STALE_BALANCE":
                raise
    return settled


def _settle(tx: Tx, kept: MoneyHold, epoch: int, now: datetime) -> int:
    fence(tx, epoch)
    if not money_hold_resolve(tx, SYSTEM, kept.id, now):
        return 0
    account = account_get(tx, SYSTEM, kept.tenant)
    grants = grant_list(tx, SYSTEM, kept.tenant, left_only=True)
    hold = hold_of(kept, account, grants)
    usage = next((one for one in attempt_list(tx, SYSTEM, kept.tenant, kept.job) if one.attempt == kept.attempt), None)
    demands = demands_of(tx, usage, account) if usage is not None and kept.started else ()
    batch, debt = _batch(tx, hold, grants, demands, usage, now)
    batch_store(tx, SYSTEM, batch, now)
    data: dict[str, object] = {"hold": kept.id, "currency": account.currency.code, "debt": debt}
    name = attempt_id(kept.job, kept.attempt)
    kind = "money.taken" if demands else "money.freed"
    events_append(tx, EVENT_SOURCE, [NewEvent(kind, now, "control", kept.tenant, kept.job, name, data)])
    return 1


def _batch(
    tx: Tx,
    hold: Hold,
    grants: tuple[Grant, ...],
    demands: tuple[Demand, ...],
    usage: AttemptUsage | None,
    now: datetime,
) -> tuple[Batch, str]:
    """What is booked, and what nobody could pay."""
    if not demands or usage is None:
        return hold_void(hold, Times(now, now)), ""
    books = books_read_owned(tx, SYSTEM, [hold.request.owner])
    service = (usage.started, usage.ended or now)
    capture = hold_capture(books, grants, hold, demands, Times(now, now, service))
    return capture.batch, capture.debt.text() if capture.debt else ""


def demands_of(tx: Tx, usage: AttemptUsage, account: AccountRecord) -> tuple[Demand, ...]:
    """What the meter counted, at its prices; lost work is not paid, nor anything that is disputed."""
    if usage.disputed or usage.ended is None or not usage.milli:
        return ()
    rules, start = account.rules, instant(usage.started)
    lost = 0 if rules.bill_lost_work else usage.lost_milli_seconds // usage.milli
    end = max(start, instant(usage.ended) - lost)
    if usage.lost:
        rules = replace(rules, minimum_seconds=0, increment_seconds=1)
    terms = account.terms(months_end(account, usage.started))
    book = price_book(tx, SYSTEM, account)
    return quote_decide(book, rules, terms, usage.sku, usage.klass, usage.milli, (start, end)).demands


def hold_of(kept: MoneyHold, account: AccountRecord, grants: tuple[Grant, ...]) -> Hold:
    """The hold as it was decided, of what is still needed to take it."""
    by_id = {grant.id: grant for grant in grants}
    request = HoldRequest(
        ("hold", kept.job, str(kept.attempt), str(kept.number)),
        kept.tenant,
        Use(kept.sku, kept.klass, kept.project),
        (),
        account.currency,
        service=(kept.starts_at, kept.ends_at),
    )
    draws = tuple(Draw(by_id[name], money_of_minor(minor, by_id[name].amount.currency)) for name, minor in kept.draws)
    return Hold(request, draws)
