"""Who goes first (scheduling §5): leaf order inside a leaf, and across leaves the head with the smallest key.

The key (claim rank, dominant share, submit time, id) changes with every admission, so the heads of the tenants that an
admission touched are keyed again; stale entries of the heap are skipped.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable

from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import ask_make, ask_on
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State
from millpond.scheduling.tasks import claim_key

HeadKey = tuple[Rank, int, int, str]


class Line:
    """The waiting jobs of one leaf that are still to be judged, the next one last."""

    __slots__ = ("jobs", "leaf", "stamp")

    def __init__(self, leaf: Queue, jobs: Iterable[Job]) -> None:
        self.leaf = leaf
        self.jobs = sorted(jobs, key=claim_key, reverse=True)
        self.stamp = 0


class Order:
    """Gives the waiting jobs one after the other; each is judged once, unless it is put back."""

    def __init__(self, state: State, jobs: Iterable[Job]) -> None:
        self._state = state
        by_leaf: dict[Queue, list[Job]] = {}
        for job in jobs:
            by_leaf.setdefault(state.leaf(job), []).append(job)
        self._lines = {leaf: Line(leaf, by_leaf[leaf]) for leaf in sorted(by_leaf, key=lambda leaf: leaf.index)}
        self._heap: list[tuple[HeadKey, int, int]] = []
        self._leaves = {leaf.index: line for leaf, line in self._lines.items()}
        state.changed.clear()
        for line in self._lines.values():
            self._push(line)

    def take(self) -> Job | None:
        """The next job to judge."""
        self._rekey()
        while self._heap:
            _, index, stamp = heapq.heappop(self._heap)
            line = self._leaves[index]
            if stamp == line.stamp:
                job = line.jobs.pop()
                self._push(line)
                return job
        return None

    def back(self, job: Job) -> None:
        """Judge a job (again)."""
        leaf = self._state.leaf(job)
        line = self._lines.get(leaf)
        if line is None:
            line = self._lines[leaf] = self._leaves[leaf.index] = Line(leaf, ())
        insort(line.jobs, job, key=lambda waiting: tuple(_reverse(waiting)))
        self._push(line)

    def close(self, leaf: Queue) -> list[Job]:
        """Judge nobody more of a leaf; returns those left, in order."""
        line = self._lines[leaf]
        left = line.jobs[::-1]
        line.jobs = []
        line.stamp += 1
        return left

    def _push(self, line: Line) -> None:
        line.stamp += 1
        if line.jobs:
            heapq.heappush(self._heap, (self.key(line.jobs[-1]), line.leaf.index, line.stamp))

    def _rekey(self) -> None:
        for tenant in sorted(self._state.changed, key=lambda queue: queue.index):
            for leaf, line in self._lines.items():
                if leaf.tenant is tenant and line.jobs:
                    self._push(line)
        self._state.changed.clear()

    def key(self, job: Job) -> HeadKey:
        """What decides across leaves."""
        return (job_rank(self._state, job), self._state.usage.share(self._state.leaf(job)), job.submitted, job.id)


def job_rank(state: State, job: Job) -> Rank:
    """The rank of a claim as things stand, on the model that is best for it, at its smallest size."""
    leaf, pool, tree = state.leaf(job), state.pool, state.tree
    models = pool.models(job.gpu) or ("",)
    if job.gpu.slice:
        ask = ask_make(job)
        return min(state.claim_rank(leaf, ask_on(pool, ask, model).total, tree.dims_of(model)) for model in models)
    milli = job.gpu.milli_min * job.nodes
    return min(state.claim_rank(leaf, milli, tree.dims_of(model)) for model in models)


class _Backwards:
    """An id that sorts in reverse."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Backwards) -> bool:
        return self.text > other.text


def _reverse(job: Job) -> tuple[int, int, _Backwards]:
    priority, submitted, name = claim_key(job)
    return (-priority, -submitted, _Backwards(name))
