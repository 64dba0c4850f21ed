"""An invoice as a report: who to whom, its lines, its tax and its totals."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from zoneinfo import ZoneInfo

from millpond.billing.documents import DocumentLine, InvoiceDocument, InvoiceState
from millpond.reports.tables import Fact, Field, Kind, Report, Row, Section, rows_of
from millpond.reports.texts import Texts

LINE_FIELDS = (
    Field("line"),
    Field("kind"),
    Field("project"),
    Field("user"),
    Field("job"),
    Field("sku"),
    Field("class"),
    Field("version"),
    Field("start", Kind.MOMENT),
    Field("end", Kind.MOMENT),
    Field("card_hours", Kind.CARD_HOURS, sums=True),
    Field("list_price", Kind.PRICE),
    Field("unit_price", Kind.PRICE),
    Field("net", Kind.MONEY, sums=True),
    Field("tax", Kind.MONEY, sums=True),
)
PAPER = frozenset(
    {"line", "project", "user", "job", "sku", "class", "version", "card_hours", "unit_price", "net", "tax"}
)
"""Columns that fit on paper."""

TAX_FIELDS = (Field("rate", Kind.RATIO), Field("net", Kind.MONEY, sums=True), Field("tax", Kind.MONEY, sums=True))
CREDIT_FIELDS = (
    Field("note"),
    Field("line"),
    Field("issued", Kind.MOMENT),
    Field("card_hours", Kind.CARD_HOURS, sums=True),
    Field("net", Kind.MONEY, sums=True),
    Field("tax", Kind.MONEY, sums=True),
    Field("reason"),
)


def invoice_report(document: InvoiceDocument, lang: str, *, paper: bool = False) -> Report:
    """``paper``: only the columns that fit on a page."""
    texts = Texts(lang)
    fields = tuple(field for field in LINE_FIELDS if not paper or field.key in PAPER)
    places = [index for index, field in enumerate(LINE_FIELDS) if field in fields]

    def rows() -> Iterator[Row]:
        for line in document.lines:
            row = _line(line, texts)
            yield tuple(row[place] for place in places)

    said = (("net", document.net), ("tax", document.tax))
    sections = [Section("lines", fields, rows, said)]
    sections.append(
        Section("taxes", TAX_FIELDS, rows_of((_rate(row.rate), row.net, row.tax) for row in document.taxes), said)
    )
    if document.credits:
        sections.append(
            Section("credits", CREDIT_FIELDS, rows_of(
                (row.number, row.line, row.issued_at, row.milli_seconds, row.net, row.tax, row.reason)
                for row in document.credits
            ))
        )  # fmt: skip
    draft = document.state is InvoiceState.DRAFT
    return Report(
        "draft" if draft else "invoice",
        ZoneInfo(document.zone),
        _facts(document, texts),
        tuple(sections),
        (*(("draft",) if draft else ()), "lost", "rounding"),
        _closing(document),
        document.number,
    )


def _rate(rate: object) -> Fraction:
    return Fraction(str(rate))


def _line(line: DocumentLine, texts: Texts) -> Row:
    return (
        line.name,
        texts(f"kind.{line.kind.value}"),
        line.project,
        line.user,
        line.job,
        line.sku,
        line.klass,
        line.version,
        line.start,
        line.end,
        line.milli_seconds,
        line.list_price,
        line.unit_price,
        line.net,
        line.tax,
    )


def _facts(document: InvoiceDocument, texts: Texts) -> tuple[Fact, ...]:
    seller, buyer = document.seller, document.buyer
    given = [
        Fact("seller", seller.name), Fact("seller_address", seller.address), Fact("seller_tax", seller.tax_id),
        Fact("number", document.number), Fact("state", texts(f"state.{document.state.value}")),
        Fact("issued", document.issued_at, Kind.MOMENT), Fact("due", document.due, Kind.DAY),
        Fact("buyer", buyer.name), Fact("buyer_address", buyer.address), Fact("buyer_tax", buyer.tax_id),
        Fact("account", buyer.account), Fact("period", f"{document.period} ({document.zone})"),
        Fact("currency", document.currency.code), Fact("source", document.source_hash[:16]),
    ]  # fmt: skip
    return tuple(fact for fact in given if fact.value not in (None, ""))


def _closing(document: InvoiceDocument) -> tuple[Fact, ...]:
    given = [
        Fact("net", document.net, Kind.MONEY),
        Fact("tax", document.tax, Kind.MONEY),
        Fact("total", document.total, Kind.MONEY),
    ]
    if document.credits:
        given.append(Fact("credited", -document.credited, Kind.MONEY))
    if document.paid is not None:
        given.append(Fact("paid", -document.paid, Kind.MONEY))
    if document.state in (InvoiceState.ISSUED, InvoiceState.PAID) and len(given) > 3:
        given.append(Fact("open", document.due_amount, Kind.MONEY))
    return tuple(given)
