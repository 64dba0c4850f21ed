"""Billing accounts, the ledger, grants."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_MOMENT = sa.TIMESTAMP(timezone=True)

_APPEND_ONLY = """
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$
"""

# The entries of a transfer come in one statement, after their transfer or resolution, so that they can be judged whole.
_ENTRIES = """
CREATE FUNCTION ledger_entries_judge() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bad text;
BEGIN
    SELECT min(e.transfer) INTO bad FROM ledger_entries e
    WHERE e.transfer IN (SELECT transfer FROM added)
    GROUP BY e.transfer, e.phase, e.unit HAVING sum(e.amount) <> 0 LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'the entries of transfer % do not sum to zero', bad USING ERRCODE = 'check_violation';
    END IF;
    SELECT a.account INTO bad FROM added a
    JOIN ledger_accounts l ON l.id = a.account JOIN accounts c ON c.tenant = l.owner
    WHERE a.booked_at < c.sealed_until LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'the month of a booking on % is closed', bad USING ERRCODE = 'check_violation';
    END IF;
    SELECT a.transfer INTO bad FROM added a
    JOIN ledger_transfers t ON t.id = a.transfer AND t.pending
    LEFT JOIN ledger_entries h ON h.transfer = a.transfer AND h.phase = 'held' AND h.account = a.account
    WHERE a.phase = 'posted'
        AND (h.amount IS NULL OR sign(h.amount) <> sign(a.amount) OR abs(a.amount) > abs(h.amount)) LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'more is posted of transfer % than it held', bad USING ERRCODE = 'check_violation';
    END IF;
    SELECT a.transfer INTO bad FROM added a
    JOIN ledger_transfers t ON t.id = a.transfer LEFT JOIN ledger_resolutions r ON r.transfer = a.transfer
    WHERE a.booked_at IS DISTINCT FROM
        CASE WHEN t.pending AND a.phase = 'posted' THEN r.booked_at ELSE t.booked_at END LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'an entry of transfer % has another time', bad USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$
"""

_WHOLE = """
CREATE FUNCTION ledger_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    name text;
    held bigint;
    posted bigint;
    said ledger_transfers;
    resolved bigint;
BEGIN
    IF TG_TABLE_NAME = 'ledger_transfers' THEN name := NEW.id; ELSE name := NEW.transfer; END IF;
    SELECT * INTO said FROM ledger_transfers WHERE id = name;
    SELECT entries INTO resolved FROM ledger_resolutions WHERE transfer = name;
    SELECT count(*) FILTER (WHERE phase = 'held'), count(*) FILTER (WHERE phase = 'posted') INTO held, posted
    FROM ledger_entries WHERE transfer = name;
    IF (held, posted) IS DISTINCT FROM (
        CASE WHEN said.pending THEN said.entries ELSE 0 END::bigint,
        CASE WHEN said.pending THEN coalesce(resolved, 0) ELSE said.entries END::bigint
    ) THEN
        RAISE EXCEPTION 'transfer % does not have the entries that it says', name USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$
