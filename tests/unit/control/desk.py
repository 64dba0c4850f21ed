"""A control plane on a real database and the fake engine, in virtual time, that moves only when told to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from millpond.authz.actors import SYSTEM
from millpond.control.apply import ApplyMemory, apply_run
from millpond.control.context import Control, Policy
from millpond.control.metrics import ControlMetrics
from millpond.control.observe import cursor_load, observe_run
from millpond.control.recover import inventory_sync
from millpond.control.schedule import PassMemory, PassResult, pass_run
from millpond.db.leader import Leader
from millpond.db.session import WORK_CHANNEL, Database, Tx, notify
from millpond.db.stores.attempts import attempt_list
from millpond.db.stores.events import event_list
from millpond.db.stores.jobs import job_insert, jobs_get
from millpond.db.stores.queues import queues_replace
from millpond.db.stores.tenants import tenant_create
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import (
    CheckpointPolicy,
    JobSpec,
    JobState,
    JobType,
    QueueClass,
    QueuedAs,
    Resources,
    RetryPolicy,
)
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.domain.records import AttemptRecord, JobRecord
from millpond.engines.base import StartOrder
from millpond.engines.fake import Behaviour, FakeEngine

START = datetime(2026, 11, 30, 1, 0, tzinfo=UTC)


FOREVER = Behaviour(run_ms=None)


@dataclass
class Desk:
    """A control plane that moves only when told to."""

    database: Database
    jobs_dir: Path
    now: datetime = START
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    orders: list[StartOrder] = field(default_factory=list)
    memory: PassMemory = field(default_factory=PassMemory)

    def __post_init__(self) -> None:
        kind = CardKind("A800-80GB", memory=81_920, count=8)
        nodes = tuple(NodeSpec(f"n{number}", 128_000, 2_097_152, kind, simulated=True) for number in (1, 2))
        self.engine = FakeEngine(nodes, self._script, clock=lambda: round(self.now.timestamp() * 1000))
        metrics = ControlMetrics(CollectorRegistry())
        self.control = Control(self.database, self.engine, Policy(self.jobs_dir), metrics, lambda: self.now)
        self.database.run("furnish", self._furnish)
        inventory_sync(self.control)
        self.leader = Leader(self.database)
        self.lead()

    def _script(self, order: StartOrder) -> Behaviour:
        self.orders.append(order)
        return self.behaviours.get(order.attempt, self.behaviours.get(order.attempt.rpartition("-")[0], FOREVER))

    def _furnish(self, tx: Tx) -> None:
        tenant_create(tx, SYSTEM, "alpha")
        eight = {CARDS: 8000, "A800-80GB": 8000}
        leaves = (
            QueueConfig("alpha/prod", QueueClass.PROD, guarantee=eight, deserved=eight),
            QueueConfig("alpha/batch", QueueClass.BATCH, deserved=eight),
            QueueConfig("alpha/besteffort", QueueClass.BESTEFFORT),
        )
        queues_replace(tx, SYSTEM, leaves)

    def lead(self) -> None:
        """A new term, as after a crash: nothing but the database and the engine is remembered."""
        epoch = self.leader.acquire(5.0)
        assert epoch is not None
        self.epoch = epoch
        self.memory, self.applier, self.cursor = PassMemory(), ApplyMemory(), cursor_load(self.control)

    def submit(
        self,
        name: str,
        behaviour: Behaviour,
        *,
        cards: float = 8,
        queue: QueueClass = QueueClass.BATCH,
        **more: object,
    ) -> str:
        self.behaviours[name] = behaviour
        milli = round(cards * 1000)
        retry = RetryPolicy(exits=frozenset({1}), limit=1, backoff_min=5, backoff_max=5)
        base = JobSpec(JobType.TASK, name, ("true",), queue=queue, retry=retry, checkpoint=CheckpointPolicy(grace=10))
        spec = replace(base, resources=Resources(CardRequest(milli, milli)), **more)
        record = JobRecord(
            id=name,
            tenant="alpha",
            project="",
            user="ann",
            queue=f"alpha/{queue.value}",
            spec=spec,
            state=JobState.QUEUED,
            queued_as=QueuedAs.READY,
            submitted_at=self.now,
        )

        def store(tx: Tx) -> None:
            job_insert(tx, SYSTEM, record)
            notify(tx, WORK_CHANNEL, "schedule")

        self.database.run("submit", store)
        return name

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def schedule(self) -> PassResult:
        return pass_run(self.control, self.epoch, self.memory)

    def apply(self) -> None:
        apply_run(self.control, self.epoch, self.applier)

    def observe(self) -> None:
        self.cursor, _ = observe_run(self.control, self.epoch, self.cursor, 0.0)

    def round(self, seconds: float = 0.0) -> None:
        self.wait(seconds)
        self.observe()
        self.schedule()
        self.apply()
        self.observe()

    def job(self, name: str) -> JobRecord:
        return self.database.run("job", lambda tx: jobs_get(tx, SYSTEM, [name]))[name]

    def attempts(self, name: str) -> tuple[AttemptRecord, ...]:
        return self.database.run("attempts", lambda tx: attempt_list(tx, SYSTEM, name))

    def kinds(self) -> list[str]:
        page = self.database.run("events", lambda tx: event_list(tx, SYSTEM, 0, 1000))
        return [event.kind for event in page.items]
