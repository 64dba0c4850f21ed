"""Attempts.  At most one attempt of a job is live: the index `uq_attempts_live` is what "none runs twice" rests on."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    false,
    text,
)

from millpond.db.codec import seats_decode, seats_encode
from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Json, Moment, Word
from millpond.domain.jobs import AttemptState, EndReason

UNTOLD_SQL = (
    "(state IN ('planned', 'starting') AND applied IS NULL)"
    " OR (state IN ('draining', 'ended') AND applied IS DISTINCT FROM state)"
)
"""The engine has yet to hear of it.  ``running`` never counts: that news comes from the engine."""

ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("job", Text, ForeignKey("jobs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("state", Word(AttemptState), nullable=False),
    Column("seats", Json(seats_encode, seats_decode), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("planned_at", Moment, nullable=False),
    Column("milli", BigInteger, nullable=False, server_default=text("0")),
    Column("applied", Word(AttemptState)),
    Column("started_at", Moment),
    Column("ready_at", Moment),
    Column("checkpointed_at", Moment),
    Column("draining_at", Moment),
    Column("deadline_at", Moment),
    Column("drain_reason", Word(EndReason)),
    Column("drain_for", Text, nullable=False, server_default=""),
    Column("borrowed", Boolean, nullable=False, server_default=false()),
    Column("ended_at", Moment),
    Column("reason", Word(EndReason)),
    Column("exit_code", Integer),
    Column("lost_milli_seconds", BigInteger, nullable=False, server_default=text("0")),
    Column("message", Text, nullable=False, server_default=""),
    Column("sku", Text, nullable=False, server_default=""),
    check_word("state", AttemptState, "state"),
    check_word("applied", AttemptState, "applied"),
    check_word("drain_reason", EndReason, "drain_reason"),
    check_word("reason", EndReason, "reason"),
    CheckConstraint("number >= 1", name="number"),
    CheckConstraint("id = job || '-' || number", name="id"),
    CheckConstraint("milli >= 0 AND lost_milli_seconds >= 0 AND epoch >= 0", name="amounts"),
    CheckConstraint("(state = 'ended') = (ended_at IS NOT NULL)", name="ended_at"),
    CheckConstraint("(state = 'ended') = (reason IS NOT NULL)", name="ended_reason"),
    CheckConstraint("state <> 'draining' OR (draining_at IS NOT NULL AND deadline_at IS NOT NULL)", name="draining"),
    CheckConstraint("jsonb_typeof(seats) = 'array'", name="seats"),
    Index("uq_attempts_job_number", "job", "number", unique=True),
    Index("uq_attempts_live", "job", unique=True, postgresql_where=text("state <> 'ended'")),
    Index("ix_attempts_untold", "planned_at", "id", postgresql_where=text(UNTOLD_SQL)),
)
