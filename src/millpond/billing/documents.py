"""The invoice as a document: all that a PDF, a sheet or an export shows of it, and that its figures agree.

A renderer computes nothing and asks nobody: what it writes stands here.  So every format of one invoice says the same,
and a document that does not sum is refused before anybody gets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_sum
from millpond.domain.errors import Conflict


class InvoiceState(StrEnum):
    """draft → issued → paid | voided.  A draft has no number."""

    DRAFT = "draft"
    ISSUED = "issued"
    PAID = "paid"
    VOIDED = "voided"


class LineKind(StrEnum):
    """``usage`` of the invoice's own period; ``correction``: use of an earlier period that was found too late for it;
    ``pack``: card time that a pack paid, without money; ``expired``: what was left of a grant; ``other``."""

    USAGE = "usage"
    CORRECTION = "correction"
    PACK = "pack"
    EXPIRED = "expired"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Party:
    """Who sends or gets an invoice.  ``account`` is the tenant's name (of the seller: of the platform)."""

    account: str
    title: str = ""
    address: str = ""
    tax_id: str = ""

    @property
    def name(self) -> str:
        return self.title or self.account


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """``name`` is what `invoice explain` takes.  ``start`` and ``end``: the service period, half-open.

    ``milli_seconds`` are billed, ``minimum_milli_seconds`` of them without running.  ``unit_price`` of a card-hour, in
    ``version``; ``list_price`` where a contract price was billed and a list price stood beside it.  ``net`` and ``tax``
    sum to the invoice's; ``inclusive`` prices are already taken apart here.
    """

    name: str
    project: str
    user: str
    job: str
    sku: str
    klass: str
    version: str
    milli_seconds: int
    unit_price: Money
    net: Money
    tax: Money
    start: datetime
    end: datetime
    minimum_milli_seconds: int = 0
    kind: LineKind = LineKind.USAGE
    list_price: Money | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class TaxRow:
    """``rate``: 0.06 is 6 %."""

    rate: Decimal
    net: Money
    tax: Money


@dataclass(frozen=True, slots=True)
class CreditRow:
    """A credit note on a line of this invoice; amounts are positive and given back.  ``reason``: a sentence."""

    number: str
    line: str
    issued_at: datetime
    milli_seconds: int
    net: Money
    tax: Money
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InvoiceDocument:
    """``number`` is "" for a draft.  ``period`` is a month of ``zone`` ("2026-11"), ``start`` and ``end`` its instants.

    ``lines`` can be read as often as wanted: a tuple, or a view that reads stored rows again.  ``paid``: by grants and
    payments so far; ``credited`` follows from ``credits``.  ``source_hash``: SHA-256 of the buckets and price versions
    that the lines were made of (hex).
    """

    number: str
    state: InvoiceState
    seller: Party
    buyer: Party
    period: str
    zone: str
    start: datetime
    end: datetime
    currency: Currency
    lines: Iterable[DocumentLine]
    taxes: tuple[TaxRow, ...]
    net: Money
    tax: Money
    total: Money
    source_hash: str
    issued_at: datetime | None = None
    due: date | None = None
    paid: Money | None = None
    inclusive: bool = False
    credits: tuple[CreditRow, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """Sentences that stand below the totals."""

    @property
    def credited(self) -> Money:
        return money_sum((row.net + row.tax for row in self.credits), self.currency)

    @property
    def due_amount(self) -> Money:
        """What is still to be paid: the total less credit notes and payments; nothing of a voided one."""
        if self.state is InvoiceState.VOIDED:
            return self.total - self.total
        left = self.total - self.credited
        return left if self.paid is None else left - self.paid


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Sums that were taken over the lines, to be shown beside what the invoice says."""

    count: int
    milli_seconds: int
    net: Money
    tax: Money


class Reconciler:
    """Sums lines while they are written, and says at the end whether they are the invoice's."""

    def __init__(self, document: InvoiceDocument) -> None:
        self._document = document
        self._count = 0
        self._milli_seconds = 0
        self._net = self._tax = money_sum((), document.currency)

    def add(self, line: DocumentLine) -> None:
        self._count += 1
        self._milli_seconds += line.milli_seconds
        self._net += line.net
        self._tax += line.tax

    def sums(self) -> Reconciled:
        return Reconciled(self._count, self._milli_seconds, self._net, self._tax)

    def check(self) -> Reconciled:
        """`Conflict` (``DOES_NOT_RECONCILE``) where lines, tax rows, credits or totals contradict each other."""
        document, sums = self._document, self.sums()
        _same("the lines sum to net", sums.net, document.net)
        _same("the lines' tax sums to", sums.tax, document.tax)
        _same(
            "the tax rows' net sums to", money_sum((row.net for row in document.taxes), sums.net.currency), document.net
        )
        _same("the tax rows sum to", money_sum((row.tax for row in document.taxes), sums.net.currency), document.tax)
        _same("net and tax sum to", document.net + document.tax, document.total)
        if document.credits and document.credited > document.total:
            raise _contradiction("the credit notes are", document.credited, document.total)
        return sums


def document_check(document: InvoiceDocument) -> Reconciled:
    """One reading of all lines; see `Reconciler.check`."""
    reconciler = Reconciler(document)
    for line in document.lines:
        reconciler.add(line)
    return reconciler.check()


def _same(what: str, found: Money, said: Money) -> None:
    if found != said:
        raise _contradiction(what, found, said)


def _contradiction(what: str, found: Money, said: Money) -> Conflict:
    return Conflict(
        f"{what} {found}, and the invoice says {said}",
        hint="do not send it; draft it again, and report this if it stays",
        code="DOES_NOT_RECONCILE",
    )
