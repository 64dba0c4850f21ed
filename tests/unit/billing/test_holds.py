from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.billing.grants import Grant, GrantKind
from millpond.billing.holds import (
    Capture,
    Held,
    Hold,
    HoldRequest,
    Rolled,
    Shortfall,
    hold_capture,
    hold_decide,
    hold_roll,
    hold_void,
)
from millpond.billing.ledger import Ledger, ledger_check
from millpond.billing.transfers import Account, AccountKind, Outcome
from millpond.domain.errors import Conflict
from millpond.domain.reasons import Code
from tests.unit.billing.books import CNY, at, drawn, grant, hours, opened, pack, request, times, yuan

TEN = grant(GrantKind.TRIAL, "10.00", "ten")


def held(ledger: Ledger, grants: tuple[Grant, ...], wanted: HoldRequest, when: int = 1) -> Hold:
    answer = hold_decide(ledger, grants, wanted, at(when))
    assert isinstance(answer, Held)
    ledger.add(answer.batch)
    return answer.hold


def short(ledger: Ledger, grants: tuple[Grant, ...], wanted: HoldRequest, when: int = 1) -> Shortfall:
    answer = hold_decide(ledger, grants, wanted, at(when))
    assert isinstance(answer, Shortfall)
    return answer


def captured(ledger: Ledger, grants: tuple[Grant, ...], hold: Hold, *used: str, when: int = 5) -> Capture:
    capture = hold_capture(ledger, grants, hold, tuple(hours(text) for text in used), times(when))
    ledger.add(capture.batch)
    assert not ledger_check(ledger)
    return capture


def test_invariant_26_available_is_posted_less_holds() -> None:
    ledger = opened(TEN)
    first = held(ledger, (TEN,), request("j1", hours("4")))
    assert ledger.balance(TEN.account).available == yuan("0.40")
    second = request("j2", hours("0.25"))
    answer = short(ledger, (TEN,), second)
    assert answer.reason.code is Code.BALANCE_HELD
    assert (answer.reason.need, answer.reason.have, answer.reason.limit) == (60, 40, 1000)
    assert answer.reason.text == (
        "alpha has 0.40 CNY free of 10.00 CNY (9.60 CNY held for other jobs), this job needs 0.60 CNY"
    )
    assert "frees" in answer.hint
    captured(ledger, (TEN,), first, "2.5")
    balance = ledger.balance(TEN.account)
    assert (balance.posted, balance.held, balance.available) == (yuan("4.00"), yuan("0"), yuan("4.00"))
    held(ledger, (TEN,), second)
    assert ledger.balance(TEN.account).available == yuan("3.40")


def test_invariant_26_two_racing_holds_of_9_60_exactly_one() -> None:
    ledger = opened(TEN)
    wanted = [request("j1", hours("4")), request("j2", hours("4"))]
    answers = [hold_decide(ledger, (TEN,), one, at(1)) for one in wanted]
    assert isinstance(answers[0], Held)
    assert isinstance(answers[1], Held), "both read the balance before either wrote"
    ledger.add(answers[1].batch)
    with pytest.raises(Conflict) as caught:
        ledger.add(answers[0].batch)
    assert caught.value.reason == "STALE_BALANCE"
    assert short(ledger, (TEN,), wanted[0]).have == yuan("0.40")
    assert len(list(ledger.pending())) == 1


def test_a_shortfall_says_how_much_could_be_paid() -> None:
    answer = short(opened(TEN), (TEN,), request("j1", hours("8")))
    assert answer.milli_seconds == 15_000_000, "4 h 10 min"
    assert answer.hint == "top up 9.20 CNY, or declare a shorter max_duration"
    assert (answer.need, answer.have, answer.limit) == (yuan("19.20"), yuan("10.00"), yuan("10.00"))


def test_a_shortfall_counts_card_time_at_its_price() -> None:
    bought = pack(1, "2.00")
    answer = short(opened(TEN, bought), (TEN, bought), request("j1", hours("6")))
    assert (answer.need, answer.have, answer.limit) == (yuan("14.40"), yuan("12.40"), yuan("12.40"))
    nothing = short(opened(), (), request("j1", hours("1")))
    assert (nothing.have, nothing.milli_seconds) == (yuan("0"), 0)


def test_what_was_used_is_taken_in_burn_order() -> None:
    grants = (
        grant(GrantKind.VOUCHER, "2.40", "voucher"),
        grant(GrantKind.TRIAL, "2.40", "trial"),
        pack(1, "2.00"),
        grant(GrantKind.PAID, "9.00", "cash"),
    )
    ledger = opened(*grants)
    hold = held(ledger, grants, request("j1", hours("5")))
    assert drawn(hold.draws) == {"voucher": "2.40", "trial": "2.40", "pack": "3600.000", "cash": "4.80"}
    capture = captured(ledger, grants, hold, "2.5")
    assert drawn(capture.draws) == {"voucher": "2.40", "trial": "2.40", "pack": "1800.000"}
    assert capture.priced == (2 * 3_600_000,)
    assert ledger.balance(grants[3].account).available == yuan("9.00")
    assert ledger.balance(grants[2].account).available.text() == "1800.000"
    assert ledger.balance(Account("", AccountKind.EARNINGS, CNY)).posted == yuan("1.00")


