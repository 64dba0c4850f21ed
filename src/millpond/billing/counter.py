"""The counter of a planning pass: jobs that are to start come up one after the other, and pay or are told why not.

Pure.  A counter is made from what was read, used for one plan, and thrown away: another plan begins with a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.billing.budgets import Alert, Asked, Standing, budget_decide
from millpond.billing.grants import Grant, Use
from millpond.billing.holds import Held, HoldRequest, Shortfall, hold_decide
from millpond.billing.ledger import Ledger
from millpond.billing.money import Money
from millpond.billing.prices import PriceBook
from millpond.billing.quotes import Quote, Terms, quote_decide
from millpond.domain.reasons import Reason
from millpond.metering.hours import instant


@dataclass(frozen=True, slots=True)
class Payer:
    """How a tenant pays.  ``cuts``: instants at which its months end, the next ones."""

    account: AccountRecord
    book: PriceBook
    grants: tuple[Grant, ...] = ()
    cuts: tuple[int, ...] = ()

    @property
    def prepaid(self) -> bool:
        return self.account.mode is AccountMode.PREPAID


@dataclass(frozen=True, slots=True)
class Wish:
    """A job that wants to start.  ``skus``: card models that it may get; ``seconds``: its ``max_duration``."""

    job: str
    attempt: int
    path: tuple[str, ...]
    klass: str
    skus: tuple[str, ...]
    milli: int
    seconds: int | None

    @property
    def tenant(self) -> str:
        return self.path[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job may cost: net of tax for budgets, with tax for the hold; ``None`` where nothing has a price."""

    sku: str
    net: Money
    gross: Money
    quote: Quote


def cost_of(payer: Payer, wish: Wish, start: int) -> Cost | None:
    """The least of what it may cost on any of its card models, for its whole time or a stretch."""
    seconds = wish.seconds if wish.seconds is not None else payer.account.stretch
    span = (start, start + seconds)
    plain = Terms(payer.account.currency, cuts=payer.cuts)
    found: list[Cost] = []
    for sku in wish.skus:
        gross = quote_decide(
            payer.book, payer.account.rules, payer.account.terms(payer.cuts), sku, wish.klass, wish.milli, span
        )
        if not gross.demands:
            continue
        net = quote_decide(payer.book, payer.account.rules, plain, sku, wish.klass, wish.milli, span)
        found.append(Cost(sku, net.cost, gross.cost, gross))
    return min(found, key=lambda cost: (cost.gross.minor(), cost.sku), default=None)


class Counter:
    """See the module.  ``held``: what the admitted jobs hold, by job."""

    def __init__(
        self, standings: Sequence[Standing], payers: Mapping[str, Payer], books: Ledger, now: datetime
    ) -> None:
        self.standings = tuple(standings)
        self.held: dict[str, Held] = {}
        self._payers = payers
        self._books = _copy(books)
        self._now = now

    def reasons(self, wish: Wish) -> tuple[Reason, ...]:
        """Why it may not start now, or nothing; the counter stays as it is."""
        return self._decide(wish)[0]

    def admit(self, wish: Wish) -> tuple[Reason, ...]:
        """The same; without a reason it has started, and the next one is judged by what is left."""
        reasons, asked, held = self._decide(wish)
        if reasons:
            return reasons
        self.standings = tuple(standing.admitted(asked) for standing in self.standings)
        if held is not None:
            self._books.add(held.batch)
            self.held[wish.job] = held
        return ()

    def _decide(self, wish: Wish) -> tuple[tuple[Reason, ...], Asked, Held | None]:
        asked, cost = self._asked(wish)
        reasons = budget_decide(self.standings, asked).reasons
        payer = self._payers.get(wish.tenant)
        if payer is None or not payer.prepaid or not wish.milli:
            return reasons, asked, None
        answer = self._hold(payer, wish, cost)
        if isinstance(answer, Shortfall):
            return (*reasons, answer.reason), asked, None
        return reasons, asked, answer

    def _asked(self, wish: Wish) -> tuple[Asked, Cost | None]:
        if not wish.milli:
            return Asked(wish.path, 0, None), None
        payer = self._payers.get(wish.tenant)
        cost = cost_of(payer, wish, instant(self._now)) if payer is not None else None
        if wish.seconds is None:
            return Asked(wish.path, None, None), cost
        return Asked(wish.path, wish.milli * wish.seconds, cost.net if cost is not None else None), cost

    def _hold(self, payer: Payer, wish: Wish, cost: Cost | None) -> Held | Shortfall:
        seconds = wish.seconds if wish.seconds is not None else payer.account.stretch
        use = Use(cost.sku if cost is not None else "", wish.klass, wish.path[2])
        request = HoldRequest(
            ("hold", wish.job, str(wish.attempt), "1"),
            wish.tenant,
            use,
            cost.quote.demands if cost is not None else (),
            payer.account.currency,
            service=(self._now, self._now + timedelta(seconds=seconds)),
        )
        return hold_decide(self._books, payer.grants, request, self._now)


def _copy(books: Ledger) -> Ledger:
    copy = Ledger()
    for account in books.accounts.values():
        copy.recall(account, books.balance(account), books.version(account))
    return copy


@dataclass(frozen=True, slots=True)
class FundsRead:
    """What a plan's starts are decided by, as of one moment.  ``alerts``: lines that nobody was told of yet."""

    standings: tuple[Standing, ...]
    payers: Mapping[str, Payer]
    books: Ledger
    now: datetime
    alerts: tuple[Alert, ...] = ()

    def counter(self) -> Counter:
        return Counter(self.standings, self.payers, self.books, self.now)

    def concerns(self, tenant: str) -> bool:
        """Whether anything could keep a job of the tenant from starting."""
        payer = self.payers.get(tenant)
        if payer is not None and payer.prepaid:
            return True
        return any(len(one.budget.node) == 1 or one.budget.node[1] in {"*", tenant} for one in self.standings)
