"""Promised starts."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    moment = sa.TIMESTAMP(timezone=True)
    op.create_table(
        "promises",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("made_at", moment, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("p10", moment, nullable=False),
        sa.Column("p50", moment, nullable=False),
        sa.Column("p90", moment, nullable=True),
        sa.Column("raw_p10", moment, nullable=False),
        sa.Column("raw_p50", moment, nullable=False),
        sa.Column("raw_p90", moment, nullable=True),
        sa.CheckConstraint("attempt >= 1", name=op.f("ck_promises_attempt")),
        sa.CheckConstraint("p10 <= p50 AND (p90 IS NULL OR p50 <= p90)", name=op.f("ck_promises_order")),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_promises_job"),
        sa.PrimaryKeyConstraint("job", "attempt", "made_at", name="pk_promises"),
    )
    op.create_index("ix_promises_made", "promises", ["made_at"], unique=False)
