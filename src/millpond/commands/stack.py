"""The parts below the server: database, engine; opened the same way by the server, `down` and `db`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from millpond.commands.guard import Part
from millpond.commands.places import Pool
from millpond.commands.pool import pool_specs
from millpond.config import Settings
from millpond.control.context import Control, Policy
from millpond.control.metrics import ControlMetrics
from millpond.db.embedded import EmbeddedPostgres
from millpond.db.schema import upgrade
from millpond.db.session import Database
from millpond.engines.local.engine import LocalEngine
from millpond.engines.local.launch import supervisor_ensure, supervisor_pid
from millpond.scheduling.desk import Newest


def clock() -> datetime:
    """Now, aware, UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Storage:
    """An open database; ``embedded`` if it is ours to start and stop."""

    database: Database
    url: str
    embedded: EmbeddedPostgres | None


def embedded_of(settings: Settings) -> EmbeddedPostgres | None:
    """The embedded PostgreSQL of this state folder, unless an external one is configured."""
    return None if settings.database_url else EmbeddedPostgres(settings.postgres_dir, settings.run_dir)


def storage_open(settings: Settings) -> Storage:
    """Start the embedded PostgreSQL if there is no other, bring the schema up to date, and connect."""
    embedded = embedded_of(settings)
    url = embedded.ensure() if embedded is not None else settings.database_url
    upgrade(url)
    return Storage(Database(url), url, embedded)


def engine_open(settings: Settings, pool: Pool) -> LocalEngine:
    """Make sure that the supervisor runs, and connect to it."""
    supervisor_start(settings)
    return LocalEngine(settings.engine_dir, settings.run_dir, pool_specs(pool))


def supervisor_start(settings: Settings) -> int:
    return supervisor_ensure(
        settings.engine_dir, settings.run_dir, settings.isolation, visible=settings.visible_folders
    )


def supervisor_runs(settings: Settings) -> bool:
    return supervisor_pid(settings.run_dir) is not None


def control_make(
    settings: Settings,
    database: Database,
    engine: LocalEngine,
    registry: CollectorRegistry,
    newest: Newest | None = None,
) -> Control:
    policy = Policy(
        jobs_dir=settings.jobs_dir,
        isolated=settings.isolation != "none",
        grace=settings.grace,
        lost_work_cap=settings.lost_work_cap,
    )
    return Control(database, engine, policy, ControlMetrics(registry), clock, newest=newest or Newest())


def guard_parts(settings: Settings, embedded: EmbeddedPostgres | None) -> tuple[Part, ...]:
    """What the server must keep alive beside itself."""
    parts = [Part("supervisor", lambda: supervisor_runs(settings), lambda: supervisor_start(settings))]
    if embedded is not None:
        revive: Callable[[], object] = embedded.ensure
        parts.append(Part("postgres", embedded.running, revive))
    return tuple(parts)
