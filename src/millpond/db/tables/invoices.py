"""Invoices, their lines, payments and credit notes.  Issued rows stay as they are; only an invoice's state moves on.

Amounts are smallest units of the currency.  A draft is not stored: it is what would be issued now.  Numbers are given
by a trigger, from the row of their series, so a transaction that fails leaves no gap.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from millpond.billing.documents import InvoiceState, LineKind
from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Moment, Names, Unit, Word

NUMBER: Final = "number = series || '-' || lpad(serial::text, greatest(6, length(serial::text)), '0')"
ID: Final = "id ~ '^[0-9a-f]{32}$'"

INVOICE_SERIES = Table(
    "invoice_series",
    METADATA,
    Column("series", Text, primary_key=True),
    Column("last", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("last >= 0", name="last"),
)

INVOICES = Table(
    "invoices",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("account", Text, ForeignKey("accounts.tenant"), nullable=False),
    Column("currency", Unit, nullable=False),
    Column("period", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("series", Text, ForeignKey("invoice_series.series"), nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("number", Text, nullable=False, unique=True),
    Column("state", Word(InvoiceState), nullable=False),
    Column("zone", Text, nullable=False),
    Column("starts_at", Moment, nullable=False),
    Column("ends_at", Moment, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("milli_seconds", BigInteger, nullable=False),
    Column("net", BigInteger, nullable=False),
    Column("tax", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("accrued", BigInteger, nullable=False),
    Column("tax_rate", Numeric(7, 6), nullable=False),
    Column("inclusive", Boolean, nullable=False),
    Column("source_hash", Text, nullable=False),
    Column("buyer", Names, nullable=False),
    Column("seller", Names, nullable=False),
    Column("transfer", Text, ForeignKey("ledger_transfers.id")),
    Column("issued_at", Moment, nullable=False),
    Column("issued_by", Text, nullable=False),
    Column("due", Date),
    Column("paid_at", Moment),
    Column("voided_at", Moment),
    Column("voided_for", Text, nullable=False, server_default=""),
    Column("void_transfer", Text, ForeignKey("ledger_transfers.id")),
    UniqueConstraint("account", "currency", "period", "kind", "revision"),
    UniqueConstraint("series", "serial"),
    check_word("state", InvoiceState, "state"),
    CheckConstraint("state <> 'draft'", name="stored"),
    CheckConstraint("kind = 'month'", name="kind"),
    CheckConstraint(ID, name="id"),
    CheckConstraint(NUMBER, name="number"),
    CheckConstraint("period ~ '^[0-9]{4}-[0-9]{2}$'", name="period"),
    CheckConstraint("starts_at < ends_at AND ends_at <= issued_at", name="ends_at"),
    CheckConstraint("revision >= 1 AND lines >= 1", name="lines"),
    CheckConstraint("total = net + tax", name="total"),
    CheckConstraint("tax_rate BETWEEN 0 AND 1", name="tax_rate"),
    CheckConstraint("source_hash ~ '^[0-9a-f]{64}$'", name="source_hash"),
    CheckConstraint("cardinality(buyer) = 3 AND cardinality(seller) = 3", name="parties"),
    CheckConstraint("(state = 'voided') = (voided_at IS NOT NULL)", name="voided_at"),
    CheckConstraint("(state = 'paid') = (paid_at IS NOT NULL)", name="paid_at"),
    Index(
        "uq_invoices_standing",
        "account",
        "currency",
        "period",
        "kind",
        unique=True,
        postgresql_where=text("state <> 'voided'"),
    ),
    Index("ix_invoices_issued", "issued_at", "id"),
)
"""``buyer`` and ``seller``: title, address and tax id as they were.  ``accrued``: what the balance had paid then."""

INVOICE_LINES = Table(
    "invoice_lines",
    METADATA,
    Column("invoice", Text, ForeignKey("invoices.id"), nullable=False),
    Column("line", Integer, nullable=False),
    Column("kind", Word(LineKind), nullable=False),
    Column("project", Text, nullable=False),
    Column("username", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("class", Text, key="klass", nullable=False),
    Column("version", Text, nullable=False),
    Column("price", Numeric(27, 12), nullable=False),
    Column("list_price", Numeric(27, 12)),
    Column("milli_seconds", BigInteger, nullable=False),
    Column("minimum", BigInteger, nullable=False),
    Column("net", BigInteger, nullable=False),
    Column("tax", BigInteger, nullable=False),
    Column("service_from", Moment, nullable=False),
    Column("service_to", Moment, nullable=False),
    PrimaryKeyConstraint("invoice", "line"),
    check_word("kind", LineKind, "kind"),
    CheckConstraint("line >= 1", name="line"),
    CheckConstraint("service_from < service_to", name="service"),
)

INVOICE_PAYMENTS = Table(
    "invoice_payments",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("invoice", Text, ForeignKey("invoices.id"), nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("reference", Text, nullable=False),
    Column("paid_at", Moment, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("transfer", Text, ForeignKey("ledger_transfers.id"), nullable=False),
    CheckConstraint(ID, name="id"),
    CheckConstraint("amount > 0", name="amount"),
    Index("ix_invoice_payments_invoice", "invoice"),
)
"""``id``: the hash of who was paid and the payment's reference, so that a payment counts once."""

CREDIT_NOTES = Table(
    "credit_notes",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("invoice", Text, nullable=False),
    Column("line", Integer, nullable=False),
    Column("series", Text, ForeignKey("invoice_series.series"), nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("number", Text, nullable=False, unique=True),
    Column("source", Names, nullable=False),
    Column("milli_seconds", BigInteger, nullable=False),
    Column("net", BigInteger, nullable=False),
    Column("tax", BigInteger, nullable=False),
    Column("owed", BigInteger, nullable=False),
    Column("service_from", Moment, nullable=False),
    Column("service_to", Moment, nullable=False),
    Column("text", Text, nullable=False),
    Column("issued_at", Moment, nullable=False),
    Column("issued_by", Text, nullable=False),
    Column("transfer", Text, ForeignKey("ledger_transfers.id")),
    ForeignKeyConstraint(["invoice", "line"], ["invoice_lines.invoice", "invoice_lines.line"]),
    UniqueConstraint("series", "serial"),
    CheckConstraint(ID, name="id"),
    CheckConstraint(NUMBER, name="number"),
    CheckConstraint("net >= 0 AND tax >= 0 AND owed >= 0 AND milli_seconds > 0", name="amounts"),
    CheckConstraint("service_from <= service_to", name="service"),
    Index("ix_credit_notes_line", "invoice", "line"),
)

CREDIT_RETURNS = Table(
    "credit_returns",
    METADATA,
    Column("note", Text, ForeignKey("credit_notes.id"), nullable=False),
    Column("grant", Text, ForeignKey("grants.id"), nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("unit", Unit, nullable=False),
    PrimaryKeyConstraint("note", "grant"),
    CheckConstraint("amount > 0", name="amount"),
)
