"""Rank (scheduling §2): what a running job may rely on, and what a claim would be if it came last.

One walk covers one tenant, since no rank depends on another tenant.  It looks at every task, so it is taken only where
somebody may have to leave; `standing` keeps the ranks of claims up to date without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from millpond.domain.jobs import QueueClass
from millpond.scheduling.decisions import Rank
from millpond.scheduling.quota import Dims, Queue, Vector, fits, take
from millpond.scheduling.standing import borrowed, inner_above
from millpond.scheduling.tasks import Task

Claim = tuple[Queue, int, Dims]
"""Leaf, milli-cards and dimensions of a job that has no place yet."""

_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class Walk:
    """``ranks`` of the running jobs of a tenant, and of the claim that came last, if one did.

    ``family``: some running job ranks so, and might not if a claim took what is left.
    """

    ranks: dict[str, Rank] = field(default_factory=dict)
    claim: Rank | None = None
    family: bool = False


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

    for leaf in leaves_of(tenant):
        mine = [task for task in tasks.get(leaf, ()) if task.ranked and task.id not in without]
        if leaf.klass is QueueClass.BESTEFFORT:
            walk.ranks.update((task.id, Rank.OPPORTUNISTIC) for task in mine)
            continue
        guarantee, deserved = list(leaf.guarantee), list(leaf.deserved)
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
    for queue in inner_queues(tenant):
        ranked.setdefault(queue, list(queue.deserved))
    for depth in (2, 1):
        still: _Rest = []
        failed: set[Claim] = set()  # what is left only becomes less
        for item in rest:
            size = item[4]
            if size in failed:
                still.append(item)
                continue
            leaf, milli, dims = size
            inner = inner_above(leaf.path[1:-1], depth)
            if not inner or not all(fits(ranked[queue], milli, dims) for queue in inner):
                failed.add(size)
                still.append(item)
                continue
            walk.family |= item[3] is not None
            _rank_set(walk, item[3], Rank.FAMILY)
            count(leaf, milli, dims)
        rest = still
    for item in rest:
        _rank_set(walk, item[3], borrowed(item[4][0]))


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


def leaves_of(queue: Queue) -> Iterable[Queue]:
    if queue.klass is not None:
        yield queue
    for child in queue.children:
        yield from leaves_of(child)


def inner_queues(queue: Queue) -> Iterable[Queue]:
    if queue.klass is None:
        yield queue
        for child in queue.children:
            yield from inner_queues(child)
