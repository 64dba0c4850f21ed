"""Tables for budgets and money holds, and attempts that end because they are not paid."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_MOMENT = sa.TIMESTAMP(timezone=True)
_REASONS = (
    "('cancelled', 'card_fault', 'completed', 'failed', 'lost_lease', 'max_duration', 'moved', 'node_lost',"
    " 'preempted', 'reclaimed', 'saved', 'start_failed', 'unpaid')"
)
_WHERE = (("jobs", "reason"), ("attempts", "drain_reason"), ("attempts", "reason"), ("attempt_usages", "reason"))

_ONCE = """
CREATE FUNCTION money_holds_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.warned_at IS NOT NULL AND NEW.warned_at IS DISTINCT FROM OLD.warned_at)
        OR (OLD.saving_at IS NOT NULL AND NEW.saving_at IS DISTINCT FROM OLD.saving_at)
        OR (OLD.resolved_at IS NOT NULL)
        OR (NEW.id, NEW.tenant, NEW.job, NEW.attempt, NEW.number, NEW.demands, NEW.draws)
            IS DISTINCT FROM (OLD.id, OLD.tenant, OLD.job, OLD.attempt, OLD.number, OLD.demands, OLD.draws) THEN
        RAISE EXCEPTION 'money hold % is settled once', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER money_holds_once BEFORE UPDATE ON money_holds FOR EACH ROW EXECUTE FUNCTION money_holds_once();
"""


def upgrade() -> None:
    for table, column in _WHERE:
        name = op.f(f"ck_{table}_{column}")
        op.drop_constraint(name, table, type_="check")
        op.create_check_constraint(name, table, f"{column} IN {_REASONS}")
    _budgets()
    _holds()


def _budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("node", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("thresholds", postgresql.JSONB(), nullable=False),
        sa.Column("valid_from", _MOMENT),
        sa.Column("valid_until", _MOMENT),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("ended_at", _MOMENT),
        sa.CheckConstraint("amount > 0", name=op.f("ck_budgets_amount")),
        sa.CheckConstraint("cardinality(node) BETWEEN 1 AND 4", name=op.f("ck_budgets_node")),
        sa.CheckConstraint(
            "(cardinality(node) = 1) = (tenant = '') AND tenant = coalesce(node[2], '')",
            name=op.f("ck_budgets_tenant"),
        ),
        sa.CheckConstraint(
            "(period = 'once') = (valid_from IS NOT NULL AND valid_until IS NOT NULL)", name=op.f("ck_budgets_valid")
        ),
        sa.CheckConstraint("valid_until > valid_from", name=op.f("ck_budgets_valid_order")),
        sa.CheckConstraint("jsonb_array_length(thresholds) > 0", name=op.f("ck_budgets_thresholds")),
        sa.CheckConstraint("period IN ('month', 'once', 'quarter', 'year')", name=op.f("ck_budgets_period")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
    )
    op.create_index(
        "uq_budgets_standing", "budgets", ["node", "unit", "period"], unique=True,
        postgresql_where=sa.text("ended_at IS NULL"),
    )  # fmt: skip
    op.create_table(
        "budget_alerts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("budget", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("percent", sa.Integer(), nullable=False),
        sa.Column("raised_at", _MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["budget"], ["budgets.id"], name=op.f("fk_budget_alerts_budget")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budget_alerts")),
    )
    op.create_index(op.f("ix_budget_alerts_budget"), "budget_alerts", ["budget"])


def _holds() -> None:
    op.create_table(
        "money_holds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("milli", sa.BigInteger(), nullable=False),
        sa.Column("starts_at", _MOMENT, nullable=False),
        sa.Column("ends_at", _MOMENT, nullable=False),
        sa.Column("demands", postgresql.JSONB(), nullable=False),
        sa.Column("draws", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("warned_at", _MOMENT),
        sa.Column("saving_at", _MOMENT),
        sa.Column("resolved_at", _MOMENT),
        sa.CheckConstraint("number >= 1 AND attempt >= 1", name=op.f("ck_money_holds_number")),
        sa.CheckConstraint("milli >= 0", name=op.f("ck_money_holds_milli")),
        sa.CheckConstraint("ends_at >= starts_at", name=op.f("ck_money_holds_service")),
        sa.ForeignKeyConstraint(["tenant"], ["accounts.tenant"], name=op.f("fk_money_holds_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_money_holds")),
        sa.UniqueConstraint("job", "attempt", "number", name=op.f("uq_money_holds_job_attempt_number")),
    )
    op.create_index("ix_money_holds_open", "money_holds", ["job"], postgresql_where=sa.text("resolved_at IS NULL"))
    op.create_index("ix_money_holds_tenant", "money_holds", ["tenant", "created_at"])
    op.execute(_ONCE)
