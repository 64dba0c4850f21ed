"""Grants: money and card time that a customer may spend.

They are burnt in this order: voucher, trial, pack, paid money; within those by priority (small first), expiry (early
first), age.  Each grant has an account of its own, so that a refund can go back to where the money came from.

In PostgreSQL: ``grants`` (primary key id, the hash of its source: one trial per verified identity, one voucher
per code, one top-up per payment; CHECK (kind <> 'pack' OR price IS NOT NULL); insert-only), inserted in one transaction
with its transfer.  What is left of it is the balance of its account.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from millpond.billing.ledger import Batch, Books
from millpond.billing.money import Money, money_round
from millpond.billing.transfers import (
    CARD_SECONDS,
    Account,
    AccountKind,
    Times,
    Transfer,
    entries_join,
    fact_id,
)
from millpond.domain.errors import Conflict, InvalidInput, Refused
from millpond.domain.names import model_matches


class GrantKind(StrEnum):
    VOUCHER = "voucher"
    TRIAL = "trial"
    PACK = "pack"
    PAID = "paid"


BURN_ORDER: Final = (GrantKind.VOUCHER, GrantKind.TRIAL, GrantKind.PACK, GrantKind.PAID)

_ACCOUNT: Final = {
    GrantKind.VOUCHER: AccountKind.CREDIT,
    GrantKind.TRIAL: AccountKind.CREDIT,
    GrantKind.PACK: AccountKind.PACK,
    GrantKind.PAID: AccountKind.WALLET,
}


@dataclass(frozen=True, slots=True)
class Use:
    """What a grant is asked to pay for."""

    sku: str
    klass: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a grant may pay for; an empty set means everything.  A model also names its variants (``A800``)."""

    skus: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()

    def covers(self, use: Use) -> bool:
        return (
            (not self.skus or any(model_matches(sku, use.sku) for sku in self.skus))
            and (not self.classes or use.klass in self.classes)
            and (not self.projects or use.project in self.projects)
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """``source``: the fact it follows from, which gives ``id``.  ``amount``: money, or card time (`CARD_SECONDS`).

    ``price``: what a pack cost; it is earned as the pack is used.  ``expires_at`` is exclusive; ``None``: never.
    """

    source: tuple[str, ...]
    owner: str
    kind: GrantKind
    amount: Money
    granted_at: datetime
    expires_at: datetime | None = None
    priority: int = 100
    scope: Scope = Scope()
    price: Money | None = None
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", fact_id(*self.source))
        if self.amount.minor() <= 0:
            raise InvalidInput(f"a grant of {self.amount} gives nothing", hint="grant a positive amount")
        if (self.kind is GrantKind.PACK) != (self.price is not None):
            raise InvalidInput("a pack has a price, and only a pack", hint="say what the pack cost, 0 for a gift")
        if self.price is not None and (self.price.amount < 0 or self.price.currency == CARD_SECONDS):
            raise InvalidInput(f"{self.price} is not a price of a pack", hint="write the money that was paid")
        if self.kind is not GrantKind.PACK and self.amount.currency == CARD_SECONDS:
            raise InvalidInput(f"a {self.kind} grant is money", hint="grant card time as a pack with price 0")
        if self.expires_at is not None and self.expires_at <= self.granted_at:
            raise InvalidInput("a grant cannot expire before it begins", hint="give a later expiry")

    @property
    def account(self) -> Account:
        return Account(self.owner, _ACCOUNT[self.kind], self.amount.currency, self.id)

    @property
    def burn_key(self) -> tuple[int, int, bool, datetime, datetime, str]:
        expires = self.expires_at or self.granted_at
        return (
            BURN_ORDER.index(self.kind),
            self.priority,
            self.expires_at is None,
            expires,
            self.granted_at,
            self.id,
        )

    def live(self, now: datetime) -> bool:
        return self.granted_at <= now and (self.expires_at is None or now < self.expires_at)


def grant_transfer(grant: Grant, created_at: datetime) -> Transfer:
    """Books the grant: credit is promotion, paid money is cash, a pack is cash that is deferred until it is used."""
    unit = grant.amount.currency
    moves = [(grant.account, grant.amount)]
    if grant.kind is GrantKind.PAID:
        moves.append((Account("", AccountKind.CASH, unit), -grant.amount))
    elif unit == CARD_SECONDS:
        moves.append((Account("", AccountKind.CARD_TIME, unit), -grant.amount))
    elif grant.price is None:
        moves.append((Account("", AccountKind.PROMOTION, unit), -grant.amount))
    else:
        moves += [
            (Account("", AccountKind.CASH, unit), -grant.price),
            (Account("", AccountKind.PROMOTION, unit), grant.price - grant.amount),
        ]
    if unit == CARD_SECONDS and grant.price is not None:
        moves += [
            (Account("", AccountKind.CASH, grant.price.currency), -grant.price),
            (Account(grant.owner, AccountKind.DEFERRED, grant.price.currency), grant.price),
        ]
    times = Times(grant.granted_at, created_at)
    return Transfer(("grant", *grant.source), entries_join(moves), times, text=f"{grant.kind} grant")


def grant_decide(existing: Grant | None, grant: Grant) -> Grant:
    """`grant`, if its source has made none yet.  `Conflict` (``GRANT_EXISTS``) else: nothing is counted twice.

    ``existing``: what is stored under the id of `grant`, whoever has it.
    """
    if existing is None:
        return grant
    what = " ".join(grant.source)
    if existing.owner != grant.owner:
        raise Conflict(f"{what} belongs to another account", hint="check the reference", code="GRANT_EXISTS")
    raise Conflict(
        f"{what} was counted on {existing.granted_at.isoformat(timespec='seconds')}, with {existing.amount}",
        hint="it was counted once, so nothing is missing; another payment has a reference of its own",
        code="GRANT_EXISTS",
        details={"grant": existing.id, "amount": existing.amount.minor()},
    )


def trial_decide(existing: Grant | None, identity: str, owner: str, amount: Money, now: datetime, days: int) -> Grant:
    """The trial grant of a verified identity: the one it has, or a new one.

    ``identity``: a keyed digest of what was verified, never a telephone number itself.  ``existing``: what is stored
    under the id ``fact_id("trial", identity)``.  `Conflict` (``TRIAL_USED``) when another account had it.
    """
    if existing is None:
        expires = now + timedelta(days=days)
        return Grant(("trial", identity), owner, GrantKind.TRIAL, amount, now, expires)
    if existing.owner != owner:
        raise Conflict(
            "this identity has had its trial credit, in another account",
            hint="top up, or redeem a voucher",
            code="TRIAL_USED",
        )
    return existing


def pack_earned(grant: Grant, gone_before: int, gone_after: int) -> Money:
    """The part of a pack's price that belongs to the units between two states of it; parts sum to the price.

    ``gone``: smallest units of the pack that are used or expired.  Negative when units come back.
    """
    price, whole = grant.price, grant.amount.minor()
    if price is None:
        raise InvalidInput(f"a {grant.kind} grant has no price", hint="only packs are earned")
    after = money_round(price.share(gone_after, whole), price.currency)
    return after - money_round(price.share(gone_before, whole), price.currency)


def pack_moves(books: Books, grant: Grant, taken: Money, to: AccountKind) -> list[tuple[Account, Money]]:
    """What books the price of card time that leaves a pack now: from deferred to `to`.  Nothing for other grants."""
    if grant.price is None or grant.amount.currency != CARD_SECONDS:
        return []
    gone = (grant.amount - books.balance(grant.account).posted).minor()
    earned = pack_earned(grant, gone, gone + taken.minor())
    unit = grant.price.currency
    return [(Account(grant.owner, AccountKind.DEFERRED, unit), -earned), (Account("", to, unit), earned)]


def grant_expiry(books: Books, grant: Grant, now: datetime, cause: str = "") -> Batch:
    """Takes what is left of an expired grant, less what is held; empty when there is nothing to take.

    What a hold frees later is taken then, with that hold's id as ``cause``: each is booked once.
    """
    if grant.expires_at is None or now < grant.expires_at:
        raise Refused(f"the {grant.kind} grant {grant.id} has not expired", hint="revoke it to take it back early")
    rest = books.balance(grant.account).available
    if not rest:
        return Batch()
    card_time = grant.amount.currency == CARD_SECONDS
    to = Account("", AccountKind.CARD_TIME if card_time else AccountKind.BREAKAGE, rest.currency)
    moves = [(grant.account, -rest), (to, rest), *pack_moves(books, grant, rest, AccountKind.BREAKAGE)]
    transfer = Transfer(("expiry", grant.id, cause), entries_join(moves), Times(now, now), text="expired")
    return Batch((transfer,), expect={grant.account.id: books.version(grant.account)})


def grant_revoked(books: Books, grant: Grant, source: tuple[str, ...], now: datetime) -> Batch:
    """Takes back credit that was given by mistake, less what is held; empty when nothing of it is left."""
    if grant.kind not in {GrantKind.TRIAL, GrantKind.VOUCHER}:
        raise Refused(f"a {grant.kind} grant was paid for", hint="pay it back instead")
    rest = books.balance(grant.account).available
    if not rest:
        return Batch()
    entries = entries_join([(grant.account, -rest), (Account("", AccountKind.PROMOTION, rest.currency), rest)])
    transfer = Transfer(source, entries, Times(now, now), text="revoked")
    return Batch((transfer,), expect={grant.account.id: books.version(grant.account)})


def grant_renewed(grant: Grant, amount: Money, cause: str, now: datetime, days: int) -> Grant:
    """Where a refund goes when the grant that it came from has expired: the same kind and scope, for `days` more."""
    price = None
    if grant.price is not None:
        price = money_round(grant.price.share(amount.minor(), grant.amount.minor()), grant.price.currency)
    return Grant(
        ("renewed", grant.id, cause),
        grant.owner,
        grant.kind,
        amount,
        now,
        now + timedelta(days=days),
        grant.priority,
        grant.scope,
        price,
    )
