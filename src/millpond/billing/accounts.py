"""Billing accounts: how a tenant pays.  A tenant without one is metered and reported, never billed and never held.

In PostgreSQL: ``accounts`` (primary key the tenant).  The row is locked by whoever issues an invoice or changes the
settings, so that a month is closed under one set of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from millpond.billing.currencies import Currency
from millpond.billing.quotes import Terms
from millpond.billing.rating import Rules
from millpond.domain.errors import Conflict, InvalidInput

DAY: Final = 86_400
STRETCH: Final = 3_600
"""Seconds that a job without ``max_duration`` holds at a time, where an account says nothing else."""

NOTICE: Final = 900
"""Seconds before the money ends at which somebody is warned, where an account says nothing else."""

TEXT_LIMIT: Final = 500
TAX_PLACES: Final = 6


class AccountMode(StrEnum):
    """``postpaid``: used now, invoiced later.  ``prepaid``: money is held before a job starts."""

    POSTPAID = "postpaid"
    PREPAID = "prepaid"


@dataclass(frozen=True, slots=True)
class AccountRecord:
    """``zone``: the name of an IANA zone; its months are those of the invoices.

    ``tax_rate``: 0.06 is 6 %; on top of prices, or inside them where they are ``inclusive``.  ``notice`` and
    ``stretch`` are seconds.  ``sealed_until``: before it nothing is booked any more; use that is found later is a
    correction in the open month.  ``opened_at``: use before it is never billed.  ``title``, ``address`` and ``tax_id``
    are the buyer's, for invoices.
    """

    tenant: str
    currency: Currency
    zone: str
    opened_at: datetime
    sealed_until: datetime
    tax_rate: Decimal = Decimal(0)
    inclusive: bool = False
    mode: AccountMode = AccountMode.POSTPAID
    minimum_seconds: int = 0
    increment_seconds: int = 1
    bill_lost_work: bool = False
    notice: int = NOTICE
    stretch: int = STRETCH
    title: str = ""
    address: str = ""
    tax_id: str = ""

    def __post_init__(self) -> None:
        tax_rate_check(self.tax_rate)
        if not 0 <= self.minimum_seconds <= DAY or not 1 <= self.increment_seconds <= DAY:
            raise InvalidInput(
                "a minimum is 0 s to one day and an increment 1 s to one day", hint="write seconds, such as 60"
            )
        if not 60 <= self.stretch <= 30 * DAY:
            raise InvalidInput(f"a stretch of {self.stretch} s is out of range", hint="from 60 s to 30 days")
        if not 0 <= self.notice <= 30 * DAY:
            raise InvalidInput(f"a notice of {self.notice} s is out of range", hint="from 0 s to 30 days")
        for text in (self.title, self.address, self.tax_id):
            if len(text) > TEXT_LIMIT or "\x00" in text:
                raise InvalidInput(f"a text of {len(text)} characters is too long", hint=f"at most {TEXT_LIMIT}")
        if self.sealed_until < self.opened_at:
            raise InvalidInput("an account cannot be sealed before it is opened", hint="open it earlier")

    @property
    def rules(self) -> Rules:
        """What is charged beyond the seconds of running."""
        return Rules(self.minimum_seconds, self.increment_seconds, self.bill_lost_work)

    def terms(self, cuts: tuple[int, ...] = ()) -> Terms:
        """For quotes.  ``cuts``: instants at which months of its zone end, in order."""
        return Terms(self.currency, Decimal(0) if self.inclusive else self.tax_rate, cuts)


def tax_rate_check(rate: Decimal) -> None:
    """`InvalidInput` unless it is from 0 to 1, with at most six decimals."""
    if not rate.is_finite() or not 0 <= rate <= 1:
        raise InvalidInput(f"a tax rate of {rate} is out of range", hint='from 0 to 1: write "0.06" for 6 %')
    exponent = rate.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > TAX_PLACES:
        raise InvalidInput(f"a tax rate of {rate} has too many decimals", hint=f"at most {TAX_PLACES}")


def account_opened(record: AccountRecord) -> AccountRecord:
    """A new account begins unsealed: it is billed from ``opened_at``."""
    return replace(record, sealed_until=record.opened_at)


def account_changed(before: AccountRecord, after: AccountRecord, *, booked: bool) -> AccountRecord:
    """`after`, or `Conflict` for what may not change.  ``booked``: the ledger has entries of this account.

    Settings count from now on, for the open month as a whole: an invoice is made under one set of them.  What issued
    months rest on stays.
    """
    if after.currency != before.currency and (booked or before.sealed_until > before.opened_at):
        raise Conflict(
            f"{before.tenant} has bookings in {before.currency}, and a currency is for life",
            hint=f"open another tenant for {after.currency}",
            code="ACCOUNT_BOOKED",
        )
    if after.zone != before.zone and before.sealed_until > before.opened_at:
        raise Conflict(
            f"months of {before.tenant} are closed in {before.zone}",
            hint="a month in another zone would overlap one that is invoiced; open another tenant for it",
            code="ACCOUNT_SEALED",
        )
    if (after.opened_at, after.tenant) != (before.opened_at, before.tenant):
        raise Conflict(f"{before.tenant} is open since {before.opened_at.isoformat()}", hint="this never changes")
    return replace(after, sealed_until=before.sealed_until)
