from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.burning import CARD_HOUR, Draw
from millpond.billing.credits import (
    BilledLine,
    CreditNote,
    Fault,
    credit_booking,
    creditable,
    note_decide,
    note_matches,
)
from millpond.billing.grants import GrantKind
from millpond.billing.invoices import invoice_totals, tax_lines
from millpond.billing.ledger import Batch, ledger_check
from millpond.billing.money import Money, money_sum
from millpond.billing.transfers import Account, AccountKind, card_time
from millpond.domain.errors import Conflict, InvalidInput, MillpondError, Refused
from tests.unit.billing.books import CNY, at, grant, opened, pack, yuan


def fault(card_hours: str, name: str = "f1") -> Fault:
    seconds = int(Decimal(card_hours) * CARD_HOUR)
    return Fault(("card_fault", name), seconds, (at(10, 20), at(10, 35)), "card fault")


def line(card_hours: int, net: str, tax: str = "0", *draws: Draw, inclusive: bool = False) -> BilledLine:
    return BilledLine("inv-1", "l1", "alpha", card_hours * CARD_HOUR, yuan(net), yuan(tax), draws, inclusive)


def amounts(note: CreditNote) -> tuple[str, str, str]:
    return note.net.text(), note.tax.text(), note.total.text()


def credited(start: BilledLine, *faults: Fault) -> list[CreditNote]:
    notes: list[CreditNote] = []
    for one in faults:
        notes.append(note_decide(start, notes, one))
    return notes


def test_invariant_28_a_fault_gives_back_its_card_hours() -> None:
    """8 cards, 10:20 to 10:35, at 12.00 with 6 % tax inside: 2 card-hours are 24.00 = 22.64 + 1.36."""
    eight_hours = line(64, "724.53", "43.47", inclusive=True)
    assert eight_hours.total == yuan("768.00")
    assert amounts(credited(eight_hours, fault("2"))[0]) == ("22.64", "1.36", "24.00")
    net_prices = line(64, "768.00", "46.08")
    assert amounts(credited(net_prices, fault("2"))[0]) == ("24.00", "1.44", "25.44")


def test_invariant_28_notes_never_exceed_the_line() -> None:
    start = line(3, "10.00", "0.60")
    notes = credited(start, fault("1", "a"), fault("1", "b"), fault("1", "c"))
    assert [amounts(note) for note in notes] == [
        ("3.33", "0.20", "3.53"),
        ("3.34", "0.20", "3.54"),
        ("3.33", "0.20", "3.53"),
    ]
    assert creditable(start, notes) == 0
    with pytest.raises(Refused) as caught:
        note_decide(start, notes, fault("0.001", "d"))
    assert caught.value.reason == "OVER_LINE"
    assert caught.value.details["have"] == 0


def test_invariant_28_a_retry_is_the_same_note() -> None:
    start = line(3, "10.00", "0.60")
    first = note_decide(start, (), fault("1"))
    assert note_decide(start, (first,), fault("1")) is first
    with pytest.raises(Conflict) as caught:
        note_decide(start, (first,), fault("2"))
    assert caught.value.reason == "NOTE_DIFFERS"


def test_invariant_28_trial_money_returns_as_trial_money() -> None:
    trial, cash = grant(GrantKind.TRIAL, "10.00", "trial"), grant(GrantKind.PAID, "20.00", "cash")
    start = line(4, "16.00", "0.96", Draw(trial, yuan("10.00")), Draw(cash, yuan("6.96")))
    first, second = credited(start, fault("1", "a"), fault("2", "b"))
    assert [(draw.grant.kind, draw.amount.text()) for draw in first.returns] == [(GrantKind.PAID, "4.24")]
    assert [(draw.grant.kind, draw.amount.text()) for draw in second.returns] == [
        (GrantKind.PAID, "2.72"),
        (GrantKind.TRIAL, "5.76"),
    ]
    ledger = opened(trial, cash)
    before = ledger.balance(trial.account).posted
    booking = credit_booking(ledger, second, at(99))
    assert booking.transfer is not None
    batch = Batch((booking.transfer,))
    assert ledger.add(batch)
    assert not ledger.add(batch), "a retry books nothing"
    assert ledger.balance(trial.account).posted - before == yuan("5.76")
    assert ledger.balance(Account("", AccountKind.CREDIT_NOTES, CNY)).posted == yuan("-8.00")
    assert ledger.balance(Account("", AccountKind.TAX, CNY)).posted == yuan("-0.48")
    assert not ledger_check(ledger)


def test_what_was_owed_is_taken_off_first() -> None:
    cash = grant(GrantKind.PAID, "5.00", "cash")
    start = line(4, "16.00", "0", Draw(cash, yuan("5.00")))
    first, second = credited(start, fault("2", "a"), fault("2", "b"))
    assert (first.owed, first.returns) == (yuan("8.00"), ())
    assert (second.owed, [draw.amount for draw in second.returns]) == (yuan("3.00"), [yuan("5.00")])


