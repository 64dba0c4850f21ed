"""Backup, restore, check: what `millpond db` does to a database, embedded or not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import conninfo
from sqlalchemy import TextClause, text

from millpond.authz.actors import SYSTEM
from millpond.db import schema
from millpond.db.programs import PG_MAJOR, program_run, programs_find
from millpond.db.session import Database, Tx, url_for_libpq
from millpond.db.stores.events import chain_verify
from millpond.db.stores.statements import ledger_audit
from millpond.domain.errors import Conflict, InvalidInput, Unavailable

_MAGIC = b"PGDMP"
_HOURS_S = 6 * 3600
_CHAIN_S = 3600
_SHOWN = 20

# Invariants that span tables.  Each query gives the ids that break it.
_INVARIANTS: Mapping[str, TextClause] = {
    "job {} is under way without a live attempt": text(
        "SELECT id FROM jobs j WHERE state IN ('starting', 'running', 'stopping')"
        " AND NOT EXISTS (SELECT FROM attempts a WHERE a.job = j.id AND a.state <> 'ended') ORDER BY id LIMIT :shown"
    ),
    "attempt {} is live, but its job is not under way": text(
        "SELECT a.id FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.state <> 'ended'"
        " AND j.state NOT IN ('starting', 'running', 'stopping') ORDER BY a.id LIMIT :shown"
    ),
    "job {} does not count its attempts right": text(
        "SELECT id FROM jobs j WHERE attempts <>"
        " (SELECT coalesce(max(number), 0) FROM attempts a WHERE a.job = j.id) ORDER BY id LIMIT :shown"
    ),
    "attempt {} names another tenant than its job": text(
        "SELECT a.id FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.tenant <> j.tenant ORDER BY a.id LIMIT :shown"
    ),
}


def backup(database_url: str, target: Path) -> int:
    """Write the whole database to `target` (pg_dump's custom format, 0600) and return its size in bytes.

    As of one moment, while everything goes on.  The file appears only when it is complete.  Raises `Conflict` if it
    exists, `Unavailable` if the database does not answer or pg_dump fails.
    """
    if target.exists():
        raise Conflict(f"{target} exists already", hint="choose another file name")
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no folder {target.parent}", hint="create it first")
    _server_check(database_url)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(descriptor)
    staged = Path(name)
    try:
        _client("pg_dump", database_url, ["--format=custom", "--no-owner", "--no-privileges", f"--file={staged}"])
        with staged.open("rb") as handle:
            os.fsync(handle.fileno())
        os.link(staged, target)
    except FileExistsError as error:
        raise Conflict(f"{target} exists already", hint="choose another file name") from error
    finally:
        staged.unlink(missing_ok=True)
    return target.stat().st_size


def restore(database_url: str, source: Path) -> None:
    """Read a backup into an empty database, wholly or not at all, then bring its schema up to date.

    Raises `Conflict` if the database is not empty, `InvalidInput` if the file is not a backup.
    """
    try:
        with source.open("rb") as handle:
            magic = handle.read(len(_MAGIC))
    except OSError as error:
        raise InvalidInput(f"cannot read {source}: {error.strerror}") from error
    if magic != _MAGIC:
        raise InvalidInput(f"{source} is not a backup", hint="millpond db backup FILE writes one")
    _server_check(database_url)
    tables = _tables(database_url)
    if tables:
        raise Conflict(
            f"the database is not empty: it has {len(tables)} tables",
            hint="restore into a new state folder or a new database",
        )
    name = conninfo.conninfo_to_dict(url_for_libpq(database_url)).get("dbname", "")
    options = [f"--dbname={name}", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    _client("pg_restore", database_url, [*options, str(source.absolute())])
    schema.upgrade(database_url)


def check(database_url: str) -> list[str]:
    """What is wrong with a database, a sentence each; empty if nothing.

    Pending migrations and drift first; if the schema is right, the chain of events,
    balances against their entries, and what no constraint can say.
    """
    problems = schema.check(database_url)
    if problems:
        return problems
    database = Database(database_url, pool_size=1, statement_timeout_s=_CHAIN_S)
    try:
        problems = database.run("check", lambda tx: chain_verify(tx, SYSTEM), snapshot=True)
        problems += database.run("check", lambda tx: ledger_audit(tx, SYSTEM), snapshot=True)
        return problems + database.run("check", _invariants, snapshot=True)
    finally:
        database.close()


def _invariants(tx: Tx) -> list[str]:
    return [
        sentence.format(name)
        for sentence, query in _INVARIANTS.items()
        for name in tx.execute(query, {"shown": _SHOWN}).scalars()
    ]


def _client(program: str, database_url: str, options: list[str]) -> None:
    """Run a client program; the password goes by the environment, so that no process list shows it."""
    parts = conninfo.conninfo_to_dict(url_for_libpq(database_url))
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}
    names |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
    env = {names[key]: str(value) for key, value in parts.items() if key in names and value is not None}
    argv = [str(programs_find() / "bin" / program), "--no-password", *options]
    done = program_run(argv, env=env, timeout_s=_HOURS_S)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise Unavailable(f"{program} failed: {lines[0][:300] if lines else 'no message'}", code="DATABASE")


def _server_check(database_url: str) -> None:
    """pg_dump cannot read a server newer than itself."""
    with _connect(database_url) as connection:
        major = connection.info.server_version // 10_000
    if major > int(PG_MAJOR):
        raise Unavailable(
            f"the server is PostgreSQL {major}, the tools that come with millpond are {PG_MAJOR}",
            hint="use the pg_dump and pg_restore of your server",
        )


def _tables(database_url: str) -> list[str]:
    with _connect(database_url) as connection:
        rows = connection.execute(
            "SELECT relname::text FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'm')"
        ).fetchall()
    return [row[0] for row in rows]


def _connect(database_url: str) -> psycopg.Connection[tuple[str, ...]]:
    try:
        return psycopg.connect(url_for_libpq(database_url), connect_timeout=5, application_name="millpond-maintenance")
    except psycopg.OperationalError as error:
        line = str(error).strip().splitlines()[0]
        raise Unavailable(f"the database does not answer: {line[:200]}", code="DATABASE") from error
