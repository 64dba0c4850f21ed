"""Who uses what: usage of every queue, and the limits that the next job would break (scheduling §1).

Usage counts running jobs and holds; the victims of a hold no longer count (§4).  Every change can be undone by its
opposite, so that a placement can be tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from millpond.scheduling.quota import FREE, Dims, Queue, Tree


@dataclass(frozen=True, slots=True)
class CapLack:
    """A cap that `milli` more would break, in one dimension: ``have`` is used of ``limit``."""

    queue: Queue
    dim: int
    have: int
    limit: int
    need: int

    @property
    def deficit(self) -> int:
        return self.have + self.need - self.limit


class Usage:
    """Milli-cards used in each queue and dimension; ``firm`` counts only non-preemptible jobs of leaves."""

    def __init__(self, tree: Tree) -> None:
        width, count = len(tree.dims), len(tree.queues)
        self._tree = tree
        self._used = [[0] * width for _ in range(count)]
        self._firm = [[0] * width for _ in range(count)]
        self._shares = [-1] * count
        """Dominant shares, by queue; -1 where usage has changed since."""
        self._strict = [queue for queue in tree.queues.values() if not queue.config.lend]

    def add(self, leaf: Queue, milli: int, dims: Dims, *, firm: bool, sign: int = 1) -> None:
        """Count `milli` in the leaf and every ancestor; ``sign`` -1 takes it back."""
        amount = milli * sign
        self._shares[leaf.index] = -1
        for queue in leaf.path:
            used = self._used[queue.index]
            for dim in dims:
                used[dim] += amount
        if firm:
            counted = self._firm[leaf.index]
            for dim in dims:
                counted[dim] += amount

    def used(self, queue: Queue, dim: int = 0) -> int:
        return self._used[queue.index][dim]

    @property
    def keeping(self) -> bool:
        """Whether any queue does not lend."""
        return bool(self._strict)

    def cap_lacks(self, leaf: Queue, milli: int, dims: Dims) -> Iterator[CapLack]:
        """Every cap of the leaf and its ancestors that `milli` more would break, the leaf's first."""
        if milli == 0:
            return
        for queue in leaf.path:
            used = self._used[queue.index]
            for dim in dims:
                if queue.cap[dim] != FREE and used[dim] + milli > queue.cap[dim]:
                    yield CapLack(queue, dim, used[dim], queue.cap[dim], milli)

    def capped(self, leaf: Queue, milli: int, dims: Dims) -> bool:
        """Whether `milli` more would break any cap of the leaf and its ancestors."""
        if milli:
            for queue in leaf.path:
                used, cap = self._used[queue.index], queue.cap
                for dim in dims:
                    if used[dim] + milli > cap[dim] != FREE:
                        return True
        return False

    def caps(self, leaf: Queue, milli: int, dims: Dims) -> Iterator[CapLack]:
        """Every cap of the leaf and its ancestors, whether `milli` more would break it or not."""
        for queue in leaf.path:
            used = self._used[queue.index]
            for dim in dims:
                if milli and queue.cap[dim] != FREE:
                    yield CapLack(queue, dim, used[dim], queue.cap[dim], milli)

    def guarantee_lack(self, leaf: Queue, milli: int, dims: Dims) -> CapLack | None:
        """The dimension in which a non-preemptible job would not fit its leaf's guarantee, if any."""
        if milli:
            firm = self._firm[leaf.index]
            for dim in dims:
                if firm[dim] + milli > leaf.guarantee[dim]:
                    return CapLack(leaf, dim, firm[dim], leaf.guarantee[dim], milli)
        return None

    def share(self, leaf: Queue) -> int:
        """Dominant share, the largest usage/deserved of the leaf, as an integer that orders as the fraction does.

        A deserved amount of 0 counts as 1 milli-card.  Two different fractions with denominators below 2^64 differ by
        more than 2^-128, so that much of a fraction tells them apart.
        """
        known = self._shares[leaf.index]
        if known >= 0:
            return known
        largest = 0
        for amount, deserved in zip(self._used[leaf.index], leaf.deserved, strict=True):
            if amount and deserved != FREE:
                largest = max(largest, (amount << 128) // (deserved or 1))
        self._shares[leaf.index] = largest
        return largest

    def kept(self, leaf: Queue, dim: int, returned: dict[Queue, int] | None = None) -> int:
        """Milli-cards of a dimension that claims of `leaf` must leave free for queues that do not lend (§1).

        ``returned``: usage that would end by a tried eviction, per queue.
        """
        return self._kept(self._tree.root, frozenset(leaf.path), dim, returned or {}) if self._strict else 0

    def keepers(self, leaf: Queue, dim: int) -> tuple[Queue, ...]:
        """The queues that `kept` speaks of."""
        path = frozenset(leaf.path)
        return tuple(queue for queue in self._strict if queue not in path and self._unused(queue, dim, {}) > 0)

    def _kept(self, queue: Queue, path: frozenset[Queue], dim: int, returned: dict[Queue, int]) -> int:
        inside = sum(self._kept(child, path, dim, returned) for child in queue.children)
        if queue in path or queue.config.lend:
            return inside
        return max(inside, self._unused(queue, dim, returned))

    def _unused(self, queue: Queue, dim: int, returned: dict[Queue, int]) -> int:
        guarantee = queue.guarantee[dim] if queue.guarantee[dim] != FREE else queue.guarantee[0]
        return max(0, guarantee - self._used[queue.index][dim] + returned.get(queue, 0))
