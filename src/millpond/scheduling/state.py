"""The world during one planning pass: who runs, holds and leaves, what that takes, and how everybody ranks.

`State` is built from a snapshot and then changed step by step as the plan grows; every change keeps usage, occupancy
and ranks in agreement.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter

from millpond.domain.jobs import QueueClass
from millpond.domain.queues import CARDS, QueueConfig
from millpond.scheduling.decisions import Rank
from millpond.scheduling.ends import Ends
from millpond.scheduling.kept import Kept
from millpond.scheduling.pool import HOLD, LEAVE, RUN, Pool, View, pool_size, seat_weight
from millpond.scheduling.quota import Dims, Queue, tree_build
from millpond.scheduling.rank import Claim, Walk, inner_queues, leaves_of, tenant_walk
from millpond.scheduling.slices import seats_clash
from millpond.scheduling.snapshot import Hold, Job, RunState, Seat, Settings, Snapshot
from millpond.scheduling.standing import LeafStanding, TenantStanding
from millpond.scheduling.tasks import Kind, Task, seats_milli
from millpond.scheduling.usage import Usage

_LAYER = {Kind.RUNNING: RUN, Kind.PLACED: RUN, Kind.DRAINING: LEAVE, Kind.HELD: HOLD}
_UNBEGUN = frozenset({Kind.PLACED, Kind.HELD})
_KEY = attrgetter("key")


class State:
    """See the module.  ``version`` grows with every change, so that failures may be remembered until then."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.settings = snapshot.settings
        self.jobs = {job.id: job for job in sorted(snapshot.jobs, key=attrgetter("id"))}
        self.pool = Pool(snapshot.nodes)
        self.tree = tree_build(_queues(snapshot), pool_size(snapshot.nodes), strict=False)
        self.usage = Usage(self.tree)
        self.tasks: dict[str, Task] = {}
        self.leaf_tasks: dict[Queue, list[Task]] = {leaf: [] for leaf in self.tree.leaves}
        self.version = 0
        self.leaving = 0
        """Tasks that are expected to leave soon."""
        self.kept: list[Kept] = []
        """The reservations of this pass."""
        self.freed = 0
        """Grows whenever somebody leaves, so that what has been reserved may be possible earlier."""
        self._ends: Ends | None = None
        self.cooling: dict[tuple[str, str], int] = {}
        """Pairs of leaves (claimant's, victim's) that cool down, and until when."""
        for past in snapshot.evictions:
            if past.borrowed and self.now - past.time < self.settings.cooldown:
                self.cool(past.claimant, past.victim, past.time)
        self.changed: set[Queue] = set()
        """Tenants whose ranks or shares may have changed since somebody last looked."""
        self._walks: dict[Queue, Walk] = {}
        self._leaf_standings = {leaf: LeafStanding(leaf) for leaf in self.tree.leaves}
        self._standings = {tenant: self._standing(tenant) for tenant in self.tree.root.children}
        self._movable: dict[Queue, dict[Rank, list[Task]]] = {}
        self.holds, self.dropped = self._holds(snapshot)
        self._seat_all()

    # -- building

    def _standing(self, tenant: Queue) -> TenantStanding:
        leaves = [self._leaf_standings[leaf] for leaf in leaves_of(tenant)]
        return TenantStanding(inner_queues(tenant), leaves)

    def _holds(self, snapshot: Snapshot) -> tuple[dict[str, Hold], list[str]]:
        """The holds that stand, with the victims that still leave; and the jobs whose holds have ended."""
        standing: dict[str, Hold] = {}
        dropped: list[str] = []
        draining = [job for job in self.jobs.values() if job.state is RunState.DRAINING]
        for hold in sorted(snapshot.holds, key=attrgetter("job")):
            job = self.jobs.get(hold.job)
            if job is None or not self.waiting(job) or self.now >= hold.until or not self._stands(job, hold):
                dropped.append(hold.job)
                continue
            named = set(hold.victims)
            victims = tuple(
                leaver.id
                for leaver in draining
                if (leaver.id in named if named else _overlap(self.pool, leaver.seats, hold.seats))
            )
            standing[hold.job] = replace(hold, victims=victims)
        return standing, dropped

    def waiting(self, job: Job) -> bool:
        """Whether a job is the scheduler's to place now."""
        return job.state is RunState.QUEUED and not job.blocked_by and job.submitted <= self.now

    def _stands(self, job: Job, hold: Hold) -> bool:
        rooms = {room.name for group in self.pool.models(job.gpu).values() for room in group}
        return all(
            seat.node in rooms and not self.pool.by_name[seat.node].broken.intersection(seat.cards)
            for seat in hold.seats
        )

    def _seat_all(self) -> None:
        spared = {victim for hold in self.holds.values() for victim in hold.victims}
        for job in self.jobs.values():
            if job.state is RunState.QUEUED:
                continue
            kind = Kind.RUNNING if job.state is RunState.RUNNING else Kind.DRAINING
            task = self.task_make(job, job.seats, kind)
            task.counted = not (kind is Kind.DRAINING and job.id in spared)
            task.until = job.until if job.until is not None else self.now + job.grace
            if kind is Kind.DRAINING and task.until < self.now:
                task.kind = Kind.RUNNING  # it should be gone and is not: nobody may count on its cards
                task.overdue = True
            self.add(task)
        for name in list(self.holds):
            hold = self.holds[name]
            task = self.task_make(self.jobs[name], hold.seats, Kind.HELD)
            if not self._tenable(task, spared):
                del self.holds[name]
                self.dropped.append(name)
                continue
            task.victims, task.until = hold.victims, hold.until
            self.add(task)

    def _tenable(self, task: Task, spared: set[str]) -> bool:
        """Whether a hold may still bind: under the caps and guarantee of now, on cards that nobody else has taken."""
        if any(self.usage.cap_lacks(task.leaf, task.milli, task.dims)):
            return False
        lack = None if task.job.preemptible else self.usage.guarantee_lack(task.leaf, task.milli, task.dims)
        if lack is not None:
            return False
        others = [seat for other in self.tasks.values() if other.id not in spared for seat in other.seats]
        if task.job.gpu.slice:
            return not _overlap(self.pool, others, task.seats, cardless=False)
        wanted = {(seat.node, card): 1000 - seat.milli for seat in task.seats for card in seat.cards}
        for seat in others:
            for card in seat.cards:
                place = (seat.node, card)
                if place in wanted:
                    wanted[place] -= seat_weight(seat)
        return all(left >= 0 for left in wanted.values())

    def task_make(self, job: Job, seats: tuple[Seat, ...], kind: Kind) -> Task:
        """A task for a job on these seats, admitted when its attempt was, or now."""
        admitted = job.started if kind in {Kind.RUNNING, Kind.DRAINING} and job.started is not None else self.now
        dims = self.dims_at(seats)
        return Task(job, self.leaf(job), kind, seats_milli(seats), dims, seats, admitted)

    def dims_at(self, seats: tuple[Seat, ...]) -> Dims:
        return self.tree.dims_of(self.model_of(seats))

    def model_of(self, seats: tuple[Seat, ...]) -> str:
        """The card model of the nodes of a placement; empty if they are unknown or have no cards."""
        room = self.pool.by_name.get(seats[0].node) if seats else None
        return room.kind.model if room is not None else ""

    def leaf(self, job: Job) -> Queue:
        return self.tree.queues[job.queue]

    # -- changing

    def add(self, task: Task) -> None:
        if self.kept:
            self._kept_seat(task)
        self.tasks[task.id] = task
        insort(self.leaf_tasks[task.leaf], task, key=_KEY)
        self.pool.put(task.job, task.seats, _LAYER[task.kind])
        self._count(task, 1)
        self._stand(task)
        self._leaving(task, 1)
        if self._ends is not None:
            self._ends.put(self.model_of(task.seats), task)

    def remove(self, task: Task) -> None:
        del self.tasks[task.id]
        mine = self.leaf_tasks[task.leaf]
        del mine[bisect_left(mine, task.key, key=_KEY)]
        self.pool.put(task.job, task.seats, _LAYER[task.kind], -1)
        self._count(task, -1)
        self._stand(task, present=False)
        self._leaving(task, -1)
        self.freed += 1
        if self._ends is not None:
            self._ends.drop(task)
        for kept in self.kept:
            kept.unseated(task)

    def drain(self, task: Task, until: int) -> None:
        """A running task begins to leave: it keeps its cards until then, but no longer counts as usage."""
        self.pool.put(task.job, task.seats, _LAYER[task.kind], -1)
        self._count(task, -1)
        task.kind, task.until, task.counted = Kind.DRAINING, until, False
        self.pool.put(task.job, task.seats, LEAVE)
        self._stand(task)
        self._leaving(task, 1)
        self.freed += 1
        if self._ends is not None:
            self._ends.put(self.model_of(task.seats), task)

    def uncount(self, task: Task) -> None:
        """A leaving task makes room for a hold, whose usage now counts in its place (§4)."""
        self._count(task, -1)
        task.counted = False
        self._stand(task)

    def recount(self, names: Iterable[str]) -> None:
        """The victims of a hold that has ended count as usage again while they leave, unless another hold has them."""
        held = {name for task in self.tasks.values() if task.kind is Kind.HELD for name in task.victims}
        for name in names:
            task = self.tasks.get(name)
            if task is not None and not task.counted and name not in held:
                task.counted = True
                self._count(task, 1)
                self._stand(task)

    def _leaving(self, task: Task, sign: int) -> None:
        if task.kind is Kind.DRAINING:
            self.leaving += sign

    def _count(self, task: Task, sign: int) -> None:
        self.version += 1
        tenant = task.leaf.tenant
        self._walks.pop(tenant, None)
        self._movable.pop(tenant, None)
        self.changed.add(tenant)
        if task.counted:
            self.usage.add(task.leaf, task.milli, task.dims, firm=not task.job.preemptible, sign=sign)

    def _stand(self, task: Task, *, present: bool = True) -> None:
        """Count a task among the ranked of its leaf if it is one."""
        stands = present and task.ranked
        if stands is not task.stands:
            task.stands = stands
            leaf = self._leaf_standings[task.leaf]
            if stands:
                leaf.put(task)
            else:
                leaf.drop(task)
        self._standings[task.leaf.tenant].stale = True

    def _kept_seat(self, task: Task) -> None:
        """Tell the reservations of seats that are given away after them."""
        rank = self.claim_rank(task.leaf, task.milli, task.dims)
        for kept in self.kept:
            bound = self.binds(kept, task.job, rank)
            kept.seated(task, bound=bound, above=not bound and rank < kept.rank)

    def cool(self, claimant: str, victim: str, time: int) -> None:
        """Begin a cool-down between two leaves."""
        pair = (claimant, victim)
        self.cooling[pair] = max(self.cooling.get(pair, 0), time + self.settings.cooldown)

    # -- asking

    def walk(self, tenant: Queue) -> Walk:
        """The ranks of a tenant's running jobs, as they stand."""
        found = self._walks.get(tenant)
        if found is None:
            found = self._walks[tenant] = tenant_walk(tenant, self.leaf_tasks)
        return found

    def walk_with(self, claim: Claim, without: frozenset[str]) -> Walk:
        """The ranks of the claim's tenant with the claim at the very end and `without` taken out."""
        return tenant_walk(claim[0].tenant, self.leaf_tasks, without=without, claim=claim)

    def firm_fits(self, job: Job, milli: int, model: str) -> bool:
        """Whether the leaf's guarantee lets a job start on a model, if it must not be stopped."""
        if job.preemptible:
            return True
        return self.usage.guarantee_lack(self.leaf(job), milli, self.tree.dims_of(model)) is None

    def claim_rank(self, leaf: Queue, milli: int, dims: Dims) -> Rank:
        return self._standings[leaf.tenant].rank(leaf, milli, dims)

    def worst(self, tenant: Queue) -> int:
        """No ranked job of a tenant has a higher rank number; -1 where nobody is ranked."""
        standing = self._standings[tenant]
        if standing.stale:
            standing.settle()
        return standing.worst

    def lost(self, task: Task) -> int:
        """What an eviction of a task would cost now (§3): nothing where it has not begun."""
        return 0 if task.kind in _UNBEGUN else lost_work(task.job, task.milli, self.now, self.settings)

    def binds(self, kept: Kept, job: Job, rank: Rank) -> bool:
        """Whether a reservation keeps a job of this claim rank off its cards."""
        return kept.binds(job, self.leaf(job), rank, self.now, self.settings, self.cooling)

    def ends(self) -> Ends:
        """When everybody is expected to end; made when first asked for, and kept up from then on."""
        if self._ends is None:
            self._ends = Ends(self.settings.assumed_limit)
            for task in self.tasks.values():
                self._ends.put(self.model_of(task.seats), task)
        return self._ends

    def views(self, job: Job, model: str) -> list[View]:
        """What the open rooms of a model offer now."""
        return [room.now for room in self.pool.models(job.gpu)[model]]

    def soon(self, job: Job, model: str) -> list[View]:
        """What they offer once everybody who leaves has left."""
        return [room.soon() for room in self.pool.models(job.gpu)[model]]

    def movable(self, tenant: Queue) -> Mapping[Rank, list[Task]]:
        """The tasks of a tenant that may be asked to leave, by rank."""
        found = self._movable.get(tenant)
        if found is None:
            found = self._movable[tenant] = {}
            ranks = self.walk(tenant).ranks
            for leaf, tasks in self.leaf_tasks.items():
                if leaf.tenant is tenant:
                    for task in tasks:
                        if self.may_leave(task):
                            found.setdefault(ranks[task.id], []).append(task)
        return found

    def may_leave(self, task: Task) -> bool:
        """Running, or placed in this pass, or holding since before: not who leaves already or must not be stopped."""
        return task.job.preemptible and task.ranked and (task.kind is not Kind.HELD or task.id in self.holds)

    def lend_lack(
        self, leaf: Queue, milli: int, model: str, free: Callable[[], int], returned: dict[Queue, int]
    ) -> int:
        """Milli-cards short of what queues that do not lend must keep free, after `milli` of `free` are taken."""
        if not milli:
            return 0
        kept = self.usage.kept(leaf, self.tree.dims.index(model), returned)
        return max(0, kept - (free() - milli)) if kept else 0

    def physically_free(self, task: Task) -> bool:
        """Whether nobody else sits, running or leaving, where a held task is to start."""
        for seat in task.seats:
            room = self.pool.by_name[seat.node]
            if seat.slice:
                if not room.slots_free(seat, RUN, LEAVE):
                    return False
            elif any(room.cards[RUN][card] + room.cards[LEAVE][card] + seat.milli > 1000 for card in seat.cards):
                return False
            spec, job = room.state.spec, task.job
            if job.cpu and room.cpu[RUN] + room.cpu[LEAVE] + job.cpu > spec.cpu:
                return False
            if job.memory and room.memory[RUN] + room.memory[LEAVE] + job.memory > spec.memory:
                return False
        return True


