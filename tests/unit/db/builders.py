"""Small builders of records and of a database with two tenants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from millpond.authz.actors import SYSTEM, Actor
from millpond.db.session import Database, Tx
from millpond.db.stores.nodes import node_sync
from millpond.db.stores.queues import queues_replace
from millpond.db.stores.tenants import project_create, tenant_create
from millpond.domain.jobs import AttemptState, EndReason, JobSpec, JobState, JobType, QueueClass, QueuedAs
from millpond.domain.names import attempt_id
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import QueueConfig
from millpond.domain.records import AttemptRecord, JobRecord, Role, SeatRecord

NOW = datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=UTC)
ADMIN = Actor("root", Role.PLATFORM_ADMIN)
ANN = Actor("ann", roles={"alpha": Role.MEMBER})
BOB = Actor("bob", roles={"alpha": Role.MEMBER, "beta": Role.MEMBER})
LEAD = Actor("lead", roles={"alpha": Role.TENANT_ADMIN})
EVE = Actor("eve", roles={"beta": Role.TENANT_ADMIN})
NOBODY = Actor("nobody")


def ago(seconds: int) -> datetime:
    return NOW - timedelta(seconds=seconds)


def spec(name: str = "train", **more: object) -> JobSpec:
    return replace(JobSpec(JobType.TASK, name, ("true",)), **more)


def job(number: int, *, tenant: str = "alpha", user: str = "ann", name: str = "", **more: object) -> JobRecord:
    """Job ``j<number>``, queued in its tenant's batch leaf, submitted `number` seconds after `NOW`."""
    record = JobRecord(
        id=f"j{number}",
        tenant=tenant,
        project="",
        user=user,
        queue=f"{tenant}/batch",
        spec=spec(name or f"job-{number}"),
        state=JobState.QUEUED,
        queued_as=QueuedAs.READY,
        submitted_at=NOW + timedelta(seconds=number),
    )
    return replace(record, **more)


def attempt(of: JobRecord, number: int = 1, **more: object) -> AttemptRecord:
    record = AttemptRecord(
        id=attempt_id(of.id, number),
        job=of.id,
        number=number,
        tenant=of.tenant,
        state=AttemptState.PLANNED,
        seats=(SeatRecord("n1", (0, 1)),),
        epoch=1,
        planned_at=NOW,
        milli=2000,
    )
    return replace(record, **more)


def ended(record: AttemptRecord, reason: EndReason = EndReason.COMPLETED, code: int | None = 0) -> AttemptRecord:
    return replace(record, state=AttemptState.ENDED, ended_at=NOW, reason=reason, exit_code=code)


def node(name: str, count: int = 8) -> NodeSpec:
    return NodeSpec(name, 128_000, 2_097_152, CardKind("A800-80GB", "nvidia", 81_920, count), simulated=True)


def furnish(tx: Tx) -> None:
    """Tenants alpha (project lab) and beta, their leaves, and two nodes."""
    for tenant in ("alpha", "beta"):
        tenant_create(tx, SYSTEM, tenant, tenant.title())
    project_create(tx, SYSTEM, "alpha", "lab")
    leaves = [QueueConfig(f"{tenant}/{klass}", klass) for tenant in ("alpha", "beta") for klass in QueueClass]
    queues_replace(tx, SYSTEM, leaves)
    node_sync(tx, SYSTEM, "local", [node("n1"), node("n2")], NOW)


def furnished(database: Database) -> Database:
    database.run("furnish", furnish)
    return database
