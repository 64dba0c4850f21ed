"""Fixtures for everybody: a real PostgreSQL for the whole run, and an empty, migrated database for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from millpond.db.embedded import EmbeddedPostgres
from millpond.db.schema import upgrade
from millpond.db.session import Database, url_database
from millpond.db.tables import METADATA
from tests.live import home_made

pytest_plugins = ["pytester", "tests.plugin_hypothesis", "tests.plugin_marks", "tests.plugin_skips"]

_NUMBERS = itertools.count(1)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder for a whole millpond and its jobs."""
    with home_made() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of an empty PostgreSQL.  MILLPOND_TEST_DATABASE_URL names one of your own (as a superuser)."""
    given = os.environ.get("MILLPOND_TEST_DATABASE_URL", "")
    if given:
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="millpond-test-"))
    # Nobody will miss what a crash of the machine takes from a test.
    server = EmbeddedPostgres(folder / "postgres", folder / "run", {"fsync": "off", "full_page_writes": "off"})
    try:
        yield server.ensure()
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def shared_url(postgres_url: str) -> Iterator[str]:
    """The URL of a migrated database for the whole run.  Ask for `database_url` instead, which empties it."""
    with _created(postgres_url, "shared") as url:
        upgrade(url)
        yield url


@pytest.fixture
def database_url(shared_url: str) -> Iterator[str]:
    """The URL of a migrated, empty database; emptied again afterwards.  Do not change its tables: see `own_url`."""
    yield shared_url
    _empty(shared_url)


@pytest.fixture
def own_url(postgres_url: str) -> Iterator[str]:
    """The URL of a migrated, empty database that one test may spoil.  Takes a second to make."""
    with _created(postgres_url, "own") as url:
        upgrade(url)
        yield url


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    """The URL of a database without tables."""
    with _created(postgres_url, "empty") as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A `Database` on a migrated, empty database."""
    database = Database(database_url, pool_size=4)
    yield database
    database.close()


@contextmanager
def _created(postgres_url: str, word: str) -> Iterator[str]:
    name = sql.Identifier(f"millpond_{word}_{os.getpid()}_{next(_NUMBERS)}")
    _execute(postgres_url, sql.SQL("CREATE DATABASE {}").format(name))
    yield url_database(postgres_url, name.as_string(None).strip('"'))
    _execute(postgres_url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def _empty(url: str) -> None:
    """Empty every table and start its numbers again; whoever is still connected is thrown out first."""
    tables = sql.SQL(", ").join(sql.Identifier(name) for name in METADATA.tables)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with connection.transaction():
            # Switches off the triggers that keep tables append-only.
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(tables))
            connection.execute("SET LOCAL session_replication_role = origin")
            connection.execute("ALTER SEQUENCE tenant_uid RESTART")


def _execute(url: str, statement: sql.Composable) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
