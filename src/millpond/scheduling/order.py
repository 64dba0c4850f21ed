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
from millpond.scheduling.waiting import Line

HeadKey = tuple[Rank, int, int, str]


class Head:
    """How far a pass has come in one line.  ``back`` are jobs to be judged again, in leaf order."""

    __slots__ = ("back", "line", "place", "skipped", "stamp")

    def __init__(self, line: Line, skipped: Iterable[str]) -> None:
        self.line = line
        self.skipped = skipped
        self.place = 0
        self.back: list[Job] = []
        self.stamp = 0

    def peek(self) -> Job | None:
        """The next job."""
        jobs = self.line.jobs
        while self.place < len(jobs) and jobs[self.place].id in self.skipped:
            self.place += 1
        first = jobs[self.place] if self.place < len(jobs) else None
        if self.back and (first is None or claim_key(self.back[0]) < claim_key(first)):
            return self.back[0]
        return first

    def pop(self) -> None:
        """Be done with the job that `peek` gave."""
        if self.back and self.back[0] is self.peek():
            del self.back[0]
        else:
            self.place += 1


class Order:
    """Gives the waiting jobs one after the other; each is judged once, unless it is put back.  Who holds cards is not
    among them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._heap: list[tuple[HeadKey, int, int]] = []
        self._heads: dict[int, Head] = {}
        self._tenants: dict[Queue, list[Head]] = {}
        state.changed.clear()
        for line in state.waiters.busy.values():
            self._push(self._head(line))

    def _head(self, line: Line) -> Head:
        head = self._heads.get(line.leaf.index)
        if head is None:
            head = self._heads[line.leaf.index] = Head(line, self._state.holds)
            self._tenants.setdefault(line.leaf.tenant, []).append(head)
        return head

    def take(self) -> Job | None:
        """The next job to judge."""
        self._rekey()
        while self._heap:
            _, index, stamp = heapq.heappop(self._heap)
            head = self._heads[index]
            if stamp == head.stamp:
                job = head.peek()
                head.pop()
                self._push(head)
                return job
        return None

    def back(self, job: Job) -> None:
        """Judge a job (again)."""
        head = self._head(self._state.waiters.lines[self._state.leaf(job)])
        insort(head.back, job, key=claim_key)
        self._push(head)

    def close(self, leaf: Queue) -> list[Job]:
        """Judge nobody more of a leaf; returns those left, in order."""
        head = self._heads[leaf.index]
        left: list[Job] = []
        while (job := head.peek()) is not None:
            left.append(job)
            head.pop()
        head.stamp += 1
        return left

    def _push(self, head: Head) -> None:
        head.stamp += 1
        job = head.peek()
        if job is not None:
            heapq.heappush(self._heap, (self.key(job), head.line.leaf.index, head.stamp))

    def _rekey(self) -> None:
        if self._state.changed:
            for tenant in self._state.changed:
                for head in self._tenants.get(tenant, ()):
                    self._push(head)
            self._state.changed.clear()

    def key(self, job: Job) -> HeadKey:
        """What decides across leaves."""
        return (job_rank(self._state, job), self._state.usage.share(self._state.leaf(job)), job.submitted, job.id)


def job_rank(state: State, job: Job) -> Rank:
    """The rank of a claim as things stand, on the model that is best for it, at its smallest size."""
    group = state.group(job)
    if group.ranked != state.version:
        group.ranked, group.rank = state.version, _rank(state, job)
    return group.rank


def _rank(state: State, job: Job) -> Rank:
    leaf, pool, tree = state.leaf(job), state.pool, state.tree
    models = pool.models(job.gpu) or ("",)
    if job.gpu.slice:
        ask = ask_make(job)
        return min(state.claim_rank(leaf, ask_on(pool, ask, model).total, tree.dims_of(model)) for model in models)
    milli = job.gpu.milli_min * job.nodes
    return min(state.claim_rank(leaf, milli, tree.dims_of(model)) for model in models)
