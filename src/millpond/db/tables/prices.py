"""Price versions: only ever added.  A row is one `billing.prices.PriceRecord`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from millpond.db.tables.metadata import METADATA
from millpond.db.types import Blank, Moment, Unit

PRICES = Table(
    "prices",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("account", Blank, ForeignKey("accounts.tenant")),
    Column("version", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("class", Text, key="klass", nullable=False),
    Column("currency", Unit, nullable=False),
    Column("price", Numeric(27, 12), nullable=False),
    Column("starts_at", Moment, nullable=False),
    Column("ends_at", Moment),
    Column("created_at", Moment, nullable=False, server_default=text("now()")),
    Column("created_by", Text, nullable=False),
    CheckConstraint("price >= 0", name="price"),
    CheckConstraint("currency ~ '^[A-Z]{3}$'", name="currency"),
    CheckConstraint("ends_at > starts_at", name="ends_at"),
    UniqueConstraint("account", "currency", "sku", "klass", "starts_at", postgresql_nulls_not_distinct=True),
    UniqueConstraint("account", "currency", "sku", "klass", "version", postgresql_nulls_not_distinct=True),
)
"""``account`` NULL: a list price."""
