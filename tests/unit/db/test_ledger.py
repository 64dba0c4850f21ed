"""The ledger on PostgreSQL: what is stored, and what is refused by the store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.grants import GrantKind, grant_renewed
from millpond.billing.holds import Held, Hold, Shortfall, hold_capture, hold_decide, hold_void
from millpond.billing.ledger import Batch
from millpond.billing.transfers import Account, AccountKind, Entry, Transfer
from millpond.db.session import Database, Tx
from millpond.db.stores.accounts import account_save, accounts_lock
from millpond.db.stores.grants import grant_list, grant_renew, grants_expired
from millpond.db.stores.ledger import batch_store, batches_store, books_read, books_read_owned, posted_read
from millpond.db.stores.statements import history_read, ledger_audit
from millpond.domain.errors import Conflict, NotFound, Refused
from tests.unit.billing.books import ACCRUED, CASH, CNY, at, grant, hours, moved, pack, request, times, yuan
from tests.unit.db.bank import RECEIVABLE, given, hold, owned, store
from tests.unit.db.builders import ADMIN, ANN

NOTES = Account("", AccountKind.CREDIT_NOTES, CNY)


def test_a_hold_takes_from_what_is_free_and_gives_back_the_rest(bank: Database) -> None:
    """Invariant 26, on rows."""
    top_up = grant(GrantKind.PAID, "10.00")
    given(bank, top_up)
    first = hold(bank, "first", "4")
    assert isinstance(first, Hold)
    assert owned(bank).balance(top_up.account).available == yuan("0.40")
    assert isinstance(hold(bank, "second", "0.25"), Shortfall)

    def end(tx: Tx) -> None:
        books = books_read_owned(tx, SYSTEM, ["alpha"])
        capture = hold_capture(books, grant_list(tx, SYSTEM, "alpha"), first, [hours("2.5")], times(4))
        batch_store(tx, SYSTEM, capture.batch, at(4))

    bank.run("end", end)
    balance = owned(bank).balance(top_up.account)
    assert (balance.posted, balance.held) == (yuan("4.00"), yuan("0.00"))
    assert isinstance(hold(bank, "second", "0.25"), Hold)
    cash = bank.run("cash", lambda tx: books_read(tx, ADMIN, [CASH, ACCRUED]))
    assert cash.balance(CASH).posted == yuan("-10.00")
    assert cash.balance(ACCRUED).posted == yuan("6.00")


def test_what_is_read_again_is_what_was_stored(bank: Database) -> None:
    grants = (grant(GrantKind.TRIAL, "10.00", expires=90), pack(100, "200.00", expires=900))
    given(bank, *grants)
    assert bank.run("grants", lambda tx: grant_list(tx, ANN, "alpha")) == grants
    books = owned(bank)
    assert [books.balance(one.account).posted for one in grants] == [one.amount for one in grants]
    assert [books.version(one.account) for one in grants] == [1, 1]


def test_the_same_batch_again_changes_nothing_and_another_one_is_refused(bank: Database) -> None:
    batch = Batch((moved("a", "5.00", RECEIVABLE, ACCRUED),))
    assert store(bank, batch)
    assert not store(bank, batch, hour=200)
    assert owned(bank).version(RECEIVABLE) == 1
    with pytest.raises(Conflict) as refused:
        store(bank, Batch((moved("a", "6.00", RECEIVABLE, ACCRUED),)))
    assert refused.value.reason == "TRANSFER_DIFFERS"
    assert owned(bank).balance(ACCRUED).posted == yuan("5.00")


def test_a_decision_on_an_old_balance_is_stale(bank: Database) -> None:
    top_up = grant(GrantKind.PAID, "10.00")
    given(bank, top_up)
    old = owned(bank).version(top_up.account)
    assert isinstance(hold(bank, "first", "1"), Hold)
    late = Batch((moved("late", "1.00", top_up.account, ACCRUED),), expect={top_up.account.id: old})
    with pytest.raises(Conflict) as refused:
        store(bank, late)
    assert refused.value.reason == "STALE_BALANCE"


def test_batches_follow_from_each_other_in_one_step(bank: Database) -> None:
    top_up = grant(GrantKind.PAID, "10.00")
    given(bank, top_up)

    def work(tx: Tx) -> None:
        books = books_read_owned(tx, SYSTEM, ["alpha"])
        batches = []
        for name in ("one", "two", "three"):
            answer = hold_decide(books, grant_list(tx, SYSTEM, "alpha"), request(name, hours("1")), at(1))
            assert isinstance(answer, Held)
            books.add(answer.batch)
            batches.append(answer.batch)
        batches.append(hold_void(answer.hold, times(1)))
        with bank.statements() as statements:
            batches_store(tx, SYSTEM, batches, at(1))
        assert len(statements) <= 14

    bank.run("work", work)
    assert owned(bank).balance(top_up.account).held == yuan("4.80")
    assert owned(bank).version(top_up.account) == 5


def test_a_grant_is_expired_with_what_is_not_held(bank: Database) -> None:
    short, spent = grant(GrantKind.TRIAL, "10.00", "short", expires=5), grant(GrantKind.PAID, "1.00", "long")
    given(bank, short, spent)
    due = bank.run("due", lambda tx: grants_expired(tx, SYSTEM, at(5)))
    assert due == (short,)
    assert bank.run("due", lambda tx: grants_expired(tx, SYSTEM, at(4))) == ()


def test_service_of_a_month_is_found_by_its_own_period(bank: Database) -> None:
    base = moved("a", "5.00", RECEIVABLE, ACCRUED, 50)
    inside = replace(base, times=replace(base.times, service=(at(10), at(11))))
    store(bank, Batch((inside, moved("b", "3.00", RECEIVABLE, ACCRUED, 50))))

    def month(begin: int, end: int) -> str:
        return bank.run("posted", lambda tx: posted_read(tx, SYSTEM, ACCRUED, at(begin), at(end))).text()

    assert (month(0, 11), month(0, 10), month(11, 99)) == ("5.00", "0.00", "0.00")


def test_a_closed_month_takes_no_booking(bank: Database) -> None:
    def close(tx: Tx) -> None:
        record = accounts_lock(tx, SYSTEM, ["alpha"])["alpha"]
        account_save(tx, SYSTEM, replace(record, sealed_until=at(24)))

    bank.run("close", close)
    with pytest.raises(Refused) as refused:
        store(bank, Batch((moved("a", "5.00", RECEIVABLE, ACCRUED, 23),)))
    assert refused.value.reason == "PERIOD_CLOSED"
    assert store(bank, Batch((moved("a", "5.00", RECEIVABLE, ACCRUED, 24),)))


def test_a_tenant_without_an_account_has_no_money(house: Database) -> None:
    with pytest.raises(NotFound, match="no billing account") as refused:
        given(house, grant(GrantKind.PAID, "10.00"))
    assert "millpond accounts open alpha" in refused.value.hint


def test_a_balance_that_was_bent_is_found(bank: Database) -> None:
    """Whoever adds money to a wallet past the entries is told of by ``millpond db check``."""
    given(bank, grant(GrantKind.PAID, "10.00"))
    assert bank.run("audit", lambda tx: ledger_audit(tx, SYSTEM)) == []
    with bank.connection() as connection:
        connection.execute("UPDATE ledger_accounts SET posted = posted + 1 WHERE kind = 'wallet'")
    (problem,) = bank.run("audit", lambda tx: ledger_audit(tx, SYSTEM))
    assert "keeps 1001 posted and 0 held, its entries say 1000 and 0" in problem


def test_credit_that_comes_back_after_its_grant_expired_is_granted_anew(bank: Database) -> None:
    """One credit note may renew several grants, in one transfer."""
    olds = [grant(GrantKind.TRIAL, "10.00", "trial", expires=5), grant(GrantKind.VOUCHER, "10.00", "code", expires=5)]
    given(bank, *olds)
    news = [grant_renewed(one, yuan("2.00"), "note", at(9), 30) for one in olds]
    entries = (*tuple(Entry(one.account, one.amount) for one in news), Entry(NOTES, yuan("-4.00")))

    def work(tx: Tx) -> None:
        transfer = Transfer(("credit", "note"), entries, times(9))
        batch_store(tx, SYSTEM, Batch((transfer,)), at(9))
        for one in news:
            grant_renew(tx, SYSTEM, one, transfer.id)

    bank.run("credit", work)
    assert bank.run("grants", lambda tx: grant_list(tx, SYSTEM, "alpha"))[2:] == tuple(
        sorted(news, key=lambda one: one.id)
    )


def test_whoever_closes_a_month_goes_before_what_is_booked_in_it(bank: Database) -> None:
    """The booking waits for the closing, and is refused; it is never in a month that an invoice has left behind."""
    closing, closed = Event(), Event()

    def close(tx: Tx) -> None:
        record = accounts_lock(tx, SYSTEM, ["alpha"])["alpha"]
        closing.set()
        assert not closed.wait(0.3), "the booking did not wait"
        account_save(tx, SYSTEM, replace(record, sealed_until=at(24)))

    def book() -> str:
        assert closing.wait(10)
        try:
            store(bank, Batch((moved("a", "5.00", RECEIVABLE, NOTES, 23),)))
        except Refused as refused:
            return refused.reason
        finally:
            closed.set()
        return "booked"

    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(book)
        bank.run("close", close)
        assert answer.result(20) == "PERIOD_CLOSED"


def test_an_export_that_would_not_fit_says_how_to_make_it_smaller(bank: Database) -> None:
    given(bank, grant(GrantKind.PAID, "1.00", "one"), grant(GrantKind.PAID, "1.00", "two", hours=5))

    def transfers(limit: int, before: int = 9) -> int:
        return len(bank.run("h", lambda tx: history_read(tx, SYSTEM, "alpha", at(before), limit)).transfers)

    assert (transfers(2), transfers(1, 5)) == (2, 1)
    with pytest.raises(Refused, match="more than 1 transfers"):
        transfers(1)