def lost_work(job: Job, milli: int, now: int, settings: Settings) -> int:
    """Milli-card-seconds that an eviction now would cost (§3)."""
    if job.saves_on_signal:
        seconds = job.grace
    else:
        saved = job.checkpointed if job.checkpointed is not None else job.started
        seconds = now - saved if saved is not None else 0
    return milli * min(max(seconds, 0), settings.lost_work_cap)


def _overlap(pool: Pool, seats: Iterable[Seat], wanted: Iterable[Seat], *, cardless: bool = True) -> bool:
    """Whether some seat lies where another is wanted; ``cardless``: a seat without cards lies on its whole node."""
    theirs: dict[str, list[Seat]] = {}
    for seat in wanted:
        theirs.setdefault(seat.node, []).append(seat)
    for seat in seats:
        room = pool.by_name.get(seat.node)
        for other in theirs.get(seat.node, ()):
            if (cardless and not seat.cards) or (room is not None and seats_clash(room, seat, other)):
                return True
    return False


def _queues(snapshot: Snapshot) -> tuple[QueueConfig, ...]:
    """The configured queues, and a closed leaf for every job whose queue is no longer configured."""
    known = {config.name for config in snapshot.queues}
    gone: dict[str, QueueConfig] = {}
    for job in snapshot.jobs:
        if job.queue not in known:
            word = job.queue.rpartition("/")[2]
            klass = QueueClass(word) if word in set(QueueClass) else QueueClass.BATCH
            gone[job.queue] = QueueConfig(job.queue, klass, cap={CARDS: 0})
    return (*snapshot.queues, *gone.values())
