"""``millpond invoice``: drafts, issuing, closing a month, payments, credit notes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import click

from millpond.cli.confirm import confirmed
from millpond.cli.errors import Exit
from millpond.cli.invoice_explain import explanation_show
from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.tenants import tenant_chosen
from millpond.cli.values import local

if TYPE_CHECKING:
    from millpond.sdk.invoices import Closing, Invoice, InvoiceLine, InvoiceSummary, UnpricedUse

STATES = ("issued", "paid", "voided")
STYLES = {"issued": "yellow", "paid": "green", "voided": "dim", "draft": "cyan"}
SHOWN = 50
"""Lines that are shown to people; ``--all`` shows the others."""

LIST = (
    Column("number"),
    Column("tenant"),
    Column("period"),
    Column("state"),
    Column("card_hours", right=True),
    Column("total", right=True),
    Column("currency"),
    Column("issued"),
)
LINES = (
    Column("line", right=True),
    Column("project"),
    Column("user"),
    Column("job"),
    Column("sku"),
    Column("class"),
    Column("price_version"),
    Column("unit_price", right=True),
    Column("card_hours", right=True),
    Column("net", right=True),
)
NOTES = (
    Column("number"),
    Column("line", right=True),
    Column("card_hours", right=True),
    Column("net", right=True),
    Column("tax_amount", right=True),
    Column("why"),
)
CLOSED = (
    Column("tenant"),
    Column("number"),
    Column("lines", right=True),
    Column("total", right=True),
    Column("currency"),
)

invoice = group("invoice")


@verb(invoice, "list")
@option("--month", metavar="YYYY-MM", default="", help="invoice.month")
@option("--state", type=click.Choice(STATES), help="invoice.state")
def invoice_list(session: Session, month: str, state: str | None) -> None:
    """Issued invoices, the newest first."""
    found = list(session.client.invoices.list(session.tenant, month, state or ""))
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("invoice.empty"))
    else:
        rows: list[list[Cell | str]] = [
            [
                item["number"],
                item["tenant"],
                item["period"],
                _state(session, item["state"]),
                item["card_hours"],
                item["total"],
                item["currency"],
                local(item["issued_at"]),
            ]
            for item in found
        ]
        session.output.table(LIST, rows)


@verb(invoice, "draft")
@option("--month", metavar="YYYY-MM", required=True, help="invoice.month")
@option("--all", "every", is_flag=True, help="invoice.all")
def invoice_draft(session: Session, month: str, every: bool) -> None:
    """What would be issued now."""
    draft = session.client.invoices.draft(tenant_chosen(session), month)
    if session.json:
        session.output.data(draft)
        return
    _head(session, draft["invoice"])
    _lines(session, draft["lines"], draft["line_count"], every=every)
    _unpriced(session, draft["unpriced"])


@verb(invoice, "show")
@argument("number")
@option("--all", "every", is_flag=True, help="invoice.all")
def invoice_show(session: Session, number: str, every: bool) -> None:
    """One invoice with its lines and credit notes."""
    found = session.client.invoices.get(number)
    lines = session.client.invoices.lines(number)
    if session.json:
        session.output.data({**found, "lines": list(lines)})
        return
    _head(session, found)
    shown = list(lines if every else islice(lines, SHOWN + 1))
    _lines(session, shown, 0 if len(shown) <= SHOWN else -1, every=every)
    if found["credits"]:
        session.output.line()
        rows = [
            [note["number"], note["line"], note["card_hours"], note["net"], note["tax"], note["reason"]]
            for note in found["credits"]
        ]
        session.output.table(NOTES, rows)


@verb(invoice, "issue")
@option("--month", metavar="YYYY-MM", required=True, help="invoice.month")
def invoice_issue(session: Session, month: str) -> None:
    """Close a month of one tenant and issue its invoice."""
    closed = session.client.invoices.issue(tenant_chosen(session), month)
    if session.json:
        session.output.data(closed)
        return
    found = closed["invoice"]
    if found is None:
        session.output.note(session.texts("invoice.nothing", tenant=closed["tenant"], month=month))
    else:
        total = f"{found['total']} {found['currency']}"
        text = session.texts("invoice.issued", number=found["number"], total=total)
        if not closed["fresh"]:
            text = session.texts("invoice.known", number=found["number"], total=total)
        session.output.note(text, "green")


@verb(invoice, "close")
@argument("month")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def invoice_close(session: Session, month: str, yes: bool) -> int | None:
    """Close a month of every account; what hinders one does not hinder others."""
    if not confirmed(session, session.texts("invoice.ask_close", month=month), yes=yes):
        return Exit.CANCELLED
    done: list[Closing] = []
    for closed in session.client.invoices.close(month):
        done.append(closed)
        if not session.json:
            session.output.status(session.texts("invoice.closing", count=len(done)))
    session.output.status("")
    problems = [one for one in done if one["problem"] is not None]
    if session.json:
        session.output.items(done)
    else:
        _closed(session, month, done)
    return Exit.REFUSED if problems else None


@verb(invoice, "pay")
@argument("number")
@option("--amount", metavar="AMOUNT", default="", help="invoice.amount")
@option("--reference", metavar="TEXT", required=True, help="invoice.reference")
def invoice_pay(session: Session, number: str, amount: str, reference: str) -> None:
    """Book a payment; all that is due unless an amount is given."""
    paid = amount or session.client.invoices.get(number)["due"]
    found = session.client.invoices.pay(number, paid, reference)
    _moved(session, found, session.texts("invoice.paid", number=found["number"], amount=f"{paid} {found['currency']}"))


@verb(invoice, "void")
@argument("number")
@option("--reason", metavar="TEXT", required=True, help="invoice.void_reason")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def invoice_void(session: Session, number: str, reason: str, yes: bool) -> int | None:
    """Take an invoice back; its number stays used."""
    if not confirmed(session, session.texts("invoice.ask_void", number=number), yes=yes):
        return Exit.CANCELLED
    found = session.client.invoices.void(number, reason)
    _moved(session, found, session.texts("invoice.voided", number=found["number"], month=found["period"]))
    return None


@verb(invoice, "credit")
@argument("number")
@argument("line")
@option("--reason", metavar="TEXT", required=True, help="invoice.credit_reason")
@option("--from", "begin", metavar="TIME", default="", help="invoice.fault_from")
@option("--to", "end", metavar="TIME", default="", help="invoice.fault_to")
@option("--card-hours", metavar="N", default="", help="invoice.fault_hours")
@option("--reference", metavar="TEXT", default="", help="invoice.fault_reference")
def invoice_credit(
    session: Session, number: str, line: str, reason: str, begin: str, end: str, card_hours: str, reference: str
) -> None:
    """A credit note for a fault of the platform; the same fault is credited once."""
    told = {
        "reason": reason, "faulty_from": begin, "faulty_to": end, "card_hours": card_hours, "reference": reference,
    }  # fmt: skip
    note = session.client.invoices.credit(number, line, {key: value for key, value in told.items() if value})
    if session.json:
        session.output.data(note)
        return
    text = session.texts(
        "invoice.credited", note=note["number"], hours=note["card_hours"], net=note["net"], tax=note["tax"]
    )
    session.output.note(text, "green")


@verb(invoice, "explain")
@argument("number")
@argument("line")
def invoice_explain(session: Session, number: str, line: str) -> None:
    """The auditor's walk: a line, its hourly buckets, attempts, events and price version."""
    found = session.client.invoices.explain(number, line)
    if session.json:
        session.output.data(found)
    else:
        explanation_show(session, found)


