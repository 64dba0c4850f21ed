"""What time and trouble ask for: pure decisions on a world, taken before each planning pass.

Stops on request, `max_duration`, ends of backoff, dependencies, lost nodes, faulty cards, nodes being emptied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from millpond.control.steps import Drain, Finish, Step, Unblock
from millpond.domain.jobs import AttemptState, EndReason, JobState, QueuedAs
from millpond.domain.records import AttemptRecord, JobRecord, NodeRecord, World

_GONE = frozenset({JobState.FAILED, JobState.CANCELLED})


def dependencies_wanted(world: World) -> frozenset[str]:
    """Ids of jobs that somebody waits for and that are not live any more: their end decides."""
    live = {job.id for job in world.jobs}
    return frozenset(name for job in world.jobs for name in job.blocked if name not in live)


def expire_decide(world: World, ended: Mapping[str, JobRecord], now: datetime) -> tuple[Step, ...]:
    """Every step that is due now, one a job at most.  `ended` holds the jobs of `dependencies_wanted` that exist."""
    jobs = {job.id: job for job in world.jobs}
    ailing = {node.spec.name: node for node in world.nodes if node.lost or node.bad_cards or node.draining}
    steps: list[Step] = []
    for attempt in sorted(world.attempts, key=lambda item: item.id):
        job = jobs.get(attempt.job)
        if job is not None and attempt.state is not AttemptState.ENDED:
            steps.extend(_running_decide(job, attempt, ailing, now))
    for job in sorted((job for job in world.jobs if _stirs(job)), key=lambda item: item.id):
        if job.state is JobState.QUEUED:
            steps.extend(_queued_decide(job, jobs, ended, now))
    return tuple(steps)


def moment_next(world: World, now: datetime) -> datetime | None:
    """When something next falls due by itself, if anything does: later than `now`, or `now` if it is overdue."""
    return min((max(moment, now) for moment in _moments(world, now)), default=None)


def _moments(world: World, now: datetime) -> Iterator[datetime]:
    jobs = {job.id: job for job in world.jobs}
    for job in world.jobs:
        if job.state is JobState.QUEUED:
            if job.queued_as is QueuedAs.BACKOFF and job.not_before is not None:
                yield job.not_before
            if job.spec.start_at is not None and job.spec.start_at > now and not job.held:
                yield job.spec.start_at
    for attempt in world.attempts:
        limit = jobs[attempt.job].spec.max_duration if attempt.job in jobs else None
        if attempt.state is AttemptState.RUNNING and limit is not None and attempt.started_at is not None:
            yield attempt.started_at + timedelta(seconds=limit)
    for hold in world.holds:
        yield hold.until


def _running_decide(
    job: JobRecord, attempt: AttemptRecord, ailing: Mapping[str, NodeRecord], now: datetime
) -> Iterator[Step]:
    grace = timedelta(seconds=job.spec.checkpoint.grace)
    trouble = _trouble(attempt, ailing)
    draining = attempt.state is AttemptState.DRAINING
    if trouble is EndReason.NODE_LOST:
        # Nothing on a lost node can save; what the engine still reaches of it must not run beside the next attempt.
        if not draining or (attempt.deadline_at is not None and attempt.deadline_at > now):
            yield Drain(job.id, attempt.id, trouble, now)
    elif draining:
        return
    elif job.cancel:
        yield Drain(job.id, attempt.id, EndReason.CANCELLED, now + grace)
    elif trouble is not None:
        yield Drain(job.id, attempt.id, trouble, now + grace)
    elif _over_limit(job, attempt, now):
        yield Drain(job.id, attempt.id, EndReason.MAX_DURATION, now + grace)


def _over_limit(job: JobRecord, attempt: AttemptRecord, now: datetime) -> bool:
    limit = job.spec.max_duration
    return limit is not None and attempt.started_at is not None and attempt.started_at + timedelta(seconds=limit) <= now


def _trouble(attempt: AttemptRecord, ailing: Mapping[str, NodeRecord]) -> EndReason | None:
    """The worst that the nodes of an attempt suffer."""
    seated = [(ailing[seat.node], seat) for seat in attempt.seats if seat.node in ailing]
    if any(node.lost for node, _ in seated):
        return EndReason.NODE_LOST
    if any(index in node.bad_cards for node, seat in seated for index in seat.cards):
        return EndReason.CARD_FAULT
    if any(node.draining for node, _ in seated):
        return EndReason.PREEMPTED
    return None


def _stirs(job: JobRecord) -> bool:
    """Whether anything may be due for a waiting job; most just wait for cards."""
    return job.cancel or bool(job.blocked) or job.queued_as is QueuedAs.BACKOFF


def _queued_decide(
    job: JobRecord, live: Mapping[str, JobRecord], ended: Mapping[str, JobRecord], now: datetime
) -> Iterator[Step]:
    if job.cancel:
        yield Finish(job.id, JobState.CANCELLED, "stopped on request")
        return
    left: list[str] = []
    for name in job.blocked:
        other = ended.get(name)
        if name not in live and (other is None or other.state in _GONE):
            state = other.state.value if other is not None else "gone"
            label = other.name if other is not None else name
            yield Finish(job.id, JobState.CANCELLED, f"depends on {label}, which is {state}")
            return
        if other is None or other.state is not JobState.SUCCEEDED:
            left.append(name)
    over = job.queued_as is QueuedAs.BACKOFF and (job.not_before is None or job.not_before <= now)
    if tuple(left) != job.blocked or over:
        yield Unblock(job.id, tuple(left))
