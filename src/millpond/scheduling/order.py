"""Who goes first (scheduling §5): leaf order inside a leaf, and across leaves the head with the smallest key.

The key (claim rank, dominant share, submit time, id) changes with every admission, so the heads of the tenants that an
admission touched are keyed again; stale entries of the heap are skipped.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence

from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_on
from millpond.scheduling.kept import Kept
from millpond.scheduling.quota import Dims, Queue
from millpond.scheduling.snapshot import Hold, Job
from millpond.scheduling.state import State
from millpond.scheduling.tasks import behind, claim_key
from millpond.scheduling.waiting import Group, Kin, Line, Waiting, edge_of

HeadKey = tuple[Rank, int, int, str]


class Passed:
    """Jobs of one group that a head has passed since their equals had failed: ``low`` up to ``high`` of the group's.

    ``rank`` and ``share`` begin their keys.
    """

    __slots__ = ("group", "high", "low", "rank", "share")

    def __init__(self, group: Group, rank: Rank, share: int, low: int, high: int) -> None:
        self.group = group
        self.rank = rank
        self.share = share
        self.low = low
        self.high = high

    def last(self) -> HeadKey:
        """The largest key."""
        submitted, name = self.group.places[self.high - 1]
        return (self.rank, self.share, submitted, name)

    def above(self, key: HeadKey | None, skipped: Mapping[str, Hold]) -> Job | None:
        """The first whose key is larger than `key`."""
        index, jobs = self.low, self.group.jobs
        if key is not None and (self.rank, self.share) < key[:2]:
            return None
        if key is not None and (self.rank, self.share) == key[:2]:
            index = max(index, bisect_right(self.group.places, key[2:]))
        while index < self.high and jobs[index].id in skipped:
            index += 1
        return jobs[index] if index < self.high else None


class Head:
    """How far a pass has come in one line.

    ``back`` are jobs to be judged again, in leaf order.  From ``place`` up to ``until`` all jobs have been passed,
    since their equals have just failed; ``most`` is their largest key: they count as judged once it has its turn.
    ``reach`` is the largest that has had its turn since, which need not be the last: a leaf's next may rank better.
    ``blocker``: who waits, so that nobody behind it is judged.
    """

    __slots__ = ("_left", "back", "blocker", "line", "most", "passed", "place", "reach", "skipped", "stamp", "until")

    def __init__(self, line: Line, skipped: Mapping[str, Hold]) -> None:
        self.line = line
        self.skipped = skipped
        self.place = self.until = 0
        self.back: list[Job] = []
        self.stamp = 0
        self.passed: list[Passed] = []
        self.most: HeadKey | None = None
        self.reach: HeadKey | None = None
        self.blocker: Job | None = None
        self._left: tuple[int, list[Job]] = (0, [])
        """Where it was closed, and who was to be judged again then."""

    def peek(self) -> Job | None:
        """The next job."""
        jobs, place = self.line.jobs, max(self.place, self.until)
        if self.skipped:
            while place < len(jobs) and jobs[place].id in self.skipped:
                place += 1
        self.until = place
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
        self._begin(self.until + 1)

    def _begin(self, place: int) -> None:
        self.place = self.until = place
        self.most = None
        if self.passed:
            self.passed.clear()

    def close(self, blocker: Job) -> None:
        """Be done with everybody, since `blocker` waits."""
        if self.peek() is not None or self.blocker is None:
            self.blocker, self._left = blocker, (self.place, self.back)
        self._begin(len(self.line.jobs))
        self.back = []
        self.stamp += 1

    def reopen(self) -> None:
        """Go on where it was closed."""
        place, back = self._left
        self.blocker = None
        self.back = sorted((*back, *self.back), key=claim_key)
        self._begin(place)

    def skip(self, waiters: Waiting, moment: int, share: int, kept: Sequence[Kept]) -> None:
        """Pass everybody whose equals have failed at `moment`, up to the first of whom that is not known."""
        line, place = self.line, self.until
        self.reach = None
        ours = [one.job for one in kept if one.leaf is line.leaf]
        first, failed = self._near(waiters, moment, ours)
        if first < 0:
            first, failed = self._far(moment, ours)
        for group in failed:
            low, high = self._from(group, place), self._from(group, first)
            while high > low and group.jobs[high - 1].id in self.skipped:
                high -= 1
            if high > low:
                passed = Passed(group, group.kin.rank, share, low, high)
                self.passed.append(passed)
                if self.most is None or passed.last() > self.most:
                    self.most = passed.last()
        self.until = first

    def _near(self, waiters: Waiting, moment: int, ours: list[Job]) -> tuple[int, list[Group]]:
        """Where to stop, and the groups passed, looking at one job after the other; -1 if it takes longer than to look
        at every group."""
        line, failed = self.line, dict[Group, None]()
        for index in range(self.until, len(line.jobs)):
            if index > self.until + 2 * len(line.groups):
                return -1, []
            job = line.jobs[index]
            if job.id in self.skipped:
                continue
            group = waiters.equals(job)
            if not _failed(group, moment, ours) or any(one.id == job.id for one in ours):
                return index, [*failed]
            failed[group] = None
        return len(line.jobs), [*failed]

    def _far(self, moment: int, ours: list[Job]) -> tuple[int, list[Group]]:
        """The same, looking at one group after the other."""
        line, first, failed = self.line, len(self.line.jobs), list[Group]()
        for group in line.groups.values():
            if _failed(group, moment, ours):
                failed.append(group)
                continue
            low = self._from(group, self.until)
            while low < len(group.jobs) and group.jobs[low].id in self.skipped:
                low += 1
            if low < len(group.jobs):
                first = min(first, line.index(group.jobs[low]))
        for job in ours:
            if job.id not in self.skipped and (index := line.find(job)) >= self.until:
                first = min(first, index)
        return first, failed

    def _from(self, group: Group, place: int) -> int:
        """The first of a group that stands at `place` of the line or behind it."""
        if place >= len(self.line.keys):
            return len(group.jobs)
        priority, submitted, name = self.line.keys[place]
        mine = -group.job.priority
        if mine != priority:
            return 0 if mine > priority else len(group.jobs)
        return bisect_left(group.places, (submitted, name))

    def done(self) -> None:
        """All who were passed have had their turn."""
        self._begin(self.until)

    def turn(self, key: HeadKey) -> None:
        """Somebody with that key has had his turn since some were passed here."""
        if self.reach is None or key > self.reach:
            self.reach = key

    def settle(self) -> None:
        """Jobs that were passed have had their turn up to ``reach``; the others are to be judged again."""
        place = self.until
        for passed in self.passed:
            job = passed.above(self.reach, self.skipped)
            if job is not None:
                place = min(place, self.line.index(job))
        self._begin(place)


def _failed(group: Group, moment: int, ours: Iterable[Job]) -> bool:
    """Whether an equal of a group has failed at `moment`."""
    kin = group.kin
    return group.failed == moment or (kin.failed == moment and _same(kin, group.job, ours))


def _same(kin: Kin, job: Job, reserved: Iterable[Job]) -> bool:
    """Whether a job may take as much from its own leaf as the one of another priority that failed: the same jobs stand
    behind it there, and the reservations of the leaf bind it as they bound that one."""
    first = kin.first
    if first is None or job.priority > first.priority:
        return False
    if kin.edge is not None and (job.preemptible, -job.priority) >= kin.edge:
        return False
    return all(behind(first, other) is behind(job, other) for other in reserved)


class Order:
    """Gives the waiting jobs one after the other; each is judged once, unless it is put back.  Who holds cards is not
    among them.

    ``brief``: jobs whose equals have failed since anything changed are left out.
    """

    def __init__(self, state: State, *, brief: bool = False) -> None:
        self._state = state
        self._brief = brief
        self._heap: list[tuple[HeadKey, int, int]] = []
        self._heads: dict[int, Head] = {}
        self._tenants: dict[Queue, list[Head]] = {}
        self._epochs: dict[Queue, int] = {}
        self._due: Head | None = None
        """The head of the job that was given last, with the number that it had then."""
        self._due_stamp = 0
        self._passing: list[Head] = []
        """Heads that have passed somebody."""
        self._moment = state.serial()
        self._version = state.version
        self._kept: list[int] = []
        state.changed.clear()
        for line in state.waiters.busy.values():
            self._push(self._head(line))

    def _head(self, line: Line) -> Head:
        head = self._heads.get(line.leaf.index)
        if head is None:
            head = self._heads[line.leaf.index] = Head(line, self._state.holds)
            tenant = line.leaf.tenant
            heads = self._tenants.get(tenant)
            if heads is None:
                self._tenants[tenant] = [head]
                self._epochs[tenant] = self._state.rank_epoch(tenant)
            else:
                heads.append(head)
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
                for other in self._passing:
                    other.turn(key)
                self._due, self._due_stamp = head, stamp
                return job
        for passing in self._passing:
            passing.done()
        self._passing.clear()
        return None

    def failed(self, job: Job) -> None:
        """A job has been judged in vain: so would its equals be, as things stand."""
        if self._brief:
            state, group = self._state, self._state.group(job)
            group.failed = self._now()
            kin = group.kin
            kin.failed, kin.first, kin.edge = group.failed, job, edge_of(state.leaf_tasks[group.leaf], job)

    def _now(self) -> int:
        """A number for the state and the reservations as they are."""
        state = self._state
        kept = [one.serial for one in state.kept] if state.kept else []
        if self._version != state.version or self._kept != kept:
            self._version, self._kept, self._moment = state.version, kept, state.serial()
        return self._moment

    def back(self, job: Job) -> None:
        """Judge a job (again)."""
        head = self._head(self._state.waiters.lines[self._state.leaf(job)])
        insort(head.back, job, key=claim_key)
        self._push(head)

    def close(self, leaf: Queue, blocker: Job) -> list[Job]:
        """Judge nobody more of a leaf in which `blocker` waits; returns those left, in order, unless ``brief``."""
        head = self._heads[leaf.index]
        if self._brief:
            head.close(blocker)
            return []
        left: list[Job] = []
        while (job := head.peek()) is not None:
            left.append(job)
            head.pop()
        head.stamp += 1
        return left

    def blocker(self, leaf: Queue) -> Job | None:
        """Who keeps the rest of a leaf from being judged in a ``brief`` pass."""
        head = self._heads.get(leaf.index)
        return None if head is None else head.blocker

    def reopen(self, leaf: Queue) -> None:
        """Go on where a leaf was closed."""
        head = self._heads[leaf.index]
        head.reopen()
        self._push(head)

    def _push(self, head: Head) -> None:
        head.stamp += 1
        job = head.peek()
        if job is None:
            return
        state = self._state
        if self._brief and not head.back:
            moment, group = self._now(), state.waiters.equals(job)
            if moment == group.failed or moment == group.kin.failed:
                head.skip(state.waiters, moment, state.usage.share(head.line.leaf), state.kept)
                if head.passed:
                    self._passing.append(head)
                job = head.peek()
                if job is None:
                    return
        key = self.key(job)
        if head.most is not None and head.most > key:
            key = head.most
        heapq.heappush(self._heap, (key, head.line.leaf.index, head.stamp))

    def _rekey(self) -> None:
        """Give a new key to the heads that what has happened since the last job may have moved."""
        state, due = self._state, self._due
        if state.changed:
            self._again()
            leaves = list(state.changed)
            state.changed.clear()
            for tenant in {leaf.tenant for leaf in leaves}:
                epoch = state.rank_epoch(tenant)
                if tenant in self._epochs and self._epochs[tenant] != epoch:
                    self._epochs[tenant] = epoch
                    for head in self._tenants[tenant]:
                        self._push(head)
            for leaf in leaves:
                moved = self._heads.get(leaf.index)
                if moved is not None:
                    self._push(moved)
        if due is not None:
            self._due = None
            if due.stamp == self._due_stamp:
                self._push(due)

    def _again(self) -> None:
        """Who was passed without having had his turn is to be judged again."""
        if self._passing:
            passing, self._passing = self._passing, []
            for head in passing:
                if head.passed:
                    head.settle()
                    self._push(head)

    def key(self, job: Job) -> HeadKey:
        """What decides across leaves."""
        return (job_rank(self._state, job), self._state.usage.share(self._state.leaf(job)), job.submitted, job.id)


def job_rank(state: State, job: Job) -> Rank:
    """The rank of a claim as things stand, on the model that is best for it, at its smallest size."""
    group = state.group(job)
    kin, stamp = group.kin, state.rank_stamp(group.leaf)
    if kin.ranked != stamp:
        kin.ranked = stamp
        if not kin.claims:
            kin.claims = _claims(state, job, group.ask)
        rank = Rank.OPPORTUNISTIC
        for milli, dims in kin.claims:
            rank = min(rank, state.claim_rank(group.leaf, milli, dims))
        kin.rank = rank
    return kin.rank


def _claims(state: State, job: Job, ask: Ask) -> list[tuple[int, Dims]]:
    """What a job would take on each model, in milli-cards, and in which dimensions."""
    pool, tree = state.pool, state.tree
    return [(ask_on(pool, ask, model).total, tree.dims_of(model)) for model in pool.models(job.gpu) or ("",)]
