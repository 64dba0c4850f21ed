"""Invoices: drafts, issuing, payments, voiding.

A draft is made by the code that issues, without storing anything.  Whoever issues locks the accounts, so that a month
is closed once, under one set of settings, and nothing is booked into it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize
from millpond.billing.accounts import AccountMode, AccountRecord
from millpond.billing.bookings import invoice_issued
from millpond.billing.documents import DocumentLine, InvoiceDocument, InvoiceState, Party
from millpond.billing.issued import (
    InvoiceRecord,
    document_draft,
    document_of,
    due_of,
    invoice_id,
    issue_check,
    line_document,
    priced_check,
    series_of,
)
from millpond.billing.ledger import Batch
from millpond.billing.money import Money, money_zero
from millpond.billing.months import Month, MonthBill, Unpriced
from millpond.billing.prices import PriceBook
from millpond.billing.transfers import Account, AccountKind, Times
from millpond.db.session import Tx
from millpond.db.stores import invoices as store
from millpond.db.stores.accounts import account_get, account_page, account_save, accounts_lock, no_account
from millpond.db.stores.draws import packs_taken
from millpond.db.stores.ledger import batches_store, books_read, posted_read
from millpond.db.stores.notes import note_list, payment_list
from millpond.db.stores.prices import price_book, price_books
from millpond.db.stores.usage import booking_list, ended_list, metered_until
from millpond.domain.errors import Conflict, MillpondError
from millpond.domain.records import Page
from millpond.metering.hours import Period, moment_of, month_period
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run
from millpond.zones import zone_find

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Draft:
    """What would be issued now, and what has no price yet."""

    document: InvoiceDocument
    unpriced: tuple[Unpriced, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """What became of one account's month.  ``invoice`` None: nothing to bill, or ``problem`` says why not.

    ``fresh``: it was closed now, and not before.
    """

    tenant: str
    invoice: InvoiceRecord | None
    problem: MillpondError | None = None
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class _Plan:
    account: AccountRecord
    period: Period
    bill: MonthBill
    revision: int


def invoice_list(
    deps: Services, actor: Actor, tenant: str, period: str, state: InvoiceState | None, cursor: str, limit: int
) -> Page[InvoiceRecord]:
    """The newest first."""
    return deps.database.run(
        "invoice_list",
        lambda tx: store.invoice_list(tx, actor, tenant, period, state, cursor=cursor, limit=limit),
    )


def invoice_document(deps: Services, actor: Actor, name: str) -> InvoiceDocument:
    """An issued invoice, by number or id, with all its lines, payments and credit notes, of one moment."""

    def work(tx: Tx) -> InvoiceDocument:
        record = store.invoice_get(tx, actor, name)
        lines = tuple(store.invoice_lines_all(tx, SYSTEM, record))
        return document_of(record, lines, payment_list(tx, SYSTEM, record), note_list(tx, SYSTEM, record))

    return deps.database.run("invoice_document", work, snapshot=True)


def invoice_head(deps: Services, actor: Actor, name: str) -> InvoiceDocument:
    """As `invoice_document`, without lines."""

    def work(tx: Tx) -> InvoiceDocument:
        record = store.invoice_get(tx, actor, name)
        return document_of(record, (), payment_list(tx, SYSTEM, record), note_list(tx, SYSTEM, record))

    return deps.database.run("invoice_head", work)


def invoice_lines(deps: Services, actor: Actor, name: str, after: int, limit: int) -> Page[DocumentLine]:
    """Lines of an issued invoice after a number."""

    def work(tx: Tx) -> Page[DocumentLine]:
        record = store.invoice_get(tx, actor, name)
        found = store.invoice_lines(tx, SYSTEM, record, after, limit + 1)
        return Page(tuple(found[:limit]), found[limit - 1].name if len(found) > limit else "")

    return deps.database.run("invoice_lines", work)


def invoice_draft(deps: Services, actor: Actor, tenant: str, month: str) -> Draft:
    """What the invoice of a month would be, as far as it is booked; also of the month that is not over."""
    authorize(actor, Action.INVOICE_READ, tenant)
    now = deps.clock()

    def work(tx: Tx) -> Draft:
        account = account_get(tx, SYSTEM, tenant)
        zone = zone_find(account.zone)
        period = month_period(month, zone)
        standing = store.invoices_standing(tx, SYSTEM, [tenant], period.name).get(tenant, (0, False))
        if standing[1]:
            raise Conflict(
                f"{period.name} of {tenant} is issued", hint=f"millpond invoice list --tenant {tenant}", code="ISSUED"
            )
        bill = month_bill(tx, account, period, zone, price_book(tx, SYSTEM, account))
        plan = _Plan(account, period, bill, standing[0] + 1)
        record = _record(deps, plan, now, SYSTEM, _accrued(tx, [plan]))
        times = [(moment_of(line.start), moment_of(line.end)) for line in bill.lines]
        lines = tuple(
            line_document(number, *pair) for number, pair in enumerate(zip(bill.lines, times, strict=True), 1)
        )
        return Draft(document_draft(document_of(record, lines)), bill.unpriced)

    return deps.database.run("invoice_draft", work, snapshot=True)


def invoice_issue(
    deps: Services, actor: Actor, tenant: str, month: str, once: Once, render: Callable[[Closed], object]
) -> Reply:
    """Close one month of one account, and issue its invoice if there is anything to bill.  Again: the same one."""
    authorize(actor, Action.INVOICE_WRITE, tenant)

    def work(tx: Tx) -> Closed:
        (outcome,) = _close(deps, tx, actor, [tenant], month)
        if outcome.problem is not None:
            raise outcome.problem
        return outcome

    return once_run(deps, "invoice_issue", actor, once, work, render)


def invoices_close(
    deps: Services,
    actor: Actor,
    month: str,
    place: tuple[str, int],
    once: Once,
    render: Callable[[Page[Closed]], object],
) -> Reply:
    """Close a month of the next accounts, in one transaction; what hinders one does not hinder others.

    ``place``: after which tenant, and how many accounts.  Doing it again, or twice at a time, gives the same invoices:
    ask for page after page until there is no next.
    """
    authorize(actor, Action.INVOICE_WRITE)
    month_period(month, UTC)

    def work(tx: Tx) -> Page[Closed]:
        page = account_page(tx, SYSTEM, *place)
        return Page(tuple(_close(deps, tx, actor, [one.tenant for one in page.items], month)), page.next)

    return once_run(deps, "invoices_close", actor, once, work, render)


def month_bill(tx: Tx, account: AccountRecord, period: Period, zone: tzinfo, book: PriceBook) -> MonthBill:
    """The bill of a month, as far as it is booked."""
    month = Month(account, period, zone, book)
    for booking in booking_list(tx, SYSTEM, account.tenant, period.start, period.end):
        month.booking(booking)
    if account.minimum_seconds or account.increment_seconds > 1:
        for ended in ended_list(tx, SYSTEM, account.tenant, period.start, period.end):
            month.ended(ended)
    versions = book.versions
    listed = PriceBook(version for version in versions if not version.contract)
    agreed = any(version.contract for version in versions)

    def list_price(sku: str, klass: str, moment: int) -> Money | None:
        found = listed.at(sku, klass, moment) if agreed else None
        return None if found is None else found.price

    packed = {}
    if account.mode is AccountMode.PREPAID:
        packed = packs_taken(tx, SYSTEM, account.tenant, moment_of(period.start), moment_of(period.end))
    return month.bill(list_price, packed)


def _close(deps: Services, tx: Tx, actor: Actor, tenants: Sequence[str], month: str) -> list[Closed]:
    """Close a month of these accounts, as far as nothing hinders it; in order of tenant."""
    accounts = accounts_lock(tx, SYSTEM, tenants)
    standing = store.invoices_standing(tx, SYSTEM, tenants, month)
    books = price_books(tx, SYSTEM, accounts.values())
    settled = metered_until(tx)
    now = deps.clock()
    plans: list[_Plan] = []
    outcomes: dict[str, Closed] = {}
    for tenant in sorted(set(tenants)):
        try:
            if tenant not in accounts:
                raise no_account(tenant)
            revision, stands = standing.get(tenant, (0, False))
            if stands:
                known = store.invoice_list(tx, SYSTEM, tenant, month, limit=revision).items
                outcomes[tenant] = Closed(tenant, next(one for one in known if one.revision == revision), fresh=False)
                continue
            plan = _plan(tx, accounts[tenant], month, books[tenant], (revision, settled, now))
        except MillpondError as error:
            outcomes[tenant] = Closed(tenant, None, error)
            continue
        outcomes[tenant] = Closed(tenant, None)
        plans.append(plan)
    records = _issue(deps, tx, actor, [plan for plan in plans if plan.bill.lines], now)
    for plan in plans:
        if plan.account.sealed_until < moment_of(plan.period.end):
            account_save(tx, SYSTEM, replace(plan.account, sealed_until=moment_of(plan.period.end)))
    for record in records:
        outcomes[record.account] = Closed(record.account, record)
    _told(deps, tx, actor, plans, records)
    return [outcomes[tenant] for tenant in sorted(outcomes)]


def _plan(tx: Tx, account: AccountRecord, month: str, book: PriceBook, at: tuple[int, int, datetime]) -> _Plan:
    """What the month comes to.  Raises what hinders it.  ``at``: the last revision, how far the meter is, and now."""
    revision, settled, now = at
    zone = zone_find(account.zone)
    period = month_period(month, zone)
    if not revision:
        months = (_month_of(account.sealed_until, zone), _month_of(now, zone))
        issue_check(account, period, months, settled)
    bill = month_bill(tx, account, period, zone, book)
    priced_check(bill)
    return _Plan(account, period, bill, revision + 1)


def _issue(deps: Services, tx: Tx, actor: Actor, plans: Sequence[_Plan], now: datetime) -> list[InvoiceRecord]:
    """Number, store and book the invoices."""
    accrued = _accrued(tx, plans)
    records: list[InvoiceRecord] = []
    batches: list[Batch] = []
    for plan in plans:
        record = _record(deps, plan, now, actor, accrued)
        times = Times(now, now, (record.starts_at, record.ends_at))
        if record.net or record.tax or record.accrued:
            transfer = invoice_issued(record.id, record.account, record.net, record.tax, record.accrued, times)
            batches.append(Batch((transfer,)))
            record = replace(record, transfer=transfer.id)
        records.append(record)
    if batches:
        batches_store(tx, SYSTEM, batches, now)
    lines = (plan.bill.lines for plan in plans)
    return [
        store.invoice_add(tx, actor, record, series_of("INV", now), found)
        for record, found in zip(records, lines, strict=True)
    ]


def _record(deps: Services, plan: _Plan, now: datetime, actor: Actor, accrued: dict[str, Money]) -> InvoiceRecord:
    account, bill = plan.account, plan.bill
    nothing = money_zero(account.currency)
    record = InvoiceRecord(
        id=invoice_id(account.tenant, account.currency, plan.period.name, plan.revision),
        account=account.tenant,
        currency=account.currency,
        period=plan.period.name,
        revision=plan.revision,
        number="",
        state=InvoiceState.ISSUED,
        zone=account.zone,
        starts_at=moment_of(plan.period.start),
        ends_at=moment_of(plan.period.end),
        lines=len(bill.lines),
        milli_seconds=bill.milli_seconds,
        net=bill.net,
        tax=bill.tax,
        total=bill.total,
        accrued=accrued.get(account.tenant, nothing),
        tax_rate=account.tax_rate,
        inclusive=account.inclusive,
        source_hash=bill.source_hash,
        buyer=Party(account.tenant, account.title, account.address, account.tax_id),
        seller=deps.seller,
        issued_at=now,
        issued_by=actor.user,
    )
    if due_of(record, (), ()):
        return record
    return replace(record, state=InvoiceState.PAID, paid_at=now)


def _accrued(tx: Tx, plans: Iterable[_Plan]) -> dict[str, Money]:
    """What was charged for use that began before each month's end, and is on no invoice yet."""
    accounts = {
        plan.account.tenant: (Account(plan.account.tenant, AccountKind.ACCRUED, plan.account.currency), plan.period)
        for plan in plans
    }
    books = books_read(tx, SYSTEM, (account for account, _ in accounts.values()))
    return {
        tenant: posted_read(tx, SYSTEM, account, _EPOCH, moment_of(period.end))
        for tenant, (account, period) in accounts.items()
        if books.version(account)
    }


def _told(deps: Services, tx: Tx, actor: Actor, plans: Iterable[_Plan], records: Iterable[InvoiceRecord]) -> None:
    issued = {record.account: record for record in records}
    for plan in plans:
        data: dict[str, object] = {"period": plan.period.name}
        record = issued.get(plan.account.tenant)
        if record is not None:
            data |= {
                "invoice": record.number,
                "total": record.total.text(),
                "currency": record.currency.code,
                "lines": record.lines,
                "source_hash": record.source_hash,
            }
        kind = "invoice.closed" if record is None else "invoice.issued"
        event_write(deps, tx, actor, kind, tenant=plan.account.tenant, data=data)


def _month_of(time: datetime, zone: tzinfo) -> Period:
    local = time.astimezone(zone)
    return month_period(f"{local.year:04}-{local.month:02}", zone)
