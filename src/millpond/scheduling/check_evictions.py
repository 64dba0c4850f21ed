"""Who may be evicted for whom (scheduling §3), judged a second time."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.domain.queues import queue_ancestors, queue_tenant
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_idle import Idle
from millpond.scheduling.check_moves import held_free, regrouping_wrong, saves
from millpond.scheduling.check_world import World
from millpond.scheduling.decisions import Evict, Rank, Violation
from millpond.scheduling.snapshot import Job, RunState


def evictions(world: World) -> Iterator[Violation]:
    """Who may be evicted for whom (§3)."""
    held = {hold.job: hold for hold in world.plan.hold}
    for evict in world.plan.evict:
        victim, claim = world.jobs[evict.job], world.jobs[evict.claimant]
        hold = held.get(claim.id)
        if hold is None or victim.id not in hold.victims:
            text = f"{victim.id} is evicted for {claim.id}, which holds nothing in its place"
            yield Violation("eviction-without-hold", text, (victim.id, claim.id))
            continue
        wrong = _eviction_wrong(world, evict, victim, claim)
        if wrong:
            text = f"{victim.id} may not be evicted for {claim.id}: {wrong}"
            yield Violation("eviction-forbidden", text, (victim.id, claim.id))
        elif not _eviction_helps(world, victim, claim):
            text = f"{victim.id} is evicted for {claim.id}, which gains nothing by it"
            yield Violation("eviction-needless", text, (victim.id, claim.id))
        elif _spareable(world, evict):
            text = f"{victim.id} is evicted for {claim.id}, which would fit without that"
            yield Violation("eviction-needless", text, (victim.id, claim.id))


def _eviction_wrong(world: World, evict: Evict, victim: Job, claim: Job) -> str:
    if not victim.preemptible:
        return "it is not preemptible"
    mine = {evict.job for evict in world.plan.evict if evict.claimant == claim.id}
    if evict.why == "consolidate":
        return _move_wrong(world, victim, claim, mine)
    same = victim.queue == claim.queue
    if evict.why != ("preempt" if same else "reclaim"):
        return f"{evict.why} is not the word for it"
    if same and (victim.preemptible, -victim.priority) <= (claim.preemptible, -claim.priority):
        return "it does not stand behind the claim in their leaf"
    own_leaf = {job_id for job_id in mine if world.jobs[job_id].queue == claim.queue}
    use = world.holds[claim.id]
    first = ""
    tenants = {world.running[victim.id].tenant, use.tenant}
    for view in _rank_views(world, claim, mine):
        uses = [other for other in view if other.tenant in tenants]
        ranks = world.book.ranks([other for other in uses if other.job.id not in own_leaf], use)
        if same:
            ranks[victim.id] = world.book.ranks(uses, use)[victim.id]
        wrong = _ranks_wrong(world, victim, claim, ranks)
        if not wrong:
            return ""
        first = first or wrong
    return first


def _move_wrong(world: World, victim: Job, claim: Job, mine: set[str]) -> str:
    """What is wrong with moving somebody for a job that waits for scattered cards (§5)."""
    settings, now = world.snapshot.settings, world.snapshot.now
    patient = settings.consolidate_after is not None and now - claim.submitted >= settings.consolidate_after
    if not saves(victim):
        return "it has no checkpoint"
    use = world.holds[claim.id]
    moved = [other for other in world.plan.evict if other.claimant == claim.id and other.why == "consolidate"]
    if sum(other.lost for other in moved) >= use.milli * settings.lost_work_cap:
        return "more is lost than gained"
    if world.running[victim.id].milli >= use.milli:
        return "it is not smaller than the claim"
    wrong = ""
    for view in _rank_views(world, claim, mine):
        wrong = _move_ranks_wrong(world, victim, claim, world.book.ranks(view, use), patient=patient)
        if not wrong:
            return ""
    return wrong


def _move_ranks_wrong(world: World, victim: Job, claim: Job, ranks: dict[str, Rank], *, patient: bool) -> str:
    """What is wrong with a move by these ranks."""
    low, high = ranks.get(victim.id, Rank.OPPORTUNISTIC), ranks[claim.id]
    if low is Rank.GUARANTEED and not (wrong := regrouping_wrong(world, victim, claim, ranks)):
        return ""
    if low is Rank.GUARANTEED and (victim.queue != claim.queue or not patient):
        return wrong
    if not patient:
        return "nobody has waited long enough for that"
    if low < high:
        return "its rank is above that of the claim"
    return "" if held_free(world, victim) else "no free cards are held for it elsewhere"


def _rank_views(world: World, claim: Job, mine: set[str]) -> Iterator[list[Use]]:
    """Who is ranked with the claim: before the pass, after everything else that it decided, and after each start.

    Who is draining has no rank.  What was decided before this claim is known but for how many jobs had started by then.
    """
    there = {job_id: other for job_id, other in world.running.items() if other.job.state is RunState.RUNNING}
    old = [other for job_id, other in world.old_holds.items() if job_id != claim.id]
    yield [*there.values(), *old]
    kept = [other for job_id, other in there.items() if job_id in mine or job_id not in world.leaving]
    counted = {other.job.id for other in kept} | {claim.id}
    others = [other for job_id, other in world.holds.items() if job_id not in counted]
    yield [*kept, *others, *world.starts.values()]
    order = [hold.job for hold in world.plan.hold]
    earlier = order[: order.index(claim.id)]
    gone = {evict.job for evict in world.plan.evict if evict.claimant in earlier}
    still = [other for job_id, other in there.items() if job_id not in gone]
    still += [world.holds[job_id] for job_id in earlier]
    starts = list(world.starts.values())
    for count in range(len(starts) + 1):
        yield [*still, *starts[:count]]


def _ranks_wrong(world: World, victim: Job, claim: Job, ranks: dict[str, Rank]) -> str:
    high = ranks[claim.id]
    if victim.queue == claim.queue:
        low = ranks[victim.id]
        return f"its rank {low.word} is above {high.word}" if low < high else ""
    low = ranks[victim.id]
    if low <= high:
        return f"its rank {low.word} is not below {high.word}"
    if low is Rank.GUARANTEED:
        return "it is guaranteed"
    if low is Rank.FAMILY and high is not Rank.GUARANTEED and queue_tenant(victim.queue) != queue_tenant(claim.queue):
        return "a family job only leaves for its own tenant or a guaranteed claim"
    if high < Rank.BORROWED_PROD:
        return ""
    now, settings = world.snapshot.now, world.snapshot.settings
    started = victim.submitted if victim.started is None else victim.started
    if now - started < settings.min_runtime:
        return f"it has not yet run for {settings.min_runtime} seconds"
    for past in world.snapshot.evictions:
        pair = past.claimant == claim.queue and past.victim == victim.queue
        if past.borrowed and pair and now - past.time < settings.cooldown:
            return f"{claim.queue} evicted from {victim.queue} {now - past.time} seconds ago"
    return ""


def _eviction_helps(world: World, victim: Job, claim: Job) -> bool:
    """The victim makes room on a node that the claim takes, or below a cap that both stand under."""
    if {seat.node for seat in victim.seats} & {seat.node for seat in world.holds[claim.id].seats}:
        return True
    shared = set(queue_ancestors(victim.queue)) & set(queue_ancestors(claim.queue))
    strict = any(not queue.lend for queue in world.snapshot.queues)
    return strict or any(world.book.configs[queue].cap for queue in shared)


def _spareable(world: World, evict: Evict) -> bool:
    """Whether the claim would fit on its model, under every cap, if this victim stayed and all others left (§3).

    On another model its rank may be lower, so that the others need not leave for it there.

    Not judged where that could be otherwise in the middle of the pass: where victims of its own leaf better its rank,
    where cards are reserved, where queues do not lend.
    """
    claim, victim = world.jobs[evict.claimant], world.running[evict.job]
    strict = any(not queue.lend for queue in world.snapshot.queues)
    if evict.why != "reclaim" or strict or world.plan.reservations:
        return False
    others = {name for hold in world.plan.hold if hold.job == claim.id for name in hold.victims} - {evict.job}
    dropped = [
        world.book.use(world.jobs[hold.job], hold.seats, world.snapshot.now)
        for hold in world.snapshot.holds
        if hold.job in world.plan.drop_holds and hold.job in world.jobs and hold.job != claim.id
    ]
    there = [use for name, use in world.running.items() if name not in others]
    kept = [use for name, use in world.holds.items() if name != claim.id]
    usages = [
        world.book.usage([*(use for use in world.after if use.job.id != claim.id), victim]),
        world.book.usage([*_before(world, claim, others), *dropped]),
    ]
    room = Idle(world, [*there, *kept, *dropped, *world.starts.values()])
    kinds = [world.book.nodes[seat.node].spec.cards for seat in world.holds[claim.id].seats]
    same = {kind.model for kind in kinds if kind is not None}
    fitting = [model for model in room.models(claim) if model in same]
    return any(all(_under_caps(world, claim, model, usage) for usage in usages) for model in fitting)


def _before(world: World, claim: Job, others: set[str]) -> list[Use]:
    """Who counted at most when it was the turn of a claim, if the `others` leave for it.

    Who was asked to leave after them for somebody else still counted then.
    """
    order = [hold.job for hold in world.plan.hold]
    earlier = order[: order.index(claim.id)]
    gone = others | {name for hold in world.plan.hold if hold.job in earlier for name in hold.victims}
    there = [use for name, use in world.running.items() if name not in gone]
    return [*there, *(world.holds[name] for name in earlier), *world.starts.values()]


def _under_caps(world: World, job: Job, model: str, usage: dict[str, dict[str, int]]) -> bool:
    milli, names = world.book.milli(job, model), world.book.counts_in(model)
    return all(
        milli == 0 or usage[queue][name] + milli <= world.book.cap(queue, name)
        for queue in queue_ancestors(job.queue)
        for name in names
    )
