"""Work conservation (scheduling §8): no job waits that the idle cards and every quota would let start."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.domain.queues import Dequeue, queue_ancestors
from millpond.domain.reasons import Code
from millpond.scheduling.check_idle import Idle
from millpond.scheduling.check_reserve import Later, laters
from millpond.scheduling.check_world import World
from millpond.scheduling.decisions import Violation, Wait
from millpond.scheduling.snapshot import Job

EXCUSES = frozenset({Code.CARD_HOURS_EXHAUSTED, Code.BALANCE_HELD, Code.ENGINE_REFUSED, Code.HELD_BACK})
"""Reasons for which a job may wait although idle cards and its quotas would let it start."""


def conservation(world: World) -> Iterator[Violation]:
    """No job waits that fits the idle cards and every quota, unless something is reserved (§8)."""
    if any(not queue.lend for queue in world.snapshot.queues):
        return
    book = world.book
    occupied = [*world.running.values(), *world.starts.values(), *world.holds.values()]
    room = Idle(world, occupied)
    reserved = laters(world)
    usage = book.usage(world.after)
    yield from _reserved_wrong(world, reserved)
    yield from _unreserved(world, reserved, usage)
    for wait in world.plan.wait:
        job = world.jobs[wait.job]
        fifo = book.leaf(job).dequeue is Dequeue.FIFO
        codes = {reason.code for reason in wait.reasons}
        if job.blocked_by or job.id in world.holds or codes & EXCUSES:
            continue
        if fifo and _head_waits(world, wait):
            continue
        allowed = [model for model in room.models(job) if quota_allows(world, job, model, usage)]
        if any(not _kept_off(job, model, room, reserved) for model in allowed):
            text = f"{job.id} waits although it fits the idle cards and its quotas"
            yield Violation("work-conservation", text, (job.id,))


def _reserved_wrong(world: World, reserved: list[Later]) -> Iterator[Violation]:
    """`RESERVED_FOR` names a job that holds cards, or one whose reservation binds who waits for it."""
    by_job = {later.use.job.id: later for later in reserved}
    for wait in world.plan.wait:
        job = world.jobs[wait.job]
        for name in (name for reason in wait.reasons if reason.code is Code.RESERVED_FOR for name in reason.jobs):
            later = by_job.get(name)
            if name not in world.holds and (later is None or not later.binds(job, "" if job.gpu.none else later.model)):
                text = f"{job.id} waits for cards reserved for {name}, whose reservation does not keep it off"
                yield Violation("reason-false", text, (job.id, name))


def _unreserved(world: World, reserved: list[Later], usage: dict[str, dict[str, int]]) -> Iterator[Violation]:
    """Each model has a reservation if somebody waits only for room there (§5)."""
    models, jobs = {later.model for later in reserved}, {later.use.job.id for later in reserved}
    empty = Idle(world, [])
    for wait in world.plan.wait:
        job = world.jobs[wait.job]
        codes = {reason.code for reason in wait.reasons}
        if job.id in jobs or job.blocked_by or job.id in world.holds or job.require or job.gpu.none or codes & EXCUSES:
            continue
        if _head_waits(world, wait):
            continue
        for model in set(empty.models(job)) - models:
            if quota_allows(world, job, model, usage):
                text = f"{job.id} waits for {model}, and nothing is reserved for anybody there"
                yield Violation("reservation-missing", text, (job.id,))


def _kept_off(job: Job, model: str, room: Idle, reserved: list[Later]) -> bool:
    """Whether reservations that bind the job really cover what it would take on a model."""
    left = room
    for later in reserved:
        if model in {"", later.model} and later.binds(job, model):
            left = left.without(later.use, later.idle())
    return left is not room and model not in left.models(job)


def _head_waits(world: World, wait: Wait) -> bool:
    """Whether it stands behind a job of its own leaf that does not start either."""
    named = {name for reason in wait.reasons if reason.code is Code.BEHIND for name in reason.jobs}
    mine = world.jobs[wait.job].queue
    return any(name in world.jobs and world.jobs[name].queue == mine for name in named - world.starts.keys())


def quota_allows(world: World, job: Job, model: str, usage: dict[str, dict[str, int]]) -> bool:
    book, milli = world.book, world.book.milli(job, model)
    if milli == 0:
        return True
    names = book.counts_in(model)
    for queue in queue_ancestors(job.queue):
        if any(usage[queue][name] + milli > book.cap(queue, name) for name in names):
            return False
    if job.preemptible:
        return True
    used = world.firm[job.queue]
    return all(used[name] + milli <= book.guarantee(job.queue)[name] for name in names)
