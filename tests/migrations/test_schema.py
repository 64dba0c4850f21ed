"""Migrations lead to exactly the tables that the program believes in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import create_engine, text

from millpond.db import schema
from millpond.db.session import url_database, url_for_driver
from millpond.db.tables import METADATA
from millpond.db.tables.events import APPEND_ONLY_SQL
from millpond.db.tables.invoice_rules import INVOICE_SQL
from millpond.db.tables.ledger_rules import LEDGER_SQL
from millpond.db.tables.money_holds import HOLD_SQL
from millpond.domain.errors import Unavailable

_CATALOG = """
    SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
        || a.attgenerated::text || a.attidentity::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid
        AND d.adnum = a.attnum
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'function', '', proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'sequence', '', sequencename, start_value::text FROM pg_sequences WHERE schemaname = 'public'
    ORDER BY 1, 2, 3, 4
"""


def catalog(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(_CATALOG).fetchall()
    return [tuple(" ".join(str(cell).split()) for cell in row) for row in rows if "alembic_version" not in str(row)]


def test_migrations_make_what_the_models_say(own_url: str, empty_url: str) -> None:
    engine = create_engine(url_for_driver(empty_url))
    with engine.begin() as connection:
        METADATA.create_all(connection)
        for statement in (*APPEND_ONLY_SQL, *LEDGER_SQL, *INVOICE_SQL, *HOLD_SQL):
            connection.execute(text(statement))
    engine.dispose()
    assert catalog(own_url) == catalog(empty_url)


def test_check_finds_nothing_after_upgrade(own_url: str) -> None:
    assert schema.check(own_url) == []


def test_check_sees_drift(own_url: str) -> None:
    with psycopg.connect(own_url) as connection:
        connection.execute("ALTER TABLE jobs DROP COLUMN message")
    problems = schema.check(own_url)
    assert len(problems) == 1
    assert "message" in problems[0]


def test_check_names_the_command_for_an_empty_database(empty_url: str) -> None:
    assert schema.check(empty_url) == ["the schema is empty, this program needs 0007: run millpond db upgrade"]


def test_upgrade_twice_changes_nothing(empty_url: str) -> None:
    first = schema.upgrade(empty_url)
    before = catalog(empty_url)
    assert schema.upgrade(empty_url) == first == schema.version(empty_url)
    assert catalog(empty_url) == before


def test_a_newer_schema_is_refused(own_url: str) -> None:
    with psycopg.connect(own_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Unavailable) as caught:
        schema.upgrade(own_url)
    assert caught.value.reason == "SCHEMA_NEWER"


def test_an_unreachable_database_is_named(empty_url: str) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        schema.upgrade(url_database(empty_url, "nowhere"))


def test_two_upgrades_at_once_make_one(empty_url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(schema.upgrade, [empty_url] * 3)) == {"0007"}
    assert schema.check(empty_url) == []
