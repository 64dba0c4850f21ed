"""How a claim would rank (scheduling §2), kept up to date task by task.

`rank.tenant_walk` says who ranks how; this module keeps only what such a walk leaves at its end, which is all that the
rank of a claim depends on.  What each leaf leaves of its own is in `blocks`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import attrgetter

from millpond.domain.jobs import QueueClass
from millpond.scheduling.blocks import LeafStanding, Size, size_count, sizes_sum
from millpond.scheduling.decisions import Rank
from millpond.scheduling.quota import Dims, Queue, Vector, fits, take
from millpond.scheduling.tasks import OrderKey, Task

_KEY = attrgetter("key")

_VERDICTS = 64
"""Claims of which a tenant remembers whether the family has room for them; more are forgotten together."""

_Wish = tuple[tuple[Queue, ...], int, Dims]
"""Inner queues above the leaf, milli-cards and dimensions of a claim that its own leaf has no room for."""


class TenantStanding:
    """One tenant.  What the family leaves is reckoned only when a claim does not fit into its own leaf.

    Where the family has room for everybody who was passed, sums say what is left, whatever the number of tasks.
    """

    __slots__ = (
        "_counted", "_deep", "_epoch", "_left", "_levels", "_over", "_plain_counted", "_queues", "_roomy", "_shared",
        "_stale", "_verdicts", "_worst", "leaves",
    )  # fmt: skip

    def __init__(self, queues: Iterable[Queue], leaves: Iterable[LeafStanding]) -> None:
        self._queues = tuple(queues)
        self.leaves = {leaf.leaf: leaf for leaf in leaves}
        width = len(self._queues[0].deserved) if self._queues else 0
        self._left: dict[Queue, Vector] = {queue: list(queue.deserved) for queue in self._queues}
        """What the own leaves leave idle."""
        self._over: dict[Queue, Vector] = {queue: [0] * width for queue in self._queues}
        """What those passed by their own leaves take in all, and (`_deep`) those of leaves inside a project."""
        self._deep: dict[Queue, Vector] = {queue: [0] * width for queue in self._queues}
        self._stale: dict[LeafStanding, None] = {}
        self._shared = False
        self._roomy = True
        self._worst = -1
        self._counted = self._plain_counted = 0
        self._levels: list[dict[Queue, Vector]] = []
        self._verdicts: dict[_Wish, bool] = {}
        self._epoch = 0

    def put(self, task: Task) -> None:
        """One more is ranked."""
        leaf = self.leaves[task.leaf]
        leaf.put(task)
        self._count(leaf, 1)

    def drop(self, task: Task) -> None:
        """One less is ranked."""
        leaf = self.leaves[task.leaf]
        leaf.drop(task)
        self._count(leaf, -1)

    def _count(self, leaf: LeafStanding, sign: int) -> None:
        self._shared = False
        if leaf.plain:
            self._plain_counted += sign
        else:
            self._counted += sign
            self._stale[leaf] = None

    def stamp(self, leaf: Queue) -> int:
        """Another number whenever a claim of the leaf may rank otherwise than before."""
        if self._verdicts:
            self._share()
        return self.leaves[leaf].stamp + self._epoch

    def epoch(self) -> int:
        """Another number whenever a claim of any leaf may rank otherwise though its own leaf is as it was."""
        if self._verdicts:
            self._share()
        return self._epoch

    def rank(self, leaf: Queue, milli: int, dims: Dims) -> Rank:
        """The rank of a claim at the very end of the walk."""
        mine = self.leaves[leaf]
        if mine.plain:
            return Rank.OPPORTUNISTIC
        if self._stale:
            self._settle()
        if fits(mine.deserved, milli, dims):
            return Rank.GUARANTEED if fits(mine.guarantee, milli, dims) else Rank.DESERVED
        self._share()
        wish = (mine.inner, milli, dims)
        found = self._verdicts.get(wish)
        if found is None:
            if len(self._verdicts) >= _VERDICTS:
                self._verdicts.clear()
                self._epoch += 1
            found = self._verdicts[wish] = self._family_fits(wish)
        return Rank.FAMILY if found else borrowed(leaf)

    def worst(self) -> int:
        """The highest rank number of anybody ranked in it, at least; -1 where nobody is."""
        self._share()
        return self._worst

    def best(self, leaf: Queue, key: OrderKey, milli: int, dims: Dims) -> Rank:
        """No better is the rank of a claim at the very end, whoever behind `key` is taken out of its leaf."""
        mine = self.leaves[leaf]
        if mine.plain:
            return Rank.OPPORTUNISTIC
        if self._stale:
            self._settle()
        guarantee, deserved = mine.before(key)
        if fits(deserved, milli, dims):
            return Rank.GUARANTEED if fits(guarantee, milli, dims) else Rank.DESERVED
        more = [had - has for had, has in zip(deserved, mine.deserved, strict=True)]
        for queue in mine.inner[-1:]:  # the tenant: whoever fits into a project fits there too
            if fits([left + new for left, new in zip(self._left[queue], more, strict=True)], milli, dims):
                return Rank.FAMILY
        return borrowed(leaf)

    def rest_behind(self, leaf: Queue, key: OrderKey) -> bool:
        """Whether anybody behind `key` in a leaf has no rank of the leaf's own."""
        mine = self.leaves[leaf]
        if self._stale:
            self._settle()
        return mine.crowd > 0 if mine.plain else mine.rest_behind(key)

    def _family_fits(self, wish: _Wish) -> bool:
        """Whether what the family leaves is enough for a claim."""
        inner, milli, dims = wish
        for level, depth in enumerate((2, 1)):
            above = inner_above(inner, depth)
            if above and all(self._level_fits(level, queue, milli, dims) for queue in above):
                return True
        return False

    def _level_fits(self, level: int, queue: Queue, milli: int, dims: Dims) -> bool:
        if not self._roomy:
            return fits(self._levels[level][queue], milli, dims)
        left, taken = self._left[queue], (self._over if level else self._deep)[queue]
        return not milli or all(left[dim] - taken[dim] >= milli for dim in dims)

    def _settle(self) -> None:
        """Bring every leaf up to date, and the sums over them."""
        for leaf in self._stale:
            leaf.settle()
            deep = len(leaf.inner) > 1
            over = sizes_sum(leaf.passed, len(leaf.over))
            for dim, whole in enumerate(leaf.leaf.deserved):
                used = whole - leaf.deserved[dim]
                more, beyond = used - leaf.used[dim], over[dim] - leaf.over[dim]
                leaf.used[dim] = used
                for queue in leaf.inner:
                    self._left[queue][dim] -= more
                    self._over[queue][dim] += beyond
                    if deep:
                        self._deep[queue][dim] += beyond
            leaf.over = over
        self._stale.clear()

    def _share(self) -> None:
        """Reckon what the own leaves leave idle and the others take of it."""
        if self._shared:
            return
        if self._stale:
            self._settle()
        self._shared = True
        self._roomy = self._has_room()
        if self._roomy:
            self._worst = self._worst_roomy()
        else:
            self._walk()
        changed = [wish for wish, found in self._verdicts.items() if self._family_fits(wish) is not found]
        for wish in changed:
            self._verdicts[wish] = not self._verdicts[wish]
        if changed:
            self._epoch += 1

    def _has_room(self) -> bool:
        """Whether there is room in the family for everybody who was passed; none where the tenant is a leaf."""
        if not self._queues:
            return not any(leaf.passed for leaf in self.leaves.values())
        for queue in self._queues:
            for left, over in zip(self._left[queue], self._over[queue], strict=True):
                if over and left < over:
                    return False
        return True

    def _worst_roomy(self) -> int:
        if self._plain_counted:
            return Rank.OPPORTUNISTIC.value
        if any(any(over) for over in self._over.values()):
            return Rank.FAMILY.value
        return Rank.DESERVED.value if self._counted else -1

    def _walk(self) -> None:
        """Let one after the other take of what the family leaves."""
        left = {queue: list(vector) for queue, vector in self._left.items()}
        rest = {leaf: dict(leaf.passed) for leaf in self.leaves.values() if leaf.passed}
        self._levels = []
        taken: set[str] = set()
        family = False
        for depth in (2, 1):
            family = self._family(depth, left, rest, taken) or family
            self._levels.append({queue: list(vector) for queue, vector in left.items()})
        self._worst = self._worst_of(rest, family=family)

    def _worst_of(self, rest: dict[LeafStanding, dict[Size, int]], *, family: bool) -> int:
        worst = Rank.FAMILY.value if family else -1
        for leaf in self.leaves.values():
            if leaf.crowd:
                worst = max(worst, Rank.OPPORTUNISTIC.value if leaf.plain else Rank.DESERVED.value)
            if rest.get(leaf):
                worst = max(worst, borrowed(leaf.leaf).value)
        return worst

    def _family(
        self,
        depth: int,
        left: dict[Queue, Vector],
        rest: dict[LeafStanding, dict[Size, int]],
        taken: set[str],
    ) -> bool:
        """Let those in ``rest`` take what is ``left`` of the queues from `depth` up; whether anybody could."""
        able = _able(depth, left, rest)
        found = False
        for prod in (True, False):
            mine = [leaf for leaf in able if (leaf.leaf.klass is QueueClass.PROD) is prod]
            for task in heapq.merge(*(leaf.rest() for leaf in mine), key=_KEY) if mine else ():
                leaf = self.leaves[task.leaf]
                above = inner_above(leaf.inner, depth)
                if task.id in taken or not all(fits(left[queue], task.milli, task.dims) for queue in above):
                    continue
                found = True
                taken.add(task.id)
                size_count(rest[leaf], (task.dims, task.milli), -1)
                for queue in leaf.inner:
                    take(left[queue], task.milli, task.dims)
                while able and not _fitting(able[-1], depth, left, rest[able[-1]]):
                    able.pop()  # what is left only becomes less
                if not able:
                    return True
        return found


def _able(depth: int, left: dict[Queue, Vector], rest: dict[LeafStanding, dict[Size, int]]) -> list[LeafStanding]:
    """The leaves of which somebody left over still fits."""
    return [leaf for leaf, sizes in rest.items() if _fitting(leaf, depth, left, sizes)]


def _fitting(leaf: LeafStanding, depth: int, left: dict[Queue, Vector], sizes: dict[Size, int]) -> bool:
    """Whether somebody of a leaf of these sizes fits into what is left."""
    above = inner_above(leaf.inner, depth)
    if not above:
        return False
    for dims, milli in sizes:
        for queue in above:
            if not fits(left[queue], milli, dims):
                break
        else:
            return True
    return False


def inner_above(inner: tuple[Queue, ...], depth: int) -> tuple[Queue, ...]:
    """Of the inner queues above a leaf those from `depth` (1 = tenant, 2 = project) up to the tenant."""
    return inner[len(inner) - depth :] if len(inner) >= depth else ()


def borrowed(leaf: Queue) -> Rank:
    return Rank.BORROWED_PROD if leaf.klass is QueueClass.PROD else Rank.BORROWED_BATCH
