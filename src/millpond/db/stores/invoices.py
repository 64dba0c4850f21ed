"""Invoices and their lines.  Who issues one holds the lock of its account."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Text, and_, any_, bindparam, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.billing.currencies import Currency
from millpond.billing.documents import DocumentLine, InvoiceState, LineKind, Party
from millpond.billing.issued import LINE_TEXTS, MONTH, InvoiceRecord
from millpond.billing.money import Money, money_of_minor
from millpond.billing.months import MonthLine
from millpond.db.session import Tx
from millpond.db.stores.rows import cursor_read, cursor_write, insert_many, limit_check, rows_text
from millpond.db.tables.invoices import INVOICE_LINES, INVOICES
from millpond.domain.errors import NotFound
from millpond.domain.records import Page

_NAMES = (
    "id", "account", "currency", "period", "revision", "number", "state", "zone", "starts_at", "ends_at", "lines",
    "milli_seconds", "net", "tax", "total", "accrued", "tax_rate", "inclusive", "source_hash", "buyer", "seller",
    "issued_at", "issued_by", "transfer", "due", "paid_at", "voided_at", "voided_for",
)  # fmt: skip
_COLUMNS = [INVOICES.c[name] for name in _NAMES]
_NEW = (
    "id", "account", "currency", "period", "kind", "revision", "series", "state", "zone", "starts_at", "ends_at",
    "lines", "milli_seconds", "net", "tax", "total", "accrued", "tax_rate", "inclusive", "source_hash", "buyer",
    "seller", "transfer", "issued_at", "issued_by", "due", "paid_at",
)  # fmt: skip
_ADD = insert_many(INVOICES, _NEW).returning(INVOICES.c.number)
_LINE = (
    "invoice", "line", "kind", "project", "username", "job", "sku", "klass", "version", "price", "list_price",
    "milli_seconds", "minimum", "net", "tax", "service_from", "service_to",
)  # fmt: skip
_LINES_ADD = insert_many(INVOICE_LINES, _LINE)
_LINES = [INVOICE_LINES.c[name] for name in _LINE]
_BATCH = 1_000
_STANDING = (
    select(INVOICES.c.account, func.max(INVOICES.c.revision), func.bool_or(INVOICES.c.state != InvoiceState.VOIDED))
    .where(
        INVOICES.c.account == any_(bindparam("tenants", type_=ARRAY(Text))), INVOICES.c.period == bindparam("period")
    )
    .group_by(INVOICES.c.account)
)


def invoice_list(
    tx: Tx,
    actor: Actor,
    tenant: str = "",
    period: str = "",
    state: InvoiceState | None = None,
    *,
    cursor: str = "",
    limit: int = 100,
) -> Page[InvoiceRecord]:
    """Invoices that `actor` may read, the newest first."""
    limit_check(limit)
    statement = select(*_COLUMNS).order_by(INVOICES.c.issued_at.desc(), INVOICES.c.id.desc()).limit(limit + 1)
    if tenant:
        authorize(actor, Action.INVOICE_READ, tenant)
        statement = statement.where(INVOICES.c.account == tenant)
    else:
        visible = tenants_visible(actor, Action.INVOICE_READ)
        if visible is not None:
            statement = statement.where(INVOICES.c.account.in_(sorted(visible)))
    if period:
        statement = statement.where(INVOICES.c.period == period)
    if state is not None:
        statement = statement.where(INVOICES.c.state == state)
    if cursor:
        moment, key = cursor_read(cursor)
        before = (INVOICES.c.issued_at == moment) & (INVOICES.c.id < key)
        statement = statement.where(or_(INVOICES.c.issued_at < moment, before))
    records = tuple(_record(row) for row in tx.execute(statement))
    if len(records) <= limit:
        return Page(records)
    return Page(records[:limit], cursor_write(records[limit - 1].issued_at, records[limit - 1].id))


def invoice_get(tx: Tx, actor: Actor, name: str, *, lock: bool = False) -> InvoiceRecord:
    """By number or id; `NotFound` also for one that `actor` may not see.  ``lock``: until the transaction ends."""
    visible = tenants_visible(actor, Action.INVOICE_READ)
    statement = select(*_COLUMNS).where(or_(INVOICES.c.number == name, INVOICES.c.id == name))
    row = tx.execute(statement.with_for_update(key_share=True) if lock else statement).one_or_none()
    if row is None or (visible is not None and row.account not in visible):
        raise NotFound(f"no invoice {name[:80]!r}", code="NO_SUCH_INVOICE", hint="millpond invoice list shows them")
    return _record(row)


def invoices_standing(tx: Tx, actor: Actor, tenants: Collection[str], period: str) -> dict[str, tuple[int, bool]]:
    """Tenant → its last revision of that month's invoice, and whether one stands that is not voided."""
    for tenant in sorted(set(tenants)):
        authorize(actor, Action.INVOICE_READ, tenant)
    found = tx.execute(_STANDING, {"tenants": sorted(set(tenants)), "period": period})
    return {account: (int(revision), bool(standing)) for account, revision, standing in found}


def invoice_add(tx: Tx, actor: Actor, record: InvoiceRecord, series: str, lines: Sequence[MonthLine]) -> InvoiceRecord:
    """Add an invoice with its lines; the database gives it the next number of its series."""
    authorize(actor, Action.INVOICE_WRITE, record.account)
    number = tx.execute(_ADD, rows_text(tx, INVOICES, _NEW, [_new(record, series)])).scalar_one()
    rows = (_line_row(record, number, line) for number, line in enumerate(lines, 1))
    tx.execute(_LINES_ADD, rows_text(tx, INVOICE_LINES, _LINE, rows))
    return replace(record, number=number)


