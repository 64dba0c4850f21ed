"""Billing accounts.  One row is one `AccountRecord`.

A tenant with an account is never deleted but marked, and money is booked only for tenants that have one.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Numeric, Table, Text, false, text

from millpond.billing.accounts import AccountMode
from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Moment, Unit, Word

ACCOUNTS = Table(
    "accounts",
    METADATA,
    Column("tenant", Text, ForeignKey("tenants.name"), primary_key=True),
    Column("currency", Unit, nullable=False),
    Column("zone", Text, nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("sealed_until", Moment, nullable=False),
    Column("tax_rate", Numeric(7, 6), nullable=False, server_default=text("0")),
    Column("inclusive", Boolean, nullable=False, server_default=false()),
    Column("mode", Word(AccountMode), nullable=False),
    Column("minimum_seconds", BigInteger, nullable=False, server_default=text("0")),
    Column("increment_seconds", BigInteger, nullable=False, server_default=text("1")),
    Column("bill_lost_work", Boolean, nullable=False, server_default=false()),
    Column("notice", BigInteger, nullable=False),
    Column("stretch", BigInteger, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("address", Text, nullable=False, server_default=""),
    Column("tax_id", Text, nullable=False, server_default=""),
    check_word("mode", AccountMode, "mode"),
    CheckConstraint("tax_rate BETWEEN 0 AND 1", name="tax_rate"),
    CheckConstraint("sealed_until >= opened_at", name="sealed_until"),
    CheckConstraint("minimum_seconds >= 0 AND increment_seconds >= 1", name="rules"),
)
