"""Records as a snapshot."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from millpond.domain.cards import card_request_parse
from millpond.domain.jobs import (
    AttemptState,
    CheckpointPolicy,
    JobSpec,
    JobState,
    JobType,
    QueueClass,
    QueuedAs,
    Resources,
    TopologyWish,
)
from millpond.domain.records import AttemptRecord, EvictionRecord, HoldRecord, JobRecord, NodeRecord, SeatRecord, World
from millpond.scheduling.snapshot import Job, RunState, Settings
from millpond.scheduling.world import job_make, snapshot_make
from tests.builders import node, queue

NOW = datetime(2026, 11, 30, 8, 55, tzinfo=UTC)
AT = int(NOW.timestamp())
SEAT = SeatRecord("n1", (0, 1))


def record(name: str = "a", state: JobState = JobState.QUEUED, **more: object) -> JobRecord:
    spec = JobSpec(
        JobType.TASK,
        name,
        ("true",),
        queue=QueueClass.BATCH,
        priority=70,
        nodes=2,
        resources=Resources(card_request_parse("A800:2"), 4000, 1024),
        checkpoint=CheckpointPolicy(grace=30, every=600),
        topology=TopologyWish("rack", "nvlink"),
        max_duration=3600,
    )
    values: dict[str, object] = {"submitted_at": NOW - timedelta(seconds=90.5), "queued_as": QueuedAs.READY}
    return JobRecord(name, "t", "x", "li4", "t/batch", spec, state, **{**values, **more})  # type: ignore[arg-type]


def attempt(job: str, state: AttemptState, **more: object) -> AttemptRecord:
    planned = NOW - timedelta(seconds=60)
    return AttemptRecord(f"{job}-1", job, 1, "t", state, (SEAT,), 1, planned, milli=2000, **more)  # type: ignore[arg-type]


def world(jobs: list[JobRecord], attempts: list[AttemptRecord] | None = None, **more: object) -> World:
    nodes = (NodeRecord(node("n1").spec, "local", cordoned=True, bad_cards={3: "ecc"}),)
    empty: dict[str, object] = {"holds": (), "evictions": (), "settings": {}}
    return World(nodes, (queue("t/batch"),), tuple(jobs), tuple(attempts or ()), **{**empty, **more})  # type: ignore[arg-type]


def only(world_: World) -> Job:
    (found,) = snapshot_make(world_, AT).jobs
    return found


def test_waiting() -> None:
    found = only(world([record()]))
    assert (found.id, found.queue, found.user, found.nodes, found.priority) == ("a", "t/batch", "li4", 2, 70)
    assert (found.cpu, found.memory, found.grace, found.checkpoint_every, found.max_duration) == (
        4000, 1024, 30, 600, 3600,
    )  # fmt: skip
    assert (found.require, found.prefer, found.preemptible, found.service) == ("rack", "nvlink", True, False)
    assert found.submitted == AT - 91
    assert found.state is RunState.QUEUED
    assert not found.blocked_by
    assert found == job_make(record(), AT)


def test_running_and_draining() -> None:
    saved = NOW - timedelta(seconds=9.5)
    found = only(world([record(state=JobState.RUNNING)], [attempt("a", AttemptState.STARTING, checkpointed_at=saved)]))
    assert (found.state, found.started, found.checkpointed, found.until) == (RunState.RUNNING, AT - 60, AT - 10, None)
    assert found.seats[0].cards == (0, 1)
    deadline = NOW + timedelta(seconds=19.2)
    leaving = attempt("a", AttemptState.DRAINING, deadline_at=deadline)
    found = only(world([record(state=JobState.STOPPING)], [leaving]))
    assert (found.state, found.until) == (RunState.DRAINING, AT + 20)


def test_a_job_between_its_states_is_left_out() -> None:
    ended = attempt("a", AttemptState.ENDED)
    assert not snapshot_make(world([record(state=JobState.STOPPING)], [ended]), AT).jobs


def test_what_blocks() -> None:
    later, soon = NOW + timedelta(seconds=60), NOW + timedelta(seconds=0.5)
    spec = replace(record().spec, start_at=later)
    blocked = replace(record(), held=True, blocked=("jx", "jy"), not_before=later, spec=spec)
    found = only(world([blocked]))
    assert [code for code, _ in found.blocked_by] == ["HELD", "DEPENDENCY", "BACKOFF", "START_TIME"]
    assert "jx, jy" in found.blocked_by[1][1]
    assert [code for code, _ in only(world([replace(record(), cancel=True)])).blocked_by] == ["HELD"]
    assert not only(world([replace(record(), not_before=soon, spec=replace(spec, start_at=soon))])).blocked_by


def test_the_rest() -> None:
    hold = HoldRecord("a", (SEAT,), NOW + timedelta(seconds=80), ("v",))
    past = EvictionRecord("t/batch", "t/batch", NOW - timedelta(seconds=5), True)
    gone = replace(past, victim="u/batch")
    found = snapshot_make(world([], holds=(hold,), evictions=(past, gone), settings={"cooldown": 7, "else": 1}), AT)
    assert found.now == AT
    assert found.nodes[0].cordoned
    assert found.nodes[0].bad_cards == frozenset({3})
    assert (found.holds[0].until, found.holds[0].victims) == (AT + 80, ("v",))
    assert [(e.claimant, e.victim, e.time) for e in found.evictions] == [("t/batch", "t/batch", AT - 5)]
    assert found.settings == replace(Settings(), cooldown=7)
    assert [config.name for config in found.queues] == ["t/batch"]
