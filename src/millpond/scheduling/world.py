"""Records of the database as a snapshot for the planner: a pure conversion, in whole Unix seconds.

Moments are rounded down, so that a backoff or start time that falls inside the present second is over, and deadlines
up, so that nobody is called overdue too early.  What has happened is never later than `now`, whatever the clock did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime

from millpond.domain.jobs import AttemptState, JobState
from millpond.domain.reasons import Code
from millpond.domain.records import AttemptRecord, HoldRecord, JobRecord, NodeRecord, SeatRecord, World
from millpond.scheduling.snapshot import Hold, Job, NodeState, PastEviction, RunState, Seat, Settings, Snapshot

_SETTINGS = frozenset(field.name for field in fields(Settings))


def snapshot_make(world: World, now: int) -> Snapshot:
    """The snapshot of `world` at `now`: waiting jobs, and those with a live attempt."""
    return Snapshots().make(world, now)


@dataclass(frozen=True, slots=True)
class _Made:
    """A job as it was made from these records at ``at``; ``timed``: the clock alone may make it another one."""

    record: JobRecord
    attempt: AttemptRecord | None
    job: Job | None
    at: int
    timed: bool


class Snapshots:
    """Makes the snapshots of one world after the other; what is the same record in two of them is converted once.

    The jobs and nodes of records that did not change are the same objects again, so that whoever compares two
    snapshots need not look inside.  Not for several threads at a time.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, _Made] = {}
        self._nodes: tuple[tuple[NodeRecord, ...], tuple[NodeState, ...]] = ((), ())

    def make(self, world: World, now: int) -> Snapshot:
        """As `snapshot_make`."""
        attempts = {attempt.job: attempt for attempt in world.attempts if attempt.state is not AttemptState.ENDED}
        known, made = self._jobs, dict[str, _Made]()
        for record in world.jobs:
            attempt = attempts.get(record.id)
            old = known.get(record.id)
            if (
                old is None
                or old.record is not record
                or old.attempt is not attempt
                or (old.timed and old.at != now)
                or old.at > now
            ):
                old = _Made(record, attempt, _job(record, attempt, now), now, _timed(record, attempt, now))
            made[record.id] = old
        self._jobs = made
        if self._nodes[0] is not world.nodes:
            self._nodes = (world.nodes, tuple(_node(node) for node in world.nodes))
        return _snapshot(world, now, self._nodes[1], tuple(old.job for old in made.values() if old.job is not None))


def _timed(record: JobRecord, attempt: AttemptRecord | None, now: int) -> bool:
    """Whether anything that a job tells of lies in the future, by this clock."""
    moments = [record.submitted_at, record.not_before, record.spec.start_at]
    if attempt is not None:
        moments += [attempt.planned_at, attempt.checkpointed_at]
    return any(moment is not None and _floor(moment) > now for moment in moments)


def _snapshot(world: World, now: int, nodes: tuple[NodeState, ...], jobs: tuple[Job, ...]) -> Snapshot:
    leaves = {queue.name for queue in world.queues if queue.leaf}
    return Snapshot(
        now=now,
        nodes=nodes,
        queues=world.queues,
        jobs=jobs,
        holds=tuple(_hold(hold) for hold in world.holds),
        evictions=tuple(
            PastEviction(past.claimant, past.victim, _floor(past.time), past.borrowed)
            for past in world.evictions
            if past.claimant in leaves and past.victim in leaves  # a queue that is gone has no cool-down
        ),
        settings=settings_make(world.settings),
    )


def settings_make(values: Mapping[str, int]) -> Settings:
    """The scheduler's own among all settings."""
    return replace(Settings(), **{name: value for name, value in values.items() if name in _SETTINGS})


def job_make(record: JobRecord, now: int) -> Job:
    """A waiting job as the planner sees it."""
    spec = record.spec
    return Job(
        id=record.id,
        queue=record.queue,
        gpu=spec.resources.gpu,
        nodes=spec.nodes,
        cpu=spec.resources.cpu,
        memory=spec.resources.memory,
        priority=spec.priority,
        preemptible=spec.may_be_preempted,
        submitted=min(_floor(record.submitted_at), now),
        max_duration=spec.max_duration,
        grace=spec.checkpoint.grace,
        saves_on_signal=record.saves_on_signal,
        user=record.user,
        name=record.name,
        service=spec.service is not None,
        require=spec.topology.require,
        prefer=spec.topology.prefer,
        checkpoint_every=spec.checkpoint.every,
        blocked_by=tuple(_blocks(record, now)),
    )


def _job(record: JobRecord, attempt: AttemptRecord | None, now: int) -> Job | None:
    waiting = job_make(record, now)
    if attempt is None:
        return waiting if record.state is JobState.QUEUED else None
    return replace(
        waiting,
        state=RunState.DRAINING if attempt.state is AttemptState.DRAINING else RunState.RUNNING,
        seats=_seats(attempt.seats),
        started=min(_floor(attempt.planned_at), now),
        checkpointed=min(_floor(attempt.checkpointed_at), now) if attempt.checkpointed_at is not None else None,
        until=_ceil(attempt.deadline_at) if attempt.deadline_at is not None else None,
        blocked_by=(),
    )


def _blocks(record: JobRecord, now: int) -> Iterable[tuple[str, str]]:
    if record.cancel:
        yield Code.HELD.value, "it is being cancelled"
    elif record.held:
        yield Code.HELD.value, "it is held until somebody releases it"
    if record.blocked:
        yield Code.DEPENDENCY.value, f"it waits for {', '.join(record.blocked)} to succeed"
    if record.not_before is not None and _floor(record.not_before) > now:
        yield Code.BACKOFF.value, f"it is tried again at {_moment(record.not_before)}"
    start_at = record.spec.start_at
    if start_at is not None and _floor(start_at) > now:
        yield Code.START_TIME.value, f"it may start at {_moment(start_at)}"


def _node(record: NodeRecord) -> NodeState:
    return NodeState(record.spec, record.cordoned, record.draining, record.lost, frozenset(record.bad_cards))


def _hold(record: HoldRecord) -> Hold:
    return Hold(record.job, _seats(record.seats), _floor(record.until), record.victims)


def _seats(seats: Iterable[SeatRecord]) -> tuple[Seat, ...]:
    return tuple(Seat(seat.node, seat.cards, seat.milli, seat.slice, seat.slot) for seat in seats)


def _floor(moment: datetime) -> int:
    return int(moment.timestamp() // 1)


def _ceil(moment: datetime) -> int:
    return -int(-moment.timestamp() // 1)


def _moment(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