def invoice_move(
    tx: Tx, actor: Actor, record: InvoiceRecord, state: InvoiceState, now: datetime, why: str = "", transfer: str = ""
) -> InvoiceRecord:
    """Mark an issued invoice as paid or voided; the database refuses any other step."""
    authorize(actor, Action.INVOICE_WRITE, record.account)
    values: dict[str, object] = {"state": state}
    if state is InvoiceState.VOIDED:
        values |= {"voided_at": now, "voided_for": why, "void_transfer": transfer or None}
        moved = replace(record, state=state, voided_at=now, voided_for=why)
    else:
        values["paid_at"] = now
        moved = replace(record, state=state, paid_at=now)
    tx.execute(update(INVOICES).where(INVOICES.c.id == record.id).values(values))
    return moved


def invoice_lines(
    tx: Tx, actor: Actor, record: InvoiceRecord, after: int = 0, limit: int = _BATCH
) -> tuple[DocumentLine, ...]:
    """Lines after a number, in order."""
    authorize(actor, Action.INVOICE_READ, record.account)
    statement = (
        select(*_LINES)
        .where(INVOICE_LINES.c.invoice == record.id, INVOICE_LINES.c.line > after)
        .order_by(INVOICE_LINES.c.line)
        .limit(limit)
    )
    return tuple(_line(row, record.currency) for row in tx.execute(statement))


def invoice_line(tx: Tx, actor: Actor, record: InvoiceRecord, number: int) -> DocumentLine:
    """`NotFound` if the invoice has no such line."""
    found = invoice_lines(tx, actor, record, number - 1, 1) if 1 <= number <= record.lines else ()
    if not found:
        raise NotFound(
            f"{record.number} has no line {number}", hint=f"its lines are 1 to {record.lines}", code="NO_SUCH_LINE"
        )
    return found[0]


def invoice_line_whole(tx: Tx, actor: Actor, record: InvoiceRecord, line: DocumentLine) -> int:
    """Milli-card-seconds of running of a line and of those that differ from it only in who paid: money or packs."""
    authorize(actor, Action.INVOICE_READ, record.account)
    kept = INVOICE_LINES.c
    apart = line.kind not in {LineKind.USAGE, LineKind.PACK}
    statement = select(func.sum(kept.milli_seconds - kept.minimum)).where(
        kept.invoice == record.id,
        kept.line == int(line.name) if apart else kept.kind.in_((LineKind.USAGE, LineKind.PACK)),
        and_(kept.project == line.project, kept.username == line.user, kept.job == line.job),
        and_(kept.sku == line.sku, kept.klass == line.klass, kept.version == line.version),
    )
    return int(tx.execute(statement).scalar_one())


def invoice_lines_all(tx: Tx, actor: Actor, record: InvoiceRecord) -> Iterator[DocumentLine]:
    """All lines, in order, read a batch at a time."""
    last = 0
    while True:
        found = invoice_lines(tx, actor, record, last)
        yield from found
        if len(found) < _BATCH:
            return
        last = int(found[-1].name)


def _new(record: InvoiceRecord, series: str) -> tuple[Any, ...]:
    return (
        record.id, record.account, record.currency, record.period, MONTH, record.revision, series, record.state,
        record.zone, record.starts_at, record.ends_at, record.lines, record.milli_seconds, record.net.minor(),
        record.tax.minor(), record.total.minor(), record.accrued.minor(), str(record.tax_rate), record.inclusive,
        record.source_hash, _party(record.buyer), _party(record.seller), record.transfer or None, record.issued_at,
        record.issued_by, record.due, record.paid_at,
    )  # fmt: skip


def _line_row(record: InvoiceRecord, number: int, line: MonthLine) -> tuple[Any, ...]:
    key = line.key
    listed = None if line.list_price is None else str(line.list_price.amount)
    return (
        record.id, number, line.kind, key.project, key.user, key.job, key.sku, key.klass, key.version,
        str(line.price.amount), listed, line.billed, line.minimum, line.net.minor(), line.tax.minor(),
        datetime.fromtimestamp(line.start, UTC), datetime.fromtimestamp(line.end, UTC),
    )  # fmt: skip


def _party(party: Party) -> tuple[str, str, str]:
    return party.title, party.address, party.tax_id


def _line(row: Row[Any], unit: Currency) -> DocumentLine:
    listed = None if row.list_price is None else _price(row.list_price, unit)
    kind: LineKind = row.kind
    klass = row._mapping[INVOICE_LINES.c.klass]
    return DocumentLine(
        str(row.line), row.project, row.username, row.job, row.sku, klass, row.version, row.milli_seconds,
        _price(row.price, unit), money_of_minor(row.net, unit), money_of_minor(row.tax, unit), row.service_from,
        row.service_to, row.minimum, kind, listed, LINE_TEXTS[kind],
    )  # fmt: skip


def _price(value: Any, unit: Currency) -> Money:
    return Money(value.normalize() + 0, unit)


def _record(row: Row[Any]) -> InvoiceRecord:
    unit = row.currency

    def money(amount: int) -> Money:
        return money_of_minor(amount, unit)

    return InvoiceRecord(
        row.id, row.account, unit, row.period, row.revision, row.number, row.state, row.zone, row.starts_at,
        row.ends_at, row.lines, row.milli_seconds, money(row.net), money(row.tax), money(row.total),
        money(row.accrued), row.tax_rate.normalize() + 0, row.inclusive, row.source_hash,
        Party(row.account, *row.buyer), Party("", *row.seller), row.issued_at, row.issued_by, row.transfer or "",
        row.due, row.paid_at, row.voided_at, row.voided_for,
    )  # fmt: skip
