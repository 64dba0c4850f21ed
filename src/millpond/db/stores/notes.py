"""Payments and credit notes of invoices: only ever added."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import func, select

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize
from millpond.billing.burning import Draw
from millpond.billing.credits import BilledLine, CreditNote, Fault
from millpond.billing.issued import InvoiceRecord, NoteRecord, PaymentRecord
from millpond.billing.money import money_of_minor, money_zero
from millpond.db.session import Tx
from millpond.db.stores.grants import grant_list
from millpond.db.stores.rows import insert_many, rows_text
from millpond.db.tables.invoices import CREDIT_NOTES, CREDIT_RETURNS, INVOICE_PAYMENTS

_PAYMENT = ("id", "invoice", "amount", "reference", "paid_at", "created_by", "transfer")
_PAYMENT_ADD = insert_many(INVOICE_PAYMENTS, _PAYMENT)
_NOTE = (
    "id", "invoice", "line", "series", "source", "milli_seconds", "net", "tax", "owed", "service_from", "service_to",
    "text", "issued_at", "issued_by", "transfer",
)  # fmt: skip
_NOTE_ADD = insert_many(CREDIT_NOTES, _NOTE)
_RETURN = ("note", "grant", "amount", "unit")
_RETURN_ADD = insert_many(CREDIT_RETURNS, _RETURN)
_NOTE_READ = (
    "id", "invoice", "line", "number", "source", "milli_seconds", "net", "tax", "owed", "service_from", "service_to",
    "text", "issued_at", "issued_by",
)  # fmt: skip


def payment_list(tx: Tx, actor: Actor, record: InvoiceRecord) -> tuple[PaymentRecord, ...]:
    """Payments of an invoice, the oldest first."""
    authorize(actor, Action.INVOICE_READ, record.account)
    statement = (
        select(*(INVOICE_PAYMENTS.c[name] for name in _PAYMENT[:-1]))
        .where(INVOICE_PAYMENTS.c.invoice == record.id)
        .order_by(INVOICE_PAYMENTS.c.paid_at, INVOICE_PAYMENTS.c.id)
    )
    return tuple(
        PaymentRecord(row.id, row.invoice, money_of_minor(row.amount, record.currency), *row[3:])
        for row in tx.execute(statement)
    )


def payment_invoice(tx: Tx, actor: Actor, payment: str) -> str:
    """The invoice that a payment was for, empty if there is no such payment."""
    authorize(actor, Action.INVOICE_WRITE)
    found = tx.execute(select(INVOICE_PAYMENTS.c.invoice).where(INVOICE_PAYMENTS.c.id == payment)).scalar()
    return str(found or "")


def payment_add(tx: Tx, actor: Actor, account: str, payment: PaymentRecord, transfer: str) -> None:
    """Add a payment, whose transfer is booked already."""
    authorize(actor, Action.INVOICE_WRITE, account)
    row = (
        payment.id, payment.invoice, payment.amount.minor(), payment.reference, payment.paid_at, payment.created_by,
        transfer,
    )  # fmt: skip
    tx.execute(_PAYMENT_ADD, rows_text(tx, INVOICE_PAYMENTS, _PAYMENT, [row]))


def note_list(tx: Tx, actor: Actor, record: InvoiceRecord) -> tuple[NoteRecord, ...]:
    """Credit notes of an invoice, in the order of their numbers."""
    authorize(actor, Action.INVOICE_READ, record.account)
    returned = (
        select(func.coalesce(func.sum(CREDIT_RETURNS.c.amount), 0))
        .where(CREDIT_RETURNS.c.note == CREDIT_NOTES.c.id, CREDIT_RETURNS.c.unit == record.currency)
        .scalar_subquery()
    )
    statement = (
        select(*(CREDIT_NOTES.c[name] for name in _NOTE_READ), returned.label("returned"))
        .where(CREDIT_NOTES.c.invoice == record.id)
        .order_by(CREDIT_NOTES.c.issued_at, CREDIT_NOTES.c.serial)
    )
    return tuple(_note(row, record) for row in tx.execute(statement))


def line_notes(tx: Tx, actor: Actor, line: BilledLine, number: int) -> tuple[CreditNote, ...]:
    """Notes of one line, as `billing.credits` takes them."""
    authorize(actor, Action.INVOICE_READ, line.owner)
    statement = (
        select(*(CREDIT_NOTES.c[name] for name in _NOTE_READ))
        .where(CREDIT_NOTES.c.invoice == line.invoice, CREDIT_NOTES.c.line == number)
        .order_by(CREDIT_NOTES.c.issued_at, CREDIT_NOTES.c.serial)
    )
    rows = tx.execute(statement).all()
    if not rows:
        return ()
    grants = {grant.id: grant for grant in grant_list(tx, actor, line.owner)}
    returns: defaultdict[str, list[Draw]] = defaultdict(list)
    backs = select(*(CREDIT_RETURNS.c[name] for name in _RETURN)).where(
        CREDIT_RETURNS.c.note.in_([row.id for row in rows])
    )
    for note, grant, amount, unit in tx.execute(backs):
        returns[note].append(Draw(grants[grant], money_of_minor(amount, unit)))
    unit = line.net.currency
    return tuple(
        CreditNote(
            row.id,
            line,
            Fault(row.source, row.milli_seconds, (row.service_from, row.service_to), row.text),
            money_of_minor(row.net, unit),
            money_of_minor(row.tax, unit),
            tuple(returns[row.id]),
            money_of_minor(row.owed, unit),
        )
        for row in rows
    )


def note_add(
    tx: Tx, actor: Actor, note: CreditNote, number: int, series: str, issued: tuple[Any, str], transfer: str
) -> None:
    """Add a note; the database gives it the next number.  ``issued``: when and by whom.

    What it returns is kept under the grants that the line was paid from, also where credit was renewed.
    """
    authorize(actor, Action.INVOICE_WRITE, note.line.owner)
    fault = note.fault
    row = (
        note.id, note.line.invoice, number, series, fault.source, fault.milli_seconds, note.net.minor(),
        note.tax.minor(), note.owed.minor(), *fault.service, fault.text, *issued, transfer or None,
    )  # fmt: skip
    tx.execute(_NOTE_ADD, rows_text(tx, CREDIT_NOTES, _NOTE, [row]))
    rows = [(note.id, draw.grant.id, draw.amount.minor(), draw.amount.currency) for draw in note.returns]
    if rows:
        tx.execute(_RETURN_ADD, rows_text(tx, CREDIT_RETURNS, _RETURN, rows))


def _note(row: Any, record: InvoiceRecord) -> NoteRecord:
    unit = record.currency
    return NoteRecord(
        row.id, row.invoice, row.line, row.number, row.source, row.milli_seconds, money_of_minor(row.net, unit),
        money_of_minor(row.tax, unit), money_of_minor(row.owed, unit), row.service_from, row.service_to, row.text,
        row.issued_at, row.issued_by, money_of_minor(int(row.returned), unit) if row.returned else money_zero(unit),
    )  # fmt: skip
