"""Invoices: drafts, issuing, payments, credit notes, and what a line was made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict, cast

from millpond.sdk.group import Group, key_make, path_join

InvoiceLine = TypedDict(
    "InvoiceLine",
    {
        "line": str,
        "kind": str,
        "project": str,
        "user": str,
        "job": str,
        "sku": str,
        "class": str,
        "price_version": str,
        "unit_price": str,
        "list_price": str | None,
        "milli_card_seconds": int,
        "minimum_milli_card_seconds": int,
        "card_hours": str,
        "net": str,
        "tax": str,
        "service_from": str,
        "service_to": str,
        "text": str,
    },
)

UnpricedUse = TypedDict(
    "UnpricedUse", {"sku": str, "class": str, "milli_card_seconds": int, "card_hours": str, "lines": int}
)


class CreditNote(TypedDict):
    number: str
    line: str
    issued_at: str
    milli_card_seconds: int
    card_hours: str
    net: str
    tax: str
    reason: str


class InvoiceSummary(TypedDict):
    number: str
    tenant: str
    state: str
    period: str
    revision: int
    lines: int
    card_hours: str
    net: str
    tax: str
    total: str
    currency: str
    source_hash: str
    issued_at: str


class Invoice(TypedDict):
    number: str
    state: str
    seller: dict[str, str]
    buyer: dict[str, str]
    period: str
    zone: str
    starts_at: str
    ends_at: str
    currency: str
    inclusive: bool
    taxes: list[dict[str, str]]
    net: str
    tax: str
    total: str
    paid: str
    credited: str
    due: str
    credits: list[CreditNote]
    source_hash: str
    issued_at: str | None
    due_on: str | None


class InvoiceDraft(TypedDict):
    invoice: Invoice
    lines: list[InvoiceLine]
    line_count: int
    unpriced: list[UnpricedUse]


class Closing(TypedDict):
    tenant: str
    invoice: InvoiceSummary | None
    problem: dict[str, str] | None
    fresh: bool


class Invoices(Group):
    def list(self, tenant: str = "", period: str = "", state: str = "") -> Iterator[InvoiceSummary]:
        return self._transport.pages(path_join("invoices"), {"tenant": tenant, "period": period, "state": state})

    def get(self, invoice: str) -> Invoice:
        return cast("Invoice", self._transport.get(path_join("invoices", invoice)))

    def lines(self, invoice: str) -> Iterator[InvoiceLine]:
        return self._transport.pages(path_join("invoices", invoice, "lines"))

    def draft(self, tenant: str, period: str, limit: int = 1000) -> InvoiceDraft:
        """What the invoice of a month would be now, with its first lines."""
        path = path_join("accounts", tenant, "draft")
        return cast("InvoiceDraft", self._transport.get(path, {"period": period, "limit": limit}))

    def issue(self, tenant: str, period: str) -> Closing:
        body = {"tenant": tenant, "period": period}
        return cast("Closing", self._transport.send("POST", path_join("invoices"), body=body, key=key_make()))

    def close(self, period: str, limit: int = 50) -> Iterator[Closing]:
        """Close a month for all accounts, a page at a time; each as soon as it is done."""
        after = ""
        while True:
            body = {"period": period, "after": after, "limit": limit}
            page = self._transport.send("POST", path_join("invoices", "close"), body=body, key=key_make())
            yield from page["items"]
            after = page["next"]
            if not after:
                return

    def pay(self, invoice: str, amount: str, reference: str) -> InvoiceSummary:
        body = {"amount": amount, "reference": reference}
        path = path_join("invoices", invoice, "pay")
        return cast("InvoiceSummary", self._transport.send("POST", path, body=body, key=key_make()))

    def void(self, invoice: str, reason: str) -> InvoiceSummary:
        path = path_join("invoices", invoice, "void")
        return cast("InvoiceSummary", self._transport.send("POST", path, body={"reason": reason}, key=key_make()))

    def credit(self, invoice: str, line: str, fault: dict[str, str]) -> CreditNote:
        """``fault``: ``reason``, ``faulty_from`` and ``faulty_to`` or ``card_hours``; ``reference`` names it."""
        path = path_join("invoices", invoice, "lines", line, "credit")
        return cast("CreditNote", self._transport.send("POST", path, body=fault, key=key_make()))

    def explain(self, invoice: str, line: str) -> dict[str, Any]:
        """What a line was made of: buckets, attempts, events, the price version."""
        path = path_join("invoices", invoice, "lines", line, "explain")
        return cast("dict[str, Any]", self._transport.get(path))
