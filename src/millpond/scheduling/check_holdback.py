"""Who waits although he fits, judged a second time: only as many as may, of those who may, and not for longer."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.domain.jobs import QueueClass
from millpond.domain.queues import Dequeue, queue_tenant
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_idle import Idle
from millpond.scheduling.check_world import World
from millpond.scheduling.decisions import Rank, Violation
from millpond.scheduling.snapshot import Job, RunState


def held_back(world: World) -> Iterator[Violation]:
    """`HELD_BACK` keeps a job waiting only where the settings allow it."""
    found = [
        (world.jobs[wait.job], reason)
        for wait in world.plan.wait
        for reason in wait.reasons
        if reason.code is Code.HELD_BACK
    ]
    if not found:
        return
    most = world.snapshot.settings.hold_back
    if len(found) > most:
        yield Violation("held-back-wrong", f"{len(found)} jobs are held back, of {most} that may be", (found[0][0].id,))
    room = Idle(world, [*world.running.values(), *world.starts.values(), *world.holds.values()])
    for job, reason in found:
        wrong = _wrong(world, room, job, reason)
        if wrong:
            yield Violation("held-back-wrong", f"{job.id} is held back: {wrong}", (job.id,))


def _wrong(world: World, room: Idle, job: Job, reason: Reason) -> str:
    settings, leaf = world.snapshot.settings, world.book.leaf(job)
    until = job.submitted + settings.hold_back_for
    if until <= world.snapshot.now:
        return f"it has waited for {settings.hold_back_for} s already"
    if reason.until != until:
        return f"it may be for {until - world.snapshot.now} s more, and is told another time"
    if leaf.klass is QueueClass.PROD:
        return "production never is"
    if leaf.dequeue is Dequeue.FIFO:
        return "its queue is first in, first out"
    models = room.models(job)
    if not models:
        return "it does not fit now"
    if all(_guaranteed(world, job, model) for model in models):
        return "its cards are guaranteed"
    return ""


def _guaranteed(world: World, job: Job, model: str) -> bool:
    """Whether its claim on a model is guaranteed before the pass and after it."""
    book, there = world.book, [use for use in world.running.values() if use.job.state is RunState.RUNNING]
    order = (job.preemptible, -job.priority, world.snapshot.now, job.id)
    claim = Use(job, (), book.milli(job, model), book.counts_in(model), queue_tenant(job.queue), order)
    after = [use for use in there if use.job.id not in world.leaving]
    views = ([*there, *world.old_holds.values()], [*after, *world.holds.values(), *world.starts.values()])
    return all(book.ranks(view, claim)[job.id] is Rank.GUARANTEED for view in views)
