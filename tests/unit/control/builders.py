"""Small builders of records for the tests of control."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from millpond.domain.cards import CardRequest
from millpond.domain.jobs import (
    AttemptState,
    CheckpointPolicy,
    JobSpec,
    JobState,
    JobType,
    QueuedAs,
    Resources,
    RetryPolicy,
)
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.records import AttemptRecord, JobRecord, NodeRecord, SeatRecord, World

NOW = datetime(2026, 11, 30, 1, 0, tzinfo=UTC)
JOB = "jaaaaaaaaaaaaaaaaaaaaaaaaaa"


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def spec(**changes: Any) -> JobSpec:
    base = JobSpec(
        type=JobType.TASK,
        name="train",
        commands=("true",),
        resources=Resources(gpu=CardRequest(milli=8000, milli_min=8000)),
        checkpoint=CheckpointPolicy(grace=20),
        retry=RetryPolicy(exits=frozenset({1}), limit=2, backoff_min=10, backoff_max=300),
    )
    return replace(base, **changes)


def job(state: JobState = JobState.QUEUED, **changes: Any) -> JobRecord:
    base = JobRecord(
        id=JOB,
        tenant="nlp",
        project="",
        user="li",
        queue="nlp/batch",
        spec=spec(),
        state=state,
        queued_as=QueuedAs.READY,
        submitted_at=NOW,
    )
    return replace(base, **changes)


def attempt(state: AttemptState = AttemptState.RUNNING, **changes: Any) -> AttemptRecord:
    base = AttemptRecord(
        id=f"{JOB}-1",
        job=JOB,
        number=1,
        tenant="nlp",
        state=state,
        seats=(SeatRecord("n1", tuple(range(8))),),
        epoch=7,
        planned_at=NOW,
        milli=8000,
    )
    if state in (AttemptState.RUNNING, AttemptState.DRAINING):
        base = replace(base, started_at=NOW, applied=AttemptState.STARTING)
    if state is AttemptState.DRAINING:
        base = replace(base, draining_at=after(100), deadline_at=after(120))
    return replace(base, **changes)


def node(name: str = "n1", **changes: Any) -> NodeRecord:
    kind = CardKind("A800-80GB", memory=81920, count=8, uuids=tuple(f"GPU-{index}" for index in range(8)))
    base = NodeRecord(NodeSpec(name, 128_000, 2_097_152, kind, simulated=True), "engine:local")
    return replace(base, **changes)


def world(
    jobs: tuple[JobRecord, ...] = (), attempts: tuple[AttemptRecord, ...] = (), nodes: tuple[NodeRecord, ...] = ()
) -> World:
    return World(nodes or (node(),), (), jobs, attempts, (), (), {})
