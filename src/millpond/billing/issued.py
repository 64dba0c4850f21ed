"""Issued invoices as they are stored, their documents, and what may become of them.

In PostgreSQL: ``invoices`` (UNIQUE (account, currency, period, kind) of those that are not voided; UNIQUE number),
``invoice_lines`` (primary key invoice, line), ``invoice_payments``, ``credit_notes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from millpond.billing.accounts import AccountRecord
from millpond.billing.currencies import Currency
from millpond.billing.documents import (
    CreditRow,
    DocumentLine,
    InvoiceDocument,
    InvoiceState,
    LineKind,
    Party,
    TaxRow,
)
from millpond.billing.money import Money, money_sum, money_zero
from millpond.billing.months import MonthBill, MonthLine
from millpond.billing.transfers import fact_id
from millpond.domain.errors import Conflict, Refused
from millpond.metering.hours import Period

MONTH: Final = "month"
"""The kind of an invoice of a month's use; there is no other yet."""


@dataclass(frozen=True, slots=True)
class InvoiceRecord:
    """``accrued``: what the balance had paid of it when it was issued.  ``buyer`` and ``seller``: as they were then."""

    id: str
    account: str
    currency: Currency
    period: str
    revision: int
    number: str
    state: InvoiceState
    zone: str
    starts_at: datetime
    ends_at: datetime
    lines: int
    milli_seconds: int
    net: Money
    tax: Money
    total: Money
    accrued: Money
    tax_rate: Decimal
    inclusive: bool
    source_hash: str
    buyer: Party
    seller: Party
    issued_at: datetime
    issued_by: str
    transfer: str = ""
    due: date | None = None
    paid_at: datetime | None = None
    voided_at: datetime | None = None
    voided_for: str = ""


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """A credit note.  ``returned``: money that went back to grants; ``owed``: taken off what was to be paid."""

    id: str
    invoice: str
    line: int
    number: str
    source: tuple[str, ...]
    milli_seconds: int
    net: Money
    tax: Money
    owed: Money
    service_from: datetime
    service_to: datetime
    text: str
    issued_at: datetime
    issued_by: str
    returned: Money


@dataclass(frozen=True, slots=True)
class PaymentRecord:
    id: str
    invoice: str
    amount: Money
    reference: str
    paid_at: datetime
    created_by: str


def invoice_id(account: str, currency: Currency, period: str, revision: int) -> str:
    return fact_id("invoice", account, currency.code, period, MONTH, str(revision))


def series_of(kind: str, issued_at: datetime) -> str:
    """``INV-2026``: numbers begin anew each year (of UTC)."""
    return f"{kind}-{issued_at.year}"


def issue_check(account: AccountRecord, period: Period, months: tuple[Period, Period], settled_until: int) -> None:
    """Whether the month may be issued now, as far as it is not about its use.

    ``months``: that of ``sealed_until``, which is the next to be closed, and that of now.  ``settled_until``: how far
    the meter has booked everything.
    """
    due, current = months
    if period.start >= current.start:
        raise Refused(f"{period.name} is not over", hint=f"issue it when {period.name} has ended", code="MONTH_OPEN")
    if settled_until < period.end:
        raise Conflict(
            f"the meter has not booked all of {period.name} yet",
            hint="wait until it has; millpond usage shows how far it is",
            code="METER_BEHIND",
            details={"settled_until": settled_until, "needed": period.end},
        )
    if period.start < due.start:
        raise Conflict(
            f"{period.name} of {account.tenant} is closed already",
            hint="what is found later becomes a correction in the month that is open",
            code="MONTH_CLOSED",
        )
    if period.start > due.start:
        raise Conflict(
            f"{due.name} of {account.tenant} is not closed yet",
            hint=f"close it first: millpond invoice close {due.name}",
            code="MONTHS_IN_ORDER",
        )


