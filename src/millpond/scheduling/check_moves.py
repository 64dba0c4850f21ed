"""Moves of guaranteed jobs for a guaranteed claim (scheduling §5), judged a second time."""

from __future__ import annotations

from millpond.domain.amounts import CARD
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_idle import Idle
from millpond.scheduling.check_world import World, load_of, places_of
from millpond.scheduling.decisions import Rank
from millpond.scheduling.snapshot import Job, RunState


def regrouping_wrong(world: World, victim: Job, claim: Job, ranks: dict[str, Rank]) -> str:
    """What is wrong with moving a guaranteed job, by these ranks; empty if nothing is."""
    if ranks[claim.id] is not Rank.GUARANTEED:
        return "it is guaranteed, and the claim is not"
    settings, now = world.snapshot.settings, world.snapshot.now
    started = victim.submitted if victim.started is None else victim.started
    if settings.regroup_after is None or now - claim.submitted < settings.regroup_after:
        return "it is guaranteed, and nobody has waited long enough to have such jobs moved"
    if now - started < max(1, settings.regroup_after, settings.min_runtime):
        return "it has not yet run long enough to be moved"
    if not _elsewhere(world, victim, claim, ranks):
        return "it finds no cards elsewhere"
    if _needless(world, claim, ranks):
        return "the claim finds cards without any move"
    return ""


def _elsewhere(world: World, victim: Job, claim: Job, ranks: dict[str, Rank]) -> bool:
    """Whether cards are held for it, or it fits on what the claim leaves, with everybody gone whom it might evict or
    have moved.

    What the pass decided after the claim does not count, nor what started, since the plan does not tell when.
    """
    if victim.id in world.holds:
        return True
    order = [hold.job for hold in world.plan.hold]
    holds = [world.holds[name] for name in order[: order.index(claim.id) + 1]]
    milli = world.running[victim.id].milli
    there = [
        use
        for name, use in world.running.items()
        if name not in world.evicted
        and not _evictable(use, victim, ranks)
        and not (use.milli < milli and use.job.preemptible and saves(use.job))
    ]
    return bool(Idle(world, [*there, *holds]).models(victim))


def _needless(world: World, claim: Job, ranks: dict[str, Rank]) -> bool:
    """Whether the claim would fit if everybody left whom it may evict, and those stayed who move.

    Not judged where cards are reserved or must stay free, and may not be free to the claim for that.
    """
    if world.plan.reservations or any(not queue.lend for queue in world.snapshot.queues):
        return False
    there = [use for use in world.running.values() if not _evictable(use, claim, ranks)]
    others = [use for name, use in world.holds.items() if name != claim.id]
    return bool(Idle(world, [*there, *world.starts.values(), *others]).models(claim))


def moves(world: World, job_id: str) -> bool:
    """Whether a job may hold cards although it does not wait: it is asked to move, or leaves already for that."""
    hold = next((hold for hold in world.plan.hold if hold.job == job_id and job_id in hold.victims), None)
    evict, state = world.evicted.get(job_id), world.jobs[job_id].state
    if state is RunState.DRAINING:
        return hold is not None and any(old.job == job_id for old in world.snapshot.holds)
    return hold is not None and evict is not None and evict.why == "consolidate"


def held_free(world: World, job: Job) -> bool:
    """Whether cards are held for a job on which nobody sits."""
    use = world.holds.get(job.id)
    load = load_of(world.running.values())
    return use is not None and all(load[place] + milli <= CARD for place, milli in places_of(use).items())


def saves(job: Job) -> bool:
    """Whether a job goes on where it was saved when it starts again."""
    return job.saves_on_signal or job.checkpointed is not None or job.checkpoint_every is not None


def _evictable(use: Use, claim: Job, ranks: dict[str, Rank]) -> bool:
    """Whether a guaranteed claim might evict somebody (§3)."""
    job = use.job
    if not job.preemptible or job.state is RunState.DRAINING:
        return False
    if job.queue == claim.queue:
        return (claim.preemptible, -claim.priority) < (job.preemptible, -job.priority)
    return ranks.get(job.id, Rank.OPPORTUNISTIC) is not Rank.GUARANTEED
