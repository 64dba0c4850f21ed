"""Tables for prices, invoices and credit notes."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

_MOMENT = sa.TIMESTAMP(timezone=True)

# Whoever issues an invoice holds the row of the account: a price waits for it, and then sees what was closed.
_PRICES = """
CREATE FUNCTION prices_judge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('prices', 0));
    PERFORM 1 FROM prices p
    WHERE p.account IS NOT DISTINCT FROM NEW.account AND p.currency = NEW.currency AND p.sku = NEW.sku
        AND p.class = NEW.class
        AND CASE WHEN p.starts_at < NEW.starts_at THEN p.ends_at > NEW.starts_at
            ELSE p.starts_at = NEW.starts_at OR NEW.ends_at > p.starts_at END;
    IF FOUND THEN
        RAISE EXCEPTION 'price version % overlaps another', NEW.version USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM accounts a WHERE a.tenant = coalesce(NEW.account, a.tenant) AND a.currency = NEW.currency
    ORDER BY a.tenant FOR SHARE;
    PERFORM 1 FROM accounts a
    WHERE a.tenant = coalesce(NEW.account, a.tenant) AND a.currency = NEW.currency
        AND a.sealed_until > a.opened_at AND NEW.starts_at < a.sealed_until;
    IF FOUND THEN
        RAISE EXCEPTION 'price version % would change a closed month', NEW.version USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$
"""

_NUMBER = """
CREATE FUNCTION invoice_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO invoice_series AS s (series, last) VALUES (NEW.series, 1)
    ON CONFLICT (series) DO UPDATE SET last = s.last + 1 RETURNING s.last INTO NEW.serial;
    NEW.number := NEW.series || '-' || lpad(NEW.serial::text, greatest(6, length(NEW.serial::text)), '0');
    RETURN NEW;
END $$
"""

_STATE = """
CREATE FUNCTION invoices_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before invoices;
BEGIN
    before := OLD;
    before.state := NEW.state;
    before.paid_at := NEW.paid_at;
    before.voided_at := NEW.voided_at;
    before.voided_for := NEW.voided_for;
    before.void_transfer := NEW.void_transfer;
    IF before IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'invoice % is issued and does not change', OLD.number
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.state <> 'issued' OR NEW.state NOT IN ('paid', 'voided') THEN
        RAISE EXCEPTION 'invoice % cannot go from % to %', OLD.number, OLD.state, NEW.state
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$
"""

_WHOLE = """
CREATE FUNCTION invoices_whole() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    added record;
BEGIN
    SELECT count(*) AS lines, sum(net) AS net, sum(tax) AS tax, max(line) AS last, sum(milli_seconds) AS time INTO added
    FROM invoice_lines WHERE invoice = NEW.id;
    IF (added.lines, added.net, added.tax, added.last, added.time)
        IS DISTINCT FROM (NEW.lines, NEW.net::numeric, NEW.tax::numeric, NEW.lines::integer, NEW.milli_seconds::numeric)
    THEN
        RAISE EXCEPTION 'the lines of invoice % do not sum to it', NEW.number USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$
"""

_LINES = """
CREATE FUNCTION invoice_lines_judge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM (SELECT DISTINCT invoice FROM added) a JOIN invoices i ON i.id = a.invoice
    WHERE i.xmin::text::bigint <> (pg_current_xact_id()::text::bigint & 4294967295);
    IF FOUND THEN
        RAISE EXCEPTION 'lines are added with their invoice only' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END $$
"""

_CREDIT = """
CREATE FUNCTION credit_notes_judge() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    said invoice_lines;
    given record;
BEGIN
    SELECT * INTO said FROM invoice_lines WHERE invoice = NEW.invoice AND line = NEW.line FOR UPDATE;
    SELECT coalesce(sum(net), 0) AS net, coalesce(sum(tax), 0) AS tax, coalesce(sum(milli_seconds), 0) AS time
    INTO given FROM credit_notes WHERE invoice = NEW.invoice AND line = NEW.line;
    IF given.net + NEW.net > said.net OR given.tax + NEW.tax > said.tax
        OR given.time + NEW.milli_seconds > said.milli_seconds
    THEN
        RAISE EXCEPTION 'the credit notes of line % are more than it', NEW.line USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$
