"""What becomes of an issued invoice: it is paid, or it is voided."""

from __future__ import annotations

from collections.abc import Callable

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.billing.bookings import payment_decide, transfer_reversed
from millpond.billing.documents import InvoiceState
from millpond.billing.issued import InvoiceRecord, PaymentRecord, due_of, payment_check, void_check
from millpond.billing.ledger import Batch
from millpond.billing.money import money_parse
from millpond.billing.transfers import Times, fact_id
from millpond.db.session import Tx
from millpond.db.stores import invoices as store
from millpond.db.stores.accounts import accounts_lock
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.db.stores.notes import note_list, payment_add, payment_invoice, payment_list
from millpond.db.stores.statements import transfers_find
from millpond.domain.errors import Conflict, InvalidInput
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run

Render = Callable[[InvoiceRecord], object]
REFERENCE_LIMIT = 200


def invoice_pay(
    deps: Services, actor: Actor, name: str, amount: str, reference: str, once: Once, render: Render
) -> Reply:
    """Book a payment on an invoice.  `Conflict` for a reference that was booked, `Refused` for more than is due."""
    if not 1 <= len(reference.strip()) <= REFERENCE_LIMIT or not reference.isprintable():
        raise InvalidInput("a payment needs its reference", hint="write the number that the bank gave it")

    def work(tx: Tx) -> InvoiceRecord:
        record = _locked(tx, actor, name)
        now = deps.clock()
        paid = money_parse(amount, record.currency)
        payment = PaymentRecord(
            fact_id("invoice-payment", reference.strip()), record.id, paid, reference.strip(), now, actor.user
        )
        _unknown_check(tx, payment)
        payments, notes = payment_list(tx, SYSTEM, record), note_list(tx, SYSTEM, record)
        due = due_of(record, payments, notes)
        payment_check(record, due, paid)
        books = books_read_owned(tx, SYSTEM, [record.account])
        batch = payment_decide(books, f"invoice:{payment.id}", record.account, paid, Times(now, now))
        batch_store(tx, SYSTEM, batch, now)
        payment_add(tx, actor, record.account, payment, batch.transfers[0].id)
        if paid == due:
            record = store.invoice_move(tx, actor, record, InvoiceState.PAID, now)
        data = {"invoice": record.number, "amount": paid.text(), "currency": paid.currency.code, "state": record.state}
        event_write(deps, tx, actor, "invoice.paid", tenant=record.account, data=data)
        return record

    return once_run(deps, "invoice_pay", actor, once, work, render)


def invoice_void(deps: Services, actor: Actor, name: str, reason: str, once: Once, render: Render) -> Reply:
    """Take an issued invoice back.  Its number stays used, and the month can be issued again."""

    def work(tx: Tx) -> InvoiceRecord:
        record = _locked(tx, actor, name)
        void_check(record, payment_list(tx, SYSTEM, record), note_list(tx, SYSTEM, record))
        now = deps.clock()
        transfer = ""
        for issued in transfers_find(tx, SYSTEM, record.account, [record.transfer] if record.transfer else []):
            times = Times(now, now, issued.times.service)
            back = transfer_reversed(issued, ("invoice", record.id, "void"), times, "invoice voided")
            batch_store(tx, SYSTEM, Batch((back,)), now)
            transfer = back.id
        record = store.invoice_move(tx, actor, record, InvoiceState.VOIDED, now, reason, transfer)
        data = {"invoice": record.number, "period": record.period, "reason": reason}
        event_write(deps, tx, actor, "invoice.voided", tenant=record.account, data=data)
        return record

    return once_run(deps, "invoice_void", actor, once, work, render)


def _locked(tx: Tx, actor: Actor, name: str) -> InvoiceRecord:
    """The invoice, with its account locked before it, as everybody does."""
    known = store.invoice_get(tx, actor, name)
    authorize(actor, Action.INVOICE_WRITE, known.account)
    accounts_lock(tx, SYSTEM, [known.account])
    return store.invoice_get(tx, actor, known.id, lock=True)


def _unknown_check(tx: Tx, payment: PaymentRecord) -> None:
    known = payment_invoice(tx, SYSTEM, payment.id)
    if known:
        number = store.invoice_get(tx, SYSTEM, known).number
        raise Conflict(
            f"the payment {payment.reference!r} was booked on {number}",
            hint="it was counted once, so nothing is missing; another payment has a reference of its own",
            code="PAYMENT_EXISTS",
            details={"invoice": number},
        )
