"""Holds: money is held before a job starts, what was used is taken, and the rest is freed.

``available = posted - held``.  A hold is all or nothing: the declared duration times the price, out of the grants in
burn order.  Taking is burnt in the same order out of what was held; only what exceeds it needs free money, and what
nobody can pay becomes a debt (a receivable), so that wallets never go below zero.

In PostgreSQL: a hold is a pending transfer, and ``money_holds`` (primary key the hold's id; UNIQUE (job, attempt,
number); partial index WHERE resolved_at IS NULL) says which job it is for.  Two holds that race meet at the version of
the account's row: one of them updates nothing, reads again, and is decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from millpond.billing.burning import Burn, Demand, Draw, Purse, burn_decide, purse_list
from millpond.billing.currencies import Currency
from millpond.billing.grants import Grant, Use, pack_moves
from millpond.billing.ledger import Batch, Books
from millpond.billing.money import Money, money_sum, money_zero
from millpond.billing.transfers import (
    CARD_SECONDS,
    Account,
    AccountKind,
    Outcome,
    Resolution,
    Times,
    Transfer,
    entries_join,
    fact_id,
)
from millpond.domain.reasons import Code, Reason


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """``source``: the fact, such as ``("hold", job, attempt, number)``.  ``demands``: one for each price in its time.

    ``expires_at``: when the hold of a job that never started may be freed by the platform.
    """

    source: tuple[str, ...]
    owner: str
    use: Use
    demands: tuple[Demand, ...]
    currency: Currency
    expires_at: datetime | None = None
    service: tuple[datetime, datetime] | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """What a request holds.  ``draws`` are in burn order; none when it costs nothing."""

    request: HoldRequest
    draws: tuple[Draw, ...]

    @property
    def id(self) -> str:
        return fact_id(*self.request.source)


@dataclass(frozen=True, slots=True)
class Held:
    """Yes: add `batch`, and the hold stands."""

    hold: Hold
    batch: Batch


@dataclass(frozen=True, slots=True)
class Shortfall:
    """No, with the numbers.  ``limit``: all that the customer has for this use, held or not.

    ``milli_seconds``: how much of the card time that was asked for could be paid now.
    """

    reason: Reason
    need: Money
    have: Money
    limit: Money
    milli_seconds: int
    hint: str


@dataclass(frozen=True, slots=True)
class Capture:
    """What a job used, taken.  ``priced``: milli-card-seconds of each demand that money (or debt) paid.

    A later demand of the same invoice line has them as its ``before``.
    """

    batch: Batch
    draws: tuple[Draw, ...]
    debt: Money
    priced: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rolled:
    """What was used so far is taken, and the next stretch is held, in one batch."""

    capture: Capture
    hold: Hold
    batch: Batch


def hold_decide(books: Books, grants: Iterable[Grant], request: HoldRequest, now: datetime) -> Held | Shortfall:
    """Holds all that `request` demands, or says what is missing.

    Whether the same request holds already is for the caller to see: its id is the primary key of a hold.
    """
    purses = purse_list(books, grants, request.owner, request.use, now)
    return _hold(books, purses, request, now)


def hold_capture(books: Books, grants: Iterable[Grant], hold: Hold, used: Sequence[Demand], times: Times) -> Capture:
    """Takes `used` and frees the rest.  What exceeds the hold is taken from free grants, and else is a debt."""
    held = tuple(Purse(draw.grant, draw.amount) for draw in hold.draws)
    inside = _burn_all(held, used)
    free: tuple[Purse, ...] = ()
    rest = tuple(_rest(demand, burn) for demand, burn in zip(used, inside, strict=True))
    if any(demand.milli_seconds for demand in rest):
        free = purse_list(books, grants, hold.request.owner, hold.request.use, times.booked_at)
    outside = _burn_all(free, rest)
    debt = money_sum((burn.short for burn in outside), hold.request.currency)
    taken, over = _draws(inside), _draws(outside)
    transfers = [*_over(hold, over, debt, times), *_earned(books, hold, (*taken, *over), times)]
    resolutions = _resolved(hold, taken, times)
    accounts = {draw.grant.account for draw in over}
    accounts |= {draw.grant.account for draw in (*taken, *over) if draw.amount.currency == CARD_SECONDS}
    expect = {account.id: books.version(account) for account in accounts}
    priced = tuple(
        demand.milli_seconds - first.packed - second.packed
        for demand, first, second in zip(used, inside, outside, strict=True)
    )
    return Capture(Batch(tuple(transfers), resolutions, expect), _merged((*taken, *over)), debt, priced)


def hold_void(hold: Hold, times: Times, outcome: Outcome = Outcome.VOIDED) -> Batch:
    """Frees all of a hold: its job never became usable.  `Outcome.EXPIRED` when nobody came back for it."""
    return Batch(resolutions=(Resolution(hold.id, outcome, times),)) if hold.draws else Batch()


def hold_roll(
    books: Books, grants: Sequence[Grant], hold: Hold, used: Sequence[Demand], request: HoldRequest, times: Times
) -> Rolled | Shortfall:
    """Takes what was used and holds the next stretch with what that frees.  On a shortfall nothing is taken."""
    capture = hold_capture(books, grants, hold, used, times)
    change = _merged((*hold.draws, *(Draw(draw.grant, -draw.amount) for draw in capture.draws)))
    freed = {draw.grant.id: draw.amount for draw in change}
    purses = [
        replace(purse, available=purse.available + freed[purse.grant.id]) if purse.grant.id in freed else purse
        for purse in purse_list(books, grants, request.owner, request.use, times.booked_at)
    ]
    answer = _hold(books, purses, request, times.booked_at)
    if isinstance(answer, Shortfall):
        return answer
    return Rolled(capture, answer.hold, capture.batch.joined(answer.batch))


def _hold(books: Books, purses: Sequence[Purse], request: HoldRequest, now: datetime) -> Held | Shortfall:
    burns = _burn_all(purses, request.demands)
    if any(burn.short for burn in burns):
        return _shortfall(books, purses, request, burns)
    hold = Hold(request, _merged(_draws(burns)))
    if not hold.draws:
        return Held(hold, Batch())
    transfer = Transfer(
        request.source,
        entries_join(_moves(request, hold.draws)),
        Times(now, now, request.service),
        pending=True,
        expires_at=request.expires_at,
        text="hold",
    )
    expect = {purse.grant.account.id: books.version(purse.grant.account) for purse in purses}
    return Held(hold, Batch((transfer,), expect=expect))


def _burn_all(purses: Sequence[Purse], demands: Sequence[Demand]) -> tuple[Burn, ...]:
    """Every demand out of the same purses, one after the other."""
    burns: list[Burn] = []
    left = tuple(purses)
    for demand in demands:
        burn = burn_decide(left, demand)
        spent = {draw.grant.id: draw.amount for draw in burn.draws}
        left = tuple(
            replace(purse, available=purse.available - spent[purse.grant.id]) if purse.grant.id in spent else purse
            for purse in left
        )
        burns.append(burn)
    return tuple(burns)


def _rest(demand: Demand, burn: Burn) -> Demand:
    """What of `demand` nobody has paid."""
    if not burn.short:
        return replace(demand, milli_seconds=0)
    paid = demand.covered(burn.money)
    return replace(demand, milli_seconds=demand.milli_seconds - burn.packed - paid, before=demand.before + paid)


def _draws(burns: Iterable[Burn]) -> tuple[Draw, ...]:
    return tuple(draw for burn in burns for draw in burn.draws)


def _merged(draws: Iterable[Draw]) -> tuple[Draw, ...]:
    """One draw a grant, in burn order."""
    sums: dict[str, Draw] = {}
    for draw in draws:
        known = sums.get(draw.grant.id)
        sums[draw.grant.id] = draw if known is None else Draw(draw.grant, known.amount + draw.amount)
    return tuple(sorted(sums.values(), key=lambda draw: draw.grant.burn_key))


def _moves(request: HoldRequest, draws: Iterable[Draw]) -> list[tuple[Account, Money]]:
    """From the grants to what is accrued; card time goes out as delivered."""
    moves: list[tuple[Account, Money]] = []
    for draw in draws:
        unit = draw.amount.currency
        target = Account(request.owner, AccountKind.ACCRUED, unit)
        if unit == CARD_SECONDS:
            target = Account("", AccountKind.CARD_TIME, unit)
        moves += [(draw.grant.account, -draw.amount), (target, draw.amount)]
    return moves


def _resolved(hold: Hold, taken: Iterable[Draw], times: Times) -> tuple[Resolution, ...]:
    if not hold.draws:
        return ()
    entries = entries_join(_moves(hold.request, taken))
    outcome = Outcome.POSTED if entries else Outcome.VOIDED
    return (Resolution(hold.id, outcome, times, entries),)


def _over(hold: Hold, over: Iterable[Draw], debt: Money, times: Times) -> list[Transfer]:
    moves = _moves(hold.request, over)
    if debt:
        owner, unit = hold.request.owner, debt.currency
        moves += [
            (Account(owner, AccountKind.RECEIVABLE, unit), -debt),
            (Account(owner, AccountKind.ACCRUED, unit), debt),
        ]
    entries = entries_join(moves)
    return [Transfer(("over", hold.id), entries, times, text="more than was held")] if entries else []


def _earned(books: Books, hold: Hold, draws: Iterable[Draw], times: Times) -> list[Transfer]:
    moves: list[tuple[Account, Money]] = []
    for draw in _merged(draws):
        moves += pack_moves(books, draw.grant, draw.amount, AccountKind.EARNINGS)
    entries = entries_join(moves)
    return [Transfer(("earned", hold.id), entries, times, text="packs used")] if entries else []


def _shortfall(books: Books, purses: Sequence[Purse], request: HoldRequest, burns: Sequence[Burn]) -> Shortfall:
    currency = request.currency
    need = money_sum((demand.cost(demand.milli_seconds) for demand in request.demands), currency)
    have = need - money_sum((burn.short for burn in burns), currency)
    limit = money_sum((_worth(books.balance(purse.grant.account).posted, request) for purse in purses), currency)
    held = max(limit - have, money_zero(currency))
    payable = sum(
        min(demand.milli_seconds, burn.packed + demand.covered(burn.money))
        for demand, burn in zip(request.demands, burns, strict=True)
    )
    text = f"{request.owner} has {have} free of {limit} ({held} held for other jobs), this job needs {need}"
    hint = f"top up {need - limit}, or declare a shorter max_duration"
    if limit >= need:
        hint = "it starts when a running job frees what it holds; a shorter max_duration holds less"
    reason = Reason(Code.BALANCE_HELD, text, need.minor(), have.minor(), limit.minor())
    return Shortfall(reason, need, have, limit, payable, hint)


def _worth(amount: Money, request: HoldRequest) -> Money:
    """In money of the request; card time at its first price."""
    if amount.currency == CARD_SECONDS and request.demands:
        return replace(request.demands[0], before=0).cost(amount.minor())
    return amount if amount.currency == request.currency else money_zero(request.currency)
