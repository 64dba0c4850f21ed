"""Work conservation (scheduling §8): no job waits that the idle cards and every quota would let start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from millpond.domain.amounts import CARD
from millpond.domain.queues import Dequeue, queue_ancestors
from millpond.domain.reasons import Code
from millpond.domain.slices import slice_milli
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_slices import Cards
from millpond.scheduling.check_world import World, load_of
from millpond.scheduling.decisions import Violation, Wait
from millpond.scheduling.snapshot import Job, NodeState

EXCUSES = frozenset({Code.CARD_HOURS_EXHAUSTED, Code.BALANCE_HELD, Code.ENGINE_REFUSED})
"""Reasons for which a job may wait although idle cards and its quotas would let it start."""


def conservation(world: World) -> Iterator[Violation]:
    """No job waits that fits the idle cards and every quota, unless something is reserved (§8)."""
    if any(not queue.lend for queue in world.snapshot.queues):
        return
    book = world.book
    occupied = [*world.running.values(), *world.starts.values(), *world.holds.values()]
    room = _Room(world, load_of(occupied), occupied)
    usage = book.usage(world.after)
    for wait in world.plan.wait:
        job = world.jobs[wait.job]
        fifo = book.leaf(job).dequeue is Dequeue.FIFO
        codes = {reason.code for reason in wait.reasons}
        if job.blocked_by or job.id in world.holds or job.require or codes & EXCUSES:
            continue
        if fifo and _head_waits(world, wait):
            continue
        if any(_quota_allows(world, job, model, usage) for model in room.models(job)):
            text = f"{job.id} waits although it fits the idle cards and its quotas"
            yield Violation("work-conservation", text, (job.id,))


def _head_waits(world: World, wait: Wait) -> bool:
    """Whether it stands behind a job of its own leaf that does not start either."""
    named = {name for reason in wait.reasons if reason.code is Code.BEHIND for name in reason.jobs}
    mine = world.jobs[wait.job].queue
    return any(name in world.jobs and world.jobs[name].queue == mine for name in named - world.starts.keys())


def _quota_allows(world: World, job: Job, model: str, usage: dict[str, dict[str, int]]) -> bool:
    book, milli = world.book, job.gpu.milli_min * job.nodes
    if job.gpu.slice:
        kinds = [state.spec.cards for state in book.nodes.values()]
        shares = [slice_milli(kind.model, kind.memory, job.gpu.slice) for kind in kinds if kind and kind.model == model]
        milli = max((share for share in shares if share), default=0) * job.gpu.slices * job.nodes
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


class _Room:
    """What is idle after the plan, and which card models would take a job there."""

    def __init__(self, world: World, load: dict[tuple[str, int], int], uses: Iterable[Use]) -> None:
        self._nodes = [state for state in world.snapshot.nodes if not (state.cordoned or state.draining or state.lost)]
        self._load = load
        self._cards = Cards(world.book.nodes, uses)
        self._cpu: dict[str, int] = defaultdict(int)
        self._memory: dict[str, int] = defaultdict(int)
        for use in uses:
            for node in {seat.node for seat in use.seats}:
                self._cpu[node] += use.job.cpu
                self._memory[node] += use.job.memory
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}

    def models(self, job: Job) -> tuple[str, ...]:
        """Models with enough nodes that each take one piece of the job now ("" for a job without cards)."""
        key = (job.gpu, job.nodes, job.cpu, job.memory)
        if key not in self._known:
            count = Counter(
                state.spec.cards.model if state.spec.cards and not job.gpu.none else ""
                for state in self._nodes
                if self._takes(job, state)
            )
            self._known[key] = tuple(sorted(model for model, nodes in count.items() if nodes >= job.nodes))
        return self._known[key]

    def _takes(self, job: Job, state: NodeState) -> bool:
        spec, request = state.spec, job.gpu
        if job.cpu and self._cpu[spec.name] + job.cpu > spec.cpu:
            return False
        if job.memory and self._memory[spec.name] + job.memory > spec.memory:
            return False
        if request.none:
            return True
        kind = spec.cards
        if kind is None or not request.card_matches(kind.vendor, kind.model, kind.memory) or spec.taints:
            return False
        left = [
            0 if self._cards.divided(spec.name, card) else CARD - self._load[spec.name, card]
            for card in range(kind.count)
            if card not in state.bad_cards
        ]
        if request.slice:
            return self._cards.count(state, job) >= request.slices
        if request.fraction:
            return any(free >= request.milli for free in left)
        return sum(free == CARD for free in left) * CARD >= request.milli_min