"""

_TRIGGERS = (
    """
    CREATE TRIGGER ledger_entries_judge AFTER INSERT ON ledger_entries
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_judge()
    """,
    *(
        f"""
        CREATE CONSTRAINT TRIGGER {table}_whole AFTER INSERT ON {table}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_whole()
        """
        for table in ("ledger_transfers", "ledger_resolutions", "ledger_entries")
    ),
    *(
        f"""
        CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION append_only()
        """
        for table in ("ledger_transfers", "ledger_resolutions", "ledger_entries", "grants")
    ),
    """
    CREATE TRIGGER ledger_accounts_kept BEFORE DELETE OR TRUNCATE ON ledger_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION append_only()
    """,
)


def upgrade() -> None:
    _accounts()
    _ledger_accounts()
    _transfers()
    _resolutions()
    _entries()
    _grants()
    for statement in (_APPEND_ONLY, _ENTRIES, _WHOLE, *_TRIGGERS):
        op.execute(statement)


def _accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("opened_at", _MOMENT, nullable=False),
        sa.Column("sealed_until", _MOMENT, nullable=False),
        sa.Column("tax_rate", sa.Numeric(precision=7, scale=6), server_default=sa.text("0"), nullable=False),
        sa.Column("inclusive", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("minimum_seconds", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("increment_seconds", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
        sa.Column("bill_lost_work", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("notice", sa.BigInteger(), nullable=False),
        sa.Column("stretch", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.Column("tax_id", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint("mode IN ('postpaid', 'prepaid')", name=op.f("ck_accounts_mode")),
        sa.CheckConstraint("minimum_seconds >= 0 AND increment_seconds >= 1", name=op.f("ck_accounts_rules")),
        sa.CheckConstraint("sealed_until >= opened_at", name=op.f("ck_accounts_sealed_until")),
        sa.CheckConstraint("tax_rate BETWEEN 0 AND 1", name=op.f("ck_accounts_tax_rate")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name=op.f("fk_accounts_tenant")),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_accounts")),
    )


def _ledger_accounts() -> None:
    op.create_table(
        "ledger_accounts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("of", sa.Text(), nullable=True),
        sa.Column("posted", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("held", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "kind IN ('accrued', 'breakage', 'card-time', 'cash', 'credit', 'credit-notes', 'deferred',"
            " 'earnings', 'pack', 'promotion', 'receivable', 'tax', 'wallet')",
            name=op.f("ck_ledger_accounts_kind"),
        ),
        sa.CheckConstraint(
            "kind NOT IN ('credit', 'pack', 'wallet') OR posted >= held", name=op.f("ck_ledger_accounts_available")
        ),
        sa.CheckConstraint("held >= 0", name=op.f("ck_ledger_accounts_held")),
        sa.CheckConstraint(
            "id = kind || coalesce('/' || owner, '') || coalesce('/' || \"of\", '') || '/' || unit",
            name=op.f("ck_ledger_accounts_id"),
        ),
        sa.CheckConstraint(
            "owner IS NOT NULL OR (posted = 0 AND held = 0 AND version = 0)", name=op.f("ck_ledger_accounts_platform")
        ),
        sa.ForeignKeyConstraint(["owner"], ["accounts.tenant"], name=op.f("fk_ledger_accounts_owner")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_accounts")),
        sa.UniqueConstraint("id", "unit", name=op.f("uq_ledger_accounts_id_unit")),
    )
    op.create_index(
        "ix_ledger_accounts_owner",
        "ledger_accounts",
        ["owner"],
        unique=False,
        postgresql_where=sa.text("owner IS NOT NULL"),
    )


def _transfers() -> None:
    op.create_table(
        "ledger_transfers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("pending", sa.Boolean(), nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("service_from", _MOMENT, nullable=True),
        sa.Column("service_to", _MOMENT, nullable=True),
        sa.Column("booked_at", _MOMENT, nullable=False),
        sa.Column("invoice_at", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_ledger_transfers_id")),
        sa.CheckConstraint(
            "(service_from IS NULL) = (service_to IS NULL) AND service_to >= service_from",
            name=op.f("ck_ledger_transfers_service"),
        ),
        sa.CheckConstraint("entries >= 2", name=op.f("ck_ledger_transfers_entries")),
        sa.CheckConstraint("pending OR expires_at IS NULL", name=op.f("ck_ledger_transfers_expires_at")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_transfers")),
        sa.UniqueConstraint("id", "pending", name=op.f("uq_ledger_transfers_id_pending")),
    )
    op.create_index(
        "ix_ledger_transfers_expires",
        "ledger_transfers",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )


def _resolutions() -> None:
    op.create_table(
        "ledger_resolutions",
        sa.Column("transfer", sa.Text(), nullable=False),
        sa.Column("pending", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("service_from", _MOMENT, nullable=True),
        sa.Column("service_to", _MOMENT, nullable=True),
        sa.Column("booked_at", _MOMENT, nullable=False),
        sa.Column("invoice_at", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.CheckConstraint(
            "CASE WHEN outcome = 'posted' THEN entries >= 2 ELSE entries = 0 END",
            name=op.f("ck_ledger_resolutions_entries"),
        ),
        sa.CheckConstraint("outcome IN ('expired', 'posted', 'voided')", name=op.f("ck_ledger_resolutions_outcome")),
        sa.CheckConstraint(
            "(service_from IS NULL) = (service_to IS NULL) AND service_to >= service_from",
            name=op.f("ck_ledger_resolutions_service"),
        ),
        sa.CheckConstraint("pending", name=op.f("ck_ledger_resolutions_pending")),
        sa.ForeignKeyConstraint(
            ["transfer", "pending"],
            ["ledger_transfers.id", "ledger_transfers.pending"],
            name=op.f("fk_ledger_resolutions_transfer_pending"),
        ),
        sa.PrimaryKeyConstraint("transfer", name=op.f("pk_ledger_resolutions")),
    )


def _entries() -> None:
    op.create_table(
        "ledger_entries",
        sa.Column("transfer", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("booked_at", _MOMENT, nullable=False),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.CheckConstraint("phase IN ('held', 'posted')", name=op.f("ck_ledger_entries_phase")),
        sa.CheckConstraint("amount <> 0", name=op.f("ck_ledger_entries_amount")),
        sa.ForeignKeyConstraint(
            ["account", "unit"],
            ["ledger_accounts.id", "ledger_accounts.unit"],
            name=op.f("fk_ledger_entries_account_unit"),
        ),
        sa.ForeignKeyConstraint(["transfer"], ["ledger_transfers.id"], name=op.f("fk_ledger_entries_transfer")),
        sa.PrimaryKeyConstraint("transfer", "phase", "account", name=op.f("pk_ledger_entries")),
    )
    op.create_index(
        "ix_ledger_entries_held",
        "ledger_entries",
        ["account", "booked_at"],
        unique=False,
        postgresql_where=sa.text("phase = 'held'"),
    )
    op.create_index(
        "ix_ledger_entries_posted",
        "ledger_entries",
        ["account", "booked_at", "transfer"],
        unique=False,
        postgresql_include=["amount"],
        postgresql_where=sa.text("phase = 'posted'"),
    )


def _grants() -> None:
    op.create_table(
        "grants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("granted_at", _MOMENT, nullable=False),
        sa.Column("expires_at", _MOMENT, nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("skus", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("classes", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("projects", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("price_unit", sa.Text(), nullable=True),
        sa.Column("price", sa.BigInteger(), nullable=True),
        sa.Column("transfer", sa.Text(), nullable=False),
        sa.CheckConstraint("(kind = 'pack') = (price IS NOT NULL)", name=op.f("ck_grants_pack")),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_grants_id")),
        sa.CheckConstraint("kind = 'pack' OR unit <> 'CARD-S'", name=op.f("ck_grants_card_time")),
        sa.CheckConstraint("kind IN ('pack', 'paid', 'trial', 'voucher')", name=op.f("ck_grants_kind")),
        sa.CheckConstraint("(price IS NULL) = (price_unit IS NULL) AND price >= 0", name=op.f("ck_grants_price")),
        sa.CheckConstraint("amount > 0", name=op.f("ck_grants_amount")),
        sa.CheckConstraint("expires_at > granted_at", name=op.f("ck_grants_expires_at")),
        sa.ForeignKeyConstraint(["owner"], ["accounts.tenant"], name=op.f("fk_grants_owner")),
        sa.ForeignKeyConstraint(["transfer"], ["ledger_transfers.id"], name=op.f("fk_grants_transfer")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
    )
    op.create_index(
        "ix_grants_expires", "grants", ["expires_at"], unique=False, postgresql_where=sa.text("expires_at IS NOT NULL")
    )
    op.create_index("ix_grants_owner", "grants", ["owner", "granted_at"], unique=False)
