"""Expired grants: taken once, by the leader only, and what a hold frees later is taken then."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.burning import CARD_HOUR, Demand
from millpond.billing.currencies import currency_find
from millpond.billing.grants import Grant, GrantKind, Use
from millpond.billing.holds import Held, Hold, HoldRequest, hold_decide, hold_void
from millpond.billing.ledger import Balance
from millpond.billing.money import Money
from millpond.billing.transfers import Times
from millpond.control.grants import grants_expire
from millpond.db.leader import Fenced
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_add
from millpond.db.stores.events import event_list
from millpond.db.stores.grants import grant_add, grant_list
from millpond.db.stores.ledger import batch_store, books_read
from millpond.db.stores.statements import ledger_audit
from tests.unit.control.desk import START, Desk
from tests.unit.db.bank import account

CNY = currency_find("CNY")
TRIAL = Grant(("trial", "x"), "alpha", GrantKind.TRIAL, Money(Decimal("10.00"), CNY), START, START + timedelta(days=30))


@pytest.fixture
def funded(desk: Desk) -> Desk:
    """A desk whose tenant has trial credit for 30 days."""

    def work(tx: Tx) -> None:
        account_add(tx, SYSTEM, account(opened_at=START, sealed_until=START))
        grant_add(tx, SYSTEM, TRIAL, START)

    desk.database.run("fund", work)
    return desk


def balance(desk: Desk) -> Balance:
    return desk.database.run("balance", lambda tx: books_read(tx, SYSTEM, [TRIAL.account]).balance(TRIAL.account))


def held(desk: Desk) -> Hold:
    price = Money(Decimal("2.40"), CNY)
    request = HoldRequest(("hold", "1"), "alpha", Use("A800-80GB", "batch"), (Demand(CARD_HOUR, price),), CNY)

    def work(tx: Tx) -> Hold:
        books = books_read(tx, SYSTEM, [TRIAL.account])
        answer = hold_decide(books, grant_list(tx, SYSTEM, "alpha"), request, START)
        assert isinstance(answer, Held)
        batch_store(tx, SYSTEM, answer.batch, START)
        return answer.hold

    return desk.database.run("hold", work)


def test_what_is_left_is_taken_once_and_what_is_freed_later_too(funded: Desk) -> None:
    hold = held(funded)
    assert grants_expire(funded.control, funded.epoch) == 0
    funded.now = START + timedelta(days=30)
    assert grants_expire(funded.control, funded.epoch) == 1
    assert (balance(funded).posted, balance(funded).available) == (hold.draws[0].amount, Money(Decimal("0.00"), CNY))
    assert grants_expire(funded.control, funded.epoch) == 0
    times = Times(funded.now, funded.now)
    funded.database.run("void", lambda tx: batch_store(tx, SYSTEM, hold_void(hold, times), funded.now))
    assert grants_expire(funded.control, funded.epoch) == 1
    assert not balance(funded).posted
    events = funded.database.run("events", lambda tx: event_list(tx, SYSTEM, limit=1000)).items
    told = [event.data["amount"] for event in events if event.kind == "account.expired"]
    assert told == ["7.60", "2.40"]
    assert funded.database.run("audit", lambda tx: ledger_audit(tx, SYSTEM)) == []


def test_a_server_that_was_replaced_takes_nothing(funded: Desk) -> None:
    funded.now = START + timedelta(days=31)
    with pytest.raises(Fenced):
        grants_expire(funded.control, funded.epoch - 1)
    assert balance(funded).posted == TRIAL.amount
