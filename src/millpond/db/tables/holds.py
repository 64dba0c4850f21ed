"""Holds, and the last eviction of each pair of leaves (the whole history is in the events)."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, PrimaryKeyConstraint, Table, Text, text

from millpond.db.codec import seats_decode, seats_encode
from millpond.db.tables.metadata import METADATA
from millpond.db.types import Json, Moment, Names

HOLDS = Table(
    "holds",
    METADATA,
    Column("job", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("seats", Json(seats_encode, seats_decode), nullable=False),
    Column("until", Moment, nullable=False),
    Column("victims", Names, nullable=False, server_default=text("'{}'")),
)

EVICTIONS = Table(
    "evictions",
    METADATA,
    Column("claimant", Text, nullable=False),
    Column("victim", Text, nullable=False),
    Column("time", Moment, nullable=False),
    Column("borrowed", Boolean, nullable=False),
    PrimaryKeyConstraint("claimant", "victim", "borrowed"),
)
