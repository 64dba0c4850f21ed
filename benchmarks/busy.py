"""The live part of B11: `why` over HTTP on a server whose pool is being written to all the time.

A real PostgreSQL, and in one process of its own, as in the product, the API and the scheduling loop; only the engine
is left out, since nothing new starts on a full pool.  Another process submits jobs and stops earlier ones at a steady
rate, so that every question comes soon after a write.  Two kinds of questions are timed: about jobs that have waited
for long, and about one that the asker has submitted just before.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import multiprocessing
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

import uvicorn
from prometheus_client import CollectorRegistry

from benchmarks.stand import database_open
from millpond.api.app import app_make
from millpond.authz.actors import SYSTEM
from millpond.control.context import ENGINE_SOURCE, Control, Policy
from millpond.control.metrics import ControlMetrics
from millpond.control.schedule import PassMemory, pass_run
from millpond.db.leader import Leader
from millpond.db.session import WORK_CHANNEL, Database, Tx
from millpond.db.stores.attempts import attempts_insert
from millpond.db.stores.nodes import node_sync
from millpond.db.stores.queues import queues_replace
from millpond.db.stores.rows import fields_of, insert_many, rows_text
from millpond.db.stores.tenants import project_create, tenant_create
from millpond.db.stores.users import member_put, token_create
from millpond.db.stores.world import world_load
from millpond.db.tables.jobs import JOBS
from millpond.domain.jobs import AttemptState, JobSpec, JobState, JobType, QueuedAs, Resources
from millpond.domain.names import attempt_id, id_make
from millpond.domain.queues import queue_tenant
from millpond.domain.records import AttemptRecord, JobRecord, Role, SeatRecord
from millpond.engines.fake import FakeEngine
from millpond.scheduling.check import check
from millpond.scheduling.desk import Newest
from millpond.scheduling.explain import Explainer
from millpond.scheduling.guarded import harmful
from millpond.scheduling.snapshot import Job, Snapshot
from millpond.scheduling.world import snapshot_make
from millpond.sdk import Client
from millpond.services.deps import Services

RATE = 20
"""Submissions a second; as many jobs are stopped."""

PAUSE_S = 0.05
"""Between two questions."""

OWN_EVERY = 10
"""Every so many questions, one is about a job that has just been submitted."""

SWITCH_S = 0.001
"""As in `millpond.main`."""

_ALL = fields_of(JobRecord)


@dataclass(frozen=True, slots=True)
class Busy:
    """Milliseconds of questions, of those about a new job, and of a rebuild for one question as it was before."""

    asked: tuple[float, ...]
    own: tuple[float, ...]
    ages: tuple[float, ...]
    rebuilt: tuple[float, ...]
    written: int
    seconds: float


def busy_measure(snapshot: Snapshot, seconds: float, rebuilds: int) -> Busy:
    """Ask a server about the waiting jobs of `snapshot` for so long."""
    began = datetime.now(UTC)
    shift = began.timestamp() - snapshot.now
    waiting = [record_id(job) for job in snapshot.jobs if not job.seats]
    with database_open() as database:
        token = database.run("fill", lambda tx: _fill(tx, snapshot, shift, began))
        database.run("analyze", lambda tx: tx.exec_driver_sql("ANALYZE"))
        with _server(database.url) as address, _writer(address, token) as written:
            asked, own, ages = _ask(address, token, waiting, seconds)
            count = written()
        rebuilt = [_rebuild(database, waiting[number]) for number in range(rebuilds)]
    return Busy(tuple(asked), tuple(own), tuple(ages), tuple(rebuilt), count, seconds)


def record_id(job: Job) -> str:
    """An id of the product's form, the same for the same job."""
    return id_make("j", 0, hashlib.sha256(job.id.encode()).digest())


def _fill(tx: Tx, snapshot: Snapshot, shift: float, now: datetime) -> str:
    """Everything that the snapshot has, and an administrator's token."""
    for tenant in sorted({queue_tenant(queue.name) for queue in snapshot.queues}):
        tenant_create(tx, SYSTEM, tenant)
    for tenant, project in sorted({tuple(queue.name.split("/")[:2]) for queue in snapshot.queues}):
        project_create(tx, SYSTEM, tenant, project)
    queues_replace(tx, SYSTEM, snapshot.queues)
    node_sync(tx, SYSTEM, ENGINE_SOURCE, [state.spec for state in snapshot.nodes], now)
    records = [_record(job, shift) for job in snapshot.jobs]
    rows = [tuple(getattr(record, name) for name in _ALL) for record in records]
    tx.execute(insert_many(JOBS, _ALL), rows_text(tx, JOBS, _ALL, rows))
    attempts_insert(tx, SYSTEM, [_attempt(job, shift) for job in snapshot.jobs if job.seats])
    member_put(tx, SYSTEM, "root", "", Role.PLATFORM_ADMIN)
    return token_create(tx, SYSTEM, "root", "benchmark")[1]


def _record(job: Job, shift: float) -> JobRecord:
    tenant, project, _ = job.queue.split("/")
    spec = JobSpec(
        JobType.TASK,
        f"job-{job.id}",
        ("true",),
        resources=Resources(job.gpu, job.cpu, job.memory),
        nodes=job.nodes,
        max_duration=None if job.seats else job.max_duration,  # whoever sits has long been over it
    )
    return JobRecord(
        record_id(job),
        tenant,
        project,
        job.user,
        job.queue,
        spec,
        JobState.RUNNING if job.seats else JobState.QUEUED,
        QueuedAs.READY,
        _moment(job.submitted, shift),
        attempts=1 if job.seats else 0,
        started_at=_moment(job.started, shift) if job.started is not None else None,
    )