"""

_TRIGGERS = (
    """
    CREATE TRIGGER prices_judge BEFORE INSERT ON prices FOR EACH ROW EXECUTE FUNCTION prices_judge()
    """,
    *(
        f"""
        CREATE TRIGGER {table}_number BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION invoice_number()
        """
        for table in ("invoices", "credit_notes")
    ),
    """
    CREATE TRIGGER invoices_move BEFORE UPDATE ON invoices FOR EACH ROW EXECUTE FUNCTION invoices_move()
    """,
    """
    CREATE CONSTRAINT TRIGGER invoices_whole AFTER INSERT ON invoices
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION invoices_whole()
    """,
    """
    CREATE TRIGGER invoice_lines_judge AFTER INSERT ON invoice_lines
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION invoice_lines_judge()
    """,
    """
    CREATE TRIGGER credit_notes_judge BEFORE INSERT ON credit_notes
    FOR EACH ROW EXECUTE FUNCTION credit_notes_judge()
    """,
    *(
        f"""
        CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION append_only()
        """
        for table in ("prices", "invoice_lines", "invoice_payments", "credit_notes", "credit_returns")
    ),
    """
    CREATE TRIGGER invoices_kept BEFORE DELETE OR TRUNCATE ON invoices
    FOR EACH STATEMENT EXECUTE FUNCTION append_only()
    """,
)


def upgrade() -> None:
    _prices()
    _series()
    _invoices()
    _lines()
    _payments()
    _notes()
    _returns()
    for statement in (_PRICES, _NUMBER, _STATE, _WHOLE, _LINES, _CREDIT, *_TRIGGERS):
        op.execute(statement)


def _prices() -> None:
    op.create_table(
        "prices",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("account", sa.Text(), nullable=True),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("price", sa.Numeric(precision=27, scale=12), nullable=False),
        sa.Column("starts_at", _MOMENT, nullable=False),
        sa.Column("ends_at", _MOMENT, nullable=True),
        sa.Column("created_at", _MOMENT, server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint("currency ~ '^[A-Z]{3}$'", name=op.f("ck_prices_currency")),
        sa.CheckConstraint("ends_at > starts_at", name=op.f("ck_prices_ends_at")),
        sa.CheckConstraint("price >= 0", name=op.f("ck_prices_price")),
        sa.ForeignKeyConstraint(["account"], ["accounts.tenant"], name=op.f("fk_prices_account")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prices")),
        sa.UniqueConstraint(
            "account",
            "currency",
            "sku",
            "class",
            "starts_at",
            name=op.f("uq_prices_account_currency_sku_class_starts_at"),
            postgresql_nulls_not_distinct=True,
        ),
        sa.UniqueConstraint(
            "account",
            "currency",
            "sku",
            "class",
            "version",
            name=op.f("uq_prices_account_currency_sku_class_version"),
            postgresql_nulls_not_distinct=True,
        ),
    )


def _series() -> None:
    op.create_table(
        "invoice_series",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("last", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("last >= 0", name=op.f("ck_invoice_series_last")),
        sa.PrimaryKeyConstraint("series", name=op.f("pk_invoice_series")),
    )


def _invoices() -> None:
    op.create_table(
        "invoices",
        *_invoice_columns(),
        *_invoice_checks(),
        sa.ForeignKeyConstraint(["account"], ["accounts.tenant"], name=op.f("fk_invoices_account")),
        sa.ForeignKeyConstraint(["series"], ["invoice_series.series"], name=op.f("fk_invoices_series")),
        sa.ForeignKeyConstraint(["transfer"], ["ledger_transfers.id"], name=op.f("fk_invoices_transfer")),
        sa.ForeignKeyConstraint(["void_transfer"], ["ledger_transfers.id"], name=op.f("fk_invoices_void_transfer")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invoices")),
        sa.UniqueConstraint(
            "account",
            "currency",
            "period",
            "kind",
            "revision",
            name=op.f("uq_invoices_account_currency_period_kind_revision"),
        ),
        sa.UniqueConstraint("number", name=op.f("uq_invoices_number")),
        sa.UniqueConstraint("series", "serial", name=op.f("uq_invoices_series_serial")),
    )
    op.create_index("ix_invoices_issued", "invoices", ["issued_at", "id"], unique=False)
    op.create_index(
        "uq_invoices_standing",
        "invoices",
        ["account", "currency", "period", "kind"],
        unique=True,
        postgresql_where=sa.text("state <> 'voided'"),
    )


def _invoice_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("starts_at", _MOMENT, nullable=False),
        sa.Column("ends_at", _MOMENT, nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("milli_seconds", sa.BigInteger(), nullable=False),
        sa.Column("net", sa.BigInteger(), nullable=False),
        sa.Column("tax", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("accrued", sa.BigInteger(), nullable=False),
        sa.Column("tax_rate", sa.Numeric(precision=7, scale=6), nullable=False),
        sa.Column("inclusive", sa.Boolean(), nullable=False),
        sa.Column("source_hash", sa.Text(), nullable=False),
        sa.Column("buyer", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("seller", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("transfer", sa.Text(), nullable=True),
        sa.Column("issued_at", _MOMENT, nullable=False),
        sa.Column("issued_by", sa.Text(), nullable=False),
        sa.Column("due", sa.Date(), nullable=True),
        sa.Column("paid_at", _MOMENT, nullable=True),
        sa.Column("voided_at", _MOMENT, nullable=True),
        sa.Column("voided_for", sa.Text(), server_default="", nullable=False),
        sa.Column("void_transfer", sa.Text(), nullable=True),
    ]


def _invoice_checks() -> list[sa.CheckConstraint]:
    return [
        sa.CheckConstraint("(state = 'paid') = (paid_at IS NOT NULL)", name=op.f("ck_invoices_paid_at")),
        sa.CheckConstraint("(state = 'voided') = (voided_at IS NOT NULL)", name=op.f("ck_invoices_voided_at")),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_invoices_id")),
        sa.CheckConstraint("kind = 'month'", name=op.f("ck_invoices_kind")),
        sa.CheckConstraint(
            "number = series || '-' || lpad(serial::text, greatest(6, length(serial::text)), '0')",
            name=op.f("ck_invoices_number"),
        ),
        sa.CheckConstraint("period ~ '^[0-9]{4}-[0-9]{2}$'", name=op.f("ck_invoices_period")),
        sa.CheckConstraint("source_hash ~ '^[0-9a-f]{64}$'", name=op.f("ck_invoices_source_hash")),
        sa.CheckConstraint("state <> 'draft'", name=op.f("ck_invoices_stored")),
        sa.CheckConstraint("state IN ('draft', 'issued', 'paid', 'voided')", name=op.f("ck_invoices_state")),
        sa.CheckConstraint("cardinality(buyer) = 3 AND cardinality(seller) = 3", name=op.f("ck_invoices_parties")),
        sa.CheckConstraint("revision >= 1 AND lines >= 1", name=op.f("ck_invoices_lines")),
        sa.CheckConstraint("starts_at < ends_at AND ends_at <= issued_at", name=op.f("ck_invoices_ends_at")),
        sa.CheckConstraint("tax_rate BETWEEN 0 AND 1", name=op.f("ck_invoices_tax_rate")),
        sa.CheckConstraint("total = net + tax", name=op.f("ck_invoices_total")),
    ]


def _lines() -> None:
    op.create_table(
        "invoice_lines",
        sa.Column("invoice", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("class", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("price", sa.Numeric(precision=27, scale=12), nullable=False),
        sa.Column("list_price", sa.Numeric(precision=27, scale=12), nullable=True),
        sa.Column("milli_seconds", sa.BigInteger(), nullable=False),
        sa.Column("minimum", sa.BigInteger(), nullable=False),
        sa.Column("net", sa.BigInteger(), nullable=False),
        sa.Column("tax", sa.BigInteger(), nullable=False),
        sa.Column("service_from", _MOMENT, nullable=False),
        sa.Column("service_to", _MOMENT, nullable=False),
        sa.CheckConstraint(
            "kind IN ('correction', 'expired', 'other', 'pack', 'usage')", name=op.f("ck_invoice_lines_kind")
        ),
        sa.CheckConstraint("line >= 1", name=op.f("ck_invoice_lines_line")),
        sa.CheckConstraint("service_from < service_to", name=op.f("ck_invoice_lines_service")),
        sa.ForeignKeyConstraint(["invoice"], ["invoices.id"], name=op.f("fk_invoice_lines_invoice")),
        sa.PrimaryKeyConstraint("invoice", "line", name=op.f("pk_invoice_lines")),
    )


def _payments() -> None:
    op.create_table(
        "invoice_payments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("invoice", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("paid_at", _MOMENT, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("transfer", sa.Text(), nullable=False),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_invoice_payments_id")),
        sa.CheckConstraint("amount > 0", name=op.f("ck_invoice_payments_amount")),
        sa.ForeignKeyConstraint(["invoice"], ["invoices.id"], name=op.f("fk_invoice_payments_invoice")),
        sa.ForeignKeyConstraint(["transfer"], ["ledger_transfers.id"], name=op.f("fk_invoice_payments_transfer")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invoice_payments")),
    )
    op.create_index("ix_invoice_payments_invoice", "invoice_payments", ["invoice"], unique=False)


def _notes() -> None:
    op.create_table(
        "credit_notes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("invoice", sa.Text(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.Text(), nullable=False),
        sa.Column("source", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("milli_seconds", sa.BigInteger(), nullable=False),
        sa.Column("net", sa.BigInteger(), nullable=False),
        sa.Column("tax", sa.BigInteger(), nullable=False),
        sa.Column("owed", sa.BigInteger(), nullable=False),
        sa.Column("service_from", _MOMENT, nullable=False),
        sa.Column("service_to", _MOMENT, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("issued_at", _MOMENT, nullable=False),
        sa.Column("issued_by", sa.Text(), nullable=False),
        sa.Column("transfer", sa.Text(), nullable=True),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_credit_notes_id")),
        sa.CheckConstraint(
            "number = series || '-' || lpad(serial::text, greatest(6, length(serial::text)), '0')",
            name=op.f("ck_credit_notes_number"),
        ),
        sa.CheckConstraint(
            "net >= 0 AND tax >= 0 AND owed >= 0 AND milli_seconds > 0", name=op.f("ck_credit_notes_amounts")
        ),
        sa.CheckConstraint("service_from <= service_to", name=op.f("ck_credit_notes_service")),
        sa.ForeignKeyConstraint(
            ["invoice", "line"],
            ["invoice_lines.invoice", "invoice_lines.line"],
            name=op.f("fk_credit_notes_invoice_line"),
        ),
        sa.ForeignKeyConstraint(["series"], ["invoice_series.series"], name=op.f("fk_credit_notes_series")),
        sa.ForeignKeyConstraint(["transfer"], ["ledger_transfers.id"], name=op.f("fk_credit_notes_transfer")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credit_notes")),
        sa.UniqueConstraint("number", name=op.f("uq_credit_notes_number")),
        sa.UniqueConstraint("series", "serial", name=op.f("uq_credit_notes_series_serial")),
    )
    op.create_index("ix_credit_notes_line", "credit_notes", ["invoice", "line"], unique=False)


def _returns() -> None:
    op.create_table(
        "credit_returns",
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("grant", sa.Text(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.CheckConstraint("amount > 0", name=op.f("ck_credit_returns_amount")),
        sa.ForeignKeyConstraint(["grant"], ["grants.id"], name=op.f("fk_credit_returns_grant")),
        sa.ForeignKeyConstraint(["note"], ["credit_notes.id"], name=op.f("fk_credit_returns_note")),
        sa.PrimaryKeyConstraint("note", "grant", name=op.f("pk_credit_returns")),
    )
