"""The durable part of B2: how many decided starts a second the product's own store path takes into PostgreSQL.

A plan that starts two thousand jobs becomes steps, and these become attempts, job states and a chain of events in one
fenced transaction of a real PostgreSQL with the product's settings: fsync on, one commit a plan.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.stand import database_open
from millpond.authz.actors import SYSTEM
from millpond.control.schedule import decision_store, plan_decide
from millpond.db.leader import Leader
from millpond.db.session import Database, Tx
from millpond.db.stores.jobs import job_insert, jobs_get
from millpond.db.stores.queues import queues_replace
from millpond.db.stores.tenants import tenant_create
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import JobSpec, JobState, JobType, QueueClass, QueuedAs, Resources
from millpond.domain.queues import QueueConfig
from millpond.domain.records import JobRecord, World
from millpond.scheduling.decisions import Plan, Rank, Start
from millpond.scheduling.snapshot import Seat

STARTS = 2000
TENANTS = 30
PLANNED = datetime(2026, 1, 1, tzinfo=UTC)
ONE_CARD = Resources(CardRequest(1000, 1000))


@dataclass(frozen=True, slots=True)
class Durable:
    """``seconds`` of each stored plan of `STARTS` starts."""

    seconds: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Decisions a second over all plans."""
        return STARTS * len(self.seconds) / sum(self.seconds)


def durable_measure(plans: int) -> Durable:
    """Store `plans` plans after one that warms up; the jobs that they start are submitted beforehand."""
    with database_open() as database:
        database.run("furnish", _furnish)
        leader = Leader(database)
        try:
            epoch = leader.acquire(5.0)
            if epoch is None:
                raise RuntimeError("somebody else leads a database of our own")
            seconds = [_plan_store(database, _submit(database, number), epoch) for number in range(1 + plans)]
        finally:
            leader.release()
    return Durable(tuple(seconds[1:]))


def _furnish(tx: Tx) -> None:
    for number in range(TENANTS):
        tenant_create(tx, SYSTEM, f"t{number}", f"Tenant {number}")
    queues_replace(tx, SYSTEM, [QueueConfig(f"t{number}/batch", QueueClass.BATCH) for number in range(TENANTS)])


def _submit(database: Database, plan: int) -> tuple[JobRecord, ...]:
    """Jobs as a pass finds them: read from the database."""
    records = tuple(_job(f"j{plan:03}{number:023}", f"t{number % TENANTS}") for number in range(STARTS))

    def store(tx: Tx) -> None:
        for record in records:
            job_insert(tx, SYSTEM, record)

    database.run("submit", store)
    return tuple(database.run("jobs", lambda tx: jobs_get(tx, SYSTEM, [record.id for record in records])).values())


def _job(name: str, tenant: str) -> JobRecord:
    return JobRecord(
        id=name,
        tenant=tenant,
        project="",
        user="ann",
        queue=f"{tenant}/batch",
        spec=JobSpec(JobType.TASK, name, ("python train.py --epochs 3",), resources=ONE_CARD),
        state=JobState.QUEUED,
        queued_as=QueuedAs.READY,
        submitted_at=PLANNED,
    )


def _plan_store(database: Database, jobs: tuple[JobRecord, ...], epoch: int) -> float:
    """Seconds from a plan to its commit."""
    starts = tuple(
        Start(job.id, Rank.DESERVED, (Seat(f"n{number // 8}", (number % 8,)),)) for number, job in enumerate(jobs)
    )
    plan, world = Plan(0, starts), World((), (), jobs, (), (), (), {})
    since = time.perf_counter()
    decision = plan_decide(world, plan, 20, PLANNED)
    stored = database.run("plan", lambda tx: decision_store(tx, decision, epoch, PLANNED))
    spent = time.perf_counter() - since
    if stored.began != STARTS:
        raise RuntimeError(f"{stored.began} of {STARTS} starts were stored")
    return spent
