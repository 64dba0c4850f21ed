"""Money before a start: held with the attempt, taken for what the meter counted, freed for the rest."""

from __future__ import annotations

from datetime import timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountMode, AccountRecord, account_opened
from millpond.billing.bookings import paid_back
from millpond.billing.burning import Draw
from millpond.billing.currencies import currency_find
from millpond.billing.grants import Grant, GrantKind
from millpond.billing.money import money_parse
from millpond.billing.prices import PriceVersion
from millpond.billing.transfers import Account, AccountKind, Times
from millpond.control import schedule
from millpond.control.captures import holds_settle
from millpond.control.meter import MeterMemory, meter_run
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_add
from millpond.db.stores.grants import grant_add, grant_list
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.db.stores.money_holds import money_holds_due
from millpond.db.stores.prices import prices_add
from millpond.domain.jobs import JobState
from millpond.domain.reasons import Code
from millpond.engines.fake import Behaviour
from millpond.metering.hours import instant
from tests.unit.control.desk import FOREVER, Desk
from tests.unit.control.test_funds import why

pytestmark = pytest.mark.postgres

CNY = currency_find("CNY")
HOUR = 3_600


@pytest.fixture
def shop(desk: Desk) -> Desk:
    """alpha pays in advance: 2.40 a card-hour, and has 10.00."""
    opened = (desk.now - timedelta(days=1)).replace(minute=0)

    def work(tx: Tx) -> None:
        record = AccountRecord("alpha", CNY, "UTC", opened, opened, mode=AccountMode.PREPAID)
        account_add(tx, SYSTEM, account_opened(record))
        price = PriceVersion("v1", "*", "*", money_parse("2.40", CNY), instant(opened) - 86_400 * 30)
        prices_add(tx, SYSTEM, "", [price], desk.now)
        grant_add(tx, SYSTEM, Grant(("g", "1"), "alpha", GrantKind.PAID, money_parse("10.00", CNY), opened), desk.now)

    desk.database.run("shop", work)
    return desk


def settle(desk: Desk) -> int:
    memory = MeterMemory()
    while meter_run(desk.control, desk.epoch, memory).more:
        pass
    return holds_settle(desk.control, desk.epoch)


def balance(desk: Desk) -> tuple[str, str, str]:
    """(posted, held, accrued) of the tenant."""

    def work(tx: Tx) -> tuple[str, str, str]:
        books = books_read_owned(tx, SYSTEM, ["alpha"])
        (grant,) = grant_list(tx, SYSTEM, "alpha")
        found = books.balance(grant.account)
        accrued = books.balance(Account("alpha", AccountKind.ACCRUED, CNY)).posted
        return found.posted.text(), found.held.text(), accrued.text()

    return desk.database.run("balance", work)


def test_invariant_26_what_is_held_cannot_be_spent_twice_and_what_is_not_used_is_free_again(shop: Desk) -> None:
    desk = shop
    desk.submit("jone", Behaviour(run_ms=int(2.5 * HOUR) * 1000), cards=1, max_duration=4 * HOUR)
    desk.round()
    assert desk.job("jone").state is JobState.RUNNING
    assert balance(desk) == ("10.00", "9.60", "0.00")
    desk.submit("jtwo", FOREVER, cards=1, max_duration=1 * HOUR)
    desk.round(1)
    assert desk.job("jtwo").state is JobState.QUEUED
    (reason,) = why(desk, "jtwo")
    assert (reason.code, reason.need, reason.have, reason.limit) == (Code.BALANCE_HELD, 240, 40, 1000)
    desk.round(2.5 * HOUR)
    assert settle(desk) == 1
    assert balance(desk)[0::2] == ("4.00", "6.00")
    desk.round(1)
    assert desk.job("jtwo").state is JobState.RUNNING
    assert balance(desk) == ("4.00", "2.40", "6.00")
    assert settle(desk) == 0


def test_of_two_that_start_in_one_pass_and_have_money_for_one_exactly_one_starts(shop: Desk) -> None:
    for name in ("jone", "jtwo"):
        shop.submit(name, FOREVER, cards=1, max_duration=4 * HOUR)
    shop.round()
    assert sorted(shop.job(name).state.value for name in ("jone", "jtwo")) == ["queued", "running"]
    assert balance(shop) == ("10.00", "9.60", "0.00")


def test_an_attempt_that_never_began_frees_all_that_it_held(shop: Desk) -> None:
    shop.submit("jbad", Behaviour(start_error="no such image"), cards=1, max_duration=4 * HOUR)
    shop.round()
    assert settle(shop) == 1
    assert balance(shop) == ("10.00", "0.00", "0.00")


def test_a_balance_that_moved_between_plan_and_store_is_looked_at_again(
    shop: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the money in between: the plan is stale, and the job waits."""
    real, spent = schedule.decision_store, []

    def taken(tx: Tx) -> None:
        books = books_read_owned(tx, SYSTEM, ["alpha"])
        (grant,) = grant_list(tx, SYSTEM, "alpha")
        batch = paid_back(books, Draw(grant, money_parse("9.00", CNY)), ("back", "1"), Times(shop.now, shop.now))
        batch_store(tx, SYSTEM, batch, shop.now)

    def store(*given: object) -> object:
        if not spent:
            spent.append(True)
            shop.database.run("taken", taken)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(schedule, "decision_store", store)
    shop.submit("jone", FOREVER, cards=1, max_duration=4 * HOUR)
    shop.round()
    assert spent
    assert shop.job("jone").state is JobState.QUEUED
    assert balance(shop) == ("1.00", "0.00", "0.00")


def test_whoever_settles_twice_takes_once(shop: Desk) -> None:
    shop.submit("jone", Behaviour(run_ms=HOUR * 1000), cards=1, max_duration=HOUR)
    shop.round()
    shop.round(HOUR)
    assert settle(shop) == 1
    assert settle(shop) == 0
    assert shop.database.run("due", lambda tx: money_holds_due(tx, SYSTEM)) == []
    assert balance(shop) == ("7.60", "0.00", "2.40")
    kinds = shop.kinds()
    assert kinds.count("money.taken") == 1