def priced_check(bill: MonthBill) -> None:
    """`Conflict` (``UNRATED``) that names every model and class without a price: they would be billed as nothing."""
    if bill.unpriced:
        named = ", ".join(f"{one.sku} {one.klass} ({one.milli_seconds} milli-card-s)" for one in bill.unpriced)
        first = bill.unpriced[0]
        raise Conflict(
            f"some use has no price: {named}",
            hint=f"millpond price add NAME --sku {first.sku} --class {first.klass} …, then issue again",
            code="UNRATED",
            details={"lines": sum(one.lines for one in bill.unpriced)},
        )


def paid_of(record: InvoiceRecord, payments: Iterable[PaymentRecord], notes: Iterable[NoteRecord]) -> Money:
    """What the balance, payments and returned credit have paid of it, all together."""
    unit = record.currency
    covered = min(record.accrued, record.total)
    returned = money_sum((note.returned for note in notes), unit)
    return covered + money_sum((payment.amount for payment in payments), unit) - returned


def due_of(record: InvoiceRecord, payments: Iterable[PaymentRecord], notes: Sequence[NoteRecord]) -> Money:
    """What is still to be paid; never less than nothing."""
    if record.state is InvoiceState.VOIDED:
        return money_zero(record.currency)
    credited = money_sum((note.net + note.tax for note in notes), record.currency)
    left = record.total - credited - paid_of(record, payments, notes)
    return max(left, money_zero(record.currency))


def payment_check(record: InvoiceRecord, due: Money, amount: Money) -> None:
    """`Conflict` or `Refused` unless `amount` may be paid on it."""
    if record.state is not InvoiceState.ISSUED:
        raise Conflict(f"{record.number} is {record.state}", hint="only an issued invoice is paid", code="NOT_PAYABLE")
    if amount > due:
        raise Refused(
            f"{amount} is more than the {due} that are left of {record.number}",
            hint=f"pay at most {due}, and top the balance up with the rest",
            code="OVERPAID",
            details={"due": due.text(), "currency": due.currency.code},
        )


def void_check(record: InvoiceRecord, payments: Sequence[PaymentRecord], notes: Sequence[NoteRecord]) -> None:
    """`Conflict` unless nothing was paid or credited on it yet."""
    if record.state is not InvoiceState.ISSUED or payments or notes:
        why = f"is {record.state}" if record.state is not InvoiceState.ISSUED else "has payments or credit notes"
        raise Conflict(
            f"{record.number} {why} and cannot be voided",
            hint="give a credit note for what was charged too much: millpond invoice credit",
            code="NOT_VOIDABLE",
        )


def line_document(number: int, line: MonthLine, at: tuple[datetime, datetime]) -> DocumentLine:
    """A line as documents show it; ``at`` is its service period."""
    key = line.key
    return DocumentLine(
        str(number), key.project, key.user, key.job, key.sku, key.klass, key.version, line.billed, line.price,
        line.net, line.tax, *at, line.minimum, line.kind, line.list_price, LINE_TEXTS[line.kind],
    )  # fmt: skip


LINE_TEXTS: Final = {
    LineKind.USAGE: "",
    LineKind.CORRECTION: "found after its month was closed",
    LineKind.PACK: "paid by a pack of card time",
    LineKind.EXPIRED: "expired",
    LineKind.OTHER: "",
}


def document_of(
    record: InvoiceRecord,
    lines: Iterable[DocumentLine],
    payments: Sequence[PaymentRecord] = (),
    notes: Sequence[NoteRecord] = (),
) -> InvoiceDocument:
    """The invoice as every format shows it."""
    rows = tuple(
        CreditRow(note.number, str(note.line), note.issued_at, note.milli_seconds, note.net, note.tax, note.text)
        for note in notes
    )
    return InvoiceDocument(
        record.number, record.state, record.seller, record.buyer, record.period, record.zone, record.starts_at,
        record.ends_at, record.currency, lines, (TaxRow(record.tax_rate, record.net, record.tax),), record.net,
        record.tax, record.total, record.source_hash, record.issued_at, record.due,
        paid_of(record, payments, notes), record.inclusive, rows,
    )  # fmt: skip


def document_draft(document: InvoiceDocument) -> InvoiceDocument:
    """As a draft: without a number and a day."""
    return replace(document, number="", state=InvoiceState.DRAFT, issued_at=None, due=None)
