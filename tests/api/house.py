"""A whole API on a real database, with three tenants, users of every kind and a simulated pool."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from millpond.api.app import Api, app_make
from millpond.authz.actors import SYSTEM
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import attempts_insert, attempts_lock, attempts_save
from millpond.db.stores.jobs import jobs_lock, jobs_save
from millpond.db.stores.nodes import node_sync
from millpond.db.stores.queues import queues_replace
from millpond.db.stores.tenants import project_create, tenant_create
from millpond.db.stores.users import member_put, token_create, token_revoke
from millpond.domain.jobs import AttemptState, EndReason, JobState, QueueClass
from millpond.domain.names import attempt_id
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.domain.records import AttemptRecord, JobRecord, Role, SeatRecord
from millpond.engines.base import Engine
from millpond.services.deps import Services

BODY_LIMIT = 262_144

USERS: Mapping[str, Mapping[str, Role]] = {
    "root": {"": Role.PLATFORM_ADMIN},
    "auditor": {"": Role.AUDITOR},
    "boss": {"trade": Role.TENANT_ADMIN},
    "ann": {"trade": Role.MEMBER},
    "bea": {"trade": Role.MEMBER},
    "eve": {"factor": Role.MEMBER},
    "two": {"trade": Role.MEMBER, "factor": Role.MEMBER},
}
"""Users and their roles by tenant; the empty tenant is the platform."""


@dataclass
class Clock:
    """Real time, plus what a test adds."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class House:
    """The API and what is behind it; ``tokens`` by user."""

    database: Database
    services: Services
    app: Api
    client: httpx2.Client
    clock: Clock
    tokens: dict[str, str] = field(default_factory=dict, repr=False)

    def ask(self, user: str, method: str, path: str, body: object = None, **more: Any) -> httpx2.Response:
        """One request as `user` (empty: without a token)."""
        headers = dict(more.pop("headers", {}))
        if user:
            headers["Authorization"] = f"Bearer {self.tokens[user]}"
        if body is not None:
            more["json"] = body
        return self.client.request(method, path, headers=headers, **more)

    def submit(self, user: str, name: str, **keys: object) -> dict[str, Any]:
        """Submit a small job and return it."""
        answer = self.ask(user, "POST", "/v1/jobs", job_body(name, **keys))
        assert answer.status_code == 201, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def run(self, job: str, seats: tuple[SeatRecord, ...], state: AttemptState = AttemptState.RUNNING) -> str:
        """What the loops would do: give a job an attempt on these seats."""
        now = self.clock()

        def work(tx: Tx) -> str:
            record = jobs_lock(tx, SYSTEM, [job])[job]
            number = record.attempts + 1
            attempt = AttemptRecord(
                id=attempt_id(job, number),
                job=job,
                number=number,
                tenant=record.tenant,
                state=state,
                seats=seats,
                epoch=1,
                planned_at=now,
                milli=sum(seat.milli * len(seat.cards) for seat in seats),
                applied=AttemptState.RUNNING,
                started_at=now,
            )
            attempts_insert(tx, SYSTEM, [attempt])
            jobs_save(tx, SYSTEM, [replace(record, state=JobState.STARTING, attempts=number)])
            started = replace(record, state=JobState.RUNNING, attempts=number, started_at=now)
            jobs_save(tx, SYSTEM, [started])
            return attempt.id

        return self.database.run("test_run", work)

    def end(self, job: str, state: JobState = JobState.SUCCEEDED, code: int = 0) -> None:
        """What the loops would do when the present attempt is over."""
        now = self.clock()

        def work(tx: Tx) -> None:
            record = jobs_lock(tx, SYSTEM, [job])[job]
            key = attempt_id(job, record.attempts)
            attempt = attempts_lock(tx, SYSTEM, [key])[key]
            reason = EndReason.COMPLETED if state is JobState.SUCCEEDED else EndReason.FAILED
            over = replace(attempt, state=AttemptState.ENDED, ended_at=now, reason=reason, exit_code=code)
            attempts_save(tx, SYSTEM, [over])
            done: JobRecord = replace(record, state=state, reason=reason, exit_code=code)
            jobs_save(tx, SYSTEM, [done if state is JobState.QUEUED else replace(done, finished_at=now)])

        self.database.run("test_end", work)


