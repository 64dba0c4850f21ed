"""Promised starts.  A promise is for one attempt of a job (the one that is to come), and is never changed: a later one
stands beside it.  What became of it is in the attempt.

``raw_*`` is what the forecast said before it was corrected by how earlier promises did.
"""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table, Text

from millpond.db.tables.metadata import METADATA
from millpond.db.types import Moment

PROMISES = Table(
    "promises",
    METADATA,
    Column("job", Text, ForeignKey("jobs.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("made_at", Moment, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("p10", Moment, nullable=False),
    Column("p50", Moment, nullable=False),
    Column("p90", Moment),
    Column("raw_p10", Moment, nullable=False),
    Column("raw_p50", Moment, nullable=False),
    Column("raw_p90", Moment),
    PrimaryKeyConstraint("job", "attempt", "made_at"),
    CheckConstraint("attempt >= 1", name="attempt"),
    CheckConstraint("p10 <= p50 AND (p90 IS NULL OR p50 <= p90)", name="order"),
    Index("ix_promises_made", "made_at"),
)
