"""Rank (scheduling §2): what a running job may rely on, and what a claim would be if it came last.

One walk covers one tenant, since no rank depends on another tenant.  `Walk` remembers what was left at the end of every
level, so that the rank of any number of claims costs a few comparisons each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from millpond.domain.jobs import QueueClass
from millpond.scheduling.decisions import Rank
from millpond.scheduling.quota import Dims, Queue, Vector, fits, take
from millpond.scheduling.tasks import Task

Claim = tuple[Queue, int, Dims]
"""Leaf, milli-cards and dimensions of a job that has no place yet."""

_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class Walk:
    """``ranks`` of the running jobs of a tenant, and what was left: in each leaf, and of each level's queues."""

    ranks: dict[str, Rank] = field(default_factory=dict)
    claim: Rank | None = None
    _leaf_left: dict[Queue, tuple[Vector, Vector]] = field(default_factory=dict)
    _level_left: list[tuple[int, dict[Queue, Vector]]] = field(default_factory=list)

    def rank(self, leaf: Queue, milli: int, dims: Dims) -> Rank:
        """The rank of a claim at the very end of this walk."""
        if leaf.klass is QueueClass.BESTEFFORT:
            return Rank.OPPORTUNISTIC
        guarantee, deserved = self._leaf_left[leaf]
        if fits(deserved, milli, dims):
            return Rank.GUARANTEED if fits(guarantee, milli, dims) else Rank.DESERVED
        for depth, left in self._level_left:
            inner = _inner(leaf, depth)
            if inner and all(fits(left[queue], milli, dims) for queue in inner):
                return Rank.FAMILY
        return _borrowed(leaf)


def tenant_walk(
    tenant: Queue,
    tasks: Mapping[Queue, Iterable[Task]],
    *,
    without: frozenset[str] = _NOBODY,
    claim: Claim | None = None,
) -> Walk:
    """Walk one tenant.

    ``tasks`` are those of each leaf, in leaf order; ``without`` are taken out; ``claim`` comes last.
    """
    walk = Walk()
    ranked: dict[Queue, Vector] = {}
    rest: list[tuple[bool, bool, tuple[object, ...], Task | None, Claim]] = []

    def count(leaf: Queue, milli: int, dims: Dims) -> None:
        for queue in leaf.path[1:-1]:
            left = ranked.get(queue)
            if left is None:
                left = ranked[queue] = list(queue.deserved)
            take(left, milli, dims)

    for leaf in _leaves(tenant):
        mine = [task for task in tasks.get(leaf, ()) if task.ranked and task.id not in without]
        if leaf.klass is QueueClass.BESTEFFORT:
            walk.ranks.update((task.id, Rank.OPPORTUNISTIC) for task in mine)
            continue
        guarantee, deserved = list(leaf.guarantee), list(leaf.deserved)
        walk._leaf_left[leaf] = (guarantee, deserved)
        prod = leaf.klass is not QueueClass.PROD
        for task in mine:
            rank = _own(guarantee, deserved, task.milli, task.dims)
            if rank is None:
                rest.append((False, prod, task.key, task, (leaf, task.milli, task.dims)))
                continue
            walk.ranks[task.id] = rank
            count(leaf, task.milli, task.dims)
        if claim is not None and claim[0] is leaf:
            walk.claim = _own(guarantee, deserved, claim[1], claim[2])
            if walk.claim is None:
                rest.append((True, prod, (), None, claim))
            else:
                count(*claim)
    if claim is not None and claim[0].klass is QueueClass.BESTEFFORT:
        walk.claim = Rank.OPPORTUNISTIC
    rest.sort(key=lambda item: item[:3])
    _family(walk, tenant, rest, ranked, count)
    return walk


_Rest = list[tuple[bool, bool, tuple[object, ...], Task | None, Claim]]


def _family(
    walk: Walk, tenant: Queue, rest: _Rest, ranked: dict[Queue, Vector], count: Callable[[Queue, int, Dims], None]
) -> None:
    """What the tenant's own leaves leave idle, project first; the others borrow."""
    for queue in _inner_queues(tenant):
        ranked.setdefault(queue, list(queue.deserved))
    for depth in (2, 1):
        still: _Rest = []
        for item in rest:
            leaf, milli, dims = item[4]
            inner = _inner(leaf, depth)
            if not inner or not all(fits(ranked[queue], milli, dims) for queue in inner):
                still.append(item)
                continue
            _rank_set(walk, item[3], Rank.FAMILY)
            count(leaf, milli, dims)
        rest = still
        walk._level_left.append((depth, {queue: list(left) for queue, left in ranked.items()}))
    for item in rest:
        _rank_set(walk, item[3], _borrowed(item[4][0]))


def _rank_set(walk: Walk, task: Task | None, rank: Rank) -> None:
    if task is None:
        walk.claim = rank
    else:
        walk.ranks[task.id] = rank


def _own(guarantee: Vector, deserved: Vector, milli: int, dims: Dims) -> Rank | None:
    """Rank within the own leaf, taking what it uses; None when it does not fit there."""
    if not fits(deserved, milli, dims):
        return None
    rank = Rank.DESERVED
    if fits(guarantee, milli, dims):
        rank = Rank.GUARANTEED
        take(guarantee, milli, dims)
    take(deserved, milli, dims)
    return rank


def _inner(leaf: Queue, depth: int) -> tuple[Queue, ...]:
    """The inner queues above `leaf` from the one at `depth` (1 = tenant, 2 = project) up to the tenant."""
    above = leaf.path[1:-1]
    return above[len(above) - depth :] if len(above) >= depth else ()


def _borrowed(leaf: Queue) -> Rank:
    return Rank.BORROWED_PROD if leaf.klass is QueueClass.PROD else Rank.BORROWED_BATCH


def _leaves(queue: Queue) -> Iterable[Queue]:
    if queue.klass is not None:
        yield queue
    for child in queue.children:
        yield from _leaves(child)


def _inner_queues(queue: Queue) -> Iterable[Queue]:
    if queue.klass is None:
        yield queue
        for child in queue.children:
            yield from _inner_queues(child)
