"""Jobs.  One row is one `JobRecord`; the constraints make impossible rows impossible.

``live_queue`` is the leaf while the job is live: a foreign key, so that no queue can go while jobs wait or run in it.
"""

from __future__ import annotations

from functools import partial

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    false,
    text,
)

from millpond.db.codec import json_encode, spec_decode
from millpond.db.tables.metadata import METADATA, check_word, words_sql
from millpond.db.types import Blank, Json, Moment, Names, Word
from millpond.domain.jobs import JOB_TERMINAL, EndReason, JobSpec, JobState, QueuedAs

TERMINAL_SQL = words_sql(JOB_TERMINAL)
LIVE_SQL = f"state NOT IN ({TERMINAL_SQL})"

JOBS = Table(
    "jobs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.name"), nullable=False),
    Column("project", Blank),
    Column("user_name", Text, key="user", nullable=False),
    Column("queue", Text, nullable=False),
    Column("spec", Json(partial(json_encode, JobSpec), spec_decode), nullable=False),
    Column("state", Word(JobState), nullable=False),
    Column("queued_as", Word(QueuedAs), nullable=False),
    Column("submitted_at", Moment, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("retries_spent", Integer, nullable=False, server_default=text("0")),
    Column("not_before", Moment),
    Column("held", Boolean, nullable=False, server_default=false()),
    Column("cancel", Boolean, nullable=False, server_default=false()),
    Column("saves_on_signal", Boolean, nullable=False, server_default=false()),
    Column("checkpointed", Boolean, nullable=False, server_default=false()),
    Column("reason", Word(EndReason)),
    Column("exit_code", Integer),
    Column("message", Text, nullable=False, server_default=""),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("blocked", Names, nullable=False, server_default=text("'{}'")),
    Column("name", Text, Computed("spec ->> 'name'", persisted=True), nullable=False),
    Column(
        "live_queue",
        Text,
        Computed(f"CASE WHEN {LIVE_SQL} THEN queue END", persisted=True),
        ForeignKey("queues.leaf_name"),
    ),
    ForeignKeyConstraint(["tenant", "project"], ["projects.tenant", "projects.name"]),
    check_word("state", JobState, "state"),
    check_word("queued_as", QueuedAs, "queued_as"),
    check_word("reason", EndReason, "reason"),
    CheckConstraint("attempts >= 0", name="attempts"),
    CheckConstraint("retries_spent >= 0", name="retries_spent"),
    CheckConstraint(f"(finished_at IS NOT NULL) = (state IN ({TERMINAL_SQL}))", name="finished_at"),
    CheckConstraint("starts_with(queue, tenant || '/')", name="queue"),
    Index(
        "uq_jobs_live_name",
        "tenant",
        "project",
        "name",
        unique=True,
        postgresql_nulls_not_distinct=True,
        postgresql_where=text(LIVE_SQL),
    ),
    Index("ix_jobs_live", "submitted_at", "id", postgresql_where=text(LIVE_SQL)),
    Index("ix_jobs_live_queue", "live_queue", postgresql_where=text("live_queue IS NOT NULL")),
    Index("ix_jobs_submitted", "submitted_at", "id"),
    Index("ix_jobs_tenant_submitted", "tenant", "submitted_at", "id"),
    Index("ix_jobs_name", "tenant", "name", "submitted_at"),
    Index("ix_jobs_blocked", "blocked", postgresql_using="gin", postgresql_where=text("blocked <> '{}'")),
)
