from __future__ import annotations

from itertools import permutations

import pytest

from millpond.billing.burning import Demand, Purse, burn_decide, purse_list
from millpond.billing.grants import (
    Grant,
    GrantKind,
    Scope,
    Use,
    grant_decide,
    grant_expiry,
    grant_renewed,
    grant_revoked,
    grant_transfer,
    pack_earned,
    trial_decide,
)
from millpond.billing.holds import Held, hold_capture, hold_decide
from millpond.billing.ledger import Batch, Ledger, ledger_check
from millpond.billing.transfers import Account, AccountKind, card_time
from millpond.domain.errors import Conflict, InvalidInput, Refused
from tests.unit.billing.books import (
    CARD,
    CASH,
    CNY,
    at,
    drawn,
    grant,
    hours,
    opened,
    pack,
    request,
    times,
    yuan,
)


def purses(*grants: Grant) -> tuple[Purse, ...]:
    return purse_list(opened(*grants), grants, "alpha", CARD, at(1))


def posted(ledger: Ledger, kind: AccountKind, owner: str = "") -> str:
    return ledger.balance(Account(owner, kind, CNY)).posted.text()


def test_invariant_25_one_trial_grant_per_verified_identity() -> None:
    ledger, stored = Ledger(), dict[str, Grant]()

    def callback(minute: int, existing: Grant | None) -> Grant:
        """What a sign-up does with what it read, at its own moment."""
        found = trial_decide(existing, "phone:0f3a", "alpha", yuan("10.00"), at(0, minute), 30)
        ledger.add(Batch((grant_transfer(found, at(0, minute)),)))
        return stored.setdefault(found.id, found)

    first = callback(0, None)
    for minute in range(1, 5):
        with pytest.raises(Conflict):
            callback(minute, None)
        assert callback(minute, stored[first.id]) == first
    assert ledger.balance(first.account).available == yuan("10.00")
    assert posted(ledger, AccountKind.PROMOTION) == "-10.00"
    with pytest.raises(Conflict) as caught:
        trial_decide(first, "phone:0f3a", "beta", yuan("10.00"), at(9), 30)
    assert caught.value.reason == "TRIAL_USED"


def test_invariant_25_what_ten_yuan_buy() -> None:
    whole = Demand(10**9, yuan("2.40"))
    assert whole.cost(15_000 * 1000) == yuan("10.00")
    seconds = 4 * 3600 + 10 * 60
    assert seconds == 15_000
    assert hours("0").cost(seconds * 1000) == yuan("10.00")
    assert hours("0").cost((16 * 3600 + 40 * 60) * 250) == yuan("10.00")


def test_burn_order_is_voucher_trial_pack_paid() -> None:
    """Three yuan of voucher, two of trial, an hour of pack, the rest cash, whatever order they were bought in."""
    grants = (
        grant(GrantKind.VOUCHER, "3.00", "voucher"),
        grant(GrantKind.TRIAL, "1.80", "trial"),
        pack(1, "2.00"),
        grant(GrantKind.PAID, "50.00", "cash"),
    )
    for order in permutations(grants):
        burn = burn_decide(purses(*order), hours("4"))
        assert drawn(burn.draws) == {"voucher": "3.00", "trial": "1.80", "pack": "3600.000", "cash": "2.40"}
        assert not burn.short
        assert burn.packed == 3_600_000


def test_within_a_kind_priority_then_expiry_then_age() -> None:
    names = [
        purse.grant.source[1]
        for purse in purses(
            grant(GrantKind.PAID, "1", "young", hours=1),
            grant(GrantKind.PAID, "1", "old"),
            grant(GrantKind.PAID, "1", "ends", hours=1, expires=90),
            grant(GrantKind.PAID, "1", "ends first", hours=1, expires=80),
            grant(GrantKind.PAID, "1", "first", hours=1, priority=1),
            grant(GrantKind.TRIAL, "1", "trial", priority=900),
        )
    ]
    assert names == ["trial", "first", "ends first", "ends", "old", "young"]


