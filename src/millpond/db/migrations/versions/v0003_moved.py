"""Attempts may end because their job was moved."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_REASONS = (
    "('cancelled', 'card_fault', 'completed', 'failed', 'lost_lease', 'max_duration', 'moved', 'node_lost',"
    " 'preempted', 'reclaimed', 'saved', 'start_failed')"
)
_WHERE = (("jobs", "reason"), ("attempts", "drain_reason"), ("attempts", "reason"))


def upgrade() -> None:
    for table, column in _WHERE:
        name = op.f(f"ck_{table}_{column}")
        op.drop_constraint(name, table, type_="check")
        op.create_check_constraint(name, table, f"{column} IN {_REASONS}")
