"""Grants: what a tenant may spend.  Append-only; what is left of one is the balance of its account."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, text

from millpond.billing.grants import GrantKind
from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Moment, Names, Unit, Word

GRANTS = Table(
    "grants",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("source", Names, nullable=False),
    Column("owner", Text, ForeignKey("accounts.tenant"), nullable=False),
    Column("kind", Word(GrantKind), nullable=False),
    Column("unit", Unit, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("granted_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("priority", Integer, nullable=False),
    Column("skus", Names, nullable=False, server_default=text("'{}'")),
    Column("classes", Names, nullable=False, server_default=text("'{}'")),
    Column("projects", Names, nullable=False, server_default=text("'{}'")),
    Column("price_unit", Unit),
    Column("price", BigInteger),
    Column("transfer", Text, ForeignKey("ledger_transfers.id"), nullable=False),
    check_word("kind", GrantKind, "kind"),
    CheckConstraint("id ~ '^[0-9a-f]{32}$'", name="id"),
    CheckConstraint("amount > 0", name="amount"),
    CheckConstraint("expires_at > granted_at", name="expires_at"),
    CheckConstraint("(kind = 'pack') = (price IS NOT NULL)", name="pack"),
    CheckConstraint("(price IS NULL) = (price_unit IS NULL) AND price >= 0", name="price"),
    CheckConstraint("kind = 'pack' OR unit <> 'CARD-S'", name="card_time"),
    Index("ix_grants_owner", "owner", "granted_at"),
    Index("ix_grants_expires", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)