def _state(session: Session, state: str) -> Cell:
    return Cell(session.texts.word("state", state), STYLES.get(state, ""))


def _head(session: Session, found: Invoice) -> None:
    seller, buyer = found["seller"], found["buyer"]
    unit = found["currency"]
    session.output.fields(
        [
            ("number", found["number"]),
            ("state", _state(session, found["state"])),
            ("seller", seller["title"]),
            ("account", f"{buyer['title']} ({buyer['account']})" if buyer["title"] else buyer["account"]),
            ("period", f"{found['period']} {found['zone']}"),
            ("net", f"{found['net']} {unit}"),
            ("tax", f"{found['tax']} {unit}"),
            ("total", f"{found['total']} {unit}"),
            ("paid_amount", f"{found['paid']} {unit}"),
            ("credited", f"{found['credited']} {unit}" if found["credits"] else ""),
            ("due", f"{found['due']} {unit}"),
            ("issued", local(found["issued_at"])),
            ("source_hash", found["source_hash"]),
        ]
    )


def _lines(session: Session, lines: Iterable[InvoiceLine], count: int, *, every: bool) -> None:
    found = list(lines)
    if not found:
        session.output.note(session.texts("rate.no_lines"))
        return
    shown = found if every else found[:SHOWN]
    session.output.line()
    rows = [
        [
            item["line"],
            item["project"],
            item["user"],
            item["job"],
            item["sku"],
            item["class"],
            item["price_version"],
            item["unit_price"],
            item["card_hours"],
            item["net"],
        ]
        for item in shown
    ]
    session.output.table(LINES, rows)
    if count < 0 or count > len(shown):
        session.output.note(session.texts("invoice.rows_hidden", count=len(shown)))


def _unpriced(session: Session, unpriced: Iterable[UnpricedUse]) -> None:
    for one in unpriced:
        text = session.texts("invoice.unpriced", sku=one["sku"], klass=one["class"], hours=one["card_hours"])
        session.output.note(text, "red")


def _closed(session: Session, month: str, done: list[Closing]) -> None:
    issued = [one["invoice"] for one in done if one["invoice"] is not None]
    if issued:
        rows = [[one["tenant"], one["number"], str(one["lines"]), one["total"], one["currency"]] for one in issued]
        session.output.table(CLOSED, rows)
    for one in done:
        problem = one["problem"]
        if problem is not None:
            session.output.note(f"{one['tenant']}: {problem['detail']} ({problem['hint']})", "red")
    problems = sum(one["problem"] is not None for one in done)
    empty = len(done) - problems - len(issued)
    session.output.note(
        session.texts("invoice.closed", month=month, issued=len(issued), empty=empty, problems=problems),
        "red" if problems else "green",
    )


def _moved(session: Session, found: InvoiceSummary, text: str) -> None:
    if session.json:
        session.output.data(found)
    else:
        session.output.note(text, "green")
