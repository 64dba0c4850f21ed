"""Billing accounts: settings, balances, grants, lines.

Amounts of money are texts with all decimals of the currency (``"12.00"``); card time is whole milli-card-seconds, and
card-hours as text for people.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.billing.grants import Grant, GrantKind, Scope
from millpond.billing.ledger import Balance
from millpond.billing.money import Money, decimal_parse, decimal_round_text
from millpond.billing.prices import MILLI_SECONDS_PER_CARD_HOUR
from millpond.billing.sheets import GrantSheet, Sheet, StatementLine
from millpond.billing.transfers import CARD_SECONDS
from millpond.services.grants import TRIAL_AMOUNT, TRIAL_DAYS, Gift
from millpond.services.payments import Moved

_MONEY = "Money as text, such as `12.00`."
_PAYER = "Who took the money, such as `bank` or `alipay`."
_REFERENCE = "Its name there; one reference is counted once, for ever."


class AccountSettings(Schema):
    """Settings of an account; what is left out stays, or is the default when it is opened."""

    currency: str | None = Field(default=None, max_length=16, description="ISO 4217; fixed once something is booked.")
    zone: str | None = Field(default=None, max_length=64, description="IANA zone; its months are the invoices'.")
    tax_rate: str | None = Field(default=None, max_length=16, description="`0.06` is 6 %.")
    inclusive: bool | None = Field(default=None, description="Prices contain the tax.")
    mode: AccountMode | None = Field(default=None, description="`prepaid` holds money before a job starts.")
    minimum_seconds: int | None = Field(default=None, description="Charged at least, for each start.")
    increment_seconds: int | None = Field(default=None, description="Charged in whole steps of so many seconds.")
    bill_lost_work: bool | None = Field(default=None, description="Bill what a preemption lost.")
    notice: int | None = Field(default=None, description="Warn so many seconds before the money ends.")
    stretch: int | None = Field(default=None, description="Seconds that a job without max_duration holds at a time.")
    title: str | None = Field(default=None, max_length=500, description="The buyer's name on invoices.")
    address: str | None = Field(default=None, max_length=500, description="The buyer's address.")
    tax_id: str | None = Field(default=None, max_length=500, description="The buyer's tax number.")

    def given(self) -> dict[str, object]:
        """What was said, as fields of the account."""
        values = {name: value for name, value in self.model_dump().items() if value is not None}
        if self.tax_rate is not None:
            values["tax_rate"] = decimal_parse(self.tax_rate, "a tax rate")
        return values


class AccountOpen(AccountSettings):
    """A new account of a tenant."""

    tenant: str = Field(max_length=63, description="Its tenant.")
    currency: str = Field(max_length=16, description="ISO 4217, such as CNY.")
    zone: str = Field(max_length=64, description="IANA zone, such as Asia/Shanghai.")
    opened_at: datetime | None = Field(
        default=None, description="A full clock hour from which use is billed; else the present hour."
    )

    def given(self) -> dict[str, object]:
        values = super().given()
        values.pop("tenant")
        return values


class Account(Schema):
    """How a tenant pays."""

    tenant: str = Field(description="Its tenant.")
    currency: str = Field(description="ISO 4217.")
    zone: str = Field(description="IANA zone; its months are the invoices'.")
    opened_at: datetime = Field(description="Use before it is never billed.")
    sealed_until: datetime = Field(description="Before it nothing is booked any more.")
    tax_rate: str = Field(description="`0.06` is 6 %.")
    inclusive: bool = Field(description="Prices contain the tax.")
    mode: AccountMode = Field(description="`prepaid` holds money before a job starts.")
    minimum_seconds: int = Field(description="Charged at least, for each start.")
    increment_seconds: int = Field(description="Charged in whole steps of so many seconds.")
    bill_lost_work: bool = Field(description="What a preemption lost is billed.")
    notice: int = Field(description="Seconds before the money ends at which somebody is warned.")
    stretch: int = Field(description="Seconds that a job without max_duration holds at a time.")
    title: str = Field(description="The buyer's name on invoices.")
    address: str = Field(description="The buyer's address.")
    tax_id: str = Field(description="The buyer's tax number.")

    @classmethod
    def of(cls, record: AccountRecord) -> Account:
        return cls(
            tenant=record.tenant,
            currency=record.currency.code,
            zone=record.zone,
            opened_at=record.opened_at,
            sealed_until=record.sealed_until,
            tax_rate=rate_text(record.tax_rate),
            inclusive=record.inclusive,
            mode=record.mode,
            minimum_seconds=record.minimum_seconds,
            increment_seconds=record.increment_seconds,
            bill_lost_work=record.bill_lost_work,
            notice=record.notice,
            stretch=record.stretch,
            title=record.title,
            address=record.address,
            tax_id=record.tax_id,
        )


class GrantScope(Schema):
    """What a grant may pay for; an empty list means everything."""

    skus: list[str] = Field(default=[], max_length=100, description="Card models; `A800` also means its variants.")
    classes: list[str] = Field(default=[], max_length=100, description="Classes: prod, batch, besteffort.")
    projects: list[str] = Field(default=[], max_length=100, description="Projects.")


class TopUp(Schema):
    """Paid money for an account."""

    amount: str = Field(max_length=40, description=_MONEY)
    provider: str = Field(max_length=200, description=_PAYER)
    reference: str = Field(max_length=200, description=_REFERENCE)


class Payment(TopUp):
    """A payment of what is owed, or money that is paid back."""


class TrialGive(Schema):
    """Trial credit for a verified identity."""

    identity: str = Field(
        max_length=64, description="64 hex digits: HMAC-SHA256 of what was verified, with the verifier's own key."
    )
    amount: str = Field(default=TRIAL_AMOUNT, max_length=40, description=_MONEY)
    days: int = Field(default=TRIAL_DAYS, description="Days until it expires.")


class GrantGive(Schema):
    """A voucher, or a pack of card time or money."""

    kind: GrantKind = Field(description="`voucher` or `pack`.")
    code: str = Field(max_length=200, description="The voucher's code or the order's number; used once for ever.")
    amount: str = Field(default="", max_length=40, description=_MONEY + "  Or give `card_hours`.")
    card_hours: str = Field(default="", max_length=40, description="Card-hours of a pack, such as `100`.")
    price: str = Field(default="", max_length=40, description="What the pack cost; empty: nothing.")
    expires_at: datetime | None = Field(default=None, description="When it ends; none: never.")
    priority: int = Field(default=100, ge=0, le=1_000_000, description="Small ones of a kind are used first.")
    scope: GrantScope = Field(default=GrantScope(), description="What it may pay for.")

    def gift(self) -> Gift:
        scope = Scope(frozenset(self.scope.skus), frozenset(self.scope.classes), frozenset(self.scope.projects))
        return Gift(
            self.kind, self.code, self.amount, self.card_hours, self.price, self.expires_at, self.priority, scope
        )


class GrantInfo(Schema):
    """Money or card time that a tenant was given or paid."""

    id: str = Field(description="Hash of what it follows from.")
    kind: GrantKind = Field(description="They are used in this order: voucher, trial, pack, paid.")
    unit: str = Field(description="A currency, or `CARD-S`: card-seconds.")
    amount: str = Field(description="Whole, at first.")
    card_hours: str = Field(default="", description="The amount of card time, for people.")
    granted_at: datetime = Field(description="When.")
    expires_at: datetime | None = Field(description="From when it may not be used; none: never.")
    priority: int = Field(description="Small ones of a kind are used first.")
    scope: GrantScope = Field(description="What it may pay for.")
    price: str = Field(default="", description="What a pack cost.")

    @classmethod
    def of(cls, grant: Grant) -> GrantInfo:
        time = grant.amount.currency == CARD_SECONDS
        return cls(
            id=grant.id,
            kind=grant.kind,
            unit=grant.amount.currency.code,
            amount=grant.amount.text(),
            card_hours=hours_text(grant.amount.minor()) if time else "",
            granted_at=grant.granted_at,
            expires_at=grant.expires_at,
            priority=grant.priority,
            scope=GrantScope(
                skus=sorted(grant.scope.skus),
                classes=sorted(grant.scope.classes),
                projects=sorted(grant.scope.projects),
            ),
            price=grant.price.text() if grant.price is not None else "",
        )


class GrantBalance(GrantInfo):
    """A grant, and what is left of it."""

    posted: str = Field(description="What is left, held or not.")
    held: str = Field(description="Held for jobs.")
    available: str = Field(description="What may be spent; nothing of one that has expired.")
    live: bool = Field(description="It has begun and not expired.")

    @classmethod
    def with_balance(cls, row: GrantSheet) -> GrantBalance:
        balance = row.balance
        free = balance.available if row.live else balance.posted - balance.posted
        return cls(
            **GrantInfo.of(row.grant).model_dump(),
            posted=balance.posted.text(),
            held=balance.held.text(),
            available=free.text(),
            live=row.live,
        )


class CardTime(Schema):
    """Card time of packs."""

    posted: int = Field(description="Milli-card-seconds that are left.")
    held: int = Field(description="Held for jobs.")
    available: int = Field(description="What may be used.")
    card_hours: str = Field(description="What may be used, in card-hours.")


class BalanceSheet(Schema):
    """What an account stands at."""

    tenant: str = Field(description="Its tenant.")
    currency: str = Field(description="Of all amounts here.")
    mode: AccountMode = Field(description="How it pays.")
    at: datetime = Field(description="The moment of this.")
    available: str = Field(description="Money that may be spent: posted, less held, of what has not expired.")
    posted: str = Field(description="Money that is there, held or not.")
    held: str = Field(description="Held for jobs.")
    owed: str = Field(description="Positive: the tenant owes.")
    accrued: str = Field(description="Paid for use that is not invoiced yet.")
    deferred: str = Field(description="The price of card time in packs that is not used yet.")
    packs: CardTime = Field(description="Card time in packs.")
    grants: list[GrantBalance] = Field(description="In the order in which they are used.")

    @classmethod
    def of(cls, record: AccountRecord, sheet: Sheet) -> BalanceSheet:
        return cls(
            tenant=record.tenant,
            currency=record.currency.code,
            mode=record.mode,
            at=sheet.at,
            available=sheet.available.text(),
            posted=sheet.posted.text(),
            held=sheet.held.text(),
            owed=sheet.owed.text(),
            accrued=sheet.accrued.text(),
            deferred=sheet.deferred.text(),
            packs=_packs(sheet.packs, sheet.packs_available),
            grants=[GrantBalance.with_balance(row) for row in sheet.grants],
        )


class LedgerLine(Schema):
    """One booking on one account of a tenant."""

    account: str = Field(description="Such as `wallet/alpha/3f…/CNY`.")
    kind: str = Field(description="wallet, credit, pack, receivable, accrued, deferred.")
    unit: str = Field(description="A currency, or `CARD-S`.")
    amount: str = Field(description="Positive: it came to the holder.")
    text: str = Field(description="What it is.")
    source: list[str] = Field(description="The fact that it follows from, such as top-up, provider, reference.")
    transfer: str = Field(description="Id of the transfer: the hash of its source.")
    booked_at: datetime = Field(description="Its moment in the books.")
    created_at: datetime = Field(description="When it was written.")
    service_from: datetime | None = Field(description="Begin of the use that it is about.")
    service_to: datetime | None = Field(description="End of it, exclusive.")

    @classmethod
    def of(cls, line: StatementLine) -> LedgerLine:
        begin, end = line.service or (None, None)
        return cls(
            account=line.account.id,
            kind=line.account.kind.value,
            unit=line.account.unit.code,
            amount=line.amount.text(),
            text=line.text,
            source=list(line.source),
            transfer=line.transfer,
            booked_at=line.booked_at,
            created_at=line.created_at,
            service_from=begin,
            service_to=end,
        )


class MoneyMoved(Schema):
    """Money that came or went."""

    tenant: str = Field(description="Whose account.")
    amount: str = Field(description=_MONEY)
    currency: str = Field(description="ISO 4217.")
    transfers: list[str] = Field(description="What was booked.")

    @classmethod
    def of(cls, moved: Moved) -> MoneyMoved:
        return cls(
            tenant=moved.tenant,
            amount=moved.amount.text(),
            currency=moved.amount.currency.code,
            transfers=list(moved.transfers),
        )


def rate_text(rate: Decimal) -> str:
    """``0.06``, without zeros that say nothing."""
    return f"{rate.normalize():f}"


def hours_text(milli_seconds: int) -> str:
    """Card-hours with four decimals."""
    return decimal_round_text(Fraction(milli_seconds, MILLI_SECONDS_PER_CARD_HOUR), 4)


def _packs(balance: Balance, available: Money) -> CardTime:
    free = available.minor()
    return CardTime(
        posted=balance.posted.minor(), held=balance.held.minor(), available=free, card_hours=hours_text(free)
    )
