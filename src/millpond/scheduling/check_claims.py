"""Who goes first, what is held and what may be spent, judged a second time (scheduling §4, §5, S18)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from millpond.domain.amounts import CARD
from millpond.domain.jobs import QueueClass
from millpond.domain.queues import Dequeue, queue_ancestors
from millpond.domain.reasons import Code
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_world import World, load_of, places_of
from millpond.scheduling.decisions import Violation
from millpond.scheduling.snapshot import Hold, Job, RunState

_HOUR = 3600
_ASIDE = frozenset({Code.BALANCE_HELD, Code.ENGINE_REFUSED, Code.HELD_BACK})
_PROD_GRACE = 20


def order(world: World) -> Iterator[Violation]:
    """In a leaf nobody goes before an earlier job that is his equal; where it is first in, first out, before anybody.

    Who starts on cards that were held had his turn in an earlier pass.
    """
    waiting: dict[str, list[Job]] = defaultdict(list)
    for wait in world.plan.wait:
        job = world.jobs[wait.job]
        if any(reason.code in _ASIDE for reason in wait.reasons):
            continue
        if not job.blocked_by and job.id not in world.holds and job.submitted <= world.snapshot.now:
            waiting[job.queue].append(job)
    held = {hold.job for hold in world.snapshot.holds}
    for name in [name for name in world.starts if name not in held]:
        job = world.jobs[name]
        fifo = world.book.leaf(job).dequeue is Dequeue.FIFO
        for other in waiting.get(job.queue, ()):
            pushes = other.preemptible and not job.preemptible  # may take what the other had got in this pass (§3)
            if _turn(other) < _turn(job) and ((fifo and not pushes) or _shape(other) == _shape(job)):
                text = f"{job.id} starts before {other.id}, which stands before it in {job.queue}"
                yield Violation("order-broken", text, (job.id, other.id))
                break


def _turn(job: Job) -> tuple[int, int, str]:
    return (-job.priority, job.submitted, job.id)


def _shape(job: Job) -> tuple[object, ...]:
    return (
        job.gpu, job.nodes, job.cpu, job.memory, job.require, job.prefer, job.preemptible, job.max_duration,
        job.grace, job.saves_on_signal,
    )  # fmt: skip


def holds(world: World) -> Iterator[Violation]:
    """What is held for a job stays held, unless its time is over, its place is gone or another claim takes it."""
    known = {hold.job: hold for hold in world.snapshot.holds}
    again = {hold.job for hold in world.plan.hold}
    for name in world.plan.drop_holds:
        hold, job = known.get(name), world.jobs.get(name)
        if hold is None or job is None or name in world.starts or name in again:
            continue
        moves = job.state is RunState.DRAINING and name in hold.victims
        over = world.snapshot.now >= hold.until or bool(job.blocked_by) or not (moves or job.state is RunState.QUEUED)
        use = world.book.use(job, hold.seats, world.snapshot.now)
        gone = _place_gone(world, job, hold) or _taken(world, use) or _not_allowed(world, use)
        if not over and not gone and not _taken_over(world, job, hold):
            yield Violation("hold-lost", f"what is held for {name} is given up for no reason", (name,))


def _place_gone(world: World, job: Job, hold: Hold) -> bool:
    for seat in hold.seats:
        state = world.book.nodes.get(seat.node)
        if state is None or state.cordoned or state.draining or state.lost or state.spec.taints:
            return True
        kind = state.spec.cards
        if state.bad_cards.intersection(seat.cards):
            return True
        if seat.cards and (kind is None or not job.gpu.card_matches(kind.vendor, kind.model, kind.memory)):
            return True
    return False


def _taken(world: World, use: Use) -> bool:
    """Whether somebody who stays sits on its cards, so that it could never bind."""
    load = load_of(other for other in world.staying if other.job.state is RunState.RUNNING)
    return any(load[place] + milli > CARD for place, milli in places_of(use).items())


def _not_allowed(world: World, use: Use) -> bool:
    """Whether a cap or a guarantee no longer allows it."""
    book, usage = world.book, world.book.usage([*world.after, use])
    leaf, names = use.job.queue, use.names if use.milli else ()
    if any(usage[queue][name] > book.cap(queue, name) for queue in queue_ancestors(leaf) for name in names):
        return True
    firm = world.firm[leaf]
    return not use.job.preemptible and any(firm[name] + use.milli > book.guarantee(leaf)[name] for name in names)


def _taken_over(world: World, job: Job, hold: Hold) -> bool:
    """Whether somebody new sits where the hold was, or stands with it under one cap."""
    nodes = {seat.node for seat in hold.seats}
    capped = {queue for queue in queue_ancestors(job.queue) if world.book.configs[queue].cap}
    old = {other.job for other in world.snapshot.holds}
    return any(
        nodes.intersection(seat.node for seat in use.seats) or capped.intersection(queue_ancestors(use.job.queue))
        for use in world.added
        if use.job.id not in old
    )


def budgets(world: World) -> Iterator[Violation]:
    """No start beyond the card-hours that its queues have left (S18)."""
    limited = {name: config.card_hours for name, config in world.book.configs.items() if config.card_hours is not None}
    if not limited:
        return
    held = {hold.job for hold in world.snapshot.holds}
    new = [use for use in world.added if use.milli and use.job.id not in held]
    spent, before = _spent(world, world.after), _spent(world, world.staying)
    for name, hours in sorted(limited.items()):
        left = hours.limit - hours.used
        for use in new:
            if name not in queue_ancestors(use.job.queue):
                continue
            over = before[name] >= left if use.job.max_duration is None else spent[name] > left
            if over:
                text = f"{use.job.id} starts although {name or 'the pool'} has no card-hours left for it"
                yield Violation("budget-exceeded", text, (use.job.id, name))


def _spent(world: World, uses: list[Use]) -> dict[str, int]:
    """Milli-card-hours that those with a limit may still use, by queue."""
    now = world.snapshot.now
    total: dict[str, int] = defaultdict(int)
    for use in uses:
        job = use.job
        if job.max_duration is None:
            continue
        begun = job.submitted if job.started is None else job.started
        since = now if job.state is RunState.QUEUED else begun
        amount = -(-use.milli * max(0, since + job.max_duration - now) // _HOUR)
        for queue in queue_ancestors(job.queue):
            total[queue] += amount
    return total


def warnings(world: World) -> Iterator[Violation]:
    """Who is evicted has the grace that he asked for and no more, of a prod claim 20 s at most; what he loses is so."""
    now, settings = world.snapshot.now, world.snapshot.settings
    for evict in world.plan.evict:
        victim, claim = world.jobs[evict.job], world.jobs[evict.claimant]
        prod = world.book.leaf(claim).klass is QueueClass.PROD
        grace = min(victim.grace, _PROD_GRACE) if prod else victim.grace
        if evict.deadline != now + grace:
            text = f"{victim.id} has {evict.deadline - now} s to leave in place of {grace}"
            yield Violation("deadline-wrong", text, (victim.id, claim.id))
        use = world.running.get(victim.id)
        saved = victim.started if victim.checkpointed is None else victim.checkpointed
        seconds = victim.grace if victim.saves_on_signal else 0 if saved is None else now - saved
        lost = (0 if use is None else use.milli) * min(max(0, seconds), settings.lost_work_cap)
        if evict.lost != lost:
            text = f"{victim.id} loses {lost} milli-card-seconds, not {evict.lost}"
            yield Violation("lost-work-wrong", text, (victim.id,))
