"""Grants that have expired: what is left of them is taken, less what is held for running jobs."""

from __future__ import annotations

from datetime import datetime

from millpond.authz.actors import SYSTEM
from millpond.billing.grants import Grant, grant_expiry
from millpond.control.context import EVENT_SOURCE, Control
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.accounts import accounts_lock
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.grants import grants_expired
from millpond.db.stores.ledger import batches_store, books_read


def grants_expire(control: Control, epoch: int) -> int:
    """Book the expiry of those that are due, at most a hundred; how many.  What a hold frees later is taken then."""
    now = control.clock()
    return control.database.run("grants_expire", lambda tx: _expire(tx, epoch, now))


def _expire(tx: Tx, epoch: int, now: datetime) -> int:
    fence(tx, epoch)
    due = grants_expired(tx, SYSTEM, now)
    if not due:
        return 0
    # Whoever books on these accounts waits, so that what is read here is what is taken.
    accounts_lock(tx, SYSTEM, {grant.owner for grant in due})
    books = books_read(tx, SYSTEM, [grant.account for grant in due])
    taken = [
        (grant, batch)
        for grant in due
        for batch in (grant_expiry(books, grant, now, f"version {books.version(grant.account)}"),)
        if batch.transfers
    ]
    batches_store(tx, SYSTEM, [batch for _, batch in taken], now)
    events = [_event(grant, books.balance(grant.account).available.text(), now) for grant, _ in taken]
    events_append(tx, EVENT_SOURCE, events)
    return len(taken)


def _event(grant: Grant, amount: str, now: datetime) -> NewEvent:
    data = {"grant": grant.id, "kind": grant.kind.value, "amount": amount, "unit": grant.amount.currency.code}
    return NewEvent("account.expired", now, SYSTEM.user, grant.owner, data=data)
