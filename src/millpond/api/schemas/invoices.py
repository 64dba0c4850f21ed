"""Invoices, their lines, payments and credit notes.  Amounts are decimals as text, in ``currency``."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import Field

from millpond.api.schemas.base import Schema
from millpond.billing.documents import (
    CreditRow,
    DocumentLine,
    InvoiceDocument,
    InvoiceState,
    LineKind,
    Party,
    TaxRow,
)
from millpond.billing.issued import InvoiceRecord
from millpond.billing.money import decimal_round_text
from millpond.billing.months import Unpriced
from millpond.billing.rating import card_hours
from millpond.domain.errors import MillpondError
from millpond.services.invoices import Closed, Draft

HOURS = 4
"""Decimals of card-hours."""


class InvoiceParty(Schema):
    """Who sends or gets an invoice."""

    account: str = Field(description="Name of the tenant; empty: the platform.")
    title: str = Field(description="Name on the invoice.")
    address: str = Field(description="Address on the invoice.")
    tax_id: str = Field(description="Tax id on the invoice.")

    @classmethod
    def of(cls, party: Party) -> InvoiceParty:
        return cls(account=party.account, title=party.title, address=party.address, tax_id=party.tax_id)


class InvoiceLine(Schema):
    """One project, user, job, model, class and price version."""

    line: str = Field(description="Its number; `explain` takes it.")
    kind: LineKind = Field(description="`correction`: use of an earlier month that was found after it was closed.")
    project: str = Field(description="Project, as it was.")
    user: str = Field(description="User, as it was.")
    job: str = Field(description="Id of the job.")
    sku: str = Field(description="Card model.")
    klass: str = Field(serialization_alias="class", description="Class of the queue.")
    price_version: str = Field(description="Version of the price.")
    unit_price: str = Field(description="Of a card-hour.")
    list_price: str | None = Field(description="What the list says, where the price was agreed; else null.")
    milli_card_seconds: int = Field(description="What is billed.")
    minimum_milli_card_seconds: int = Field(description="Of those, charged without running.")
    card_hours: str = Field(description="The same in card-hours, four decimals.")
    net: str = Field(description="Without tax.")
    tax: str = Field(description="Its part of the tax.")
    service_from: datetime = Field(description="From when on it was used.")
    service_to: datetime = Field(description="Until when, exclusive.")
    text: str = Field(description="What is special about it.")

    @classmethod
    def of(cls, line: DocumentLine) -> InvoiceLine:
        return cls(
            line=line.name,
            kind=line.kind,
            project=line.project,
            user=line.user,
            job=line.job,
            sku=line.sku,
            klass=line.klass,
            price_version=line.version,
            unit_price=line.unit_price.text(),
            list_price=None if line.list_price is None else line.list_price.text(),
            milli_card_seconds=line.milli_seconds,
            minimum_milli_card_seconds=line.minimum_milli_seconds,
            card_hours=decimal_round_text(card_hours(line.milli_seconds), HOURS),
            net=line.net.text(),
            tax=line.tax.text(),
            service_from=line.start,
            service_to=line.end,
            text=line.text,
        )


class InvoiceTax(Schema):
    """Tax at one rate."""

    rate: str = Field(description="0.06 is 6 %.")
    net: str = Field(description="What is taxed.")
    tax: str = Field(description="The tax.")

    @classmethod
    def of(cls, row: TaxRow) -> InvoiceTax:
        return cls(rate=str(row.rate), net=row.net.text(), tax=row.tax.text())


class CreditNote(Schema):
    """What a fault gave back."""

    number: str = Field(description="Number of the note.")
    line: str = Field(description="Line of the invoice.")
    issued_at: datetime = Field(description="When it was issued.")
    milli_card_seconds: int = Field(description="Card time that is given back.")
    card_hours: str = Field(description="The same in card-hours, four decimals.")
    net: str = Field(description="Given back, without tax.")
    tax: str = Field(description="Tax that is given back.")
    reason: str = Field(description="Why.")

    @classmethod
    def of(cls, row: CreditRow) -> CreditNote:
        return cls(
            number=row.number,
            line=row.line,
            issued_at=row.issued_at,
            milli_card_seconds=row.milli_seconds,
            card_hours=decimal_round_text(card_hours(row.milli_seconds), HOURS),
            net=row.net.text(),
            tax=row.tax.text(),
            reason=row.reason,
        )


class InvoiceSummary(Schema):
    """An issued invoice in a list."""

    number: str = Field(description="Number, without gaps in its series.")
    tenant: str = Field(description="Who is billed.")
    state: InvoiceState = Field(description="issued, paid or voided.")
    period: str = Field(description="The month.")
    revision: int = Field(description="More than 1 after one was voided.")
    lines: int = Field(description="How many lines it has.")
    card_hours: str = Field(description="What is billed, four decimals.")
    net: str = Field(description="Without tax.")
    tax: str = Field(description="The tax.")
    total: str = Field(description="Both.")
    currency: str = Field(description="Code of ISO 4217.")
    source_hash: str = Field(description="SHA-256 of the use and the prices that it was made of.")
    issued_at: datetime = Field(description="When it was issued.")

    @classmethod
    def of(cls, record: InvoiceRecord) -> InvoiceSummary:
        return cls(
            number=record.number,
            tenant=record.account,
            state=record.state,
            period=record.period,
            revision=record.revision,
            lines=record.lines,
            card_hours=decimal_round_text(card_hours(record.milli_seconds), HOURS),
            net=record.net.text(),
            tax=record.tax.text(),
            total=record.total.text(),
            currency=record.currency.code,
            source_hash=record.source_hash,
            issued_at=record.issued_at,
        )


class Invoice(Schema):
    """An invoice without its lines, which are a list of their own; a draft has no number."""

    number: str = Field(description="Number; empty: a draft.")
    state: InvoiceState = Field(description="draft, issued, paid or voided.")
    seller: InvoiceParty = Field(description="Who sends it.")
    buyer: InvoiceParty = Field(description="Who gets it.")
    period: str = Field(description="The month.")
    zone: str = Field(description="Whose month it is.")
    starts_at: datetime = Field(description="When the month begins.")
    ends_at: datetime = Field(description="When it ends, exclusive.")
    currency: str = Field(description="Code of ISO 4217.")
    inclusive: bool = Field(description="Whether prices contain the tax.")
    taxes: list[InvoiceTax] = Field(description="Tax by rate.")
    net: str = Field(description="Without tax.")
    tax: str = Field(description="The tax.")
    total: str = Field(description="Both.")
    paid: str = Field(description="What balance and payments have paid.")
    credited: str = Field(description="What credit notes gave back.")
    due: str = Field(description="What is still to be paid.")
    credits: list[CreditNote] = Field(description="Credit notes.")
    source_hash: str = Field(description="SHA-256 of the use and the prices that it was made of.")
    issued_at: datetime | None = Field(description="When it was issued.")
    due_on: date | None = Field(description="When it is to be paid.")

    @classmethod
    def of(cls, document: InvoiceDocument) -> Invoice:
        paid = document.paid
        return cls(
            number=document.number,
            state=document.state,
            seller=InvoiceParty.of(document.seller),
            buyer=InvoiceParty.of(document.buyer),
            period=document.period,
            zone=document.zone,
            starts_at=document.start,
            ends_at=document.end,
            currency=document.currency.code,
            inclusive=document.inclusive,
            taxes=[InvoiceTax.of(row) for row in document.taxes],
            net=document.net.text(),
            tax=document.tax.text(),
            total=document.total.text(),
            paid=(document.total - document.total if paid is None else paid).text(),
            credited=document.credited.text(),
            due=document.due_amount.text(),
            credits=[CreditNote.of(row) for row in document.credits],
            source_hash=document.source_hash,
            issued_at=document.issued_at,
            due_on=document.due,
        )


class UnpricedUse(Schema):
    """Use that has no price; it is not free, and no invoice is issued before it has one."""

    sku: str = Field(description="Card model.")
    klass: str = Field(serialization_alias="class", description="Class of the queue.")
    milli_card_seconds: int = Field(description="How much.")
    card_hours: str = Field(description="The same in card-hours, four decimals.")
    lines: int = Field(description="In how many lines.")

    @classmethod
    def of(cls, one: Unpriced) -> UnpricedUse:
        hours = decimal_round_text(card_hours(one.milli_seconds), HOURS)
        return cls(
            sku=one.sku, klass=one.klass, milli_card_seconds=one.milli_seconds, card_hours=hours, lines=one.lines
        )


class InvoiceDraft(Schema):
    """What would be issued now.  It is made anew each time, by what issues."""

    invoice: Invoice = Field(description="The invoice, without a number.")
    lines: list[InvoiceLine] = Field(description="The first lines, as many as were asked for.")
    line_count: int = Field(description="How many there are.")
    unpriced: list[UnpricedUse] = Field(description="What has no price yet.")

    @classmethod
    def of(cls, draft: Draft, limit: int) -> InvoiceDraft:
        lines = tuple(draft.document.lines)
        return cls(
            invoice=Invoice.of(draft.document),
            lines=[InvoiceLine.of(line) for line in lines[:limit]],
            line_count=len(lines),
            unpriced=[UnpricedUse.of(one) for one in draft.unpriced],
        )


class InvoiceIssue(Schema):
    """A month of one account that is to be closed."""

    tenant: str = Field(max_length=63, description="Whose account.")
    period: str = Field(max_length=7, description="The month: 2026-11.")


class MonthClose(Schema):
    """A month that is to be closed for all accounts, page after page."""

    period: str = Field(max_length=7, description="The month: 2026-11.")
    after: str = Field(default="", max_length=63, description="`next` of the page before; empty: the first.")
    limit: int = Field(default=50, ge=1, le=200, description="How many accounts, in one transaction.")


class ClosingProblem(Schema):
    """What hinders a closing."""

    code: str = Field(description="Stable code, such as UNRATED.")
    detail: str = Field(description="One sentence.")
    hint: str = Field(description="The next thing to do.")

    @classmethod
    def of(cls, error: MillpondError) -> ClosingProblem:
        return cls(code=error.reason, detail=error.message, hint=error.hint)


class Closing(Schema):
    """What became of one account's month."""

    tenant: str = Field(description="Whose account.")
    invoice: InvoiceSummary | None = Field(description="Null: there was nothing to bill, or `problem` says why not.")
    problem: ClosingProblem | None = Field(description="What hinders it.")
    fresh: bool = Field(description="Whether it was closed now, and not before.")

    @classmethod
    def of(cls, closed: Closed) -> Closing:
        return cls(
            tenant=closed.tenant,
            invoice=None if closed.invoice is None else InvoiceSummary.of(closed.invoice),
            problem=None if closed.problem is None else ClosingProblem.of(closed.problem),
            fresh=closed.fresh,
        )


class InvoicePay(Schema):
    """A payment that came in."""

    amount: str = Field(max_length=40, description='A decimal such as "928.00".')
    reference: str = Field(max_length=200, description="Of the bank or payment service; it counts once.")


class InvoiceVoid(Schema):
    """Why an invoice is taken back."""

    reason: str = Field(min_length=1, max_length=500, description="A sentence; it is kept.")


class CreditPost(Schema):
    """A fault of the platform that was found after the invoice was issued.  Give a time, or card-hours."""

    reason: str = Field(min_length=1, max_length=500, description="A sentence that stands on the note.")
    faulty_from: datetime | None = Field(default=None, description="When the fault began.")
    faulty_to: datetime | None = Field(default=None, description="When it ended, exclusive.")
    card_hours: str | None = Field(default=None, max_length=40, description="How much was spoilt, instead of a time.")
    reference: str = Field(
        default="", max_length=200, description="Of the fault; the same is credited once.  Empty: its time."
    )
