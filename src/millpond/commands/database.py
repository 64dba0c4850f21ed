"""The commands ``db upgrade|check|backup|restore``: for the embedded PostgreSQL and for an external one alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from millpond.cli.lazy import Group, argument, option, verb
from millpond.cli.session import Session
from millpond.commands.places import folders_make
from millpond.commands.processes import file_locked
from millpond.commands.stack import embedded_of
from millpond.commands.up import settings_of
from millpond.config import Settings
from millpond.db.maintenance import backup, check, restore
from millpond.db.schema import upgrade
from millpond.domain.errors import InvalidInput

db_command = Group("db", help="help.db", default="check")

_state_dir = option("--state-dir", help="option.state_dir", metavar="DIR", default="")


@contextmanager
def database_url(settings: Settings, *, create: bool = False) -> Iterator[str]:
    """The database's URL.  An embedded one that does not run is started, and stopped again afterwards."""
    embedded = embedded_of(settings)
    if embedded is None:
        yield settings.database_url
        return
    if not create and not embedded.cluster.exists():
        raise InvalidInput(
            f"there is no database in {settings.state_dir}", hint="millpond up makes one, or name another --state-dir"
        )
    folders_make(settings)
    ran = embedded.pid() is not None
    url = embedded.ensure()
    try:
        yield url
    finally:
        if not ran:
            embedded.stop()


@verb(db_command, "upgrade")
@_state_dir
def db_upgrade(session: Session, state_dir: str) -> int:
    """Bring the schema to this program's version."""
    with database_url(settings_of(session, state_dir=state_dir)) as url:
        version = upgrade(url)
    if session.json:
        session.output.data({"version": version})
    else:
        session.output.line(session.texts("db.upgraded", version=version))
    return 0


@verb(db_command, "check")
@_state_dir
def db_check(session: Session, state_dir: str) -> int:
    """Schema, event chains and what no constraint can say; 1 if something is wrong."""
    with database_url(settings_of(session, state_dir=state_dir)) as url:
        problems = check(url)
    if session.json:
        session.output.data({"problems": problems})
    elif problems:
        for problem in problems:
            session.output.line(problem)
    else:
        session.output.line(session.texts("db.sound"))
    return 1 if problems else 0


@verb(db_command, "backup")
@argument("file", type=click.Path(path_type=Path))
@_state_dir
def db_backup(session: Session, file: Path, state_dir: str) -> int:
    """Write a backup; the platform may go on meanwhile."""
    with database_url(settings_of(session, state_dir=state_dir)) as url:
        size = backup(url, file.absolute())
    if session.json:
        session.output.data({"file": str(file), "bytes": size})
    else:
        session.output.line(session.texts("db.backed_up", path=file))
    return 0


@verb(db_command, "restore")
@argument("file", type=click.Path(path_type=Path))
@_state_dir
def db_restore(session: Session, file: Path, state_dir: str) -> int:
    """Read a backup into an empty database; no server may run."""
    settings = settings_of(session, state_dir=state_dir)
    folders_make(settings)
    with (
        file_locked(settings.run_dir / "server.lock", "a server of this state folder"),
        database_url(settings, create=True) as url,
    ):
        restore(url, file.absolute())
    if session.json:
        session.output.data({"file": str(file), "restored": True})
    else:
        session.output.line(session.texts("db.restored", path=file))
    return 0
