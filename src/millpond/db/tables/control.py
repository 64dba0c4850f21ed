"""What the control plane keeps: who leads, how far each engine was read, policy numbers, answered requests, commits.

``commits`` has a row for each connection of a pool: the number of its last transaction that wrote and was committed
(`millpond.db.session` says why).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from millpond.db.tables.metadata import METADATA
from millpond.db.types import Moment

LEADER = Table(
    "leader",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False, server_default=""),
    Column("since", Moment, nullable=False, server_default=text("now()")),
    CheckConstraint("id = 1", name="one"),
    CheckConstraint("epoch >= 0", name="epoch"),
)

CURSORS = Table(
    "cursors",
    METADATA,
    Column("engine", Text, primary_key=True),
    Column("cursor", BigInteger, nullable=False),
    Column("updated_at", Moment, nullable=False, server_default=text("now()")),
)

SETTINGS = Table(
    "settings",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

IDEMPOTENCY = Table(
    "idempotency",
    METADATA,
    Column("actor", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("request_hash", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", Moment, nullable=False, server_default=text("now()")),
    PrimaryKeyConstraint("actor", "key"),
    CheckConstraint("char_length(key) BETWEEN 1 AND 255", name="key"),
    Index("ix_idempotency_created", "created_at"),
)

COMMITS = Table(
    "commits",
    METADATA,
    Column("slot", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("written_at", Moment, nullable=False, server_default=text("now()")),
    postgresql_with={"fillfactor": 50},
)
