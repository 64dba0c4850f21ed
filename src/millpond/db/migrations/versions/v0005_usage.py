"""Tables for what the meter has counted, and the card model of attempts."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_MOMENT = sa.TIMESTAMP(timezone=True)
_REASONS = (
    "('cancelled', 'card_fault', 'completed', 'failed', 'lost_lease', 'max_duration', 'moved', 'node_lost',"
    " 'preempted', 'reclaimed', 'saved', 'start_failed')"
)
_CODES = "('GAP', 'NEGATIVE', 'OVERLAP', 'SKEW', 'TWICE')"


def _owner() -> list[sa.Column[object]]:
    return [
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("service", sa.Boolean(), nullable=False),
    ]


def upgrade() -> None:
    op.add_column("attempts", sa.Column("sku", sa.Text(), server_default="", nullable=False))
    op.create_table(
        "usage_buckets",
        *_owner(),
        sa.Column("booked", _MOMENT, nullable=False),
        sa.Column("hour", _MOMENT, nullable=False),
        sa.Column("milli_seconds", sa.BigInteger(), nullable=False),
        sa.Column("lost_milli_seconds", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("hour <= booked", name=op.f("ck_usage_buckets_booked")),
        sa.PrimaryKeyConstraint(
            "tenant", "job", "attempt", "project", "username", "sku", "class", "service", "booked", "hour",
            name=op.f("pk_usage_buckets"),
        ),
    )  # fmt: skip
    op.create_index("ix_usage_buckets_tenant_booked", "usage_buckets", ["tenant", "booked"])
    op.create_index("ix_usage_buckets_booked", "usage_buckets", ["booked"])
    op.create_table(
        "attempt_usages",
        *_owner(),
        sa.Column("milli", sa.BigInteger(), nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("ended_at", _MOMENT),
        sa.Column("reason", sa.Text()),
        sa.Column("lost", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("disputed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("milli_seconds", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("lost_milli_seconds", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("start_event", sa.BigInteger(), nullable=False),
        sa.Column("end_event", sa.BigInteger()),
        sa.CheckConstraint(f"reason IN {_REASONS}", name=op.f("ck_attempt_usages_reason")),
        sa.CheckConstraint("milli >= 0", name=op.f("ck_attempt_usages_milli")),
        sa.CheckConstraint("(ended_at IS NULL) = (reason IS NULL)", name=op.f("ck_attempt_usages_ended")),
        sa.PrimaryKeyConstraint("job", "attempt", name=op.f("pk_attempt_usages")),
    )
    op.create_index("ix_attempt_usages_tenant_started", "attempt_usages", ["tenant", "started_at"])
    op.create_index("ix_attempt_usages_tenant_ended", "attempt_usages", ["tenant", "ended_at"])
    op.create_table(
        "meter_alarms",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("time", _MOMENT, nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("card", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("raised_at", _MOMENT, nullable=False),
        sa.CheckConstraint(f"code IN {_CODES}", name=op.f("ck_meter_alarms_code")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meter_alarms")),
    )
    op.create_index("ix_meter_alarms_time", "meter_alarms", ["time"])
    op.create_table(
        "meter_state",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meter_state")),
    )
    op.create_table(
        "meter_mark",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cursor", sa.BigInteger(), nullable=False),
        sa.Column("settled_until", _MOMENT, nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_meter_mark_id")),
        sa.CheckConstraint("cursor >= 0", name=op.f("ck_meter_mark_cursor")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meter_mark")),
    )
