"""Invoice documents for tests: a month of two projects, in the figures of a real price list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from millpond.billing.currencies import Currency, currency_find
from millpond.billing.documents import (
    CreditRow,
    DocumentLine,
    InvoiceDocument,
    InvoiceState,
    LineKind,
    Party,
    TaxRow,
)
from millpond.billing.invoices import invoice_totals, tax_lines
from millpond.billing.money import money_parse
from millpond.billing.rating import amount_of

CNY = currency_find("CNY")
START = datetime(2026, 10, 31, 16, tzinfo=UTC)
END = datetime(2026, 11, 30, 16, tzinfo=UTC)
HOUR = 3_600_000
SELLER = Party("millpond", "Hangzhou Compute Co., Ltd. 杭州算力有限公司", "1 Lake Road, Hangzhou", "91330100MA000SELLR")
BUYER = Party("alpha", "上海阿尔法智能科技有限公司", "上海市浦东新区张江路 1 号", "91310115MA0000BUYR")


def line(index: int, milli_seconds: int, price: str, currency: Currency = CNY, **fields: Any) -> DocumentLine:
    """A line whose net is its card time at `price`; tax is put in by `document`."""
    unit = money_parse(price, currency)
    zero = unit - unit
    given: dict[str, Any] = {
        "name": f"L{index:05d}", "project": "vision", "user": "zhang3", "job": f"train-{index}", "sku": "A800-80GB",
        "klass": "prod", "version": "2026-list", "start": START, "end": END, **fields,
    }  # fmt: skip
    return DocumentLine(
        milli_seconds=milli_seconds, unit_price=unit, net=amount_of(milli_seconds, unit), tax=zero, **given
    )


def lines() -> tuple[DocumentLine, ...]:
    """Whole cards, a quarter of one, a contract price below the list price, and a correction of October."""
    return (
        line(1, 8_000 * 3_600 * 20, "12.00"),
        line(2, 250 * 3_990, "2.40", sku="RTX4090-24GB", user="li4", klass="dev"),
        line(3, 4_000 * 4_050, "4.00", project="nlp", user="wang5", klass="batch", list_price=money_parse("5.00", CNY)),
        line(4, 1_000 * 1_800, "12.00", project="nlp", user="zhao6", job="finetune-7b", kind=LineKind.CORRECTION,
             start=datetime(2026, 10, 20, 2, tzinfo=UTC), end=datetime(2026, 10, 20, 3, tzinfo=UTC)),
    )  # fmt: skip


def document(given: Sequence[DocumentLine] | None = None, rate: str = "0.06", **fields: Any) -> InvoiceDocument:
    """An issued invoice with `rate` of tax, spread over the lines; any field can be given."""
    bare = lines() if given is None else tuple(given)
    currency = bare[0].net.currency if bare else CNY
    totals = invoice_totals((item.net for item in bare), Decimal(rate), currency)
    taxed = tuple(
        replace(item, tax=tax)
        for item, tax in zip(bare, tax_lines([item.net for item in bare], totals.tax), strict=True)
    )
    said: dict[str, Any] = {
        "number": "MP-2026-000042", "state": InvoiceState.ISSUED, "period": "2026-11", "zone": "Asia/Shanghai",
        "seller": SELLER, "buyer": BUYER,
        "start": START, "end": END, "currency": currency, "lines": taxed, "net": totals.net, "tax": totals.tax,
        "total": totals.total, "taxes": (TaxRow(Decimal(rate), totals.net, totals.tax),), "source_hash": "ab" * 32,
        "issued_at": datetime(2026, 12, 1, 2, tzinfo=UTC), "due": date(2026, 12, 31), **fields,
    }  # fmt: skip
    return InvoiceDocument(**said)


def credit(net: str, tax: str, name: str = "L00001") -> CreditRow:
    """A credit note on a line: a card that failed for a quarter of an hour."""
    return CreditRow(
        "MP-CN-2026-000003", name, datetime(2026, 12, 2, tzinfo=UTC), 8_000 * 900, money_parse(net, CNY),
        money_parse(tax, CNY), "A card failed from 10:20 to 10:35.",
    )  # fmt: skip
