"""Grants: top-ups, trial credit, vouchers and packs; taken back when they were a mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.accounts import AccountRecord
from millpond.billing.bookings import debt_cleared
from millpond.billing.grants import (
    Grant,
    GrantKind,
    Scope,
    grant_decide,
    grant_revoked,
    grant_transfer,
    trial_decide,
)
from millpond.billing.ledger import Batch
from millpond.billing.money import Money, decimal_parse, money_parse
from millpond.billing.prices import MILLI_SECONDS_PER_CARD_HOUR
from millpond.billing.transfers import Times, card_time, fact_id
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores import grants as store
from millpond.db.stores.accounts import accounts_lock, no_account
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.domain.errors import InvalidInput, Refused
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run

TRIAL_AMOUNT: Final = "10"
TRIAL_DAYS: Final = 30
MAX_DAYS: Final = 3_660
_IDENTITY = re.compile(r"[0-9a-f]{64}\Z")
_REFERENCE = re.compile(r"[\x21-\x7e]{1,200}\Z")

_ALL: Final = Scope()

Render = Callable[[Grant], object]


@dataclass(frozen=True, slots=True)
class Gift:
    """A voucher, or a pack: ``amount`` of money or ``card_hours``, as texts.  ``code`` is used once for ever."""

    kind: GrantKind
    code: str
    amount: str = ""
    card_hours: str = ""
    price: str = ""
    expires_at: datetime | None = None
    priority: int = 100
    scope: Scope = _ALL


def top_up(
    deps: Services, actor: Actor, tenant: str, amount: str, payment: tuple[str, str], once: Once, render: Render
) -> Reply:
    """Paid money, which also pays what the tenant owes.  ``payment``: provider and its reference, once for ever.

    `Conflict` (``GRANT_EXISTS``) if that payment was counted already.  Jobs that wait for money are looked at again.
    """
    source = ("top-up", *payment_check(*payment))

    def work(tx: Tx) -> Grant:
        account = _locked(tx, actor, tenant)
        now = deps.clock()
        grant = Grant(source, tenant, GrantKind.PAID, _positive(amount, account), now)
        grant_decide(store.grant_claim(tx, actor, tenant, grant.id), grant)
        books = books_read_owned(tx, actor, [tenant])
        books.add(Batch((grant_transfer(grant, now),)))
        grants = (*store.grant_list(tx, actor, tenant, left_only=True), grant)
        debt = debt_cleared(books, grants, tenant, account.currency, grant.id, Times(now, now))
        store.grant_add(tx, actor, grant, now, (debt,) if debt.transfers else ())
        _told(deps, tx, actor, "account.topped_up", grant)
        return grant

    return once_run(deps, "top_up", actor, once, work, render)


def trial_give(
    deps: Services, actor: Actor, tenant: str, identity: str, amount: str, days: int, once: Once, render: Render
) -> Reply:
    """Trial credit, once for each verified identity; asked again for the same account, the grant that there is.

    ``identity``: 64 hex digits, a keyed digest of what was verified; the key stays with whoever verifies.
    `Conflict` (``TRIAL_USED``) when another account had it.
    """
    if not _IDENTITY.match(identity):
        raise InvalidInput(
            "an identity is 64 hex digits",
            hint="send HMAC-SHA256 of what was verified, with a key that stays where it is verified",
        )
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"trial credit for {days} days makes no sense", hint=f"from 1 to {MAX_DAYS} days")

    def work(tx: Tx) -> Grant:
        account = _locked(tx, actor, tenant)
        now = deps.clock()
        existing = store.grant_claim(tx, actor, tenant, fact_id("trial", identity))
        grant = trial_decide(existing, identity, tenant, _positive(amount or TRIAL_AMOUNT, account), now, days)
        if existing is None:
            store.grant_add(tx, actor, grant, now)
            _told(deps, tx, actor, "account.granted", grant)
        return grant

    return once_run(deps, "trial_give", actor, once, work, render)


def grant_give(deps: Services, actor: Actor, tenant: str, gift: Gift, once: Once, render: Render) -> Reply:
    """A voucher or a pack.  `Conflict` (``GRANT_EXISTS``) if its code was used."""
    if gift.kind not in {GrantKind.VOUCHER, GrantKind.PACK}:
        raise InvalidInput(
            f"a {gift.kind} grant is not given by hand", hint="top up paid money; trial credit has its own command"
        )
    code = reference_check("code", gift.code)

    def work(tx: Tx) -> Grant:
        account = _locked(tx, actor, tenant)
        now = deps.clock()
        grant = _gift(account, gift, code, now)
        grant_decide(store.grant_claim(tx, actor, tenant, grant.id), grant)
        store.grant_add(tx, actor, grant, now)
        _told(deps, tx, actor, "account.granted", grant)
        return grant

    return once_run(deps, "grant_give", actor, once, work, render)


def grant_revoke(deps: Services, actor: Actor, tenant: str, grant: str, once: Once, render: Render) -> Reply:
    """Take back what is left of a trial or voucher, less what is held.  `Refused` when nothing is left."""

    def work(tx: Tx) -> Grant:
        _locked(tx, actor, tenant)
        now = deps.clock()
        found = store.grant_get(tx, actor, tenant, grant)
        batch = grant_revoked(books_read_owned(tx, actor, [tenant]), found, ("revoke", found.id, now.isoformat()), now)
        if not batch.transfers:
            raise Refused(
                f"nothing of the {found.kind} grant is free", hint="what is held can be taken back when its jobs end"
            )
        batch_store(tx, actor, batch, now)
        _told(deps, tx, actor, "account.revoked", found)
        return found

    return once_run(deps, "grant_revoke", actor, once, work, render)


def payment_check(provider: str, reference: str) -> tuple[str, str]:
    """`InvalidInput` unless both may name a payment."""
    return reference_check("provider", provider), reference_check("reference", reference)


def reference_check(what: str, text: str) -> str:
    if not _REFERENCE.match(text):
        raise InvalidInput(
            f"{text[:40]!r} is not a {what}", hint="write 1 to 200 visible ASCII characters without spaces"
        )
    return text


def _locked(tx: Tx, actor: Actor, tenant: str) -> AccountRecord:
    """Whoever else books on this account waits."""
    authorize(actor, Action.ACCOUNT_WRITE, tenant)
    account = accounts_lock(tx, actor, [tenant]).get(tenant)
    if account is None:
        raise no_account(tenant)
    return account


def _positive(text: str, account: AccountRecord) -> Money:
    amount = money_parse(text, account.currency)
    if amount.amount <= 0:
        raise InvalidInput(f"{amount} is not an amount to add", hint="write a positive amount, such as 100.00")
    return amount


def _gift(account: AccountRecord, gift: Gift, code: str, now: datetime) -> Grant:
    if gift.expires_at is not None and (gift.expires_at.tzinfo is None or gift.expires_at <= now):
        raise InvalidInput("a grant expires in the future, at a time with a zone", hint="give a later expiry")
    if gift.expires_at is not None and gift.expires_at > now + timedelta(days=MAX_DAYS):
        raise InvalidInput("a grant expires within ten years", hint="leave the expiry out if it never ends")
    if bool(gift.amount) == bool(gift.card_hours):
        raise InvalidInput("a grant is an amount of money or card-hours", hint="give one of amount and card_hours")
    amount = _positive(gift.amount, account) if gift.amount else _card_time(gift.card_hours)
    price = None
    if gift.kind is GrantKind.PACK:
        price = money_parse(gift.price or "0", account.currency)
    elif gift.price:
        raise InvalidInput("a voucher has no price", hint="give a pack, or leave out the price")
    source = (gift.kind.value, code)
    return Grant(source, account.tenant, gift.kind, amount, now, gift.expires_at, gift.priority, gift.scope, price)


def _card_time(text: str) -> Money:
    hours = Fraction(decimal_parse(text, "a number of card-hours"))
    milli = hours * MILLI_SECONDS_PER_CARD_HOUR
    if milli.denominator != 1 or milli <= 0:
        raise InvalidInput(f"{text} card-hours are not a whole number of milli-card-seconds", hint="write 100 or 0.25")
    return card_time(milli.numerator)


def _told(deps: Services, tx: Tx, actor: Actor, kind: str, grant: Grant) -> None:
    """The event; codes and references stand in the ledger."""
    data = {
        "grant": grant.id,
        "kind": grant.kind.value,
        "amount": grant.amount.text(),
        "unit": grant.amount.currency.code,
    }
    event_write(deps, tx, actor, kind, tenant=grant.owner, data=data)
    notify(tx, WORK_CHANNEL, "schedule")
