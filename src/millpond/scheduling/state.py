"""The world as the planner keeps it: made from a snapshot, and from then on kept up by what happens.

What has happened comes in between two passes; what a pass decides, during it (`Ground`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from millpond.domain.jobs import QueueClass
from millpond.domain.queues import CARDS, QueueConfig
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.ground import Ground
from millpond.scheduling.placing import Placer
from millpond.scheduling.pool import LEAVE, RUN, Pool, Room, View, seat_weight
from millpond.scheduling.quota import Queue
from millpond.scheduling.slices import seats_clash
from millpond.scheduling.snapshot import Hold, Job, PastEviction, RunState, Seat, Settings, Snapshot, job_started
from millpond.scheduling.tasks import Kind, OrderKey, Task, behind
from millpond.scheduling.waiting import Group, Waiting

_AFTER = 1 << 62
"""Later than any admission."""


def _place(job: Job) -> OrderKey:
    """Up to here those stand in its leaf who are not behind a claim."""
    return (job.preemptible, -job.priority, _AFTER, "")


_UNBEGUN = frozenset({Kind.PLACED, Kind.HELD})


class State(Ground):
    """See the module.  ``saved`` tells the last checkpoint of a running job where jobs do not carry it themselves."""

    def __init__(self, snapshot: Snapshot, saved: Callable[[Job], int | None] | None = None) -> None:
        super().__init__(snapshot.now, snapshot.settings, snapshot.nodes, _queues(snapshot))
        self.placer = Placer(self.pool, snapshot.mix)
        self._saved = saved
        self.jobs: dict[str, Job] = {}
        self.waiters = Waiting(self.tree.leaves)
        self.records = {hold.job: hold for hold in snapshot.holds}
        """The holds that the last plan left, whether or not they still stand."""
        self.evictions = list(snapshot.evictions)
        self.dropped: list[str] = []
        """Jobs whose holds have ended since."""
        self._draining: dict[str, Job] = {}
        self._settled: tuple[object, ...] = ()
        for job in snapshot.jobs:
            self.job_put(job)
        self.settle()

    # -- what happens between two passes

    def job_put(self, job: Job) -> None:
        """A job has come or is another one now.  Its queue must be in the tree."""
        old = self.jobs.get(job.id)
        if old is not None:
            if self._renewed(old, job):
                return
            self.job_gone(job.id)
        self.jobs[job.id] = job
        if job.state is RunState.QUEUED:
            self.waiters.put(self.leaf(job), job, self.now)
            return
        if job.state is RunState.DRAINING:
            self._draining[job.id] = job
        self.add(self._task_of(job))

    def job_gone(self, job_id: str) -> None:
        """A job is over.  Nothing happens if it is not known."""
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        if job.state is RunState.QUEUED:
            self.waiters.drop(self.leaf(job), job)
        self._draining.pop(job_id, None)
        task = self.tasks.get(job_id)
        if task is not None:
            self.remove(task)

    def _renewed(self, old: Job, job: Job) -> bool:
        """Take over a job that only saved its work or told something else that does not move it."""
        task = self.tasks.get(job.id)
        if task is None or old.state is not RunState.RUNNING or task.kind is not Kind.RUNNING:
            return False
        if replace(old, checkpointed=job.checkpointed, saves_on_signal=job.saves_on_signal) != job:
            return False
        self.jobs[job.id] = task.job = job
        self.renewed(task)
        return True

    def _task_of(self, job: Job) -> Task:
        """The task of a job that has seats."""
        kind = Kind.RUNNING if job.state is RunState.RUNNING else Kind.DRAINING
        task = self.task_make(job, job.seats, kind)
        task.until = job.until if job.until is not None else self.now + job.grace
        if kind is Kind.DRAINING and task.until < self.now:
            task.kind = Kind.RUNNING  # it should be gone and is not: nobody may count on its cards
            task.overdue = True
        return task

    def now_set(self, now: int) -> None:
        """The clock goes on."""
        if now == self.now:
            return
        self.now = now
        for job in list(self.waiters.due(now)):
            self.waiters.put(self.leaf(job), job, now)

    def settle(self) -> None:
        """Begin a pass: let time have its way with cool-downs, leaving jobs and holds."""
        self.kept, self.kept_before = [], self.kept
        if self.evictions or self.cooling:
            self.evictions = [past for past in self.evictions if self.now - past.time < self.settings.cooldown]
            self.cooling.clear()
            for past in self.evictions:
                if past.borrowed:
                    self.cool(past.claimant, past.victim, past.time)
        if not (self.records or self.holds or self._draining):
            self.dropped = []
            return
        standing, dropped = self._standing_holds()
        spared = {victim for hold in standing.values() for victim in hold.victims}
        overdue = {job.id for job in self._draining.values() if job.until is not None and job.until < self.now}
        found = (self.version, tuple(standing.items()), tuple(dropped), overdue, self.now if self._patient() else 0)
        if found != self._settled:
            self._holds_seat(standing, dropped, spared)
            self._settled = (self.version, *found[1:])

    def returning(self) -> list[Task]:
        """Those who should have left long ago, while a hold counts in their place."""
        tasks = [self.tasks[name] for name in self._draining if name in self.tasks]
        return [task for task in tasks if task.overdue and not task.counted]

    def _patient(self) -> bool:
        """Whether somebody leaves without a deadline of his own."""
        return any(job.until is None for job in self._draining.values())

    def adopt(self, plan: Plan) -> None:
        """What the pass that has just ended decided, has been done: its tasks stay, and their jobs are others now."""
        for start in plan.start:
            task, job = self.tasks[start.job], self.jobs[start.job]
            self.waiters.drop(task.leaf, job)
            task.kind = Kind.RUNNING
            task.job = self.jobs[job.id] = job_started(job, start.seats, self.now)
            self.renewed(task)
        for evict in plan.evict:
            task, job = self.tasks[evict.job], self.jobs[evict.job]
            task.job = self.jobs[job.id] = self._draining[job.id] = replace(
                job, state=RunState.DRAINING, until=evict.deadline
            )
            claimant = self.jobs[evict.claimant].queue
            self.evictions.append(PastEviction(claimant, job.queue, self.now, evict.borrowed))
        for name in plan.drop_holds:
            self.records.pop(name, None)
        self.holds = {hold.job: Hold(hold.job, hold.seats, hold.until, hold.victims) for hold in plan.hold}
        self.records.update(self.holds)
        if plan.evict or plan.hold or plan.drop_holds or (plan.start and self.protecting):
            self.touch()  # who starts is no longer anybody's to take back: `min_runtime` protects him

    # -- holds

    def _standing_holds(self) -> tuple[dict[str, Hold], list[str]]:
        """The holds that stand, with the victims that still leave; and the jobs whose holds have ended."""
        standing: dict[str, Hold] = {}
        dropped: list[str] = []
        draining = [self._draining[name] for name in sorted(self._draining)]
        for name in sorted(self.records):
            hold = self.records[name]
            job = self.jobs.get(name)
            moves = job is not None and job.state is RunState.DRAINING and name in hold.victims
            if job is None or not (moves or self.waiting(job)) or self.now >= hold.until or not self._stands(job, hold):
                dropped.append(name)
                continue
            named = set(hold.victims)
            victims = tuple(
                leaver.id
                for leaver in draining
                if (leaver.id in named if named else _overlap(self.pool, leaver.seats, hold.seats))
            )
            standing[name] = replace(hold, victims=victims)
        return standing, dropped

    def waiting(self, job: Job) -> bool:
        """Whether a job is the scheduler's to place now."""
        return job.state is RunState.QUEUED and not job.blocked_by and job.submitted <= self.now

    def _stands(self, job: Job, hold: Hold) -> bool:
        rooms = {seat.node for seat in hold.seats}
        open_ones = {room.name for group in self.pool.models(job.gpu).values() for room in group if room.name in rooms}
        return all(
            seat.node in open_ones and not self.pool.by_name[seat.node].broken.intersection(seat.cards)
            for seat in hold.seats
        )

    def _holds_seat(self, standing: dict[str, Hold], dropped: list[str], spared: set[str]) -> None:
        """Seat the holds anew, over those who leave as they now count."""
        for name in self.holds:
            old = self.held(name)
            if old is not None:
                self.remove(old)
        for name, job in self._draining.items():
            before, task = self.tasks[name], self._task_of(job)
            task.counted = name not in spared
            if (before.counted, before.kind, before.until) != (task.counted, task.kind, task.until):
                self.remove(before)
                self.add(task)
        self.holds, self.dropped = standing, dropped
        for name in list(standing):
            hold = standing[name]
            task = self.task_make(self.jobs[name], hold.seats, Kind.HELD)
            if not self._tenable(task, spared):
                del standing[name]
                dropped.append(name)
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
        nodes = {seat.node for seat in task.seats}
        around = {name: other for node in nodes for name, other in self.sitting.get(node, {}).items()}
        others = [
            seat for name, other in around.items() if name not in spared for seat in other.seats if seat.node in nodes
        ]
        if task.job.gpu.slice:
            return not _overlap(self.pool, others, task.seats, cardless=False)
        wanted = {(seat.node, card): 1000 - seat.milli for seat in task.seats for card in seat.cards}
        for seat in others:
            for card in seat.cards:
                place = (seat.node, card)
                if place in wanted:
                    wanted[place] -= seat_weight(seat)
        return all(left >= 0 for left in wanted.values())

    # -- asking

    @property
    def timed(self) -> bool:
        """Whether jobs themselves tell when they last saved."""
        return self._saved is None

    @property
    def protecting(self) -> bool:
        """Whether the clock alone may let somebody evict: a minimal run time or a cool-down binds."""
        return bool(self.settings.min_runtime or self.cooling)

    def evictable(self, leaf: Queue, job: Job, total: int, model: str) -> bool:
        """Whether anybody might leave for a claim, or leaves already.

        Cheap, and true too often rather than too seldom.
        """
        return bool(self.leaving) or self.asked(leaf, job, total, model)

    def asked(self, leaf: Queue, job: Job, total: int, model: str) -> bool:
        """Whether anybody might be asked to leave: somebody of a higher rank number, or behind it in its own leaf."""
        dims, standing = self.tree.dims_of(model), self._standings[leaf.tenant]
        claim = self.claim_rank(leaf, total, dims)
        mine = self.leaf_tasks[leaf]
        if mine and behind(mine[-1].job, job):
            if claim < Rank.BORROWED_PROD or standing.rest_behind(leaf, _place(job)):
                return True
            if standing.best(leaf, _place(job), total, dims) < claim:
                return True
        return self._others_asked(leaf, claim)

    def own_asked(self, leaf: Queue, job: Job, total: int, model: str) -> bool:
        """Whether at most those behind it in its own leaf may be asked to leave, whoever of them goes."""
        best = self._standings[leaf.tenant].best(leaf, _place(job), total, self.tree.dims_of(model))
        return not self._others_asked(leaf, best)

    def _others_asked(self, leaf: Queue, claim: Rank) -> bool:
        # the claim itself may take from its family what makes them borrow
        own = self.worst(leaf.tenant)
        return self.worst_of_all() > claim or (own >= Rank.FAMILY and claim < Rank.BORROWED_BATCH)

    def group(self, job: Job) -> Group:
        """The group of a waiting job."""
        return self.waiters.group(self.leaf(job), job)

    def firm_fits(self, job: Job, milli: int, model: str) -> bool:
        """Whether the leaf's guarantee lets a job start on a model, if it must not be stopped."""
        if job.preemptible:
            return True
        return self.usage.guarantee_lack(self.leaf(job), milli, self.tree.dims_of(model)) is None

    def lost(self, task: Task) -> int:
        """What an eviction of a task would cost now (§3): nothing where it has not begun."""
        return 0 if task.kind in _UNBEGUN else self._lost(task)

    def _lost(self, task: Task) -> int:
        job = task.job
        saved = job.checkpointed if self._saved is None else self._saved(job)
        return task.milli * lost_seconds(job, saved, self.now, self.settings)

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

    def safe(self) -> list[str]:
        """Who holds cards only since this pass began and must not be asked to leave."""
        return [task.id for task in self.tasks.values() if task.kind is Kind.HELD and task.job.id not in self.holds]

    def sitting_in(self, room: Room) -> list[Task]:
        """Who sits on a node."""
        return [*self.sitting.get(room.name, {}).values()]

    def may_leave(self, task: Task) -> bool:
        """Running, or placed in this pass, or holding since before: not who leaves already or must not be stopped."""
        return task.job.preemptible and task.ranked and (task.kind is not Kind.HELD or task.job.id in self.holds)

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


def lost_seconds(job: Job, saved: int | None, now: int, settings: Settings) -> int:
    """Seconds of work that an eviction now would cost (§3), after a last checkpoint at ``saved``."""
    if job.saves_on_signal:
        seconds = job.grace
    else:
        since = saved if saved is not None else job.started
        seconds = now - since if since is not None else 0
    return min(max(seconds, 0), settings.lost_work_cap)


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
