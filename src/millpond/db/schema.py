"""The schema's versions: Alembic migrations that ship in the package.  One advisory lock, one transaction each."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, exc, pool

from millpond.db.session import url_for_driver
from millpond.db.tables import METADATA
from millpond.domain.errors import Unavailable

_FOLDER = Path(__file__).parent / "migrations"
_LOCK_KEY = 0x6D696C6C00000001
_OPTIONS = "-c lock_timeout=10s -c statement_timeout=300s -c timezone=UTC"


def upgrade(database_url: str) -> str:
    """Bring the schema to the newest version and return its name.  Already there: does nothing.

    Raises `Unavailable` if the database does not answer, somebody else is upgrading it, or its schema is newer than
    this program.
    """
    with _connection(database_url) as connection:
        _lock(connection)
        try:
            head, current = _head(), _current(connection)
            _known_check(current)
            if current != head:
                config = _config()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                connection.commit()
        finally:
            connection.rollback()
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_LOCK_KEY})")
            connection.commit()
    return head


def check(database_url: str) -> list[str]:
    """What is wrong with the schema, a sentence each: pending migrations, tables that differ from the models."""
    with _connection(database_url) as connection:
        head, current = _head(), _current(connection)
        if current != head:
            found = current or "empty"
            return [f"the schema is {found}, this program needs {head}: run millpond db upgrade"]
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": False, "target_metadata": METADATA}
        )
        return [
            f"the schema differs from the program's: {difference}" for difference in compare_metadata(context, METADATA)
        ]


def version(database_url: str) -> str:
    """The schema's version, empty for an empty database."""
    with _connection(database_url) as connection:
        return _current(connection)


def _connection(database_url: str) -> Connection:
    engine = create_engine(
        url_for_driver(database_url),
        poolclass=pool.NullPool,
        connect_args={"options": _OPTIONS, "connect_timeout": 5, "application_name": "millpond-schema"},
    )
    try:
        return engine.connect()
    except exc.OperationalError as error:
        line = str(error.orig).strip().splitlines()[0]
        raise Unavailable(f"the database does not answer: {line[:200]}", code="DATABASE") from error


def _lock(connection: Connection) -> None:
    try:
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({_LOCK_KEY})")
    except exc.OperationalError as error:
        raise Unavailable(
            "another process is upgrading this database", hint="try again when it has finished", code="DATABASE"
        ) from error
    connection.commit()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _head() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None  # noqa: S101  (the package ships at least one)
    return head


def _current(connection: Connection) -> str:
    current = MigrationContext.configure(connection).get_current_revision() or ""
    connection.rollback()
    return current


def _known_check(current: str) -> None:
    known = {revision.revision for revision in ScriptDirectory.from_config(_config()).walk_revisions()}
    if current and current not in known:
        raise Unavailable(
            f"the schema has version {current}, which this program does not know",
            hint="install the newer millpond that made it",
            code="SCHEMA_NEWER",
        )
