"""Rank (scheduling §2): what a running job may rely on, and what a claim would be if it came last.

One walk covers one tenant, since no rank depends on another tenant.  It looks at every task, so it is taken only where
somebody may have to leave; `standing` keeps the ranks of claims up to date without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from millpond.domain.jobs import QueueClass
from millpond.scheduling.decisions import Rank
from millpond.scheduling.quota import Dims, Queue, Vector, fits, take
from millpond.scheduling.standing import TenantStanding, borrowed, inner_above
from millpond.scheduling.tasks import Task

Claim = tuple[Queue, int, Dims]
"""Leaf, milli-cards and dimensions of a job that has no place yet."""

_Rest = list[tuple[tuple[bool, bool, tuple[object, ...]], Task | None, Claim]]
"""Those who do not fit their own leaf, or the claim (None), with what orders them: the claim last, prod first."""

_NOBODY: frozenset[str] = frozenset()
_PLACE = itemgetter(0)


@dataclass(slots=True)
class Walk:
    """``ranks`` of the running jobs of a tenant, and of the claim that came last, if one did.

    ``family``: some running job ranks so, and might not if a claim took what is left.
    """

    ranks: dict[str, Rank] = field(default_factory=dict)
    claim: Rank | None = None
    family: bool = False


@dataclass(slots=True)
class Part:
    """What a walk finds in one leaf, whoever else is there: ``rest`` are those who do not fit its own.

    ``ranks``: of all, if the family has nothing for them; ``sizes``: what those of ``rest`` ask for; ``used``:
    milli-cards that the others take, by dimension; ``guarantee`` and ``deserved``: what they leave.
    """

    ranks: dict[str, Rank]
    rest: _Rest
    sizes: set[Claim]
    used: Vector
    guarantee: Vector
    deserved: Vector


def leaf_walk(leaf: Queue, tasks: Iterable[Task]) -> Part:
    """Walk one leaf; ``tasks`` are its ranked ones, in leaf order."""
    part = Part({}, [], set(), [0] * len(leaf.deserved), list(leaf.guarantee), list(leaf.deserved))
    if leaf.klass is QueueClass.BESTEFFORT:
        for task in tasks:
            part.ranks[task.id] = Rank.OPPORTUNISTIC
        return part
    prod = leaf.klass is not QueueClass.PROD
    for task in tasks:
        rank = _own(part.guarantee, part.deserved, task.milli, task.dims)
        if rank is None:
            size = (leaf, task.milli, task.dims)
            part.rest.append(((False, prod, task.key), task, size))
            part.sizes.add(size)
            part.ranks[task.id] = borrowed(leaf)
        else:
            part.ranks[task.id] = rank
            take(part.used, -task.milli, task.dims)
    return part


class Parts:
    """The walks of single leaves, kept until somebody comes or goes there."""

    def __init__(self) -> None:
        self._known: dict[Queue, tuple[int, Part]] = {}

    def of(
        self, standing: TenantStanding, tasks: Mapping[Queue, Iterable[Task]], without: Collection[Queue] = ()
    ) -> dict[Queue, Part]:
        """Those of a tenant's leaves but `without`; ``tasks`` are those of each leaf, in leaf order."""
        found: dict[Queue, Part] = {}
        for leaf, mine in standing.leaves.items():
            if leaf in without:
                continue
            known = self._known.get(leaf)
            if known is None or known[0] != mine.stamp:
                known = (mine.stamp, leaf_walk(leaf, [task for task in tasks[leaf] if task.ranked]))
                self._known[leaf] = known
            found[leaf] = known[1]
        return found


def tenant_walk(
    tenant: Queue,
    tasks: Mapping[Queue, Iterable[Task]],
    *,
    without: frozenset[str] = _NOBODY,
    claim: Claim | None = None,
    parts: Mapping[Queue, Part] | None = None,
) -> Walk:
    """Walk one tenant.

    ``tasks`` are those of each leaf, in leaf order; ``without`` are taken out; ``claim`` comes last.  ``parts`` are the
    leaves that have been walked already, with nobody of them to be taken out.
    """
    walk = Walk()
    left = {queue: list(queue.deserved) for queue in inner_queues(tenant)}
    rest: _Rest = []
    sizes: set[Claim] = set()
    for leaf in leaves_of(tenant):
        part = None if parts is None else parts.get(leaf)
        if part is None:
            part = leaf_walk(leaf, [task for task in tasks.get(leaf, ()) if task.ranked and task.id not in without])
        walk.ranks.update(part.ranks)
        rest += part.rest
        sizes |= part.sizes
        inner = leaf.path[1:-1]
        if leaf.klass is not QueueClass.BESTEFFORT:
            for queue in inner:
                mine = left[queue]
                for dim, used in enumerate(part.used):
                    mine[dim] -= used
        if claim is not None and claim[0] is leaf:
            if leaf.klass is QueueClass.BESTEFFORT:
                walk.claim = Rank.OPPORTUNISTIC
                continue
            walk.claim = _own(list(part.guarantee), list(part.deserved), claim[1], claim[2])
            if walk.claim is None:
                sizes.add(claim)
                rest.append(((True, leaf.klass is not QueueClass.PROD, ()), None, claim))
            else:
                for queue in inner:
                    take(left[queue], claim[1], claim[2])
    rest.sort(key=_PLACE)
    _family(walk, rest, sizes, left)
    if claim is not None and walk.claim is None:
        walk.claim = borrowed(claim[0])
    return walk


def _family(walk: Walk, rest: _Rest, sizes: set[Claim], left: dict[Queue, Vector]) -> None:
    """What the tenant's own leaves leave idle, project first; the others borrow.  ``sizes`` are those of ``rest``."""
    for depth in (2, 1):
        able = {size for size in sizes if _fits_inner(size, depth, left)}  # what is left only becomes less
        still: _Rest = []
        for place, item in enumerate(rest):
            if not able:
                still += rest[place:]
                break
            size = item[2]
            if size not in able:
                still.append(item)
                continue
            leaf, milli, dims = size
            if not _fits_inner(size, depth, left):
                able.discard(size)
                still.append(item)
                continue
            walk.family |= item[1] is not None
            _rank_set(walk, item[1], Rank.FAMILY)
            for queue in leaf.path[1:-1]:
                take(left[queue], milli, dims)
        rest = still


def _fits_inner(size: Claim, depth: int, left: dict[Queue, Vector]) -> bool:
    """Whether a claim fits into what is left of the inner queues above its leaf."""
    leaf, milli, dims = size
    inner = inner_above(leaf.path[1:-1], depth)
    for queue in inner:
        if not fits(left[queue], milli, dims):
            return False
    return bool(inner)


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
