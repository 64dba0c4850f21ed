"""Budgets of nodes of the organisation, and the alerts that they have raised.

A row of ``budgets`` is never changed but to end it: who sets another limit adds a row.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, text

from millpond.billing.budgets import BudgetPeriod
from millpond.db.tables.metadata import METADATA, check_word
from millpond.db.types import Json, Moment, Names, Unit, Word

BUDGETS = Table(
    "budgets",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("node", Names, nullable=False),
    Column("unit", Unit, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("period", Word(BudgetPeriod), nullable=False),
    Column("thresholds", Json(list), nullable=False),
    Column("valid_from", Moment),
    Column("valid_until", Moment),
    Column("created_at", Moment, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("ended_at", Moment),
    CheckConstraint("amount > 0", name="amount"),
    CheckConstraint("cardinality(node) BETWEEN 1 AND 4", name="node"),
    CheckConstraint("(cardinality(node) = 1) = (tenant = '') AND tenant = coalesce(node[2], '')", name="tenant"),
    CheckConstraint("(period = 'once') = (valid_from IS NOT NULL AND valid_until IS NOT NULL)", name="valid"),
    CheckConstraint("valid_until > valid_from", name="valid_order"),
    CheckConstraint("jsonb_array_length(thresholds) > 0", name="thresholds"),
    check_word("period", BudgetPeriod, "period"),
    Index("uq_budgets_standing", "node", "unit", "period", unique=True, postgresql_where=text("ended_at IS NULL")),
)
"""``amount`` in the smallest unit of ``unit``: of money, or milli-card-seconds.  ``ended_at`` NULL: it stands."""

BUDGET_ALERTS = Table(
    "budget_alerts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("budget", Text, ForeignKey("budgets.id"), nullable=False, index=True),
    Column("period", Text, nullable=False),
    Column("percent", Integer, nullable=False),
    Column("raised_at", Moment, nullable=False),
)
"""``id`` follows from budget, period and percent, so that each line is told of once a period."""
