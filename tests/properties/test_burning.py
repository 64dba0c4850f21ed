"""Burning at any price: what is paid is what it costs, nobody pays twice, and packs take only what money left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.burning import Demand, Purse, burn_decide
from millpond.billing.grants import Grant, GrantKind, grant_transfer
from millpond.billing.holds import Held, Shortfall, hold_capture, hold_decide
from millpond.billing.ledger import Batch, Ledger, ledger_check
from millpond.billing.money import money_of_minor, money_sum
from millpond.billing.transfers import CARD_SECONDS, card_time
from tests.unit.billing.books import CNY, START, at, request, times

KINDS = [GrantKind.VOUCHER, GrantKind.TRIAL, GrantKind.PACK, GrantKind.PAID]


@st.composite
def grants(draw: st.DrawFn) -> tuple[Grant, ...]:
    """Up to six, in burn order, of fen or of thousandths of card-seconds."""
    found = []
    for index in range(draw(st.integers(0, 6))):
        kind, amount = draw(st.sampled_from(KINDS)), draw(st.integers(1, 5000))
        pack = kind is GrantKind.PACK
        value = card_time(amount * 12_345) if pack else money_of_minor(amount, CNY)
        price = money_of_minor(amount, CNY) if pack else None
        found.append(Grant(("g", str(index)), "alpha", kind, value, START, price=price))
    return tuple(sorted(found, key=lambda grant: grant.burn_key))


demands = st.builds(
    lambda milli_seconds, fen, before: Demand(milli_seconds, money_of_minor(fen, CNY), before),
    st.integers(0, 10**9),
    st.integers(0, 100_000),
    st.one_of(st.just(0), st.integers(0, 10**8)),
)


@given(grants(), demands)
def test_money_and_what_is_short_are_the_cost_of_what_no_pack_paid(found: tuple[Grant, ...], demand: Demand) -> None:
    burn = burn_decide([Purse(grant, grant.amount) for grant in found], demand)
    assert burn.money + burn.short == demand.cost(demand.milli_seconds - burn.packed)
    assert burn.packed == sum(d.amount.minor() for d in burn.draws if d.amount.currency == CARD_SECONDS)
    assert burn.packed <= demand.milli_seconds
    assert all(0 < draw.amount.minor() <= draw.grant.amount.minor() for draw in burn.draws)
    if burn.short:
        assert {draw.grant.id: draw.amount for draw in burn.draws} == {grant.id: grant.amount for grant in found}


@given(grants(), st.lists(demands, min_size=1, max_size=3), st.data())
def test_capture_takes_what_was_used_and_frees_the_rest(
    found: tuple[Grant, ...], wanted: list[Demand], data: st.DataObject
) -> None:
    """Whatever was held and used: entries sum to zero, all that was used is paid or owed, and nothing stays held."""
    ledger = Ledger()
    if found:
        ledger.add(Batch(tuple(grant_transfer(grant, START) for grant in found)))
    answer = hold_decide(ledger, found, request("j", *wanted), at(1))
    if isinstance(answer, Shortfall):
        assert answer.have < answer.need
        assert answer.milli_seconds <= sum(demand.milli_seconds for demand in wanted)
        return
    assert isinstance(answer, Held)
    ledger.add(answer.batch)
    part = data.draw(st.integers(0, 1500))
    used = tuple(Demand(demand.milli_seconds * part // 1000, demand.price, demand.before) for demand in wanted)
    capture = hold_capture(ledger, found, answer.hold, used, times(2))
    ledger.add(capture.batch)
    assert not ledger_check(ledger)
    assert not list(ledger.pending())
    money = money_sum((draw.amount for draw in capture.draws if draw.amount.currency == CNY), CNY)
    costs = (demand.cost(priced) for demand, priced in zip(used, capture.priced, strict=True))
    assert money + capture.debt == money_sum(costs, CNY)
    packed = sum(draw.amount.minor() for draw in capture.draws if draw.amount.currency == CARD_SECONDS)
    assert packed + sum(capture.priced) == sum(demand.milli_seconds for demand in used)
    if part == 1000:
        assert capture.draws == answer.hold.draws
        assert not capture.debt
    for grant in found:
        balance = ledger.balance(grant.account)
        assert balance.held.minor() == 0
        assert 0 <= balance.posted.minor() <= grant.amount.minor()