def test_what_exceeds_the_hold_is_taken_from_free_money_and_then_owed() -> None:
    cash = grant(GrantKind.PAID, "3.00", "cash")
    ledger = opened(cash)
    hold = held(ledger, (cash,), request("j1", hours("1")))
    capture = captured(ledger, (cash,), hold, "1.5")
    assert drawn(capture.draws) == {"cash": "3.00"}
    assert capture.debt == yuan("0.60")
    assert ledger.balance(cash.account).posted == yuan("0")
    assert ledger.balance(Account("alpha", AccountKind.RECEIVABLE, CNY)).posted == yuan("-0.60")
    assert ledger.balance(Account("alpha", AccountKind.ACCRUED, CNY)).posted == yuan("3.60")


def test_what_exceeds_the_hold_may_come_from_a_pack() -> None:
    cash, bought = grant(GrantKind.PAID, "2.40", "cash"), pack(1, "2.00")
    ledger = opened(cash)
    hold = held(ledger, (cash,), request("j1", hours("1")))
    assert drawn(hold.draws) == {"cash": "2.40"}
    later = opened(cash, bought)
    later.add(hold_decide(later, (cash,), request("j1", hours("1")), at(1)).batch)  # type: ignore[union-attr]
    capture = captured(later, (cash, bought), hold, "1.5")
    assert drawn(capture.draws) == {"pack": "1800.000", "cash": "2.40"}
    assert not capture.debt
    assert capture.priced == (3_600_000,)


def test_over_taking_is_decided_again_when_the_free_money_went_elsewhere() -> None:
    cash = grant(GrantKind.PAID, "4.80", "cash")
    ledger = opened(cash)
    hold = held(ledger, (cash,), request("j1", hours("1")))
    capture = hold_capture(ledger, (cash,), hold, (hours("2"),), times(5))
    held(ledger, (cash,), request("j2", hours("1")))
    with pytest.raises(Conflict):
        ledger.add(capture.batch)
    assert captured(ledger, (cash,), hold, "2").debt == yuan("2.40")


def test_a_job_that_never_became_usable_frees_all() -> None:
    ledger = opened(TEN)
    hold = held(ledger, (TEN,), replace(request("j1", hours("4")), expires_at=at(9)))
    ledger.add(hold_void(hold, times(9), Outcome.EXPIRED))
    assert ledger.balance(TEN.account).available == yuan("10.00")
    again = held(ledger, (TEN,), request("j2", hours("4")))
    assert not captured(ledger, (TEN,), again, "0").draws
    assert ledger.balance(TEN.account).available == yuan("10.00")


def test_what_is_free_holds_nothing() -> None:
    ledger = opened()
    hold = held(ledger, (), request("j1", hours("4", "0")))
    assert hold.draws == ()
    assert not hold_void(hold, times(2)).resolutions
    capture = hold_capture(ledger, (), hold, (hours("4", "0"),), times(5))
    assert not capture.batch.transfers
    assert not capture.batch.resolutions
    assert not capture.debt


def test_two_prices_in_one_hold() -> None:
    cash = grant(GrantKind.PAID, "30.00", "cash")
    ledger = opened(cash)
    hold = held(ledger, (cash,), request("j1", hours("1", "12.00"), hours("1", "10.50")))
    assert drawn(hold.draws) == {"cash": "22.50"}
    used = (hours("1", "12.00"), hours("0.5", "10.50"))
    ledger.add(hold_capture(ledger, (cash,), hold, used, times(5)).batch)
    assert ledger.balance(cash.account).available == yuan("12.75")


def test_a_hold_rolls_on_with_what_it_frees() -> None:
    ledger = opened(TEN)
    hold = held(ledger, (TEN,), request("j1", hours("3")))
    rolled = hold_roll(ledger, (TEN,), hold, (hours("1"),), request("j1-2", hours("3")), times(2))
    assert isinstance(rolled, Rolled)
    ledger.add(rolled.batch)
    balance = ledger.balance(TEN.account)
    assert (balance.posted, balance.held) == (yuan("7.60"), yuan("7.20"))
    answer = hold_roll(ledger, (TEN,), rolled.hold, (hours("1"),), request("j1-3", hours("3")), times(3))
    assert isinstance(answer, Shortfall)
    assert answer.have == yuan("5.20")
    assert ledger.balance(TEN.account) == balance


def test_a_hold_that_uses_more_than_it_held_rolls_on() -> None:
    ledger = opened(TEN)
    hold = held(ledger, (TEN,), request("j1", hours("1")))
    rolled = hold_roll(ledger, (TEN,), hold, (hours("2"),), request("j1-2", hours("2")), times(3))
    assert isinstance(rolled, Rolled)
    ledger.add(rolled.batch)
    balance = ledger.balance(TEN.account)
    assert (balance.posted, balance.held) == (yuan("5.20"), yuan("4.80"))
    assert not ledger_check(ledger)
