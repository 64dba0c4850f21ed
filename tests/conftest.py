"""Fixtures for everybody: a real PostgreSQL for the whole run, and a fresh, migrated database for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from millpond.db.embedded import EmbeddedPostgres
from millpond.db.schema import upgrade
from millpond.db.session import Database, url_database

pytest_plugins = ["pytester", "tests.plugin_skips"]

_TEMPLATE = "millpond_template"
_NUMBERS = itertools.count(1)


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
def postgres_template(postgres_url: str) -> str:
    """The name of a migrated, empty database to copy."""
    _database_drop(postgres_url, _TEMPLATE)
    _execute(postgres_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
    upgrade(url_database(postgres_url, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
def database_url(postgres_url: str, postgres_template: str) -> Iterator[str]:
    """The URL of a migrated, empty database of one's own."""
    name = f"millpond_test_{os.getpid()}_{next(_NUMBERS)}"
    _execute(
        postgres_url,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(postgres_template)),
    )
    yield url_database(postgres_url, name)
    _database_drop(postgres_url, name)


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    name = f"millpond_empty_{os.getpid()}_{next(_NUMBERS)}"
    _execute(postgres_url, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield url_database(postgres_url, name)
    _database_drop(postgres_url, name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A `Database` on a migrated, empty database of one's own."""
    database = Database(database_url, pool_size=4)
    yield database
    database.close()


def _database_drop(url: str, name: str) -> None:
    _execute(url, sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _execute(url: str, statement: sql.Composable) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
