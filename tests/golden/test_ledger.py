"""A month of one team in the ledger, as beancount text that a person can read and beancount itself agrees with."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from beancount import loader

from millpond.billing.beancount import beancount_text
from millpond.billing.bookings import debt_cleared, invoice_issued, payment_received
from millpond.billing.burning import Demand
from millpond.billing.credits import BilledLine, Fault, credit_booking, note_decide
from millpond.billing.grants import Grant, GrantKind, grant_expiry, grant_transfer
from millpond.billing.holds import Capture, Held, hold_capture, hold_decide
from millpond.billing.ledger import Batch, Ledger, ledger_check
from millpond.billing.transfers import Account, AccountKind, Times
from millpond.domain.errors import InvalidInput
from tests.unit.billing.books import CNY, at, hours, pack, request, yuan

GOLDEN = Path(__file__).parent / "billing" / "november.beancount"
SHANGHAI = ZoneInfo("Asia/Shanghai")
MONTH_END = at(29 * 24 + 16)
"""The first midnight of December in Shanghai: our hours count from the first of November, UTC."""


def run(ledger: Ledger, grants: list[Grant], name: str, begin: int, held: Demand, used: Demand, end: int) -> Capture:
    """A job that holds, runs, and is charged."""
    answer = hold_decide(ledger, grants, request(name, held), at(begin))
    assert isinstance(answer, Held)
    ledger.add(answer.batch)
    capture = hold_capture(ledger, grants, answer.hold, (used,), Times(at(end), at(end), (at(begin), at(end))))
    ledger.add(capture.batch)
    return capture


def november() -> Ledger:
    """Trial credit, a voucher and a pack are burnt; a job outlives its hold; a card fails; the month is invoiced."""
    ledger = Ledger()
    trial = Grant(("trial", "phone:0f3a"), "alpha", GrantKind.TRIAL, yuan("10.00"), at(9), at(9 + 240))
    voucher = Grant(("voucher", "HZ-2026-17"), "alpha", GrantKind.VOUCHER, yuan("5.00"), at(10), at(700))
    top_up = Grant(("payment", "bank", "B-1"), "alpha", GrantKind.PAID, yuan("20.00"), at(12))
    grants = [trial, voucher, pack(4, "8.00", expires=400), top_up]
    ledger.add(Batch(tuple(grant_transfer(grant, grant.granted_at) for grant in grants)))
    run(ledger, grants, "j1", 13, hours("4"), hours("2.5"), 16)
    run(ledger, grants, "j2", 20, hours("6"), hours("6"), 27)
    ledger.add(grant_expiry(ledger, trial, at(249)))
    ledger.add(grant_expiry(ledger, grants[2], at(400)))
    last = run(ledger, grants, "j3", 410, hours("8"), hours("8.5"), 419)
    more = Grant(("payment", "bank", "B-2"), "alpha", GrantKind.PAID, yuan("30.00"), at(500))
    grants.append(more)
    ledger.add(Batch((grant_transfer(more, at(500)),)))
    ledger.add(debt_cleared(ledger, grants, "alpha", CNY, more.id, Times(at(500), at(500))))
    accrued = ledger.balance(Account("alpha", AccountKind.ACCRUED, CNY)).posted
    booked = Times(at(600), at(600))
    invoice = invoice_issued("2026-000001", "alpha", accrued, yuan("2.12"), accrued, booked)
    ledger.add(Batch((invoice,)))
    line = BilledLine("2026-000001", "j3", "alpha", last.priced[0], yuan("20.40"), yuan("1.22"), last.draws)
    note = note_decide(
        line, (), Fault(("card_fault", "j3", "1"), hours("2").milli_seconds, (at(412), at(414)), "fault")
    )
    booking = credit_booking(ledger, note, at(610))
    assert booking.transfer is not None
    ledger.add(Batch((booking.transfer,)))
    ledger.add(Batch((payment_received("B-3", "alpha", yuan("0.50"), Times(at(710), at(710))),)))
    return ledger


def test_november_as_beancount_text() -> None:
    ledger = november()
    assert not ledger_check(ledger)
    text = "\n".join(beancount_text(ledger, SHANGHAI, MONTH_END)) + "\n"
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_beancount_agrees_and_would_see_a_fen() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert loader.load_string(text)[1] == []
    wrong = text.replace("balance Assets:Cash  58.50", "balance Assets:Cash  58.51")
    assert wrong != text
    assert len(loader.load_string(wrong)[1]) == 1


def test_an_export_ends_at_a_midnight() -> None:
    with pytest.raises(InvalidInput):
        list(beancount_text(Ledger(), SHANGHAI, at(0)))
    assert loader.load_string("\n".join(beancount_text(Ledger(), SHANGHAI, MONTH_END)))[1] == []
