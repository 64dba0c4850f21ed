"""Ledger, grants and holds together, against a model that counts ticks.

At 3.60 yuan a card-hour a tick is one fen of money and ten card-seconds of a pack, so that the model burns whole
numbers and knows nothing of prices, units and entries.  Decisions are made from what was read, and carried out later,
in any order: what has become untrue in between must be refused, and whatever is accepted must be what the model does.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from beancount import loader
from beancount.core import realization
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from millpond.billing.beancount import account_name, beancount_text
from millpond.billing.burning import Demand, Draw
from millpond.billing.credits import BilledLine, CreditNote, Fault, credit_booking, creditable, note_decide
from millpond.billing.grants import Grant, GrantKind, grant_expiry, grant_transfer
from millpond.billing.holds import (
    Capture,
    Held,
    Hold,
    HoldRequest,
    Shortfall,
    hold_capture,
    hold_decide,
    hold_roll,
    hold_void,
)
from millpond.billing.ledger import Batch, Ledger, ledger_check
from millpond.billing.money import money_of_minor, money_sum, money_zero
from millpond.billing.transfers import CARD_SECONDS, Account, AccountKind, Resolution, Times, Transfer, card_time
from millpond.domain.errors import Conflict
from tests.properties.ledger_model import ORDER, PRICE, TICK, Model, Purse, ticks
from tests.unit.billing.books import CARD, CNY, START

RECEIVABLE = Account("alpha", AccountKind.RECEIVABLE, CNY)


@dataclass(frozen=True)
class Draft:
    """A decision that nobody has carried out yet."""

    what: str
    batch: Batch
    name: str
    hold: Hold | None = None
    capture: Capture | None = None
    next: Hold | None = None


class LedgerMachine(RuleBasedStateMachine):
    drafts: Bundle[Draft] = Bundle("drafts")

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.count = 0
        self.ledger = Ledger()
        self.model = Model()
        self.grants: dict[str, Grant] = {}
        self.holds: dict[str, Hold] = {}
        self.lines: list[tuple[BilledLine, list[CreditNote]]] = []
        self.applied: list[Batch] = []

    # What happens

    @rule(minutes=st.integers(1, 600))
    def time_passes(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(
        kind=st.sampled_from(ORDER),
        amount=st.integers(1, 400),
        priority=st.sampled_from([50, 100]),
        minutes=st.one_of(st.none(), st.integers(1, 900)),
        late=st.integers(0, 300),
    )
    def grant_given(self, kind: GrantKind, amount: int, priority: int, minutes: int | None, late: int) -> None:
        """A grant, booked when it was given, and written up to `late` minutes after that."""
        given_at = self.now - timedelta(minutes=late)
        expires = None if minutes is None else given_at + timedelta(minutes=minutes)
        pack = kind is GrantKind.PACK
        value = card_time(amount * TICK) if pack else money_of_minor(amount, CNY)
        price = money_of_minor(amount // 2, CNY) if pack else None
        self.count += 1
        source = ("grant", str(self.count))
        grant = Grant(source, "alpha", kind, value, given_at, expires, priority, price=price)
        self.put(Batch((grant_transfer(grant, self.now),)))
        self.grants[grant.id] = grant
        self.model.purses[grant.id] = Purse(kind, priority, given_at, expires, amount)

    @rule(target=drafts, wanted=st.integers(1, 500))
    def hold_decided(self, wanted: int) -> Draft:
        self.count += 1
        request = HoldRequest(
            ("hold", str(self.count)), "alpha", CARD, (Demand(wanted * TICK, PRICE),), CNY, service=(self.now, self.now)
        )
        answer = hold_decide(self.ledger, self.grants.values(), request, self.now)
        expected = self.model.burn(wanted, self.now)
        if isinstance(answer, Shortfall):
            assert expected is None
            free = sum(p.ticks - p.held for p in self.model.purses.values() if p.live(self.now))
            assert answer.have.minor() == free < answer.need.minor() == wanted
            return Draft("nothing", Batch(), "")
        assert {draw.grant.id: ticks(draw) for draw in answer.hold.draws} == expected
        return Draft("hold", answer.batch, answer.hold.id, answer.hold)

    @precondition(lambda self: self.holds)
    @rule(target=drafts, data=st.data(), used=st.integers(0, 700))
    def capture_decided(self, data: st.DataObject, used: int) -> Draft:
        hold = self.holds[data.draw(st.sampled_from(sorted(self.holds)))]
        times = Times(self.now, self.now)
        grants = list(self.grants.values())
        capture = hold_capture(self.ledger, grants, hold, (Demand(used * TICK, PRICE),), times)
        taken, debt = self.model.capture(hold.id, used, self.now)
        assert {draw.grant.id: ticks(draw) for draw in capture.draws} == taken
        assert capture.debt.minor() == debt
        packed = sum(ticks(draw) for draw in capture.draws if draw.amount.currency == CARD_SECONDS)
        assert capture.priced == ((used - packed) * TICK,)
        return Draft("capture", capture.batch, hold.id, hold, capture)

    @precondition(lambda self: self.holds)
    @rule(target=drafts, data=st.data(), used=st.integers(0, 300), wanted=st.integers(1, 300))
    def roll_decided(self, data: st.DataObject, used: int, wanted: int) -> Draft:
        """What was used is taken, and the next stretch is held with what that frees; or neither."""
        hold = self.holds[data.draw(st.sampled_from(sorted(self.holds)))]
        self.count += 1
        request = HoldRequest(("hold", str(self.count)), "alpha", CARD, (Demand(wanted * TICK, PRICE),), CNY)
        times, grants = Times(self.now, self.now), list(self.grants.values())
        answer = hold_roll(self.ledger, grants, hold, (Demand(used * TICK, PRICE),), request, times)
        after = deepcopy(self.model)
        taken, debt = after.capture(hold.id, used, self.now)
        for name, amount in after.holds.pop(hold.id).items():
            after.purses[name].held -= amount
        for name, amount in taken.items():
            after.purses[name].ticks -= amount
        expected = after.burn(wanted, self.now)
        if isinstance(answer, Shortfall):
            assert expected is None
            return Draft("nothing", Batch(), "")
        assert {draw.grant.id: ticks(draw) for draw in answer.hold.draws} == expected
        assert {draw.grant.id: ticks(draw) for draw in answer.capture.draws} == taken
        assert answer.capture.debt.minor() == debt
        return Draft("roll", answer.batch, hold.id, hold, answer.capture, answer.hold)

    @precondition(lambda self: self.holds)
    @rule(target=drafts, data=st.data())
    def void_decided(self, data: st.DataObject) -> Draft:
        hold = self.holds[data.draw(st.sampled_from(sorted(self.holds)))]
        return Draft("void", hold_void(hold, Times(self.now, self.now)), hold.id, hold)

    @rule(target=drafts, cause=st.integers(0, 10**6))
    def expiry_decided(self, cause: int) -> Draft:
        over = [one for one in self.grants.values() if one.expires_at is not None and one.expires_at <= self.now]
        if not over:
            return Draft("nothing", Batch(), "")
        grant = over[cause % len(over)]
        self.count += 1
        return Draft("expiry", grant_expiry(self.ledger, grant, self.now, str(self.count)), grant.id)

    @rule(draft=consumes(drafts))
    def carried_out(self, draft: Draft) -> None:
        before = self.balances()
        self.answered(draft, self.attempt(draft.batch), before)

    def attempt(self, batch: Batch) -> str:
        """Where a machine that has another ledger beside this one asks it too."""
        return attempted(self.ledger, batch)

    def answered(self, draft: Draft, answer: str, before: dict[str, object]) -> None:
        if answer != "added":
            over = draft.hold is not None and draft.name not in self.holds
            assert answer in {"STALE_BALANCE", "known", *({"ALREADY_RESOLVED", "TRANSFER_DIFFERS"} if over else ())}
            assert self.balances() == before
            return
        self.applied.append(draft.batch)
        self.follow(draft)

    def follow(self, draft: Draft) -> None:
        """The model does what was carried out."""
        model = self.model
        if draft.what == "hold":
            assert draft.hold is not None
            self.held(draft.hold)
        elif draft.what in {"capture", "void", "roll"}:
            for name, amount in model.holds.pop(draft.name).items():
                model.purses[name].held -= amount
            del self.holds[draft.name]
            if draft.capture is not None:
                model.debt += draft.capture.debt.minor()
                for draw in draft.capture.draws:
                    model.purses[draw.grant.id].ticks -= ticks(draw)
                self.billed(draft.name, draft.capture)
            if draft.next is not None:
                self.held(draft.next)
        elif draft.what == "expiry":
            purse = model.purses[draft.name]
            purse.ticks = purse.held

    def held(self, hold: Hold) -> None:
        self.holds[hold.id] = hold
        self.model.holds[hold.id] = {draw.grant.id: ticks(draw) for draw in hold.draws}
        for name, amount in self.model.holds[hold.id].items():
            self.model.purses[name].held += amount

    def billed(self, name: str, capture: Capture) -> None:
        """What was taken becomes lines that can be credited: one of money, and one for each pack."""
        money = tuple(draw for draw in capture.draws if draw.amount.currency == CNY)
        net = money_sum((draw.amount for draw in money), CNY) + capture.debt
        if net:
            self.lines.append((BilledLine("i", name, "alpha", capture.priced[0], net, money_zero(CNY), money), []))
        for draw in capture.draws:
            if draw.amount.currency == CARD_SECONDS:
                zero, time = money_zero(CNY), draw.amount.minor()
                self.lines.append((BilledLine("i", name + draw.grant.id, "alpha", time, zero, zero, (draw,)), []))

    @precondition(lambda self: any(creditable(line, notes) for line, notes in self.lines))
    @rule(data=st.data(), spoilt=st.integers(1, 300))
    def fault_credited(self, data: st.DataObject, spoilt: int) -> None:
        line, notes = data.draw(st.sampled_from([pair for pair in self.lines if creditable(*pair)]))
        spoilt = min(spoilt, creditable(line, notes) // TICK)
        self.count += 1
        note = note_decide(line, notes, Fault(("fault", str(self.count)), spoilt * TICK, (self.now, self.now), "fault"))
        booking = credit_booking(self.ledger, note, self.now)
        assert booking.transfer is not None
        self.put(Batch((booking.transfer,)))
        notes.append(note)
        assert sum(ticks(draw) for draw in note.returns) + note.owed.minor() == spoilt
        self.model.debt -= note.owed.minor()
        renewed = {grant.source[1]: grant for grant in booking.renewed}
        for draw in note.returns:
            old = draw.grant
            if old.id not in renewed:
                self.model.purses[old.id].ticks += ticks(draw)
                continue
            new = renewed[old.id]
            assert old.expires_at is not None
            assert old.expires_at <= self.now
            self.grants[new.id] = new
            self.model.purses[new.id] = Purse(new.kind, new.priority, self.now, new.expires_at, ticks(draw))

    @precondition(lambda self: self.applied)
    @rule(data=st.data())
    def replayed(self, data: st.DataObject) -> None:
        before = self.balances()
        assert self.attempt(data.draw(st.sampled_from(self.applied))) == "known"
        assert self.balances() == before

    @rule(minutes=st.integers(0, 5000), known=st.booleans())
    def looked_back(self, minutes: int, known: bool) -> None:
        """As of any moment, a balance is that of a ledger which has seen only what came before."""
        moment = START - timedelta(minutes=300) + timedelta(minutes=minutes)
        past = replay(self.applied, moment, known)
        for account in self.ledger.accounts.values():
            seen = (
                self.ledger.balance(account, known_before=moment)
                if known
                else self.ledger.balance(account, booked_before=moment)
            )
            assert seen == past.balance(account)

    # What is always true

    @invariant()
    def all_accounts_sum_to_zero(self) -> None:
        assert not ledger_check(self.ledger)
        assert not self.ledger.total(CNY)
        assert not self.ledger.total(CARD_SECONDS)

    @invariant()
    def balances_are_those_of_the_model(self) -> None:
        for name, grant in self.grants.items():
            purse, balance = self.model.purses[name], self.ledger.balance(grant.account)
            assert (ticks(Draw(grant, balance.posted)), ticks(Draw(grant, balance.held))) == (purse.ticks, purse.held)
            assert balance.available.amount >= 0
        assert self.ledger.balance(RECEIVABLE).posted.minor() == -self.model.debt
        assert {transfer.id for transfer in self.ledger.pending()} == set(self.holds)

    def teardown(self) -> None:
        """Beancount, which knows nothing of us, sums the same bookings to the same balances."""
        midnight = datetime.combine(self.now.date() + timedelta(days=1), time(), UTC)
        text = self.written(midnight)
        entries, errors, _ = loader.load_string(text)
        assert errors == []
        root = realization.realize(entries)
        for account in self.ledger.accounts.values():
            theirs = realization.get(root, account_name(account))
            ours = -self.ledger.balance(account, booked_before=midnight).posted.amount
            assert (theirs.balance.get_currency_units(account.unit.code).number if theirs is not None else 0) == ours

    # Tools

    def written(self, midnight: datetime) -> str:
        return "\n".join(beancount_text(self.ledger, UTC, midnight))

    def put(self, batch: Batch) -> None:
        assert self.attempt(batch) == "added"
        self.applied.append(batch)

    def balances(self) -> dict[str, object]:
        return {name: self.ledger.balance(account) for name, account in self.ledger.accounts.items()}


def attempted(ledger: Ledger, batch: Batch) -> str:
    """``added``, ``known``, or the code of the conflict."""
    try:
        return "added" if ledger.add(batch) else "known"
    except Conflict as conflict:
        return conflict.reason


def replay(applied: list[Batch], moment: datetime, known: bool) -> Ledger:
    """A new ledger with the records that were booked, or known, before `moment`.

    What was added together is added together; equal times in the order in which they were added.
    """

    def before(one: Transfer | Resolution) -> bool:
        return (one.times.created_at if known else one.times.booked_at) < moment

    def when(batch: Batch) -> datetime:
        return min(
            one.times.created_at if known else one.times.booked_at for one in (*batch.transfers, *batch.resolutions)
        )

    past = Ledger()
    for batch in sorted(applied, key=when):
        past.add(Batch(tuple(filter(before, batch.transfers)), tuple(filter(before, batch.resolutions))))
    return past


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=60, stateful_step_count=40)


@given(
    balance=st.integers(0, 50),
    costs=st.lists(st.integers(1, 20), min_size=2, max_size=5),
    schedule=st.lists(st.integers(0, 4), max_size=40),
)
def test_invariant_26_holds_that_race_in_any_interleaving(balance: int, costs: list[int], schedule: list[int]) -> None:
    """Actors read and decide, or write; whoever read an old balance reads again.  Nobody gets what is not there."""
    grant = Grant(("g",), "alpha", GrantKind.PAID, money_of_minor(balance + 1, CNY), START)
    ledger = Ledger()
    ledger.add(Batch((grant_transfer(grant, START),)))
    decided: dict[int, Held | Shortfall] = {}
    done: dict[int, bool] = {}

    def step(actor: int) -> None:
        if actor >= len(costs) or actor in done:
            return
        answer = decided.pop(actor, None)
        if answer is None:
            request = HoldRequest(("hold", str(actor)), "alpha", CARD, (Demand(costs[actor] * TICK, PRICE),), CNY)
            decided[actor] = hold_decide(ledger, [grant], request, START)
        elif isinstance(answer, Shortfall):
            done[actor] = False
        else:
            outcome = attempted(ledger, answer.batch)
            assert outcome in {"added", "STALE_BALANCE"}
            if outcome == "added":
                done[actor] = True

    for actor in schedule:
        step(actor)
    while len(done) < len(costs):
        for actor in range(len(costs)):
            step(actor)
    won = sum(cost for actor, cost in enumerate(costs) if done[actor])
    free = ledger.balance(grant.account).available
    assert free == money_of_minor(balance + 1 - won, CNY)
    assert free.amount >= 0
    assert all(costs[actor] > free.minor() for actor, held in done.items() if not held)
