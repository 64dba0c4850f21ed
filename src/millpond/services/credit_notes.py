"""Credit notes: what a fault of the platform gives back, found after the invoice was issued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.billing.credits import BilledLine, CreditNote, Fault, credit_booking, note_decide
from millpond.billing.documents import CreditRow, DocumentLine, InvoiceState, LineKind
from millpond.billing.issued import InvoiceRecord, due_of, series_of
from millpond.billing.ledger import Batch
from millpond.billing.money import decimal_parse
from millpond.billing.prices import MILLI_SECONDS_PER_CARD_HOUR
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores import invoices as store
from millpond.db.stores.accounts import accounts_lock
from millpond.db.stores.draws import draws_of
from millpond.db.stores.grants import grant_renew
from millpond.db.stores.ledger import batch_store, books_read_owned
from millpond.db.stores.notes import line_notes, note_add, note_list, payment_list
from millpond.db.stores.usage import attempt_list
from millpond.domain.errors import Conflict, InvalidInput
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run


@dataclass(frozen=True, slots=True)
class FaultTold:
    """What somebody says of a fault: a time, or how many card-hours it spoilt.  ``reference`` names it."""

    reason: str
    begin: datetime | None
    end: datetime | None
    card_hours: str
    reference: str

    @property
    def source(self) -> tuple[str, ...]:
        """What makes two tellings one."""
        if self.reference:
            return ("fault", self.reference)
        if self.begin is not None and self.end is not None:
            return ("fault", str(int(self.begin.timestamp())), str(int(self.end.timestamp())))
        return ("fault", "card-hours", self.card_hours.strip())


def line_credit(
    deps: Services,
    actor: Actor,
    name: str,
    number: int,
    told: FaultTold,
    once: Once,
    render: Callable[[CreditRow], object],
) -> Reply:
    """A credit note for a fault; the one that there is already, if it was credited before.

    `Refused` beyond what the line has left, `Conflict` for the same fault with other numbers.
    """
    _told_check(told)

    def work(tx: Tx) -> CreditRow:
        known = store.invoice_get(tx, actor, name)
        authorize(actor, Action.INVOICE_WRITE, known.account)
        accounts_lock(tx, SYSTEM, [known.account])
        record = store.invoice_get(tx, actor, known.id, lock=True)
        if record.state is InvoiceState.VOIDED:
            raise Conflict(f"{record.number} is voided", hint="nothing of it is charged", code="NOT_CREDITABLE")
        line = store.invoice_line(tx, SYSTEM, record, number)
        billed = billed_line(tx, record, line)
        before = line_notes(tx, SYSTEM, billed, number)
        note = note_decide(billed, before, _fault(tx, record, line, told))
        if all(one.id != note.id for one in before):
            _issue(deps, tx, actor, record, number, note)
        stored = next(one for one in note_list(tx, SYSTEM, record) if one.id == note.id)
        return CreditRow(
            stored.number, str(number), stored.issued_at, stored.milli_seconds, stored.net, stored.tax, stored.text
        )

    return once_run(deps, "line_credit", actor, once, work, render)


def billed_line(tx: Tx, record: InvoiceRecord, line: DocumentLine) -> BilledLine:
    """A stored line with the grants that paid it."""
    paid = record.accrued or line.kind is LineKind.PACK
    draws = draws_of(tx, SYSTEM, record, line) if paid else ()
    return BilledLine(
        record.id, line.name, record.account, line.milli_seconds, line.net, line.tax, draws, record.inclusive
    )


def _issue(deps: Services, tx: Tx, actor: Actor, record: InvoiceRecord, number: int, note: CreditNote) -> None:
    now = deps.clock()
    books = books_read_owned(tx, SYSTEM, [record.account])
    booked = credit_booking(books, note, now)
    transfer = "" if booked.transfer is None else booked.transfer.id
    if booked.transfer is not None:
        batch_store(tx, SYSTEM, Batch((booked.transfer,)), now)
    for grant in booked.renewed:
        grant_renew(tx, SYSTEM, grant, transfer)
    note_add(tx, actor, note, number, series_of("CN", now), (now, actor.user), transfer)
    if record.state is InvoiceState.ISSUED:
        payments, notes = payment_list(tx, SYSTEM, record), note_list(tx, SYSTEM, record)
        if not due_of(record, payments, notes):
            store.invoice_move(tx, actor, record, InvoiceState.PAID, now)
    data = {
        "invoice": record.number,
        "line": number,
        "net": note.net.text(),
        "tax": note.tax.text(),
        "currency": note.net.currency.code,
        "milli_card_seconds": note.fault.milli_seconds,
        "reason": note.fault.text,
    }
    event_write(deps, tx, actor, "invoice.credited", tenant=record.account, data=data)
    notify(tx, WORK_CHANNEL, "schedule")


def _told_check(told: FaultTold) -> None:
    timed = told.begin is not None and told.end is not None
    if timed == bool(told.card_hours) or (told.begin is None) != (told.end is None):
        raise InvalidInput("a fault has a time or card-hours", hint="give --from and --to, or --card-hours")
    if told.begin is None or told.end is None:
        return
    if told.begin.tzinfo is None or told.end.tzinfo is None:
        raise InvalidInput("the time of a fault names no zone", hint="write it like 2026-11-30T10:20:00+08:00")
    if told.end <= told.begin:
        raise InvalidInput("the fault ends before it begins", hint="from < to")


def _fault(tx: Tx, record: InvoiceRecord, line: DocumentLine, told: FaultTold) -> Fault:
    """How much of the line the fault spoilt: its card-hours, or what the job's attempts had in its time."""
    if told.begin is None or told.end is None:
        hours = Fraction(decimal_parse(told.card_hours, "a number of card-hours"))
        exact = hours * MILLI_SECONDS_PER_CARD_HOUR
        return Fault(told.source, int(exact + Fraction(1, 2)), (line.start, line.end), told.reason)
    begin, end = max(told.begin, line.start), min(told.end, line.end)
    spoilt = 0
    for attempt in attempt_list(tx, SYSTEM, record.account, line.job):
        if (attempt.sku, attempt.klass) == (line.sku, line.klass):
            seconds = _overlap(attempt.started, attempt.ended, begin, end)
            spoilt += attempt.milli * seconds
    if not spoilt:
        raise InvalidInput(
            f"line {line.name} of {record.number} used nothing in that time",
            hint=f"it is about {line.start.isoformat()} to {line.end.isoformat()}; millpond invoice explain shows more",
            code="NOT_IN_LINE",
        )
    return Fault(told.source, spoilt, (begin, end), told.reason)


def _overlap(started: datetime, ended: datetime | None, begin: datetime, end: datetime) -> int:
    until = end if ended is None else min(ended, end)
    return max(0, int((until - max(started, begin)).total_seconds()))
