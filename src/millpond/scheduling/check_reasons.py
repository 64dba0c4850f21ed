"""Why somebody waits, judged a second time (scheduling §7): the numbers say so, and are those of the pool."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.domain.amounts import CARD
from millpond.domain.queues import queue_ancestors
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.check_world import World, load_of
from millpond.scheduling.decisions import Violation
from millpond.scheduling.snapshot import Job, RunState

_CAP_CODES = frozenset({Code.QUEUE_CAP, Code.TENANT_CAP, Code.NEEDS_GUARANTEE})
_LACK_CODES = frozenset({Code.INSUFFICIENT_CARDS, Code.FRAGMENTED, Code.INSUFFICIENT_CPU, Code.INSUFFICIENT_MEMORY})
_NAMING_CODES = frozenset({Code.RESERVED_FOR, Code.BEHIND})

Place = tuple[str, int]


def reasons(world: World) -> Iterator[Violation]:
    """Every reason is true of the pool as the plan leaves it."""
    usage = world.book.usage(world.after)
    free = Free(world)
    for wait in world.plan.wait:
        job = world.jobs[wait.job]
        for reason in wait.reasons:
            if not _reason_holds(reason):
                text = f"{wait.job} waits for {reason.code}, whose numbers do not say so"
                yield Violation("reason-false", text, (wait.job,))
            elif not _reason_true(world, job, reason, usage, free):
                text = f"{wait.job} waits for {reason.code}, whose numbers are not those of the pool: {reason.text}"
                yield Violation("reason-false", text, (wait.job,))
            for name in reason.jobs:
                if name not in world.jobs:
                    yield Violation("reason-false", f"{wait.job} waits for {name}, which does not exist", (wait.job,))


def _reason_holds(reason: Reason) -> bool:
    """Whether the numbers of a reason say what its code says."""
    need, have, limit = reason.need, reason.have, reason.limit
    if reason.code in _CAP_CODES:
        return need is not None and have is not None and limit is not None and have + need > limit
    if reason.code in _LACK_CODES:
        return need is not None and have is not None and need > have
    return bool(reason.jobs) if reason.code in _NAMING_CODES else bool(reason.text)


def _reason_true(world: World, job: Job, reason: Reason, usage: dict[str, dict[str, int]], free: Free) -> bool:
    """Whether the numbers are those of the snapshot, where the checker can tell."""
    if reason.code in _CAP_CODES:
        return _cap_true(world, job, reason, usage)
    if reason.code is Code.INSUFFICIENT_CARDS and not job.gpu.slice:
        if reason.need != world.book.milli(job, ""):
            return False
        return reason.queue != "" or reason.have in free.amounts(job)
    return True


def _cap_true(world: World, job: Job, reason: Reason, usage: dict[str, dict[str, int]]) -> bool:
    """A queue over the job has this limit, and as much of it is in use."""
    book, queue = world.book, reason.queue
    if queue not in queue_ancestors(job.queue):
        return False
    if reason.code is Code.NEEDS_GUARANTEE:
        if queue != job.queue or job.preemptible:
            return False
        limits, used = book.guarantee(queue), world.firm[queue]
    else:
        limits, used = {name: book.cap(queue, name) for name in book.dimensions}, usage[queue]
    return any(limits[name] == reason.limit and used[name] == reason.have for name in book.dimensions)


class Free:
    """Free milli-cards by model, as the plan leaves the pool: of who leaves and who holds, the more counts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._run = load_of(
            use for name, use in world.running.items() if name not in world.evicted and not _leaves(use.job)
        )
        for place, milli in load_of(world.starts.values()).items():
            self._run[place] += milli
        self._leave = load_of(use for name, use in world.running.items() if name in world.evicted or _leaves(use.job))
        self._hold = load_of(world.holds.values())
        self._divided = {
            (seat.node, card)
            for use in [*world.running.values(), *world.starts.values(), *world.holds.values()]
            for seat in use.seats
            if seat.slice
            for card in seat.cards
        }
        self._known: dict[object, frozenset[int]] = {}

    def amounts(self, job: Job) -> frozenset[int]:
        """What is free for such a job, on all its models and on each of them."""
        key = (job.gpu.vendor, job.gpu.models, job.gpu.memory_min, job.gpu.memory_max, job.gpu.milli_min < CARD)
        if key not in self._known:
            each: dict[str, int] = {}
            for state in self._world.snapshot.nodes:
                kind = state.spec.cards
                closed = state.cordoned or state.draining or state.lost or bool(state.spec.taints)
                if closed or kind is None or not job.gpu.card_matches(kind.vendor, kind.model, kind.memory):
                    continue
                good = [card for card in range(kind.count) if card not in state.bad_cards]
                frees = [self._card((state.spec.name, card)) for card in good]
                if job.gpu.milli_min >= CARD:
                    frees = [milli for milli in frees if milli == CARD]
                each[kind.model] = each.get(kind.model, 0) + sum(frees)
            self._known[key] = frozenset({sum(each.values()), *each.values()})
        return self._known[key]

    def _card(self, place: Place) -> int:
        if place in self._divided:
            return 0
        return max(0, CARD - self._run[place] - max(self._leave[place], self._hold[place]))


def _leaves(job: Job) -> bool:
    return job.state is RunState.DRAINING
