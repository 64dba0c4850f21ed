from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from millpond.billing.ledger import Batch, Ledger, ledger_check
from millpond.billing.transfers import (
    KINDS,
    Account,
    AccountKind,
    Entry,
    Outcome,
    Resolution,
    Times,
    Transfer,
    card_time,
    entries_join,
    fact_id,
)
from millpond.domain.errors import Conflict, InvalidInput, MillpondError, NotFound, Refused
from tests.unit.billing.books import ACCRUED, CASH, CNY, WALLET, at, moved, times, yuan


def top_up(amount: str = "10.00") -> Ledger:
    ledger = Ledger()
    assert ledger.add(Batch((moved("top-up", amount, CASH, WALLET),)))
    return ledger


def hold(amount: str = "9.60", name: str = "hold", hours: int = 1) -> Transfer:
    return moved(name, amount, WALLET, ACCRUED, hours, pending=True)


def posted(transfer: Transfer, amount: str, hours: int = 2) -> Resolution:
    value = yuan(amount)
    return Resolution(transfer.id, Outcome.POSTED, times(hours), (Entry(WALLET, -value), Entry(ACCRUED, value)))


def state(ledger: Ledger) -> tuple[str, str]:
    balance = ledger.balance(WALLET)
    return balance.posted.text(), balance.held.text()


def code_of(caught: pytest.ExceptionInfo[MillpondError]) -> str:
    assert caught.value.hint, "an error says what to do"
    return caught.value.reason


def test_every_kind_has_a_rule() -> None:
    assert set(KINDS) == set(AccountKind)
    assert {kind for kind, rule in KINDS.items() if rule.guarded} == {
        AccountKind.WALLET,
        AccountKind.CREDIT,
        AccountKind.PACK,
    }


def test_ids_follow_from_the_source_alone() -> None:
    first, second = moved("a", "1.00", CASH, WALLET), moved("a", "2.00", CASH, WALLET, 5)
    assert first.id == second.id == fact_id("test", "a")
    assert first.digest != second.digest
    assert fact_id("a", "b") != fact_id("ab") != fact_id("a", "", "b")


def test_invariant_24_every_transfer_sums_to_zero() -> None:
    with pytest.raises(InvalidInput) as caught:
        Transfer(("x",), (Entry(CASH, -yuan("1.00")), Entry(WALLET, yuan("0.99"))), times(0))
    assert code_of(caught) == "UNBALANCED"
    pack = Account("alpha", AccountKind.PACK, card_time(1).currency, "p1")
    with pytest.raises(InvalidInput) as caught:
        Transfer(("x",), (Entry(CASH, -yuan("1.00")), Entry(pack, card_time(1000))), times(0))
    assert code_of(caught) == "UNBALANCED"


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (Entry(WALLET, yuan("0")),),
        (Entry(WALLET, yuan("0.001")), Entry(CASH, -yuan("0.001"))),
        (Entry(WALLET, card_time(5)), Entry(CASH, -card_time(5))),
        (Entry(WALLET, yuan("1")), Entry(WALLET, -yuan("1"))),
    ],
    ids=["none", "zero", "finer than a fen", "wrong unit", "same account twice"],
)
def test_bad_entries_are_refused(entries: tuple[Entry, ...]) -> None:
    with pytest.raises(InvalidInput):
        Transfer(("x",), entries, times(0))


def test_times_need_zones_and_order() -> None:
    naive = datetime(2026, 11, 1)  # noqa: DTZ001  what is refused
    with pytest.raises(InvalidInput):
        Times(naive, at(0))
    with pytest.raises(InvalidInput):
        Times(at(0), at(0), service=(at(2), at(1)))
    with pytest.raises(InvalidInput):
        Times(at(0), at(0), invoice_at=naive)


def test_accounts_cannot_be_confused() -> None:
    assert WALLET.id == "wallet/alpha/CNY"
    with pytest.raises(InvalidInput):
        Account("a/b", AccountKind.WALLET, CNY)
    with pytest.raises(InvalidInput):
        Account("", AccountKind.CREDIT, CNY, "g1")