def _attempt(job: Job, shift: float) -> AttemptRecord:
    planned = _moment(job.started or job.submitted, shift)
    return AttemptRecord(
        attempt_id(record_id(job), 1),
        record_id(job),
        1,
        queue_tenant(job.queue),
        AttemptState.RUNNING,
        tuple(SeatRecord(seat.node, seat.cards, seat.milli, seat.slice, seat.slot) for seat in job.seats),
        0,
        planned,
        milli=sum(seat.milli * len(seat.cards) for seat in job.seats),
        applied=AttemptState.RUNNING,
        started_at=planned,
    )


def _moment(seconds: int, shift: float) -> datetime:
    return datetime.fromtimestamp(seconds + shift, UTC)


# -- the server


@contextlib.contextmanager
def _server(url: str) -> Iterator[str]:
    """A server in a process of its own, with its scheduling loop: its address."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(url, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(120):
            raise RuntimeError("the server of the benchmark did not come up")
        yield str(ours.recv())
    finally:
        process.terminate()
        process.join()


def serve(url: str, told: Connection) -> None:
    """The API and the scheduling loop, until the process is ended.  Tells its address after the first pass."""
    database, newest = Database(url), Newest()
    engine = FakeEngine()
    control = Control(
        database,
        engine,
        Policy(Path("/nonexistent")),
        ControlMetrics(CollectorRegistry()),
        lambda: datetime.now(UTC),
        newest=newest,
    )
    threading.Thread(target=_schedule, args=(control,), daemon=True).start()
    while newest.get() is None:
        time.sleep(0.05)
    app = app_make(Services(database, engine, control.clock, secrets.token_bytes, newest=newest))
    listening = socket.create_server(("127.0.0.1", 0))
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
    told.send(f"http://127.0.0.1:{listening.getsockname()[1]}")
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])


def _schedule(control: Control) -> None:
    """What the runner does for its scheduling loop: a pass after every write, and when one is due."""
    epoch, memory = Leader(control.database).acquire(5.0), PassMemory()
    if epoch is None:
        raise RuntimeError("somebody else leads a database of our own")
    with control.database.listen((WORK_CHANNEL,)) as listener:
        while True:
            result = pass_run(control, epoch, memory)
            time.sleep(result.breath)
            listener.wait(result.pause)


# -- who writes and who asks


@contextlib.contextmanager
def _writer(address: str, token: str) -> Iterator[Callable[[], int]]:
    """Writes in a process of its own until the block ends; gives a function that ends it and counts."""
    context = multiprocessing.get_context("spawn")
    over, count = context.Event(), context.Value("i", 0)
    process = context.Process(target=write, args=(address, token, over, count), daemon=True)
    process.start()

    def end() -> int:
        over.set()
        process.join(30)
        return int(count.value)

    try:
        yield end
    finally:
        over.set()
        process.join(30)


def write(address: str, token: str, over: Event, count: object) -> None:
    """Submit jobs at `RATE` a second, and stop each of them five seconds later."""
    submitted: list[str] = []
    with Client(address, token) as client:
        due = time.monotonic()
        while not over.is_set():
            name = f"more-{len(submitted)}"
            submitted.append(client.jobs.submit(_spec(name, len(submitted)))["id"])
            if len(submitted) > 5 * RATE:
                client.jobs.stop(submitted[len(submitted) - 5 * RATE - 1], grace=0)
            count.value = len(submitted)  # type: ignore[attr-defined]
            due = max(due + 1 / RATE, time.monotonic() - 1)
            over.wait(max(0.0, due - time.monotonic()))


def _spec(name: str, number: int) -> dict[str, object]:
    return {
        "type": "task",
        "name": name,
        "tenant": f"t{number % 10}",
        "project": f"p{number // 10 % 3}",
        "queue": "batch",
        "resources": {"gpu": "8"},
        "commands": ["true"],
    }


def _ask(
    address: str, token: str, waiting: Sequence[str], seconds: float
) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of each question, of those about a job submitted just before, and the age of each answer in ms."""
    asked: list[float] = []
    own: list[float] = []
    ages: list[float] = []
    with Client(address, token) as client:
        client.jobs.why(waiting[0])
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            number += 1
            mine = number % OWN_EVERY == 0
            job = (
                client.jobs.submit(_spec(f"own-{number}", number))["id"]
                if mine
                else waiting[number * 37 % len(waiting)]
            )
            began = time.perf_counter()
            answer = client.jobs.why(job)
            took = (time.perf_counter() - began) * 1000
            (own if mine else asked).append(took)
            age = datetime.now(UTC) - datetime.fromisoformat(str(answer["at"]))
            ages.append(age.total_seconds() * 1000 - took)
            time.sleep(PAUSE_S)
    return asked, own, ages


def _rebuild(database: Database, job: str) -> float:
    """One question answered from nothing: read, convert, plan, check, explain."""
    began = time.perf_counter()
    world = database.run("world", lambda tx: world_load(tx, SYSTEM), snapshot=True)
    snapshot = snapshot_make(world, int(time.time()))
    explainer = Explainer(snapshot)
    if harmful(check(snapshot, explainer.plan)):
        raise RuntimeError("the planner made a harmful plan")
    explainer.explain(job)
    return (time.perf_counter() - began) * 1000
