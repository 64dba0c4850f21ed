"""The ranked tasks of one leaf, and what they leave of its own (scheduling §2), kept up to date task by task.

The tasks lie in blocks in leaf order.  A block of which all fit, or nobody, is passed in one step, and after a change
only the blocks that begin with something else are walked again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter

from millpond.domain.jobs import QueueClass
from millpond.scheduling.quota import Dims, Queue, Vector, fits, take
from millpond.scheduling.tasks import OrderKey, Task

Size = tuple[Dims, int]
"""Dimensions and milli-cards: tasks of one size fit together or not at all."""

_BLOCK = 32
"""Tasks in a block; it is split at twice that."""

_KEY = attrgetter("key")


class Block:
    """Consecutive tasks of a leaf: what was left of guarantee and deserved before and behind them, who was passed."""

    __slots__ = ("before", "counts", "deserved", "guarantee", "passed", "rest", "stale", "sums", "tasks")

    def __init__(self, tasks: list[Task], width: int) -> None:
        self.tasks = tasks
        self.counts: dict[Size, int] = {}
        self.sums: Vector = [0] * width
        for task in tasks:
            self.count(task, 1)
        self.before: tuple[Vector, Vector] = ([], [])
        self.guarantee: Vector = []
        self.deserved: Vector = []
        self.passed: dict[Size, int] = {}
        self.rest: list[Task] = []
        self.stale = True

    def count(self, task: Task, sign: int) -> None:
        size_count(self.counts, (task.dims, task.milli), sign)
        take(self.sums, -sign * task.milli, task.dims)

    def append(self, task: Task) -> bool:
        """Add a task that comes last, to a block that is up to date; whether it fits."""
        fit = fits(self.deserved, task.milli, task.dims)
        whole = self.rest is self.tasks
        if fit:
            if whole:
                self.rest = list(self.tasks)
            take(self.deserved, task.milli, task.dims)
            if fits(self.guarantee, task.milli, task.dims):
                take(self.guarantee, task.milli, task.dims)
        else:
            size_count(self.passed, (task.dims, task.milli), 1)
            if not whole:
                self.rest.append(task)
        self.tasks.append(task)
        self.count(task, 1)
        return fit

    def walk(self, guarantee: Vector, deserved: Vector) -> None:
        """Walk the block with so much left before it."""
        self.before = (guarantee, deserved)
        self.guarantee, self.deserved = list(guarantee), list(deserved)
        self.stale = False
        if not any_fits(deserved, self.counts):
            self.passed, self.rest = dict(self.counts), self.tasks
            return
        self.passed, self.rest = {}, []
        if _covers(deserved, self.sums):
            _subtract(self.deserved, self.sums)
            if not any_fits(guarantee, self.counts):
                return
            if _covers(guarantee, self.sums):
                _subtract(self.guarantee, self.sums)
                return
            for task in self.tasks:
                if fits(self.guarantee, task.milli, task.dims):
                    take(self.guarantee, task.milli, task.dims)
            return
        for task in self.tasks:
            if not fits(self.deserved, task.milli, task.dims):
                self.rest.append(task)
                size_count(self.passed, (task.dims, task.milli), 1)
                continue
            take(self.deserved, task.milli, task.dims)
            if fits(self.guarantee, task.milli, task.dims):
                take(self.guarantee, task.milli, task.dims)


class LeafStanding:
    """One leaf: ``guarantee`` and ``deserved`` are what its ranked tasks leave of its own, ``passed`` who fits
    neither, by size.  Tasks without cards take nothing and are not kept; of a besteffort leaf only ``crowd`` is."""

    __slots__ = (
        "_blocks", "_first", "_settled", "_stale", "crowd", "deserved", "guarantee", "inner", "leaf", "over", "passed",
        "plain", "stamp", "used",
    )  # fmt: skip

    def __init__(self, leaf: Queue) -> None:
        self.leaf = leaf
        self.plain = leaf.klass is QueueClass.BESTEFFORT
        self.crowd = 0
        self.inner = leaf.path[1:-1]
        self.guarantee: Vector = list(leaf.guarantee)
        self.deserved: Vector = list(leaf.deserved)
        self.passed: dict[Size, int] = {}
        self.stamp = 0
        """Another number after every change."""
        self.used: Vector = [0] * len(leaf.deserved)
        self.over: Vector = [0] * len(leaf.deserved)
        """What the ranked take of its own, and what those passed take elsewhere, as the tenant has counted it."""
        self._blocks: list[Block] = []
        self._stale = 0
        self._first = 0
        self._settled = 0

    def put(self, task: Task) -> None:
        self.crowd += 1
        self.stamp += 1
        if self.plain or not task.milli:
            return
        last = self._blocks[-1] if self._blocks else None
        if last is not None and not last.stale and last.tasks[-1].key < task.key and len(last.tasks) < 2 * _BLOCK:
            if not last.append(task):
                size_count(self.passed, (task.dims, task.milli), 1)
            return
        index = self._index(task)
        if not self._blocks:
            self._blocks.append(Block([], len(self.deserved)))
            self._stale += 1
        block = self._touch(index)
        block.tasks.insert(bisect_left(block.tasks, task.key, key=_KEY), task)
        block.count(task, 1)
        if len(block.tasks) > 2 * _BLOCK:
            self._blocks[index : index + 1] = [
                Block(block.tasks[:_BLOCK], len(self.deserved)),
                Block(block.tasks[_BLOCK:], len(self.deserved)),
            ]
            self._stale += 1

    def drop(self, task: Task) -> None:
        self.crowd -= 1
        self.stamp += 1
        if self.plain or not task.milli:
            return
        index = self._index(task)
        block = self._touch(index)
        del block.tasks[bisect_left(block.tasks, task.key, key=_KEY)]
        block.count(task, -1)
        if not block.tasks:
            del self._blocks[index]
            self._stale -= 1
            if index < len(self._blocks):
                self._touch(index)  # what was left before it is no longer known

    def _index(self, task: Task) -> int:
        """The block where a task sits or would sit."""
        low, high = 0, len(self._blocks)
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle].tasks[0].key <= task.key:
                low = middle + 1
            else:
                high = middle
        return max(0, low - 1)

    def _touch(self, index: int) -> Block:
        block = self._blocks[index]
        self._first = min(self._first, index)
        if not block.stale:
            block.stale = True
            self._stale += 1
            self._forget(block)
        return block

    def _forget(self, block: Block) -> None:
        for size, count in block.passed.items():
            size_count(self.passed, size, -count)
        block.passed, block.rest = {}, []

    def settle(self) -> None:
        """Bring everything up to date."""
        blocks, index = self._blocks, self._first
        if index >= len(blocks) and not self._stale and self._settled == len(blocks):
            return
        guarantee, deserved = self.leaf.guarantee, self.leaf.deserved
        if 0 < index <= len(blocks):
            guarantee, deserved = blocks[index - 1].guarantee, blocks[index - 1].deserved
        moved = False
        while index < len(blocks) and (self._stale or moved):
            block = blocks[index]
            index += 1
            if not block.stale and block.before == (guarantee, deserved):
                moved = False
            else:
                moved = True
                if block.stale:
                    self._stale -= 1
                else:
                    self._forget(block)
                block.walk(guarantee, deserved)
                for size, count in block.passed.items():
                    size_count(self.passed, size, count)
            guarantee, deserved = block.guarantee, block.deserved
        last = blocks[-1] if blocks else None
        self.guarantee = last.guarantee if last is not None else self.leaf.guarantee
        self.deserved = last.deserved if last is not None else self.leaf.deserved
        self._first = self._settled = len(blocks)

    def before(self, key: OrderKey) -> tuple[Vector, Vector]:
        """What those up to `key` in leaf order leave of guarantee and deserved."""
        for block in reversed(self._blocks):
            if block.tasks[0].key > key:
                continue
            if block.tasks[-1].key <= key:
                return block.guarantee, block.deserved
            guarantee, deserved = list(block.before[0]), list(block.before[1])
            for task in block.tasks:
                if task.key > key:
                    break
                if fits(deserved, task.milli, task.dims):
                    take(deserved, task.milli, task.dims)
                    if fits(guarantee, task.milli, task.dims):
                        take(guarantee, task.milli, task.dims)
            return guarantee, deserved
        return self.leaf.guarantee, self.leaf.deserved

    def rest_behind(self, key: OrderKey) -> bool:
        """Whether anybody behind `key` was passed."""
        for block in reversed(self._blocks):
            if block.rest and block.rest[-1].key > key:
                return True
            if block.tasks[0].key <= key:
                return False
        return False

    def rest(self) -> Iterator[Task]:
        """Who was passed, in leaf order."""
        for block in self._blocks:
            yield from block.rest


def any_fits(left: Vector, sizes: Iterable[Size]) -> bool:
    return any(fits(left, milli, dims) for dims, milli in sizes)


def size_count(counts: dict[Size, int], size: Size, number: int) -> None:
    """Add to a count; a size of which none is left has no entry."""
    total = counts.get(size, 0) + number
    if total:
        counts[size] = total
    else:
        counts.pop(size, None)


def sizes_sum(sizes: dict[Size, int], width: int) -> Vector:
    """Milli-cards of so many tasks of each size, by dimension."""
    found = [0] * width
    for (dims, milli), count in sizes.items():
        for dim in dims:
            found[dim] += milli * count
    return found


def _covers(left: Vector, sums: Vector) -> bool:
    return all(have >= need for have, need in zip(left, sums, strict=True))


def _subtract(left: Vector, sums: Vector) -> None:
    for dim, amount in enumerate(sums):
        left[dim] -= amount