def test_entries_join_adds_up_and_drops_what_cancels_out() -> None:
    one = yuan("1.00")
    joined = entries_join([(WALLET, one), (CASH, -one), (WALLET, one), (CASH, -one), (ACCRUED, one), (ACCRUED, -one)])
    assert joined == (Entry(WALLET, yuan("2.00")), Entry(CASH, yuan("-2.00")))


def test_a_replay_changes_nothing() -> None:
    ledger = top_up()
    version = ledger.version(WALLET)
    later = replace(moved("top-up", "10.00", CASH, WALLET), times=times(0, later=48))
    assert not ledger.add(Batch((later,), expect={WALLET.id: 99}))
    assert ledger.version(WALLET) == version
    assert state(ledger) == ("10.00", "0.00")


def test_a_second_top_up_under_the_same_payment_is_refused() -> None:
    ledger = top_up()
    with pytest.raises(Conflict) as caught:
        ledger.add(Batch((moved("top-up", "20.00", CASH, WALLET),)))
    assert code_of(caught) == "TRANSFER_DIFFERS"
    assert "test top-up is booked already" in str(caught.value)
    assert state(ledger) == ("10.00", "0.00")


def test_a_batch_is_added_whole_or_not_at_all() -> None:
    ledger = top_up()
    with pytest.raises(Refused) as caught:
        ledger.add(Batch((moved("more", "5.00", CASH, WALLET), hold("15.01"))))
    assert code_of(caught) == "OVERDRAWN"
    assert caught.value.details["over"] == 1
    assert len(ledger.transfers) == 1
    assert state(ledger) == ("10.00", "0.00")
    assert ledger.add(Batch((moved("more", "5.00", CASH, WALLET), hold("15.00"))))
    assert state(ledger) == ("15.00", "15.00")


def test_pending_is_posted_in_part_once() -> None:
    ledger, pending = top_up(), hold()
    ledger.add(Batch((pending,)))
    assert state(ledger) == ("10.00", "9.60")
    assert list(ledger.pending()) == [pending]
    ledger.add(Batch(resolutions=(posted(pending, "6.00"),)))
    assert state(ledger) == ("4.00", "0.00")
    assert not list(ledger.pending())
    assert not ledger.add(Batch(resolutions=(posted(pending, "6.00"),)))
    for again in (posted(pending, "5.00"), Resolution(pending.id, Outcome.VOIDED, times(2))):
        with pytest.raises(Conflict) as caught:
            ledger.add(Batch(resolutions=(again,)))
        assert code_of(caught) == "ALREADY_RESOLVED"
    assert ledger.balance(ACCRUED).posted == yuan("6.00")
    assert not ledger_check(ledger)


def test_pending_may_be_voided() -> None:
    ledger, pending = top_up(), hold()
    ledger.add(Batch((pending,), (Resolution(pending.id, Outcome.VOIDED, times(1)),)))
    assert state(ledger) == ("10.00", "0.00")


def test_pending_expires_only_when_its_time_is_over() -> None:
    ledger, pending = top_up(), replace(hold(), expires_at=at(5))
    ledger.add(Batch((pending,)))
    for early in (Resolution(pending.id, Outcome.EXPIRED, times(4)),):
        with pytest.raises(Refused) as caught:
            ledger.add(Batch(resolutions=(early,)))
        assert code_of(caught) == "NOT_EXPIRED"
    ledger.add(Batch(resolutions=(Resolution(pending.id, Outcome.EXPIRED, times(5)),)))
    assert state(ledger) == ("10.00", "0.00")


@pytest.mark.parametrize("amount", ["9.61", "-1.00"], ids=["more than was held", "the other way"])
def test_no_more_is_posted_than_was_held(amount: str) -> None:
    ledger, pending = top_up("100.00"), hold()
    ledger.add(Batch((pending,)))
    with pytest.raises(InvalidInput) as caught:
        ledger.add(Batch(resolutions=(posted(pending, amount),)))
    assert code_of(caught) == "OVER_HELD"


