"""The command ``down``: stop the server, the jobs (unless they are to be kept), the supervisor, the database.

Jobs are stopped without the server: this process takes over leadership, asks every attempt to leave, and stays until
all have left.  So it works as well after the server was killed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

import click
from prometheus_client import CollectorRegistry

from millpond.authz.actors import SYSTEM
from millpond.cli.lazy import command, option
from millpond.cli.session import Session
from millpond.commands.places import folders_make, pool_read, server_forget, server_read
from millpond.commands.processes import Process, file_locked, process_end
from millpond.commands.stack import control_make, embedded_of, engine_open, storage_open, supervisor_runs
from millpond.commands.up import settings_of
from millpond.config import Settings
from millpond.control.context import Control
from millpond.control.drain import everybody_leave
from millpond.db.leader import Leader
from millpond.db.session import Database
from millpond.db.stores.attempts import attempts_live
from millpond.domain.errors import Unavailable
from millpond.engines.base import EngineError
from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_stop

SERVER_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """What `down` did."""

    server: bool = False
    evicted: int = 0
    kept: int = 0
    supervisor: bool = False
    database: bool = False

    @property
    def anything(self) -> bool:
        return self.server or self.supervisor or self.database


@command("down")
@option("--keep-jobs", help="option.keep_jobs", is_flag=True)
@option("--grace", help="option.grace", type=click.IntRange(0, 600), default=None)
@option("--state-dir", help="option.state_dir", metavar="DIR", default="")
def down_command(session: Session, keep_jobs: bool, grace: int | None, state_dir: str) -> int:
    """Idempotent: what does not run is not stopped."""
    settings = settings_of(session, state_dir=state_dir)
    done = machine_stop(settings, keep_jobs=keep_jobs, grace=settings.grace if grace is None else grace)
    if session.json:
        session.output.data(
            {"stopped": done.anything, "evicted": done.evicted, "kept": done.kept, "state_dir": str(settings.state_dir)}
        )
        return 0
    texts, out = session.texts, session.output
    if not done.anything:
        out.line(texts("down.nothing"))
        return 0
    if done.evicted:
        out.line(texts("down.evicted", count=done.evicted))
    out.line(texts("down.kept", count=done.kept) if done.kept else texts("down.stopped"))
    return 0


def machine_stop(settings: Settings, *, keep_jobs: bool, grace: int) -> Stopped:
    """Stop everything of this state folder.  Jobs are asked to leave within `grace` seconds at most."""
    if not settings.state_dir.exists():
        return Stopped()
    folders_make(settings)
    with file_locked(settings.run_dir / "up.lock", "millpond up", 60.0):
        server = _server_stop(settings)
        # A second lock is the server's own: one started by hand in the foreground is not ours to outrun.
        with file_locked(settings.run_dir / "server.lock", "the server", 10.0):
            evicted, kept = _jobs_stop(settings, keep_jobs=keep_jobs, grace=grace)
            supervisor = supervisor_stop(settings.run_dir)
            embedded = embedded_of(settings)
            database = embedded is not None and embedded.pid() is not None
            if embedded is not None:
                embedded.stop()
    return Stopped(server, evicted, kept, supervisor, database)


def _server_stop(settings: Settings) -> bool:
    server = server_read(settings)
    running = server is not None and server.alive
    if server is not None and running:
        process_end(Process(server.pid, server.started), SERVER_PATIENCE_S)
    server_forget(settings)
    return running


def _jobs_stop(settings: Settings, *, keep_jobs: bool, grace: int) -> tuple[int, int]:
    """(attempts asked to leave, attempts left alone)."""
    embedded = embedded_of(settings)
    if embedded is not None and not embedded.cluster.exists():
        return 0, 0
    if embedded is not None and not embedded.running() and not supervisor_runs(settings):
        return 0, 0
    try:
        storage = storage_open(settings)
    except Unavailable as error:
        if keep_jobs:
            return 0, _running_count(settings)
        hint = error.hint or "millpond down --keep-jobs stops everything but the jobs"
        raise Unavailable(error.message, hint=hint, code=error.reason, details=error.details) from error
    try:
        live = storage.database.run("live", lambda tx: attempts_live(tx, SYSTEM))
        if not live or keep_jobs:
            return 0, len(live)
        engine = engine_open(settings, pool_read(settings))
        try:
            control = control_make(settings, storage.database, engine, CollectorRegistry())
            return _lead_and_drain(control, storage.database, grace), 0
        finally:
            engine.close()
    finally:
        storage.database.close()


def _running_count(settings: Settings) -> int:
    """Attempts that run, by the supervisor's word: for a database that does not answer."""
    if not supervisor_runs(settings):
        return 0
    engine = LocalEngine(settings.engine_dir, settings.run_dir)
    try:
        return len(engine.recover())
    except EngineError:
        return 0
    finally:
        engine.close()


def _lead_and_drain(control: Control, database: Database, grace: int) -> int:
    leader = Leader(database)
    deadline = time.monotonic() + 30.0
    epoch = leader.acquire(10.0)
    while epoch is None and time.monotonic() < deadline:
        epoch = leader.acquire(10.0)
    if epoch is None:
        raise Unavailable("another server leads, so its jobs are not ours to stop", hint="millpond down --keep-jobs")
    try:
        return everybody_leave(control, epoch, timedelta(seconds=grace))
    finally:
        leader.release()
