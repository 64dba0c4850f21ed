"""What the tables of prices and invoices refuse by triggers, as SQL.

The migration has a copy, since a migration never changes; a test compares the two.
"""

from __future__ import annotations

from typing import Final

APPEND_ONLY: Final = ("prices", "invoice_lines", "invoice_payments", "credit_notes", "credit_returns")
"""Tables whose rows are never changed and never deleted."""

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
        for table in APPEND_ONLY
    ),
    """
    CREATE TRIGGER invoices_kept BEFORE DELETE OR TRUNCATE ON invoices
    FOR EACH STATEMENT EXECUTE FUNCTION append_only()
    """,
)

INVOICE_SQL: Final = (_PRICES, _NUMBER, _STATE, _WHOLE, _LINES, _CREDIT, *_TRIGGERS)