def test_resolutions_of_the_wrong_things() -> None:
    ledger = top_up()
    with pytest.raises(NotFound):
        ledger.add(Batch(resolutions=(Resolution("nothing", Outcome.VOIDED, times(1)),)))
    with pytest.raises(Conflict) as caught:
        ledger.add(Batch(resolutions=(Resolution(fact_id("test", "top-up"), Outcome.VOIDED, times(1)),)))
    assert code_of(caught) == "NOT_PENDING"
    pending = hold()
    with pytest.raises(InvalidInput):
        ledger.add(Batch((pending,), (Resolution(pending.id, Outcome.VOIDED, times(0)),)))
    with pytest.raises(InvalidInput):
        Resolution(pending.id, Outcome.VOIDED, times(1), pending.entries)
    with pytest.raises(InvalidInput):
        replace(moved("late", "1.00", CASH, WALLET), expires_at=at(3))
    with pytest.raises(InvalidInput):
        replace(pending, source=())


def test_who_decided_on_an_old_balance_decides_again() -> None:
    ledger = top_up()
    read = {WALLET.id: ledger.version(WALLET)}
    ledger.add(Batch((hold("9.60", "first"),), expect=read))
    with pytest.raises(Conflict) as caught:
        ledger.add(Batch((hold("0.10", "second"),), expect=read))
    assert code_of(caught) == "STALE_BALANCE"
    with pytest.raises(Conflict):
        Batch(expect={"a": 1}).joined(Batch(expect={"a": 2}))
    assert Batch(expect={"a": 1}).joined(Batch(expect={"b": 2})).expect == {"a": 1, "b": 2}


def test_balances_as_of() -> None:
    ledger, pending = top_up(), hold()
    ledger.add(Batch((pending,)))
    ledger.add(Batch(resolutions=(posted(pending, "6.00", 3),)))
    ledger.add(Batch((moved("late", "1.00", WALLET, ACCRUED, 2, later=7),)))
    found = [
        (balance.posted.text(), balance.held.text())
        for balance in (ledger.balance(WALLET, booked_before=at(hour)) for hour in range(5))
    ]
    assert found == [("0.00", "0.00"), ("10.00", "0.00"), ("10.00", "9.60"), ("9.00", "9.60"), ("3.00", "0.00")]
    known = ledger.balance(WALLET, booked_before=at(4), known_before=at(9))
    assert known.posted == yuan("4.00")
    assert ledger.balance(WALLET, known_before=at(10)) == ledger.balance(WALLET)


def test_lines_of_a_statement() -> None:
    ledger, pending = top_up(), hold()
    ledger.add(Batch((pending, moved("more", "2.00", CASH, WALLET, 4))))
    ledger.add(Batch(resolutions=(posted(pending, "6.00", 3),)))
    ledger.add(Batch((hold("1.00", "open", 5),)))
    lines = list(ledger.lines(WALLET, at(1), at(24)))
    assert [(line.transfer.source[1], line.amount.text()) for line in lines] == [("hold", "-6.00"), ("more", "2.00")]
    assert [line.amount.text() for line in ledger.lines(WALLET, at(0), at(3))] == ["10.00"]


def test_closed_books_stay_closed() -> None:
    ledger, pending = top_up(), hold("1.00")
    ledger.add(Batch((pending,)))
    before = ledger.balance(WALLET, booked_before=at(24))
    ledger.close("alpha", at(24))
    for late in (Batch((moved("late", "1.00", CASH, WALLET, 23),)), Batch(resolutions=(posted(pending, "1.00", 23),))):
        with pytest.raises(Refused) as caught:
            ledger.add(late)
        assert code_of(caught) == "PERIOD_CLOSED"
    ledger.add(Batch((moved("late", "1.00", CASH, WALLET, 24),), (posted(pending, "1.00", 24),)))
    assert ledger.balance(WALLET, booked_before=at(24)) == before
    ledger.close("alpha", at(24))
    with pytest.raises(Refused):
        ledger.close("alpha", at(23))


def test_the_audit_sees_what_does_not_add_up() -> None:
    ledger = top_up()
    assert not ledger_check(ledger)
    ledger.transfers.clear()
    assert any("not the sum of its entries" in text for text in ledger_check(ledger))