def job_body(name: str, **keys: object) -> dict[str, object]:
    """A job of one card that sleeps."""
    return {"name": name, "commands": ["sleep 1"], "resources": {"gpu": "1"}, **keys}


def house_open(stack: ExitStack, database: Database, engine: Engine | None = None, *, served: bool = False) -> House:
    """Fill the database and start the API; it stops with `stack`.  ``served``: on a real port, for streams."""
    clock = Clock()
    services = Services(database, engine, clock, os.urandom, {"leader": lambda: "ok"})
    app = app_make(services, CollectorRegistry(), BODY_LIMIT)
    client: httpx2.Client
    if served:
        client = httpx2.Client(base_url=stack.enter_context(serving(app)), timeout=20, trust_env=False)
        stack.callback(client.close)
    else:
        client = stack.enter_context(TestClient(app, raise_server_exceptions=False))
    house = House(database, services, app, client, clock)
    database.run("test_fill", lambda tx: house.tokens.update(_fill(tx, clock())))
    return house


@contextmanager
def serving(app: Api) -> Iterator[str]:
    """The application on a free port of this machine, in a thread; its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, server_header=False, lifespan="on", timeout_graceful_shutdown=15)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="api-under-test")
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        app.streams_end()
        server.should_exit = True
        thread.join(20)
        listener.close()
        assert not thread.is_alive(), "the server did not stop"


def nodes_make(count: int = 2) -> tuple[NodeSpec, ...]:
    """Simulated nodes of eight cards."""
    kind = CardKind("A800-80GB", "nvidia", 81_920, 8, ((0, 1, 2, 3), (4, 5, 6, 7)))
    return tuple(NodeSpec(f"n{index}", 128_000, 2_097_152, kind, simulated=True) for index in range(1, count + 1))


def _fill(tx: Tx, now: datetime) -> dict[str, str]:
    for tenant in ("trade", "factor", "nlp"):
        tenant_create(tx, SYSTEM, tenant, tenant.title())
    project_create(tx, SYSTEM, "trade", "alpha")
    real = NodeSpec("r1", 64_000, 524_288, CardKind("A100-40GB", "nvidia", 40_960, 1, uuids=("GPU-1",)))
    node_sync(tx, SYSTEM, "engine:local", (*nodes_make(), real), now)
    queues_replace(
        tx,
        SYSTEM,
        (
            QueueConfig("trade/prod", QueueClass.PROD, {"A800-80GB": 4000}, {CARDS: 4000}),
            QueueConfig("trade/batch", QueueClass.BATCH, None, {CARDS: 4000}),
            QueueConfig("factor/batch", QueueClass.BATCH, None, {CARDS: 8000}, {CARDS: 8000}),
            QueueConfig("nlp/besteffort", QueueClass.BESTEFFORT),
        ),
    )
    tokens: dict[str, str] = {}
    for user, roles in USERS.items():
        for tenant, role in roles.items():
            member_put(tx, SYSTEM, user, tenant, role)
        tokens[user] = token_create(tx, SYSTEM, user, "test")[1]
    gone, tokens["revoked"] = token_create(tx, SYSTEM, "boss", "revoked")
    token_revoke(tx, SYSTEM, gone.id)
    tokens["scoped"] = token_create(tx, SYSTEM, "boss", "scoped", ("job.read",))[1]
    tokens["nobody"] = token_create(tx, SYSTEM, "nobody", "no role")[1]
    return tokens


def seats_of(node: str, *cards: int, milli: int = 1000) -> tuple[SeatRecord, ...]:
    return (SeatRecord(node, cards, milli),)
