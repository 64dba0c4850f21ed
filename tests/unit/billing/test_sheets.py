"""What an account stands at: sums of its grants, and nothing of those that have expired."""

from __future__ import annotations

from millpond.billing.grants import GrantKind
from millpond.billing.holds import Held, hold_decide
from millpond.billing.ledger import Batch
from millpond.billing.sheets import sheet_make
from millpond.billing.transfers import Account, AccountKind
from tests.unit.billing.books import CNY, at, grant, hours, moved, opened, pack, request, yuan

EARNINGS = Account("", AccountKind.EARNINGS, CNY)
RECEIVABLE = Account("alpha", AccountKind.RECEIVABLE, CNY)


def test_a_sheet_adds_up_what_is_live_and_says_what_is_owed() -> None:
    grants = (
        grant(GrantKind.PAID, "50.00", "paid"),
        grant(GrantKind.TRIAL, "10.00", "trial", expires=5),
        pack(100, "200.00"),
        grant(GrantKind.PAID, "7.00", "other", owner="beta"),
        grant(GrantKind.VOUCHER, "3.00", "later", hours=9),
    )
    ledger = opened(*grants)
    answer = hold_decide(ledger, [grants[0]], request("h", hours("2")), at(1))
    assert isinstance(answer, Held)
    ledger.add(answer.batch)
    ledger.add(Batch((moved("owed", "12.00", RECEIVABLE, EARNINGS, 1),)))
    sheet = sheet_make(ledger, grants, "alpha", CNY, at(4))
    assert [row.grant.kind.value for row in sheet.grants] == ["trial", "pack", "paid"]
    assert (sheet.posted, sheet.held, sheet.available) == (yuan("60.00"), yuan("4.80"), yuan("55.20"))
    assert (sheet.owed, sheet.deferred) == (yuan("12.00"), yuan("200.00"))
    assert sheet.packs_available == grants[2].amount
    over = sheet_make(ledger, grants, "alpha", CNY, at(5))
    assert (over.posted, over.available) == (yuan("60.00"), yuan("45.20"))
    assert [row.live for row in over.grants] == [False, True, True]


def test_nothing_is_zero() -> None:
    sheet = sheet_make(opened(), (), "alpha", CNY, at(0))
    assert (sheet.available, sheet.owed, sheet.grants) == (yuan("0.00"), yuan("0.00"), ())
