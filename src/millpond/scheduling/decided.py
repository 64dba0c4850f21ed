"""What a pass has decided so far, and the changes that its decisions make (scheduling §3, §4)."""

from __future__ import annotations

from dataclasses import replace

from millpond.domain.jobs import QueueClass
from millpond.scheduling.decisions import Evict, HoldFor, Rank, Start
from millpond.scheduling.holdback import Window
from millpond.scheduling.leavers import Awaited
from millpond.scheduling.limits import Limits
from millpond.scheduling.options import Options
from millpond.scheduling.order import Order, job_rank
from millpond.scheduling.preempt import Eviction
from millpond.scheduling.quota import Queue
from millpond.scheduling.reserve import Reserves
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task, seats_milli

PROD_GRACE = 20
"""Longest grace of a victim of a prod claim, seconds (§4)."""

ROUNDS = 4
"""How often jobs that turn out to have no reason to wait, or have lost their place, are judged again."""

_NOBODY: frozenset[str] = frozenset()


class Decided:
    """What a pass has decided so far."""

    def __init__(self, state: State, options: Options, limits: Limits, *, brief: bool = False) -> None:
        """Begin a pass over a settled state.  ``brief``: of equal jobs that fail only the first is judged."""
        self.state, self.options, self.limits = state, options, limits
        self.starts: dict[str, Start] = {}
        self.evicts: list[Evict] = []
        self.waiting: dict[str, Rank] = {}
        """Jobs judged and left waiting, in decision order, with the rank of their claim."""
        self.held: dict[str, HoldFor] = {}
        self.behind: dict[str, str] = {}
        self.barred: dict[str, list[str]] = {}
        """Jobs that found cards free when it was their turn, and for whom these were reserved."""
        self.dropped = set(state.dropped)
        self.displaced: dict[str, int] = {}
        """How often jobs have lost a place that they had got in this pass."""
        self.missed: dict[int, Job] = {}
        """The first of those that are alike that was judged in vain."""
        self.relieved = False
        """Somebody has lost his place, no longer counts, or took what was kept for him: who was judged before may have
        more now."""
        self.unsure = False
        """Somebody takes the place of another who came after him: equals that were passed must be judged too."""
        state.pool.demand_set(state.waiters.slices)
        options.begin()
        limits.begin()
        self.window = Window(state, options)
        self.reserves = Reserves(state)
        self._keep_holds()
        self.order = Order(state, brief=brief)

    def _seat(self, job: Job, seats: tuple[Seat, ...], rank: Rank) -> None:
        self.state.add(self.state.task_make(job, seats, Kind.PLACED))
        self.starts[job.id] = Start(job.id, rank, seats)

    def _keep_holds(self) -> None:
        """Bind the holds whose cards are free; keep the others as they are."""
        state = self.state
        for name in state.holds:
            task = state.held(name)
            if task is None:
                continue
            rank = state.walk(task.leaf.tenant).ranks[task.id]
            if not task.victims and state.physically_free(task):
                state.remove(task)
                self._seat(task.job, task.seats, rank)
                self.dropped.add(name)
            else:
                if not task.moving:
                    self.waiting[name] = rank
                self.held[name] = HoldFor(name, rank, task.seats, task.until, task.victims)

    def _evict(self, job: Job, found: Eviction, moved: frozenset[str] = _NOBODY) -> None:
        state, leaf = self.state, self.state.leaf(job)
        for victim in found.victims:
            if victim.kind is Kind.RUNNING:
                why = "preempt" if victim.leaf is leaf else "reclaim"
                self._drain(victim, job, leaf, found.rank, "consolidate" if victim.id in moved else why)
                continue
            state.remove(victim)
            state.recount(victim.victims)
            self._displace(victim)
        chosen = {victim.id for victim in found.victims if victim.kind is Kind.DRAINING}
        if any(state.usage.cap_lacks(leaf, seats_milli(found.seats), state.dims_at(found.seats))):
            chosen.update(name for victim in found.victims for name in victim.victims)
        if chosen or not Awaited(state, job, found.seats).free_now():
            self._hold(job, found.rank, found.seats, chosen)
        else:
            self._seat(job, found.seats, found.rank)

    def _displace(self, task: Task) -> None:
        """Judge again who has lost his place; who loses one after the other in one pass waits for the next."""
        self.relieved = True
        name = task.job.id
        self.starts.pop(name, None)
        if self.held.pop(name, None) is not None:
            self.waiting.pop(name, None)
            self.dropped.add(name)
        if task.moving:
            return
        times = self.displaced[name] = self.displaced.get(name, 0) + 1
        if times <= ROUNDS:
            self.order.back(task.job)
        else:
            self.waiting[name] = job_rank(self.state, task.job)

    def _start(self, job: Job) -> bool:
        """Start a job where it fits without an eviction."""
        found = self.options.start(job)
        if found is not None:
            self._seat(job, *found)
        return found is not None

    def _give_way(self, task: Task, job: Job) -> bool:
        """Whether a job can do with the place of one like it, which is then judged again; else that keeps it."""
        if task.kind is Kind.HELD:
            return self._hand_over(task, job)
        self.state.remove(task)
        if not self._start(job):
            self.state.add(task)
            return False
        self._displace(task)
        return True

    def _hand_over(self, task: Task, job: Job) -> bool:
        """Whether what is held since this pass for one is held for another like it, who is judged again."""
        state = self.state
        if task.job.require != job.require:
            return False
        mine = {evict.job for evict in self.evicts if evict.claimant == task.id}
        if any(evict.job in mine and evict.why == "consolidate" for evict in self.evicts):
            return False  # not everybody has waited so long that others are moved for him
        state.remove(task)
        views = [state.pool.by_name[seat.node].soon() for seat in task.seats]
        if any((job.cpu and job.cpu > view.cpu) or (job.memory and job.memory > view.memory) for view in views):
            state.add(task)
            return False
        other = state.task_make(job, task.seats, Kind.HELD)
        other.victims, other.until = task.victims, task.until
        state.add(other)
        self.evicts = [replace(evict, claimant=job.id) if evict.job in mine else evict for evict in self.evicts]
        held, rank = self.held[task.id], self.waiting[task.id]
        self._displace(task)
        self.held[job.id], self.waiting[job.id] = replace(held, job=job.id), rank
        self.dropped.discard(job.id)
        if task.id not in state.dropped:
            self.dropped.discard(task.id)  # it held nothing before this pass
        return True

    def _drain(self, victim: Task, job: Job, leaf: Queue, rank: Rank, why: str) -> None:
        grace = min(victim.job.grace, PROD_GRACE) if leaf.klass is QueueClass.PROD else victim.job.grace
        deadline = self.state.now + grace
        borrowed = rank >= Rank.BORROWED_PROD
        self.evicts.append(Evict(victim.id, job.id, why, self.state.lost(victim), deadline, borrowed))
        if borrowed:
            self.state.cool(leaf.name, victim.leaf.name, self.state.now)
        self.state.drain(victim, deadline)

    def _hold(self, job: Job, rank: Rank, seats: tuple[Seat, ...], chosen: set[str]) -> None:
        """Keep the seats while those `chosen` leave, and whoever else leaves these cards."""
        state = self.state
        draining = [task for task in state.tasks.values() if task.kind is Kind.DRAINING]
        near = {task.id for task in Awaited(state, job, seats).among(draining)}
        leavers = [task for task in draining if task.id in chosen or task.id in near]
        until = max((task.until for task in leavers), default=state.now) + state.settings.hold_timeout
        task = state.task_make(job, seats, Kind.HELD)
        task.victims, task.until = tuple(sorted(leaver.id for leaver in leavers)), until
        for leaver in leavers:
            if leaver.counted:
                state.uncount(leaver)
                self.relieved = True
        state.add(task)
        if not task.moving:
            self.waiting[job.id] = rank
        self.held[job.id] = HoldFor(job.id, rank, seats, until, task.victims)
        self.dropped.discard(job.id)

    def _hold_moved(self, task: Task, seats: tuple[Seat, ...]) -> None:
        """Keep the new place of somebody who moves while he leaves the old one."""
        dims = self.state.dims_at(seats)
        if not any(self.state.usage.cap_lacks(task.leaf, task.milli, dims)):
            self._hold(task.job, self.state.claim_rank(task.leaf, task.milli, dims), seats, {task.id})