def test_a_grant_pays_only_what_its_scope_covers() -> None:
    scoped = (
        grant(GrantKind.VOUCHER, "1", "model", scope=Scope(skus=frozenset({"A800"}))),
        grant(GrantKind.VOUCHER, "1", "class", scope=Scope(classes=frozenset({"prod"}))),
        grant(GrantKind.VOUCHER, "1", "project", scope=Scope(projects=frozenset({"p1", "p2"}))),
        grant(GrantKind.VOUCHER, "1", "other", owner="beta"),
        grant(GrantKind.VOUCHER, "1", "later", hours=2),
        grant(GrantKind.VOUCHER, "1", "over", expires=1),
    )
    assert sorted(purse.grant.source[1] for purse in purses(*scoped)) == ["model", "project"]
    assert not Scope(skus=frozenset({"A800"})).covers(Use("A80", "prod"))


def test_short_is_what_nobody_pays() -> None:
    burn = burn_decide(purses(grant(GrantKind.PAID, "1.00")), hours("1"))
    assert burn.short == yuan("1.40")
    assert burn.money == yuan("1.00")
    assert burn_decide((), hours("1")).short == yuan("2.40")
    free = burn_decide(purses(pack(1, "0")), hours("1", "0"))
    assert not free.draws
    assert not free.short


def test_parts_of_a_line_cost_what_the_line_costs() -> None:
    """0.665 is 0.67, and not twice 0.33."""
    whole = Demand(250 * 3990, yuan("2.40"))
    assert whole.cost(whole.milli_seconds) == yuan("0.67")
    half = whole.milli_seconds // 2
    first, second = Demand(half, yuan("2.40")), Demand(half, yuan("2.40"), before=half)
    assert first.cost(half) + second.cost(half) == yuan("0.67")


def test_a_pack_is_earned_to_the_fen_as_it_is_used() -> None:
    bought = pack(3, "10.00")
    third = bought.amount.minor() // 3
    parts = [pack_earned(bought, index * third, (index + 1) * third) for index in range(3)]
    assert [part.text() for part in parts] == ["3.33", "3.34", "3.33"]
    assert pack_earned(bought, third, 0) == yuan("-3.33")
    with pytest.raises(InvalidInput):
        pack_earned(grant(GrantKind.PAID, "1"), 0, 1)


def test_grants_are_booked_where_they_come_from() -> None:
    money_pack = Grant(("m",), "alpha", GrantKind.PACK, yuan("100"), at(0), price=yuan("90"))
    ledger = opened(
        grant(GrantKind.PAID, "20.00", "paid"), grant(GrantKind.VOUCHER, "5.00", "voucher"), pack(2, "4.00"), money_pack
    )
    assert ledger.balance(CASH).posted == yuan("-114.00")
    assert posted(ledger, AccountKind.PROMOTION) == "-15.00"
    assert posted(ledger, AccountKind.DEFERRED, "alpha") == "4.00"
    assert not ledger_check(ledger)


def test_what_expires_is_breakage_and_what_is_held_expires_when_it_is_freed() -> None:
    trial, cash = grant(GrantKind.TRIAL, "10.00", "trial", expires=24), grant(GrantKind.PAID, "5.00", "cash")
    ledger = opened(trial, cash)
    held = hold_decide(ledger, (trial, cash), request("j1", hours("1")), at(20))
    assert isinstance(held, Held)
    ledger.add(held.batch)
    with pytest.raises(Refused):
        grant_expiry(ledger, trial, at(23))
    expiry = grant_expiry(ledger, trial, at(24))
    assert ledger.add(expiry)
    assert posted(ledger, AccountKind.BREAKAGE) == "7.60"
    assert not ledger.add(expiry)
    capture = hold_capture(ledger, (trial, cash), held.hold, (hours("0.5"),), times(25))
    ledger.add(capture.batch)
    assert drawn(capture.draws) == {"trial": "1.20"}
    ledger.add(grant_expiry(ledger, trial, at(25), held.hold.id))
    assert posted(ledger, AccountKind.BREAKAGE) == "8.80"
    assert grant_expiry(ledger, trial, at(26)) == Batch()
    assert ledger.balance(cash.account).available == yuan("5.00")
    assert not ledger_check(ledger)


