"""What the ledger's tables refuse by triggers, as SQL.

The migration has a copy, since a migration never changes; a test compares the two.
"""

from __future__ import annotations

from typing import Final

APPEND_ONLY: Final = ("ledger_transfers", "ledger_resolutions", "ledger_entries", "grants")
"""Tables whose rows are never changed and never deleted."""

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
        for table in APPEND_ONLY
    ),
    """
    CREATE TRIGGER ledger_accounts_kept BEFORE DELETE OR TRUNCATE ON ledger_accounts
    FOR EACH STATEMENT EXECUTE FUNCTION append_only()
    """,
)

LEDGER_SQL: Final = (_APPEND_ONLY, _ENTRIES, _WHOLE, *_TRIGGERS)
