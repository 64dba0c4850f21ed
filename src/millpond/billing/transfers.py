"""Accounts, transfers and their resolutions: the immutable records of the ledger.

Signs: every amount is seen from the holder.  Positive is what somebody may spend or is owed (a wallet with 10.00 has
+10.00), negative what came from outside or is owed to us (cash, receivables).  A transfer's entries sum to zero in each
unit; a balance is the sum of an account's entries.  Card time is a unit like money: `CARD_SECONDS` has three decimals,
so that its smallest unit is the milli-card-second.

The idea of two phases is TigerBeetle's: a pending transfer holds amounts, and is posted (whole or in part), voided or
expired, once.

In PostgreSQL: ``ledger_accounts`` (primary key id), ``ledger_transfers`` (primary key id, the hash of its source),
``ledger_entries`` (primary key transfer, phase, account; a trigger at the end of the statement that adds them: the
sum per transfer, phase and unit is zero, and no more is posted than was held), ``ledger_resolutions`` (primary key
transfer: resolved once).  Deferred triggers count the entries of each, others refuse UPDATE and DELETE on all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from millpond.billing.currencies import Currency, currency_find
from millpond.billing.money import Money, money_of_minor, money_zero
from millpond.domain.errors import InvalidInput

CARD_SECONDS: Final = Currency("CARD-S", 3)
"""Card time as a unit of the ledger: card-seconds with three decimals."""


def unit_find(code: str) -> Currency:
    """A currency of ISO 4217, or `CARD_SECONDS`, by its code."""
    return CARD_SECONDS if code == CARD_SECONDS.code else currency_find(code)


def card_time(milli_seconds: int) -> Money:
    """Milli-card-seconds as an amount of the ledger."""
    return money_of_minor(milli_seconds, CARD_SECONDS)


class AccountKind(StrEnum):
    WALLET = "wallet"
    CREDIT = "credit"
    PACK = "pack"
    RECEIVABLE = "receivable"
    ACCRUED = "accrued"
    DEFERRED = "deferred"
    EARNINGS = "earnings"
    TAX = "tax"
    CREDIT_NOTES = "credit-notes"
    BREAKAGE = "breakage"
    PROMOTION = "promotion"
    CASH = "cash"
    CARD_TIME = "card-time"


@dataclass(frozen=True, slots=True)
class KindRule:
    """``sign`` of a usual balance.  ``guarded``: posted less held never falls below zero (a CHECK on the balance)."""

    sign: int
    guarded: bool
    meaning: str


KINDS: Final[dict[AccountKind, KindRule]] = {
    AccountKind.WALLET: KindRule(1, True, "money that a customer paid in"),
    AccountKind.CREDIT: KindRule(1, True, "trial credit and vouchers"),
    AccountKind.PACK: KindRule(1, True, "card time or money bought in advance"),
    AccountKind.RECEIVABLE: KindRule(-1, False, "what a customer owes"),
    AccountKind.ACCRUED: KindRule(1, False, "used and not yet invoiced"),
    AccountKind.DEFERRED: KindRule(1, False, "the price of packs that are not used yet"),
    AccountKind.EARNINGS: KindRule(1, False, "invoiced, without tax"),
    AccountKind.TAX: KindRule(1, False, "tax owed to the state"),
    AccountKind.CREDIT_NOTES: KindRule(-1, False, "taken back from earnings for faults"),
    AccountKind.BREAKAGE: KindRule(1, False, "credit that expired unused"),
    AccountKind.PROMOTION: KindRule(-1, False, "what trials and vouchers cost us"),
    AccountKind.CASH: KindRule(-1, False, "the outside: banks and payment services"),
    AccountKind.CARD_TIME: KindRule(-1, False, "the outside of card time: sold, less what was delivered"),
}
"""The chart of accounts, as data."""


@dataclass(frozen=True, slots=True)
class Account:
    """One kind of thing of one ``owner`` (empty: the platform) in one unit.  ``of``: the grant that it belongs to."""

    owner: str
    kind: AccountKind
    unit: Currency
    of: str = ""

    def __post_init__(self) -> None:
        if "/" in self.owner + self.of or (self.of and not self.owner):
            raise InvalidInput(
                f"{self.owner!r} and {self.of!r} cannot name an account", hint="use names without slashes"
            )

    @property
    def id(self) -> str:
        return "/".join(part for part in (self.kind.value, self.owner, self.of, self.unit.code) if part)

    @property
    def guarded(self) -> bool:
        return KINDS[self.kind].guarded


@dataclass(frozen=True, slots=True)
class Entry:
    """``amount`` is whole smallest units of the account's unit, signed, not zero."""

    account: Account
    amount: Money


class Outcome(StrEnum):
    POSTED = "posted"
    VOIDED = "voided"
    EXPIRED = "expired"