def test_an_expired_pack_gives_up_the_rest_of_its_price() -> None:
    bought = pack(10, "15.00", expires=24)
    ledger = opened(bought)
    held = hold_decide(ledger, (bought,), request("j1", hours("4")), at(1))
    assert isinstance(held, Held)
    ledger.add(held.batch)
    ledger.add(hold_capture(ledger, (bought,), held.hold, (hours("3"),), times(5)).batch)
    assert posted(ledger, AccountKind.EARNINGS) == "4.50"
    ledger.add(grant_expiry(ledger, bought, at(24)))
    assert posted(ledger, AccountKind.BREAKAGE) == "10.50"
    assert posted(ledger, AccountKind.DEFERRED, "alpha") == "0.00"
    assert not ledger_check(ledger)


def test_a_refund_to_an_expired_grant_gets_a_grant_of_the_same_kind() -> None:
    bought = pack(10, "15.00", expires=24)
    again = grant_renewed(bought, card_time(3_600_000), "note", at(48), 30)
    assert again == grant_renewed(bought, card_time(3_600_000), "note", at(48), 30)
    assert (again.kind, again.price, again.expires_at) == (GrantKind.PACK, yuan("1.50"), at(48 + 720))
    trial = grant_renewed(grant(GrantKind.TRIAL, "10", expires=24), yuan("1"), "note", at(48), 30)
    assert (trial.kind, trial.price) == (GrantKind.TRIAL, None)


def test_credit_given_by_mistake_is_taken_back() -> None:
    voucher, cash = grant(GrantKind.VOUCHER, "5.00", "voucher"), grant(GrantKind.PAID, "5.00", "cash")
    ledger = opened(voucher, cash)
    held = hold_decide(ledger, (voucher,), request("j1", hours("1")), at(1))
    assert isinstance(held, Held)
    ledger.add(held.batch)
    revoked = grant_revoked(ledger, voucher, ("revoke", "v1"), at(2))
    assert ledger.add(revoked)
    assert not ledger.add(revoked)
    assert posted(ledger, AccountKind.PROMOTION) == "-2.40"
    assert grant_revoked(ledger, voucher, ("revoke", "v1"), at(3)) == Batch()
    with pytest.raises(Refused):
        grant_revoked(ledger, cash, ("revoke", "c1"), at(2))


@pytest.mark.parametrize(
    "change",
    [
        {"amount": yuan("0")},
        {"amount": card_time(5)},
        {"kind": GrantKind.PACK},
        {"price": yuan("1")},
        {"kind": GrantKind.PACK, "price": yuan("-1")},
        {"kind": GrantKind.PACK, "price": card_time(1)},
        {"expires_at": at(0)},
    ],
)
def test_grants_that_make_no_sense(change: dict[str, object]) -> None:
    fields: dict[str, object] = {"amount": yuan("1"), "kind": GrantKind.PAID, **change}
    with pytest.raises(InvalidInput) as caught:
        Grant(("x",), "alpha", granted_at=at(0), **fields)  # type: ignore[arg-type]
    assert caught.value.hint


def test_negative_demands_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Demand(-1, yuan("1"))
    with pytest.raises(InvalidInput):
        Demand(1, yuan("-1"))


def test_the_same_source_grants_once() -> None:
    """A payment told twice is one top-up, and says so; never another account's."""
    first = grant(GrantKind.PAID, "10.00", "bank 1")
    assert grant_decide(None, first) is first
    with pytest.raises(Conflict, match="was counted on") as refused:
        grant_decide(first, grant(GrantKind.PAID, "10.00", "bank 1", hours=5))
    assert (refused.value.reason, refused.value.details["grant"]) == ("GRANT_EXISTS", first.id)
    with pytest.raises(Conflict, match="another account"):
        grant_decide(first, grant(GrantKind.PAID, "10.00", "bank 1", owner="beta"))
