"""FOCUS 1.2: cost and usage as every other cloud exports it.  CSV, one row a line, a tax row and a credit note.

Source: FinOps Open Cost and Usage Specification 1.2 (FinOps Foundation, CC BY 4.0), Cost and Usage.  The billing
account is the tenant and the sub account its project; a SKU is a card model with its class; the resource is the job.
Columns that depend on what millpond does not do are left out, as the specification says: availability zones, regions,
commitment discounts (but for the one column that other rules look at), and capacity reservations.

Texts are ASCII, as the specification's string handling wants; a title in Chinese gives way to the account's name.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

from millpond.billing.documents import CreditRow, DocumentLine, InvoiceDocument, LineKind, TaxRow
from millpond.billing.money import Money, decimal_round
from millpond.billing.rating import card_hours

COLUMNS: Final = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "CommitmentDiscountStatus", "ConsumedQuantity", "ConsumedUnit",
    "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity", "PricingUnit", "ProviderName",
    "PublisherName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName",
    "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags",
)  # fmt: skip

UNSUPPORTED: Final = (
    "AVAILABILITY_ZONE_SUPPORTED", "CAPACITY_RESERVATION_SUPPORTED", "COMMITMENT_DISCOUNT_SUPPORTED",
    "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED", "REGION_SUPPORTED",
)  # fmt: skip
"""Criteria of the specification that do not apply to millpond; `focus-validator` is told all the others."""

UNIT: Final = "Card-Hours"
QUANTITY_PLACES: Final = 10
"""Decimals of a quantity.  A second of a milli-card is 1/3 600 000 of a card-hour, which has no end as a decimal."""

_CHUNK: Final = 65_536


def focus_csv(document: InvoiceDocument) -> Iterator[bytes]:
    """UTF-8 without a mark at its beginning: FOCUS is read by programs."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for row in focus_rows(document):
        writer.writerow(row)
        if buffer.tell() >= _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def focus_rows(document: InvoiceDocument) -> Iterator[Mapping[str, str]]:
    """Rows by column; the costs of one invoice sum to its total, those of a credit note to what it gives back."""
    lines: dict[str, DocumentLine] = {}
    wanted = {row.line for row in document.credits}
    for line in document.lines:
        if line.name in wanted:
            lines[line.name] = line
        yield _usage(document, line)
    for tax in document.taxes:
        if tax.tax:
            yield _tax(document, tax)
    for credit in document.credits:
        yield from _credit(document, credit, lines.get(credit.line))


def _base(document: InvoiceDocument) -> dict[str, str]:
    seller = _ascii(document.seller.title, document.seller.account)
    return {
        "BillingAccountId": document.buyer.account,
        "BillingAccountName": _ascii(document.buyer.title, document.buyer.account),
        "BillingAccountType": "Tenant",
        "BillingCurrency": document.currency.code,
        "BillingPeriodStart": _time(document.start),
        "BillingPeriodEnd": _time(document.end),
        "InvoiceId": document.number,
        "InvoiceIssuerName": seller,
        "ProviderName": seller,
        "PublisherName": seller,
        "PricingCurrency": document.currency.code,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU pool",
        "ServiceSubcategory": "Other (Compute)",
    }


def _usage(document: InvoiceDocument, line: DocumentLine) -> dict[str, str]:
    quantity = decimal_round(card_hours(line.milli_seconds), QUANTITY_PLACES)
    listed = line.list_price or line.unit_price
    net = line.net.text()
    correction = line.kind is LineKind.CORRECTION
    # A price times a quantity of ten decimals is what the specification compares with; the bill itself is rounded.
    return {
        **_base(document),
        **_sku(line),
        "BilledCost": net,
        "EffectiveCost": net,
        "ContractedCost": _product(line.unit_price, quantity),
        "ContractedUnitPrice": line.unit_price.text(),
        "PricingCurrencyContractedUnitPrice": line.unit_price.text(),
        "PricingCurrencyEffectiveCost": net,
        "PricingCurrencyListUnitPrice": listed.text(),
        "ListCost": _product(listed, quantity),
        "ListUnitPrice": listed.text(),
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if correction else "",
        "ChargeDescription": _ascii(line.text, f"{line.sku} {line.klass}, job {line.job} of {line.user}"),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _time(line.start),
        "ChargePeriodEnd": _time(line.end),
        "ConsumedQuantity": f"{quantity:f}",
        "ConsumedUnit": UNIT,
        "PricingQuantity": f"{quantity:f}",
        "PricingUnit": UNIT,
    }


def _sku(line: DocumentLine) -> dict[str, str]:
    sku = f"{line.sku}/{line.klass}"
    return {
        "PricingCategory": "Standard",
        "ResourceId": line.job,
        "ResourceName": line.job,
        "ResourceType": "Job",
        "SkuId": sku,
        "SkuMeter": UNIT,
        "SkuPriceId": f"{sku}/{line.version}",
        "SubAccountId": line.project,
        "SubAccountName": line.project,
        "SubAccountType": "Project",
        "Tags": json.dumps({"job": line.job, "project": line.project, "user": line.user}),
    }


def _tax(document: InvoiceDocument, row: TaxRow) -> dict[str, str]:
    return _flat(document, row.tax, "Tax", f"Tax of {row.rate.normalize():%}")


def _credit(document: InvoiceDocument, row: CreditRow, line: DocumentLine | None) -> Iterator[dict[str, str]]:
    said = _ascii(row.reason, f"credit note {row.number} on line {row.line}")
    of = {"InvoiceId": row.number, "ChargeClass": "Correction"}
    sku = {} if line is None else _sku(line)
    yield {**_flat(document, -row.net, "Usage", said), **sku, **of}
    if row.tax:
        yield {**_flat(document, -row.tax, "Tax", said), **of}


def _flat(document: InvoiceDocument, amount: Money, category: str, said: str) -> dict[str, str]:
    cost = amount.text()
    return {
        **_base(document),
        "BilledCost": cost,
        "EffectiveCost": cost,
        "PricingCurrencyEffectiveCost": cost,
        "ContractedCost": cost,
        "ListCost": cost,
        "ChargeCategory": category,
        "ChargeDescription": said,
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": _time(document.start),
        "ChargePeriodEnd": _time(document.end),
    }


def _product(price: Money, quantity: Decimal) -> str:
    exact = Fraction(price.amount) * Fraction(quantity)
    places = QUANTITY_PLACES + price.currency.minor_units + 4
    text = f"{decimal_round(exact, places):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _ascii(text: str, instead: str) -> str:
    return text if text and text.isascii() else instead


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
