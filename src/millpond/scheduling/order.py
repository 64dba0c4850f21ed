"""Who goes first (scheduling §5): leaf order inside a leaf, and across leaves the head with the smallest key.

The key (claim rank, dominant share, submit time, id) changes with every admission, so the heads of the tenants that an
admission touched are keyed again; stale entries of the heap are skipped.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Container, Iterable, Sequence

from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import ask_make, ask_on
from millpond.scheduling.kept import Kept
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State
from millpond.scheduling.tasks import behind, claim_key
from millpond.scheduling.waiting import Kin, Line, Waiting

HeadKey = tuple[Rank, int, int, str]


class Head:
    """How far a pass has come in one line.

    ``back`` are jobs to be judged again, in leaf order.  ``passed`` are the places, from ``place`` on, of jobs whose
    equals have just failed, and ``keys`` the largest key up to each: they count as judged once that key has its turn.
    """

    __slots__ = ("back", "keys", "line", "passed", "place", "skipped", "stamp")

    def __init__(self, line: Line, skipped: Container[str]) -> None:
        self.line = line
        self.skipped = skipped
        self.place = 0
        self.back: list[Job] = []
        self.stamp = 0
        self.passed: list[int] = []
        self.keys: list[HeadKey] = []

    def peek(self) -> Job | None:
        """The next job."""
        jobs, place = self.line.jobs, self.passed[-1] + 1 if self.passed else self.place
        while place < len(jobs) and jobs[place].id in self.skipped:
            place += 1
        if not self.passed:
            self.place = place
        first = jobs[place] if place < len(jobs) else None
        if self.back and (first is None or claim_key(self.back[0]) < claim_key(first)):
            return self.back[0]
        return first

    def pop(self) -> None:
        """Be done with the job that `peek` gave, and with those passed before it."""
        job = self.peek()
        if self.back and self.back[0] is job:
            del self.back[0]
            return
        if self.passed:
            self.place = self.passed[-1] + 1
            self.passed.clear()
            self.keys.clear()
            self.peek()
        self.place += 1

    def end(self) -> None:
        """Be done with everybody."""
        self.place = len(self.line.jobs)
        self.back.clear()
        self.passed.clear()
        self.keys.clear()
        self.stamp += 1

    def skip(self, waiters: Waiting, moment: tuple[int, ...], share: int, kept: Sequence[Kept]) -> None:
        """Pass everybody whose equals have failed at `moment`, up to the first of whom that is not known."""
        reserved = [one.job.id for one in kept]
        ours = [one.job for one in kept if one.leaf is self.line.leaf]
        jobs, place = self.line.jobs, self.passed[-1] + 1 if self.passed else self.place
        last = self.keys[-1] if self.keys else None
        for index in range(place, len(jobs)):
            job = jobs[index]
            if job.id in self.skipped:
                continue
            group = waiters.equals(job)
            kin = group.kin
            if job.id in reserved or (group.failed != moment and not (kin.failed == moment and _same(kin, job, ours))):
                break
            key = (kin.rank, share, job.submitted, job.id)
            if last is None or key > last:
                last = key
            self.passed.append(index)
            self.keys.append(last)

    def settle(self, key: HeadKey) -> None:
        """Jobs that were passed have had their turn up to that key; the others are to be judged again."""
        count = bisect_right(self.keys, key)
        if count:
            self.place = self.passed[count - 1] + 1
        self.passed.clear()
        self.keys.clear()


def _same(kin: Kin, job: Job, reserved: Iterable[Job]) -> bool:
    """Whether the reservations of its own leaf bind a job as they bound the one of another priority that failed."""
    first = kin.first
    return first is not None and all(behind(first, other) is behind(job, other) for other in reserved)


class Order:
    """Gives the waiting jobs one after the other; each is judged once, unless it is put back.  Who holds cards is not
    among them.

    ``brief``: jobs whose equals have failed since anything changed are left out.
    """

    def __init__(self, state: State, *, brief: bool = False) -> None:
        self._state = state
        self._brief = brief
        self._number = state.serial()
        self._last: HeadKey | None = None
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
            key, index, stamp = heapq.heappop(self._heap)
            head = self._heads[index]
            if stamp == head.stamp:
                job = head.peek()
                head.pop()
                self._last = key
                self._push(head)
                return job
        return None

    def failed(self, job: Job) -> None:
        """A job has been judged in vain: so would its equals be, as things stand."""
        if self._brief:
            state, group = self._state, self._state.group(job)
            leaf = state.leaf(job)
            group.failed = self._moment()
            mine = state.leaf_tasks[leaf]
            if not (mine and behind(mine[-1].job, job)):
                group.kin.failed, group.kin.first = group.failed, job
            head = self._heads[leaf.index]
            self._push(head)

    def _moment(self) -> tuple[int, ...]:
        return (self._state.version, self._number, *(kept.serial for kept in self._state.kept))

    def back(self, job: Job) -> None:
        """Judge a job (again)."""
        head = self._head(self._state.waiters.lines[self._state.leaf(job)])
        insort(head.back, job, key=claim_key)
        self._push(head)

    def close(self, leaf: Queue) -> list[Job]:
        """Judge nobody more of a leaf; returns those left, in order, unless the pass is ``brief``."""
        head = self._heads[leaf.index]
        if self._brief:
            head.end()
            return []
        left: list[Job] = []
        while (job := head.peek()) is not None:
            left.append(job)
            head.pop()
        head.stamp += 1
        return left

    def _push(self, head: Head) -> None:
        head.stamp += 1
        if self._brief and not head.back:
            state = self._state
            head.skip(state.waiters, self._moment(), state.usage.share(head.line.leaf), state.kept)
        job = head.peek()
        if job is not None:
            key = self.key(job)
            if head.keys and head.keys[-1] > key:
                key = head.keys[-1]
            heapq.heappush(self._heap, (key, head.line.leaf.index, head.stamp))

    def _rekey(self) -> None:
        state = self._state
        if state.changed:
            if self._brief and self._last is not None:
                for head in self._heads.values():  # who was passed without having had his turn is judged again
                    if head.passed:
                        head.settle(self._last)
                        self._push(head)
            for tenant in state.changed:
                for head in self._tenants.get(tenant, ()):
                    self._push(head)
            state.changed.clear()

    def key(self, job: Job) -> HeadKey:
        """What decides across leaves."""
        return (job_rank(self._state, job), self._state.usage.share(self._state.leaf(job)), job.submitted, job.id)


def job_rank(state: State, job: Job) -> Rank:
    """The rank of a claim as things stand, on the model that is best for it, at its smallest size."""
    kin = state.group(job).kin
    if kin.ranked != state.version:
        kin.ranked, kin.rank = state.version, _rank(state, job)
    return kin.rank


def _rank(state: State, job: Job) -> Rank:
    leaf, pool, tree = state.leaf(job), state.pool, state.tree
    models = pool.models(job.gpu) or ("",)
    if job.gpu.slice:
        ask = ask_make(job)
        return min(state.claim_rank(leaf, ask_on(pool, ask, model).total, tree.dims_of(model)) for model in models)
    milli = job.gpu.milli_min * job.nodes
    return min(state.claim_rank(leaf, milli, tree.dims_of(model)) for model in models)