def test_credit_whose_grant_has_expired_can_be_spent_for_a_while() -> None:
    trial = grant(GrantKind.TRIAL, "10.00", "trial", expires=24)
    note = note_decide(line(4, "10.00", "0", Draw(trial, yuan("10.00"))), (), fault("2"))
    booking = credit_booking(opened(trial), note, at(48), days=30)
    assert [(one.kind, one.amount, one.expires_at) for one in booking.renewed] == [
        (GrantKind.TRIAL, yuan("5.00"), at(48 + 720))
    ]
    assert booking.transfer is not None
    assert booking.renewed[0].account in {entry.account for entry in booking.transfer.entries}
    assert trial.account not in {entry.account for entry in booking.transfer.entries}


@pytest.mark.parametrize("late", [False, True], ids=["live", "expired"])
def test_card_time_of_a_pack_comes_back_as_card_time(late: bool) -> None:
    bought = pack(10, "15.00", expires=24)
    ledger = opened(bought)
    start = line(4, "0", "0", Draw(bought, card_time(4 * CARD_HOUR)))
    note = note_decide(start, (), fault("2"))
    assert amounts(note) == ("0.00", "0.00", "0.00")
    booking = credit_booking(ledger, note, at(48 if late else 5))
    assert booking.transfer is not None
    ledger.add(Batch((booking.transfer,)))
    home = booking.renewed[0] if late else bought
    assert ledger.balance(Account("", AccountKind.CREDIT_NOTES, CNY)).posted == yuan("-3.00")
    assert ledger.balance(home.account).posted.text() == ("7200.000" if late else "43200.000")
    assert not ledger_check(ledger)


def test_a_note_that_rounds_to_nothing_books_nothing() -> None:
    note = note_decide(line(1000, "0.01"), (), fault("1"))
    assert credit_booking(opened(), note, at(1)).transfer is None


def test_invariant_23_notes_for_every_line_give_back_the_invoice_to_the_cent() -> None:
    """Naive rounding of each line's tax gives back 335.00 of 334.99 (lago-api#2643)."""
    nets = [yuan(text) for text in ("68.33", "68.33", "57.50", "85.00")]
    totals = invoice_totals(nets, Decimal("0.20"), CNY)
    taxes = tax_lines(nets, totals.tax)
    assert totals.total == yuan("334.99")
    notes = [
        note_decide(BilledLine("inv-1", f"l{index}", "alpha", CARD_HOUR, net, tax), (), fault("1", f"f{index}"))
        for index, (net, tax) in enumerate(zip(nets, taxes, strict=True))
    ]
    assert money_sum((note.total for note in notes), CNY) == totals.total
    assert sorted(note.tax.text() for note in notes) == ["11.50", "13.66", "13.67", "17.00"]


@pytest.mark.parametrize(
    "change",
    [
        {"milli_seconds": 0},
        {"net": yuan("-1")},
        {"draws": (Draw(grant(GrantKind.PAID, "99"), yuan("11")),)},
        {"draws": (Draw(pack(1, "1"), card_time(CARD_HOUR)),)},
        {"draws": (Draw(pack(1, "1"), card_time(5)),), "net": yuan("0")},
    ],
)
def test_lines_that_make_no_sense(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        replace(line(1, "10.00"), **change)  # type: ignore[arg-type]


def test_a_fault_that_spoilt_nothing_is_no_note() -> None:
    with pytest.raises(MillpondError) as caught:
        note_decide(line(1, "10.00"), (), fault("0"))
    assert caught.value.hint


@given(
    st.integers(1, 10_000),
    st.integers(0, 3_000),
    st.booleans(),
    st.lists(st.integers(1, 4_000), max_size=12),
    st.lists(st.integers(1, 4_000), max_size=4),
)
def test_any_notes_stay_within_their_line(
    net: int, tax: int, inclusive: bool, faults: list[int], payers: list[int]
) -> None:
    """In net, tax, card time and every grant, and all of it comes back when all of it was faulty."""
    left, draws = net + tax, []
    for index, payer in enumerate(payers):
        take = min(left, payer)
        if take:
            draws.append(Draw(grant(GrantKind.PAID, "99", f"g{index}"), _fen(take)))
            left -= take
    start = BilledLine("inv-1", "l1", "alpha", 10_000, _fen(net), _fen(tax), tuple(draws), inclusive)
    notes: list[CreditNote] = []
    for index, spoilt in enumerate([*faults, 10_000]):
        spoilt = min(spoilt, creditable(start, notes))
        if not spoilt:
            break
        note = note_decide(start, notes, Fault(("f", str(index)), spoilt, (at(0), at(1)), ""))
        assert note.net.amount >= 0
        assert note.tax.amount >= 0
        assert money_sum((draw.amount for draw in note.returns), CNY) + note.owed == note.total
        notes.append(note)
        assert note_matches(start, notes)
    assert money_sum((note.net for note in notes), CNY) == start.net
    assert money_sum((note.tax for note in notes), CNY) == start.tax


def _fen(amount: int) -> Money:
    return Money(Decimal(amount) / 100, CNY)
