"""Tokens of users.  Only the SHA-256 of a secret is kept."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, Table, Text, text

from millpond.db.tables.metadata import METADATA
from millpond.db.types import Moment, Names

TOKENS = Table(
    "tokens",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("user_name", Text, key="user", nullable=False),
    Column("label", Text, nullable=False, server_default=""),
    Column("scopes", Names, nullable=False, server_default=text("'{}'")),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("created_at", Moment, nullable=False, server_default=text("now()")),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    Column("last_used_at", Moment),
    CheckConstraint("octet_length(secret_hash) = 32", name="secret_hash"),
    Index("ix_tokens_user", "user"),
)
