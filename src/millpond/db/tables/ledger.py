"""The ledger: accounts with their balances, and the append-only records that these follow from.

Amounts are whole smallest units of the account's unit (``CARD-S``: milli-card-seconds).  Balances are kept for accounts
of a tenant, in the transaction that books; those of the platform (cash, earnings) are sums of their entries, so that
nobody queues for one row.  What the tables refuse whoever writes: entries that do not sum to zero, an overdrawn wallet,
a second resolution, more than was held, a booking in a closed month, any change of what is written.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
    true,
)

from millpond.billing.transfers import KINDS, AccountKind, Outcome
from millpond.db.tables.metadata import METADATA, check_word, words_sql
from millpond.db.types import Blank, Moment, Names, Unit, Word

GUARDED: Final = words_sql(kind for kind, rule in KINDS.items() if rule.guarded)
POSTED: Final = "posted"
HELD: Final = "held"

LEDGER_ACCOUNTS = Table(
    "ledger_accounts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Blank, ForeignKey("accounts.tenant")),
    Column("kind", Word(AccountKind), nullable=False),
    Column("unit", Unit, nullable=False),
    Column("of", Blank),
    Column("posted", BigInteger, nullable=False, server_default=text("0")),
    Column("held", BigInteger, nullable=False, server_default=text("0")),
    Column("version", BigInteger, nullable=False, server_default=text("0")),
    UniqueConstraint("id", "unit"),
    check_word("kind", AccountKind, "kind"),
    CheckConstraint("id = kind || coalesce('/' || owner, '') || coalesce('/' || \"of\", '') || '/' || unit", name="id"),
    CheckConstraint("held >= 0", name="held"),
    CheckConstraint(f"kind NOT IN ({GUARDED}) OR posted >= held", name="available"),
    CheckConstraint("owner IS NOT NULL OR (posted = 0 AND held = 0 AND version = 0)", name="platform"),
    Index("ix_ledger_accounts_owner", "owner", postgresql_where=text("owner IS NOT NULL")),
)

_TIMES = ("service_from", "service_to", "booked_at", "invoice_at", "created_at")


def _times() -> list[Column[object]]:
    return [Column(name, Moment, nullable=name not in {"booked_at", "created_at"}) for name in _TIMES]


LEDGER_TRANSFERS = Table(
    "ledger_transfers",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("source", Names, nullable=False),
    Column("pending", Boolean, nullable=False),
    Column("expires_at", Moment),
    Column("text", Text, nullable=False),
    Column("entries", Integer, nullable=False),
    *_times(),
    UniqueConstraint("id", "pending"),
    CheckConstraint("id ~ '^[0-9a-f]{32}$'", name="id"),
    CheckConstraint("entries >= 2", name="entries"),
    CheckConstraint("pending OR expires_at IS NULL", name="expires_at"),
    CheckConstraint("(service_from IS NULL) = (service_to IS NULL) AND service_to >= service_from", name="service"),
    Index("ix_ledger_transfers_expires", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)

LEDGER_RESOLUTIONS = Table(
    "ledger_resolutions",
    METADATA,
    Column("transfer", Text, primary_key=True),
    Column("pending", Boolean, nullable=False, server_default=true()),
    Column("outcome", Word(Outcome), nullable=False),
    Column("entries", Integer, nullable=False),
    *_times(),
    ForeignKeyConstraint(["transfer", "pending"], ["ledger_transfers.id", "ledger_transfers.pending"]),
    CheckConstraint("pending", name="pending"),
    check_word("outcome", Outcome, "outcome"),
    CheckConstraint("CASE WHEN outcome = 'posted' THEN entries >= 2 ELSE entries = 0 END", name="entries"),
    CheckConstraint("(service_from IS NULL) = (service_to IS NULL) AND service_to >= service_from", name="service"),
)

LEDGER_ENTRIES = Table(
    "ledger_entries",
    METADATA,
    Column("transfer", Text, ForeignKey("ledger_transfers.id"), nullable=False),
    Column("phase", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("unit", Unit, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("booked_at", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("transfer", "phase", "account"),
    ForeignKeyConstraint(["account", "unit"], ["ledger_accounts.id", "ledger_accounts.unit"]),
    CheckConstraint("phase IN ('held', 'posted')", name="phase"),
    CheckConstraint("amount <> 0", name="amount"),
    Index(
        "ix_ledger_entries_posted",
        "account",
        "booked_at",
        "transfer",
        postgresql_include=["amount"],
        postgresql_where=text("phase = 'posted'"),
    ),
    Index("ix_ledger_entries_held", "account", "booked_at", postgresql_where=text("phase = 'held'")),
)
"""``phase``: what a pending transfer holds stands as ``held``, what was posted of it (or at once) as ``posted``."""
