"""Which attempt money is held for.  The money itself is a pending transfer of the ledger, with the same id."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from millpond.db.tables.metadata import METADATA
from millpond.db.types import Json, Moment

MONEY_HOLDS = Table(
    "money_holds",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("accounts.tenant"), nullable=False),
    Column("job", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    Column("project", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("class", Text, key="klass", nullable=False),
    Column("milli", BigInteger, nullable=False),
    Column("starts_at", Moment, nullable=False),
    Column("ends_at", Moment, nullable=False),
    Column("demands", Json(list), nullable=False),
    Column("draws", Json(list), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("warned_at", Moment),
    Column("saving_at", Moment),
    Column("resolved_at", Moment),
    CheckConstraint("number >= 1 AND attempt >= 1", name="number"),
    CheckConstraint("milli >= 0", name="milli"),
    CheckConstraint("ends_at >= starts_at", name="service"),
    UniqueConstraint("job", "attempt", "number"),
    Index("ix_money_holds_open", "job", postgresql_where=text("resolved_at IS NULL")),
    Index("ix_money_holds_tenant", "tenant", "created_at"),
)
"""``number``: of the stretch of the attempt, from 1.  ``starts_at`` and ``ends_at``: the use that it was held for.

``demands``: milli-card-seconds and the price of a card-hour; ``draws``: grants and smallest units, in burn order.
"""

HOLD_SQL = (
    """
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
""",
    "CREATE TRIGGER money_holds_once BEFORE UPDATE ON money_holds FOR EACH ROW EXECUTE FUNCTION money_holds_once()",
)
"""A hold is warned of, saved for and resolved once each, and what it was held for never changes."""
