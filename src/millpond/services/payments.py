"""Payments of what is owed, and paid money that goes back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.bookings import paid_back_decide, payment_decide
from millpond.billing.ledger import Batch
from millpond.billing.money import Money, money_parse
from millpond.billing.transfers import Times, fact_id
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores.accounts import accounts_lock, no_account
from millpond.db.stores.grants import grant_list
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.db.stores.statements import transfers_find
from millpond.domain.errors import Conflict
from millpond.services.deps import Services
from millpond.services.grants import payment_check
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run


@dataclass(frozen=True, slots=True)
class Moved:
    """Money that came or went: ``transfers`` are the ids of what was booked."""

    tenant: str
    amount: Money
    transfers: tuple[str, ...]


Render = Callable[[Moved], object]


def payment_add(
    deps: Services, actor: Actor, tenant: str, amount: str, payment: tuple[str, str], once: Once, render: Render
) -> Reply:
    """Money for what a tenant owes.  `Refused` for more than that; `Conflict` if the payment was booked already."""
    name = ":".join(payment_check(*payment))

    def work(tx: Tx) -> Moved:
        paid = _amount(tx, actor, tenant, amount)
        _new_check(tx, actor, tenant, name, [fact_id("payment", name)])
        now = deps.clock()
        batch = payment_decide(books_read_owned(tx, actor, [tenant]), name, tenant, paid, Times(now, now))
        return _booked(deps, tx, actor, "account.paid", Moved(tenant, paid, ()), batch)

    return once_run(deps, "payment_add", actor, once, work, render)


def pay_back(
    deps: Services, actor: Actor, tenant: str, amount: str, payment: tuple[str, str], once: Once, render: Render
) -> Reply:
    """Free paid money goes back to whoever paid it, the last top-up first.  `Refused` for more than is free."""
    provider, reference = payment_check(*payment)
    source = ("payback", provider, reference)

    def work(tx: Tx) -> Moved:
        back = _amount(tx, actor, tenant, amount)
        grants = grant_list(tx, actor, tenant)
        ids = [fact_id(*source, grant.id) for grant in grants]
        _new_check(tx, actor, tenant, f"{provider}:{reference}", ids)
        now = deps.clock()
        books = books_read_owned(tx, actor, [tenant])
        batch = paid_back_decide(books, grants, tenant, back, source, Times(now, now))
        return _booked(deps, tx, actor, "account.paid_back", Moved(tenant, back, ()), batch)

    return once_run(deps, "pay_back", actor, once, work, render)


def _amount(tx: Tx, actor: Actor, tenant: str, text: str) -> Money:
    """Whoever else books on this account waits."""
    authorize(actor, Action.ACCOUNT_WRITE, tenant)
    account = accounts_lock(tx, actor, [tenant]).get(tenant)
    if account is None:
        raise no_account(tenant)
    return money_parse(text, account.currency)


def _new_check(tx: Tx, actor: Actor, tenant: str, name: str, transfers: Collection[str]) -> None:
    for known in transfers_find(tx, actor, tenant, transfers):
        when = known.times.booked_at.isoformat(timespec="seconds")
        raise Conflict(
            f"{name} was booked on {when}",
            hint="it was counted once, so nothing is missing; another payment has a reference of its own",
            code="PAYMENT_EXISTS",
            details={"transfer": known.id},
        )


def _booked(deps: Services, tx: Tx, actor: Actor, kind: str, moved: Moved, batch: Batch) -> Moved:
    batch_store(tx, actor, batch, deps.clock())
    data = {"amount": moved.amount.text(), "unit": moved.amount.currency.code}
    event_write(deps, tx, actor, kind, tenant=moved.tenant, data=data)
    notify(tx, WORK_CHANNEL, "schedule")
    return Moved(moved.tenant, moved.amount, tuple(transfer.id for transfer in batch.transfers))
