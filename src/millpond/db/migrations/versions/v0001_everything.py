"""Everything: tenants and tokens, queues, nodes, jobs, attempts, events, and what the control plane keeps."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_TERMINAL = "('cancelled', 'failed', 'succeeded')"
_REASONS = (
    "('cancelled', 'card_fault', 'completed', 'failed', 'lost_lease', 'max_duration', 'node_lost', 'preempted',"
    " 'reclaimed', 'saved', 'start_failed')"
)


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("tenant_uid", start=210_000)))
    _tenants()
    _queues()
    _nodes()
    _jobs()
    _attempts()
    _events()
    _control()


def _tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("uid", sa.BigInteger(), server_default=sa.text("nextval('tenant_uid')"), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'", name=op.f("ck_tenants_name")),
        sa.CheckConstraint("uid > 0", name=op.f("ck_tenants_uid")),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
        sa.UniqueConstraint("uid", name="uq_tenants_uid"),
    )
    op.create_table(
        "projects",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'", name=op.f("ck_projects_name")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_projects_tenant"),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_projects"),
    )
    op.create_table(
        "members",
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "CASE WHEN tenant IS NULL THEN role IN ('platform-admin', 'auditor') ELSE role <> 'platform-admin' END",
            name=op.f("ck_members_role_reach"),
        ),
        sa.CheckConstraint(
            "role IN ('auditor', 'member', 'platform-admin', 'tenant-admin')", name=op.f("ck_members_role")
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_members_tenant", ondelete="CASCADE"),
    )
    op.create_index("ix_members_tenant", "members", ["tenant"], unique=False)
    op.create_index(
        "uq_members_user_tenant", "members", ["user_name", "tenant"], unique=True, postgresql_nulls_not_distinct=True
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), server_default="", nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("octet_length(secret_hash) = 32", name=op.f("ck_tokens_secret_hash")),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("secret_hash", name="uq_tokens_secret_hash"),
    )
    op.create_index("ix_tokens_user", "tokens", ["user_name"], unique=False)


def _queues() -> None:
    op.create_table(
        "queues",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), sa.Computed("split_part(name, '/', 1)", persisted=True), nullable=False),
        sa.Column(
            "leaf_name",
            sa.Text(),
            sa.Computed("CASE WHEN config ->> 'klass' IS NOT NULL THEN name END", persisted=True),
            nullable=True,
        ),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("config", postgresql.JSONB(), nullable=False),
        sa.CheckConstraint("config ->> 'name' = name", name=op.f("ck_queues_config")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_queues_position")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_queues_tenant"),
        sa.PrimaryKeyConstraint("name", name="pk_queues"),
        sa.UniqueConstraint("leaf_name", name="uq_queues_leaf_name"),
    )
    op.create_index("ix_queues_tenant", "queues", ["tenant"], unique=False)


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("spec", postgresql.JSONB(), nullable=False),
        sa.Column("cordoned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("lost", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("missing", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("bad_cards", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("seen_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint("jsonb_typeof(bad_cards) = 'object'", name=op.f("ck_nodes_bad_cards")),
        sa.CheckConstraint("spec ->> 'name' = name", name=op.f("ck_nodes_spec")),
        sa.PrimaryKeyConstraint("name", name="pk_nodes"),
    )
    op.create_index("ix_nodes_engine", "nodes", ["engine"], unique=False)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("spec", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("queued_as", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("retries_spent", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("not_before", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("held", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("cancel", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("saves_on_signal", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("checkpointed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("started_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("finished_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("blocked", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("name", sa.Text(), sa.Computed("spec ->> 'name'", persisted=True), nullable=False),
        sa.Column(
            "live_queue",
            sa.Text(),
            sa.Computed(f"CASE WHEN state NOT IN {_TERMINAL} THEN queue END", persisted=True),
            nullable=True,
        ),
        sa.CheckConstraint(f"(finished_at IS NOT NULL) = (state IN {_TERMINAL})", name=op.f("ck_jobs_finished_at")),
        sa.CheckConstraint("queued_as IN ('backoff', 'held', 'ready')", name=op.f("ck_jobs_queued_as")),
        sa.CheckConstraint(f"reason IN {_REASONS}", name=op.f("ck_jobs_reason")),
        sa.CheckConstraint("starts_with(queue, tenant || '/')", name=op.f("ck_jobs_queue")),
        sa.CheckConstraint(
            "state IN ('cancelled', 'failed', 'queued', 'running', 'starting', 'stopping', 'submitted', 'succeeded')",
            name=op.f("ck_jobs_state"),
        ),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_jobs_attempts")),
        sa.CheckConstraint("retries_spent >= 0", name=op.f("ck_jobs_retries_spent")),
        sa.ForeignKeyConstraint(["live_queue"], ["queues.leaf_name"], name="fk_jobs_live_queue"),
        sa.ForeignKeyConstraint(
            ["tenant", "project"], ["projects.tenant", "projects.name"], name="fk_jobs_tenant_project"
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_jobs_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    _jobs_indexes()


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seats", postgresql.JSONB(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("planned_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("milli", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("applied", sa.Text(), nullable=True),
        sa.Column("started_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("ready_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("checkpointed_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("draining_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("deadline_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("drain_reason", sa.Text(), nullable=True),
        sa.Column("drain_for", sa.Text(), server_default="", nullable=False),
        sa.Column("borrowed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("ended_at", sa.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("lost_milli_seconds", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint("(state = 'ended') = (ended_at IS NOT NULL)", name=op.f("ck_attempts_ended_at")),
        sa.CheckConstraint("(state = 'ended') = (reason IS NOT NULL)", name=op.f("ck_attempts_ended_reason")),
        sa.CheckConstraint(
            "applied IN ('draining', 'ended', 'planned', 'running', 'starting')", name=op.f("ck_attempts_applied")
        ),
        sa.CheckConstraint(f"drain_reason IN {_REASONS}", name=op.f("ck_attempts_drain_reason")),
        sa.CheckConstraint("id = job || '-' || number", name=op.f("ck_attempts_id")),
        sa.CheckConstraint("jsonb_typeof(seats) = 'array'", name=op.f("ck_attempts_seats")),
        sa.CheckConstraint(f"reason IN {_REASONS}", name=op.f("ck_attempts_reason")),
        sa.CheckConstraint(
            "state <> 'draining' OR (draining_at IS NOT NULL AND deadline_at IS NOT NULL)",
            name=op.f("ck_attempts_draining"),
        ),
        sa.CheckConstraint(
            "state IN ('draining', 'ended', 'planned', 'running', 'starting')", name=op.f("ck_attempts_state")
        ),
        sa.CheckConstraint("milli >= 0 AND lost_milli_seconds >= 0 AND epoch >= 0", name=op.f("ck_attempts_amounts")),
        sa.CheckConstraint("number >= 1", name=op.f("ck_attempts_number")),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_attempts_job"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    _attempts_indexes()
    op.create_table(
        "holds",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("seats", postgresql.JSONB(), nullable=False),
        sa.Column("until", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("victims", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_holds_job"),
        sa.PrimaryKeyConstraint("job", name="pk_holds"),
    )
    op.create_table(
        "evictions",
        sa.Column("claimant", sa.Text(), nullable=False),
        sa.Column("victim", sa.Text(), nullable=False),
        sa.Column("time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("borrowed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("claimant", "victim", "borrowed", name="pk_evictions"),
    )


def _events() -> None:
    op.create_table(
        "event_heads",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.CheckConstraint("sequence >= 0", name=op.f("ck_event_heads_sequence")),
        sa.PrimaryKeyConstraint("source", name="pk_event_heads"),
    )
    op.create_table(
        "events",
        sa.Column("sequence", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_sequence", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), server_default="", nullable=False),
        sa.Column("job", sa.Text(), server_default="", nullable=False),
        sa.Column("attempt", sa.Text(), server_default="", nullable=False),
        sa.Column("data", postgresql.JSONB(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.CheckConstraint("hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_events_hash")),
        sa.CheckConstraint("source_sequence >= 1", name=op.f("ck_events_source_sequence")),
        sa.PrimaryKeyConstraint("sequence", name="pk_events"),
    )
    op.create_index("ix_events_job", "events", ["job", "sequence"], unique=False, postgresql_where=sa.text("job <> ''"))
    op.create_index(
        "ix_events_tenant", "events", ["tenant", "sequence"], unique=False, postgresql_where=sa.text("tenant <> ''")
    )
    op.create_index("uq_events_source_sequence", "events", ["source", "source_sequence"], unique=True)
    op.execute(
        """
        CREATE FUNCTION events_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'integrity_constraint_violation';
        END $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events
        FOR EACH STATEMENT EXECUTE FUNCTION events_append_only()
        """
    )


def _control() -> None:
    op.create_table(
        "commits",
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("slot", name="pk_commits"),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), server_default="", nullable=False),
        sa.Column("since", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("epoch >= 0", name=op.f("ck_leader_epoch")),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one")),
        sa.PrimaryKeyConstraint("id", name="pk_leader"),
    )
    op.create_table(
        "cursors",
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("cursor", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("engine", name="pk_cursors"),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_settings"),
    )
    op.create_table(
        "idempotency",
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("char_length(key) BETWEEN 1 AND 255", name=op.f("ck_idempotency_key")),
        sa.PrimaryKeyConstraint("actor", "key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_created", "idempotency", ["created_at"], unique=False)


def _jobs_indexes() -> None:
    op.create_index(
        "ix_jobs_blocked",
        "jobs",
        ["blocked"],
        unique=False,
        postgresql_using="gin",
        postgresql_where=sa.text("blocked <> '{}'"),
    )
    op.create_index(
        "ix_jobs_live",
        "jobs",
        ["submitted_at", "id"],
        unique=False,
        postgresql_where=sa.text(f"state NOT IN {_TERMINAL}"),
    )
    op.create_index(
        "ix_jobs_live_queue", "jobs", ["live_queue"], unique=False, postgresql_where=sa.text("live_queue IS NOT NULL")
    )
    op.create_index("ix_jobs_name", "jobs", ["tenant", "name", "submitted_at"], unique=False)
    op.create_index("ix_jobs_submitted", "jobs", ["submitted_at", "id"], unique=False)
    op.create_index("ix_jobs_tenant_submitted", "jobs", ["tenant", "submitted_at", "id"], unique=False)
    op.create_index(
        "uq_jobs_live_name",
        "jobs",
        ["tenant", "project", "name"],
        unique=True,
        postgresql_nulls_not_distinct=True,
        postgresql_where=sa.text(f"state NOT IN {_TERMINAL}"),
    )


def _attempts_indexes() -> None:
    op.create_index(
        "ix_attempts_untold",
        "attempts",
        ["planned_at", "id"],
        unique=False,
        postgresql_where=sa.text(
            "(state IN ('planned', 'starting') AND applied IS NULL)"
            " OR (state IN ('draining', 'ended') AND applied IS DISTINCT FROM state)"
        ),
    )
    op.create_index("uq_attempts_job_number", "attempts", ["job", "number"], unique=True)
    op.create_index("uq_attempts_live", "attempts", ["job"], unique=True, postgresql_where=sa.text("state <> 'ended'"))
