"""The event log: append-only (a trigger refuses the rest), one hash chain per source.

Appends of all sources happen one after the other, under the lock of the head row named by the empty string, so that
``sequence`` is the order of commits: a reader who goes on from the last sequence it saw misses nothing.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, Index, Table, Text, text

from millpond.db.tables.metadata import METADATA
from millpond.db.types import Json, Moment

EVENTS = Table(
    "events",
    METADATA,
    Column("sequence", BigInteger, Identity(always=True), primary_key=True),
    Column("source", Text, nullable=False),
    Column("source_sequence", BigInteger, nullable=False),
    Column("time", Moment, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("tenant", Text, nullable=False, server_default=""),
    Column("job", Text, nullable=False, server_default=""),
    Column("attempt", Text, nullable=False, server_default=""),
    Column("data", Json(), nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    CheckConstraint("source_sequence >= 1", name="source_sequence"),
    CheckConstraint("hash ~ '^[0-9a-f]{64}$'", name="hash"),
    Index("uq_events_source_sequence", "source", "source_sequence", unique=True),
    Index("ix_events_job", "job", "sequence", postgresql_where=text("job <> ''")),
    Index("ix_events_tenant", "tenant", "sequence", postgresql_where=text("tenant <> ''")),
)

EVENT_HEADS = Table(
    "event_heads",
    METADATA,
    Column("source", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    CheckConstraint("sequence >= 0", name="sequence"),
)

APPEND_ONLY_SQL = (
    """
    CREATE FUNCTION events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'integrity_constraint_violation';
    END $$
    """,
    """
    CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION events_append_only()
    """,
)
