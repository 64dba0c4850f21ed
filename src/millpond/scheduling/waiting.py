"""The waiting jobs, leaf by leaf in leaf order (scheduling §5), and in groups of equals.

Jobs of one group differ in nothing that a rule asks for but their submit time and id.  So what has failed for one of
them fails for all until something changes, and what keeps one waiting keeps all.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator

from millpond.domain.cards import CardRequest
from millpond.domain.reasons import Reason
from millpond.scheduling.board import Row
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_make
from millpond.scheduling.placing import scored
from millpond.scheduling.quota import Dims, Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.tasks import Task, behind, claim_key

GroupKey = tuple[str, CardRequest, int, int, int, str, str, int, bool, int | None]
ClaimKey = tuple[int, int, str]

NEVER = -1


class Kin:
    """What groups of one leaf share that differ in nothing but their priority: the rank, and mostly the failures.

    ``rank`` is as it was at ``ranked`` (`Ground.rank_stamp`); ``claims`` are what they would take on each model, where
    that is known.  ``first`` is the job that failed at the moment ``failed``; ``edge`` is the place of the next behind
    it who holds cards in its leaf, if anybody does.
    """

    __slots__ = ("claims", "edge", "failed", "first", "groups", "rank", "ranked")

    def __init__(self) -> None:
        self.groups = 0
        self.rank = Rank.OPPORTUNISTIC
        self.ranked = NEVER
        self.claims: list[tuple[int, Dims]] = []
        self.failed = NEVER
        self.first: Job | None = None
        self.edge: tuple[bool, int] | None = None


class Group:
    """Equal waiting jobs.  ``ask`` is theirs at their smallest size; ``job`` is one of them.

    ``plain``: it has one size, and the board may place it; ``row`` is what the board knows of it, if it was asked.

    ``unplaced``, ``unevicted`` and ``judged`` say when a start and an eviction failed and when the reasons were found:
    `State.freed` or `State.version` then, and the clock where time alone may change it.  ``bound`` are the reservations
    that the reasons speak of.
    ``alike`` is a number that is the same for all that quotas, ranks and reservations judge alike, whatever room they
    want beside their cards.
    """

    __slots__ = (
        "alike", "ask", "bound", "budgeted", "closed", "failed", "job", "jobs", "judged", "key", "kin", "kin_key",
        "leaf", "places", "plain", "reasons", "row", "unevicted", "unplaced",
    )  # fmt: skip

    def __init__(self, key: GroupKey, job: Job, leaf: Queue, kin: Kin, alike: int) -> None:
        self.key = key
        self.kin = kin
        self.alike = alike
        self.job = job
        self.leaf = leaf
        self.kin_key = kin_key(key)
        self.ask: Ask = ask_make(job)
        self.plain = not job.gpu.elastic and scored(self.ask)
        self.row: Row | None = None
        self.budgeted = any(queue.config.card_hours is not None for queue in leaf.path)
        self.jobs: list[Job] = []
        self.places: list[tuple[int, str]] = []
        """Submit time and id of each of ``jobs``, which they are ordered by."""
        self.unplaced: tuple[int, int] = (NEVER, NEVER)
        self.unevicted: tuple[int, ...] = ()
        self.judged: tuple[int, ...] = ()
        self.failed = self.closed = NEVER
        """At which moment one of them was judged in vain; when quota, and not room, kept them off the only model."""
        self.bound: tuple[int, ...] = ()
        self.reasons: tuple[Reason, ...] = ()

    def put(self, job: Job) -> None:
        """One more."""
        place = (job.submitted, job.id)
        index = bisect_left(self.places, place) if self.places and place < self.places[-1] else len(self.places)
        self.places.insert(index, place)
        self.jobs.insert(index, job)

    def drop(self, job: Job) -> None:
        """One less."""
        index = bisect_left(self.places, (job.submitted, job.id))
        del self.places[index]
        del self.jobs[index]

    def first(self, seated: Container[str]) -> Job | None:
        """The first who is not `seated`."""
        return next((job for job in self.jobs if job.id not in seated), None)

    def forget(self) -> None:
        """Nothing that was found is certain any more."""
        self.kin.ranked = NEVER
        self.kin.claims = []
        self.row = None
        self.unplaced, self.unevicted = (NEVER, NEVER), ()
        self.judged = ()


class Line:
    """The waiting jobs of one leaf in leaf order; ``keys`` are their claim keys."""

    __slots__ = ("groups", "jobs", "keys", "leaf")

    def __init__(self, leaf: Queue) -> None:
        self.leaf = leaf
        self.jobs: list[Job] = []
        self.keys: list[ClaimKey] = []
        self.groups: dict[GroupKey, Group] = {}

    def put(self, job: Job) -> None:
        key = claim_key(job)
        index = bisect_left(self.keys, key)
        self.keys.insert(index, key)
        self.jobs.insert(index, job)

    def drop(self, job: Job) -> None:
        index = bisect_left(self.keys, claim_key(job))
        del self.keys[index]
        del self.jobs[index]

    def index(self, job: Job) -> int:
        """Where a job of the line stands."""
        return bisect_left(self.keys, claim_key(job))

    def find(self, job: Job) -> int:
        """Where a job stands; -1 if it is not in the line."""
        index = self.index(job)
        return index if index < len(self.jobs) and self.jobs[index].id == job.id else -1


class Waiting:
    """All queued jobs: those that may be judged now in ``lines``, those that must not yet or not now beside them."""

    def __init__(self, leaves: Iterable[Queue]) -> None:
        self.lines = {leaf: Line(leaf) for leaf in leaves}
        self.busy: dict[Queue, Line] = {}
        """The lines in which somebody waits."""
        self.blocked: dict[str, Job] = {}
        """Jobs that have come but are not the scheduler's to place now."""
        self.groups: dict[GroupKey, Group] = {}
        self._kin: dict[GroupKey, Kin] = {}
        self._alike: dict[GroupKey, int] = {}
        self.slices: dict[str, int] = {}
        """How many slices of each profile are waited for."""
        self._group_of: dict[str, Group] = {}
        self._later: list[tuple[int, str, Job]] = []
        self._coming: dict[str, Job] = {}

    def put(self, leaf: Queue, job: Job, now: int) -> None:
        """Take a queued job in."""
        if job.submitted > now:
            self._coming[job.id] = job
            heapq.heappush(self._later, (job.submitted, job.id, job))
        elif job.blocked_by:
            self.blocked[job.id] = job
        else:
            line = self.busy[leaf] = self.lines[leaf]
            line.put(job)
            group = self.group(leaf, job)
            if not group.jobs:
                self._kin[group.kin_key] = group.kin
                group.kin.groups += 1
                self.groups[group.key] = line.groups[group.key] = group
            self._group_of[job.id] = group
            group.put(job)
            if job.gpu.slice:
                self._slices(job, 1)

    def drop(self, leaf: Queue, job: Job) -> None:
        """Forget a queued job."""
        group = self._group_of.pop(job.id, None)
        if group is None:
            self.blocked.pop(job.id, None)
            self._coming.pop(job.id, None)
            return
        line = self.lines[leaf]
        line.drop(job)
        if not line.jobs:
            del self.busy[leaf]
        if job.gpu.slice:
            self._slices(job, -1)
        group.drop(job)
        if not group.jobs:
            del self.groups[group.key]
            group.kin.groups -= 1
            if not group.kin.groups:
                del self._kin[group.kin_key]
            del line.groups[group.key]

    def _slices(self, job: Job, sign: int) -> None:
        name = job.gpu.slice
        self.slices[name] = self.slices.get(name, 0) + sign * job.gpu.slices * job.nodes
        if not self.slices[name]:
            del self.slices[name]

    def due(self, now: int) -> Iterator[Job]:
        """The jobs that arrive by `now`; the caller puts them in again."""
        while self._later and self._later[0][0] <= now:
            job = heapq.heappop(self._later)[2]
            if self._coming.get(job.id) is job:
                del self._coming[job.id]
                yield job

    def ready(self, job: Job) -> bool:
        """Whether it is in a line."""
        return job.id in self._group_of

    def group(self, leaf: Queue, job: Job) -> Group:
        """The group of a job, whether it is in a line or not."""
        known = self._group_of.get(job.id)
        if known is not None:
            return known
        key = (
            job.queue, job.gpu, job.nodes, job.cpu, job.memory, job.require, job.prefer, job.priority,
            job.preemptible, job.max_duration,
        )  # fmt: skip
        found = self.groups.get(key)
        if found is not None:
            return found
        alike = self._alike.setdefault(alike_key(key), len(self._alike))
        return Group(key, job, leaf, self._kin.get(kin_key(key)) or Kin(), alike)

    def equals(self, job: Job) -> Group:
        """The group of a job that is in a line."""
        return self._group_of[job.id]

    def lists(self) -> dict[Queue, list[Job]]:
        """The waiting jobs of every leaf that has any, in leaf order."""
        return {leaf: line.jobs for leaf, line in self.busy.items()}

    def forget(self) -> None:
        """The pool is another one: everything must be judged anew."""
        for group in self.groups.values():
            group.forget()


def kin_key(key: GroupKey) -> GroupKey:
    """The key of a group without its priority."""
    return (*key[:7], 0, *key[8:])


def alike_key(key: GroupKey) -> GroupKey:
    """The key of a group without its priority and the room that it wants beside its cards."""
    return (*key[:3], 0, 0, "", "", 0, *key[8:])


def edge_of(tasks: list[Task], job: Job) -> tuple[bool, int] | None:
    """Where the first of a leaf's `tasks` stands who is behind a claim: (preemptible, -priority)."""
    if not (tasks and behind(tasks[-1].job, job)):
        return None
    low, high = 0, len(tasks) - 1
    while low < high:
        middle = (low + high) // 2
        if behind(tasks[middle].job, job):
            high = middle
        else:
            low = middle + 1
    key = tasks[low].key
    return key[0], key[1]
