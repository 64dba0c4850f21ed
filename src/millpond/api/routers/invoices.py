"""Invoices."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from millpond.api.context import PAGE, Cursor, Deps, Limit, OnceKey, TenantName, Who, reply_response
from millpond.api.schemas.base import Listing
from millpond.api.schemas.explained import LineExplanation
from millpond.api.schemas.invoices import (
    Closing,
    CreditNote,
    CreditPost,
    Invoice,
    InvoiceDraft,
    InvoiceIssue,
    InvoiceLine,
    InvoicePay,
    InvoiceSummary,
    InvoiceVoid,
    MonthClose,
)
from millpond.billing.documents import CreditRow, InvoiceState
from millpond.billing.issued import InvoiceRecord
from millpond.domain.errors import InvalidInput
from millpond.domain.records import Page
from millpond.services import credit_notes, invoice_moves, invoice_walk, invoices
from millpond.services.invoices import Closed

router = APIRouter(tags=["invoices"])

InvoiceName = Annotated[str, Path(max_length=64, description="Number of the invoice, or its id.")]
LineNumber = Annotated[int, Path(ge=1, le=2_000_000_000, description="Number of the line.")]
Month = Annotated[str, Query(max_length=7, description="The month: 2026-11.")]


@router.get("/v1/invoices")
def invoice_list(
    deps: Deps,
    actor: Who,
    tenant: Annotated[str, Query(max_length=63, description="Only of this tenant.")] = "",
    period: Annotated[str, Query(max_length=7, description="Only of this month: 2026-11.")] = "",
    state: Annotated[InvoiceState | None, Query(description="Only in this state.")] = None,
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> Listing[InvoiceSummary]:
    """Issued invoices that the caller may see, the newest first."""
    page = invoices.invoice_list(deps, actor, tenant, period, state, cursor, limit)
    return Listing(items=[InvoiceSummary.of(record) for record in page.items], next=page.next)


@router.post("/v1/invoices", status_code=201, response_model=Closing)
def invoice_issue(deps: Deps, actor: Who, once: OnceKey, body: InvoiceIssue) -> Response:
    """Close a month of one account and issue its invoice.  Again: the same one."""
    return reply_response(invoices.invoice_issue(deps, actor, body.tenant, body.period, once, _closing))


@router.post("/v1/invoices/close", status_code=201, response_model=Listing[Closing])
def invoices_close(deps: Deps, actor: Who, once: OnceKey, body: MonthClose) -> Response:
    """Close a month of the next accounts.  Ask until there is no `next`; again: the same invoices."""

    def render(page: Page[Closed]) -> object:
        return {"items": [_closing(one) for one in page.items], "next": page.next}

    reply = invoices.invoices_close(deps, actor, body.period, (body.after, body.limit), once, render)
    return reply_response(reply)


@router.get("/v1/accounts/{tenant}/draft")
def invoice_draft(deps: Deps, actor: Who, tenant: TenantName, period: Month, limit: Limit = PAGE) -> InvoiceDraft:
    """What the invoice of a month would be now."""
    return InvoiceDraft.of(invoices.invoice_draft(deps, actor, tenant, period), limit)


@router.get("/v1/invoices/{invoice}")
def invoice_get(deps: Deps, actor: Who, invoice: InvoiceName) -> Invoice:
    """An issued invoice without its lines."""
    return Invoice.of(invoices.invoice_head(deps, actor, invoice))


@router.get("/v1/invoices/{invoice}/lines")
def invoice_lines(
    deps: Deps, actor: Who, invoice: InvoiceName, cursor: Cursor = "", limit: Limit = PAGE
) -> Listing[InvoiceLine]:
    """Its lines, in order."""
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise InvalidInput("this cursor is not one of ours", hint="use `next` of the page before, unchanged")
    page = invoices.invoice_lines(deps, actor, invoice, int(cursor or "0"), limit)
    return Listing(items=[InvoiceLine.of(line) for line in page.items], next=page.next)


@router.get("/v1/invoices/{invoice}/lines/{line}/explain")
def invoice_explain(deps: Deps, actor: Who, invoice: InvoiceName, line: LineNumber) -> LineExplanation:
    """What a line was made of: hourly buckets, attempts, events with their hashes, the price version."""
    return LineExplanation.of(invoice_walk.line_explain(deps, actor, invoice, line))


@router.post("/v1/invoices/{invoice}/lines/{line}/credit", status_code=201, response_model=CreditNote)
def invoice_credit(
    deps: Deps, actor: Who, once: OnceKey, invoice: InvoiceName, line: LineNumber, body: CreditPost
) -> Response:
    """Give a line back, whole or in part, for a fault of the platform.  The invoice itself stays as it is."""

    def render(row: CreditRow) -> object:
        return CreditNote.of(row).model_dump(mode="json")

    fault = credit_notes.FaultTold(body.reason, body.faulty_from, body.faulty_to, body.card_hours or "", body.reference)
    return reply_response(credit_notes.line_credit(deps, actor, invoice, line, fault, once, render))


@router.post("/v1/invoices/{invoice}/pay", status_code=201, response_model=InvoiceSummary)
def invoice_pay(deps: Deps, actor: Who, once: OnceKey, invoice: InvoiceName, body: InvoicePay) -> Response:
    """Book a payment.  The invoice is paid when nothing is left."""
    reply = invoice_moves.invoice_pay(deps, actor, invoice, body.amount, body.reference, once, _summary)
    return reply_response(reply)


@router.post("/v1/invoices/{invoice}/void", status_code=201, response_model=InvoiceSummary)
def invoice_void(deps: Deps, actor: Who, once: OnceKey, invoice: InvoiceName, body: InvoiceVoid) -> Response:
    """Take an invoice back on which nothing was paid or credited.  Its number stays; the month can be issued again."""
    return reply_response(invoice_moves.invoice_void(deps, actor, invoice, body.reason, once, _summary))


def _closing(closed: Closed) -> object:
    return Closing.of(closed).model_dump(mode="json")


def _summary(record: InvoiceRecord) -> object:
    return InvoiceSummary.of(record).model_dump(mode="json")
