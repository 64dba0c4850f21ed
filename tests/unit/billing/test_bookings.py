from __future__ import annotations

import pytest

from millpond.billing.bookings import (
    debt_cleared,
    invoice_issued,
    paid_back,
    paid_back_decide,
    payment_decide,
    payment_received,
    transfer_reversed,
)
from millpond.billing.burning import Draw
from millpond.billing.grants import GrantKind, grant_transfer
from millpond.billing.holds import Held, hold_capture, hold_decide
from millpond.billing.ledger import Batch, Ledger, ledger_check
from millpond.billing.transfers import Account, AccountKind
from millpond.domain.errors import Conflict, InvalidInput, Refused
from tests.unit.billing.books import ACCRUED, CASH, CNY, WALLET, at, grant, hours, moved, opened, request, times, yuan

RECEIVABLE = Account("alpha", AccountKind.RECEIVABLE, CNY)
EARNINGS = Account("", AccountKind.EARNINGS, CNY)
TAX = Account("", AccountKind.TAX, CNY)


def posted(ledger: Ledger, *accounts: Account) -> list[str]:
    return [ledger.balance(account).posted.text() for account in accounts]


def test_invariant_29_an_invoice_is_booked_once() -> None:
    ledger = opened()
    issued = invoice_issued("2026-000001", "alpha", yuan("100.00"), yuan("6.00"), yuan("0"), times(720))
    assert ledger.add(Batch((issued,)))
    assert not ledger.add(Batch((issued,)))
    with pytest.raises(Conflict):
        ledger.add(Batch((invoice_issued("2026-000001", "alpha", yuan("99"), yuan("6"), yuan("0"), times(720)),)))
    assert posted(ledger, EARNINGS, TAX, RECEIVABLE) == ["100.00", "6.00", "-106.00"]
    ledger.add(Batch((payment_received("bank-77", "alpha", yuan("106.00"), times(800)),)))
    assert posted(ledger, RECEIVABLE, CASH) == ["0.00", "-106.00"]


def test_a_prepaid_invoice_owes_only_what_rounding_made() -> None:
    ledger = opened()
    ledger.add(Batch((moved("top-up", "200.00", CASH, WALLET), moved("used", "105.99", WALLET, ACCRUED, 3))))
    ledger.add(Batch((invoice_issued("n1", "alpha", yuan("100.00"), yuan("6.00"), yuan("105.99"), times(720)),)))
    assert posted(ledger, ACCRUED, RECEIVABLE, EARNINGS) == ["0.00", "-0.01", "100.00"]


def test_a_voided_invoice_is_taken_back_by_its_mirror() -> None:
    ledger = opened()
    issued = invoice_issued("n1", "alpha", yuan("100.00"), yuan("6.00"), yuan("0"), times(720))
    ledger.add(Batch((issued, transfer_reversed(issued, ("invoice-void", "n1"), times(721), "voided"))))
    assert posted(ledger, EARNINGS, TAX, RECEIVABLE) == ["0.00", "0.00", "0.00"]
    with pytest.raises(InvalidInput):
        transfer_reversed(moved("h", "1", WALLET, ACCRUED, pending=True), ("x",), times(1), "")


def test_a_top_up_clears_debt_first_and_trial_credit_never_does() -> None:
    small, trial = grant(GrantKind.PAID, "2.40", "small"), grant(GrantKind.TRIAL, "10.00", "trial", hours=9)
    ledger = opened(small)
    held = hold_decide(ledger, (small,), request("j1", hours("1")), at(1))
    assert isinstance(held, Held)
    ledger.add(held.batch)
    ledger.add(hold_capture(ledger, (small,), held.hold, (hours("2"),), times(4)).batch)
    assert posted(ledger, RECEIVABLE) == ["-2.40"]
    more = grant(GrantKind.PAID, "5.00", "more", hours=10)
    grants = (small, trial, more)
    for one in (trial, more):
        ledger.add(Batch((grant_transfer(one, one.granted_at),)))
    cleared = debt_cleared(ledger, grants, "alpha", CNY, "more", times(10))
    assert ledger.add(cleared)
    assert not ledger.add(cleared)
    assert posted(ledger, RECEIVABLE, more.account, trial.account) == ["0.00", "2.60", "10.00"]
    assert debt_cleared(ledger, grants, "alpha", CNY, "again", times(11)) == Batch()
    assert not ledger_check(ledger)


def test_only_free_paid_money_is_paid_back() -> None:
    cash, trial = grant(GrantKind.PAID, "10.00", "cash"), grant(GrantKind.TRIAL, "10.00", "trial")
    ledger = opened(cash, trial)
    held = hold_decide(ledger, (cash,), request("j1", hours("1")), at(1))
    assert isinstance(held, Held)
    ledger.add(held.batch)
    with pytest.raises(Refused) as caught:
        ledger.add(paid_back(ledger, Draw(cash, yuan("7.61")), ("refund", "r1"), times(2)))
    assert caught.value.reason == "OVERDRAWN"
    ledger.add(paid_back(ledger, Draw(cash, yuan("7.60")), ("refund", "r1"), times(2)))
    assert posted(ledger, cash.account, CASH) == ["2.40", "-2.40"]
    with pytest.raises(Refused):
        paid_back(ledger, Draw(trial, yuan("1")), ("refund", "r2"), times(2))
    for amount in ("0", "-1"):
        with pytest.raises(InvalidInput):
            paid_back(ledger, Draw(cash, yuan(amount)), ("refund", "r3"), times(2))
    with pytest.raises(InvalidInput):
        payment_received("p", "alpha", yuan("0"), times(1))


def test_a_payment_is_of_what_is_owed_and_no_more() -> None:
    ledger = opened()
    with pytest.raises(Refused, match=r"owes 0.00 CNY, and 1.00 CNY was paid"):
        payment_decide(ledger, "bank:1", "alpha", yuan("1.00"), times(2))
    ledger.add(Batch((moved("debt", "5.00", RECEIVABLE, EARNINGS, 1),)))
    with pytest.raises(Refused) as refused:
        payment_decide(ledger, "bank:1", "alpha", yuan("5.01"), times(2))
    assert (refused.value.reason, refused.value.details["owed"]) == ("NOT_OWED", 500)
    batch = payment_decide(ledger, "bank:1", "alpha", yuan("5.00"), times(2))
    assert ledger.add(batch)
    assert not ledger.balance(RECEIVABLE).posted
    assert not ledger.add(batch)


def test_the_last_top_up_goes_back_first_and_held_money_stays() -> None:
    old, new = grant(GrantKind.PAID, "60.00", "old"), grant(GrantKind.PAID, "40.00", "new", hours=1)
    ledger = opened(old, new, grant(GrantKind.TRIAL, "10.00", "trial"))
    batch = paid_back_decide(ledger, [old, new], "alpha", yuan("50.00"), ("payback", "1"), times(2))
    assert ledger.add(batch)
    assert [ledger.balance(one.account).posted for one in (old, new)] == [yuan("50.00"), yuan("0.00")]
    with pytest.raises(Refused) as refused:
        paid_back_decide(ledger, [old, new], "alpha", yuan("50.01"), ("payback", "2"), times(3))
    assert (refused.value.reason, refused.value.details["free"]) == ("NOT_FREE", 5000)
    with pytest.raises(InvalidInput, match="positive"):
        paid_back_decide(ledger, [old], "alpha", yuan("-1.00"), ("payback", "3"), times(3))