def fact_id(*source: str) -> str:
    """The id of what follows from a fact: the same source, the same id, on every machine and every replay."""
    return hashlib.sha256(json.dumps(source, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Times:
    """Four times that are never mixed.

    ``service``: when it was used, half-open.  ``booked_at``: its moment in the books, which closed periods refuse.
    ``invoice_at``: when it may be invoiced (``None``: with the next invoice).  ``created_at``: when the row was
    written; a replay writes later, so it takes no part in comparing.
    """

    booked_at: datetime
    created_at: datetime = field(compare=False)
    service: tuple[datetime, datetime] | None = None
    invoice_at: datetime | None = None

    def __post_init__(self) -> None:
        moments = [self.booked_at, self.created_at, *(self.service or ())]
        if self.invoice_at is not None:
            moments.append(self.invoice_at)
        if any(moment.tzinfo is None for moment in moments):
            raise InvalidInput("a time without a zone cannot be booked", hint="give every time with its zone")
        if self.service is not None and self.service[1] < self.service[0]:
            raise InvalidInput("a service period cannot end before it begins", hint="check the clocks of the facts")

    def texts(self) -> tuple[str, ...]:
        """All but ``created_at``, in UTC, for digests."""
        return tuple(_utc(moment) for moment in (self.booked_at, self.invoice_at, *(self.service or (None, None))))


def _utc(moment: datetime | None) -> str:
    return moment.astimezone(UTC).isoformat() if moment is not None else ""


@dataclass(frozen=True, slots=True)
class Transfer:
    """``source``: the fact that it follows from, which gives ``id``.  ``pending``: it holds until it is resolved.

    ``expires_at``: from then on a pending transfer may be expired by the platform itself.
    """

    source: tuple[str, ...]
    entries: tuple[Entry, ...]
    times: Times
    pending: bool = False
    expires_at: datetime | None = None
    text: str = ""
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", fact_id(*self.source))
        if not self.source:
            raise InvalidInput("a transfer needs a source", hint="name the fact that it follows from")
        if self.expires_at is not None and not self.pending:
            raise InvalidInput("only a pending transfer can expire", hint="leave out expires_at")
        entries_check(self.entries)

    @property
    def digest(self) -> str:
        """Over all but ``created_at``: what a store compares when the id is already there."""
        expires = _utc(self.expires_at)
        return fact_id(*self.source, *self.times.texts(), str(self.pending), expires, self.text, *_texts(self.entries))


@dataclass(frozen=True, slots=True)
class Resolution:
    """The end of a pending transfer.  ``entries``: what is posted of it; none when it is voided or expired."""

    transfer: str
    outcome: Outcome
    times: Times
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        if self.outcome is Outcome.POSTED:
            entries_check(self.entries)
        elif self.entries:
            raise InvalidInput(f"nothing is posted of what is {self.outcome}", hint="leave out the entries")

    @property
    def digest(self) -> str:
        return fact_id(self.transfer, self.outcome.value, *self.times.texts(), *_texts(self.entries))


def _texts(entries: Iterable[Entry]) -> Iterable[str]:
    return sorted(f"{entry.account.id} {entry.amount.minor()}" for entry in entries)


def entries_check(entries: tuple[Entry, ...]) -> None:
    """`InvalidInput` unless each account stands there once, with its unit, and each unit sums to zero."""
    if not entries:
        raise InvalidInput("a transfer needs entries", hint="book nothing when nothing moves")
    sums: dict[Currency, Money] = {}
    seen: set[str] = set()
    for entry in entries:
        if entry.account.id in seen:
            raise InvalidInput(f"{entry.account.id} stands twice in a transfer", hint="add its entries up")
        seen.add(entry.account.id)
        if entry.amount.currency != entry.account.unit:
            raise InvalidInput(
                f"{entry.account.id} holds {entry.account.unit}, not {entry.amount.currency}",
                hint="open an account for each unit",
                code="CURRENCY_MISMATCH",
            )
        if not entry.amount.minor():
            raise InvalidInput(f"the entry on {entry.account.id} moves nothing", hint="leave it out")
        unit = entry.account.unit
        sums[unit] = sums.get(unit, money_zero(unit)) + entry.amount
    for total in sums.values():
        if total:
            raise InvalidInput(
                f"the entries sum to {total}, not to zero",
                hint="every amount comes from one account and goes to another",
                code="UNBALANCED",
            )


def entries_join(moves: Iterable[tuple[Account, Money]]) -> tuple[Entry, ...]:
    """One entry an account, in order of first appearance; those that cancel out are left out."""
    sums: dict[Account, Money] = {}
    for account, amount in moves:
        sums[account] = sums[account] + amount if account in sums else amount
    return tuple(Entry(account, amount) for account, amount in sums.items() if amount)
