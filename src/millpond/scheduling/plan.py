"""One planning pass: a snapshot in, a plan out that leaves nothing to choose (scheduling, all of it).

Jobs are judged in order (§5).  One that fits starts; one that does not may evict (§3) and then holds its cards (§4);
the others wait, with every reason that binds when the pass is over.
"""

from __future__ import annotations

from operator import attrgetter

from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.budget import hours_reasons
from millpond.scheduling.decisions import Evict, HoldFor, Plan, Rank, Start, Wait
from millpond.scheduling.fit import Ask, ask_make, place
from millpond.scheduling.order import Order, job_rank
from millpond.scheduling.preempt import Eviction, eviction_find
from millpond.scheduling.quota import Queue
from millpond.scheduling.reasons import (
    blocked_reasons,
    cap_reasons,
    guarantee_reason,
    lend_reason,
    preempting_reason,
    room_reasons,
    static_reason,
)
from millpond.scheduling.snapshot import Job, RunState, Seat, Snapshot
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task, claim_key

PROD_GRACE = 20
"""Longest grace of a victim of a prod claim, seconds (§4)."""

_ROUNDS = 4
"""How often jobs that turn out to have no reason to wait are judged again."""


def plan(snapshot: Snapshot) -> Plan:
    """The plan for a snapshot; equal snapshots give equal plans, whatever the order of their lists."""
    return Pass(snapshot).run()


class Pass:
    """The making of one plan."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.state = State(snapshot)
        self.starts: dict[str, Start] = {}
        self.evicts: list[Evict] = []
        self.waiting: dict[str, Rank] = {}
        """Jobs judged and left waiting, in decision order, with the rank of their claim."""
        self.held: dict[str, HoldFor] = {}
        self.behind: dict[str, str] = {}
        self.dropped = set(self.state.dropped)
        self._misses: dict[tuple[object, ...], int] = {}
        self._found: dict[tuple[object, ...], tuple[int, tuple[Reason, ...]]] = {}
        self._static: dict[tuple[CardRequest, Ask], Reason | None] = {}
        ready = [job for job in self.state.jobs.values() if self.state.waiting(job)]
        self._models = self._rivals(ready)
        self._keep_holds()
        self.order = Order(self.state, [job for job in ready if job.id not in self.state.holds])

    # -- the pass

    def run(self) -> Plan:
        self._judge_all()
        waits = self._waits()
        for _ in range(_ROUNDS):
            free = [job_id for job_id, reasons in waits.items() if not reasons]
            if not free:
                break
            for job_id in free:
                self.waiting.pop(job_id)
                self.order.back(self.state.jobs[job_id])
            self._judge_all()
            waits = self._waits()
        return Plan(
            now=self.state.now,
            start=tuple(self.starts.values()),
            evict=tuple(self.evicts),
            hold=tuple(self.held.values()),
            wait=self._wait_list(waits),
            drop_holds=tuple(sorted(self.dropped)),
        )

    def _judge_all(self) -> None:
        while (job := self.order.take()) is not None:
            rank = job_rank(self.state, job)
            if self._judge(job):
                continue
            self.waiting[job.id] = rank
            leaf = self.state.leaf(job)
            if leaf.fifo:
                for later in self.order.close(leaf):
                    self.waiting[later.id] = job_rank(self.state, later)
                    self.behind[later.id] = job.id

    def _judge(self, job: Job) -> bool:
        """Start a job or hold cards for it; False if it waits."""
        if job.gpu.slice:
            return False
        sizes = range(job.gpu.milli, job.gpu.milli_min - 1, -1000) if job.gpu.elastic else (job.gpu.milli,)
        for size in sizes:
            if self._start(job, ask_make(job, size)):
                return True
        ask = ask_make(job)
        if not self._permitted(job, ask):
            return False
        key = ("evict", self.state.leaf(job), job.gpu, ask, job.priority, job.preemptible)
        if self._misses.get(key) == self.state.version:
            return False
        found = eviction_find(self.state, job, ask)
        if found is None:
            self._misses[key] = self.state.version
            return False
        self._evict(job, found)
        return True

    def _permitted(self, job: Job, ask: Ask) -> bool:
        """Whether guarantee and budget let it start on some model."""
        if hours_reasons(self.state, job, ask):
            return False
        return any(self._firm(job, ask, model) for model in self.state.pool.models(job.gpu))

    def _firm(self, job: Job, ask: Ask, model: str) -> bool:
        if job.preemptible:
            return True
        dims = self.state.tree.dims_of(model)
        return self.state.usage.guarantee_lack(self.state.leaf(job), ask.total, dims) is None

    def _start(self, job: Job, ask: Ask) -> bool:
        leaf = self.state.leaf(job)
        if hours_reasons(self.state, job, ask):
            return False
        for model in self._models_of(job, ask):
            dims = self.state.tree.dims_of(model)
            if any(self.state.usage.cap_lacks(leaf, ask.total, dims)) or not self._firm(job, ask, model):
                continue
            seats = self._place(job, ask, model)
            if seats is None or self._lend_lack(job, ask, model):
                continue
            rank = self.state.claim_rank(leaf, ask.total, dims)
            self._seat(job, seats, rank)
            return True
        return False

    def _place(self, job: Job, ask: Ask, model: str) -> tuple[Seat, ...] | None:
        key = ("place", job.gpu, ask, model)
        if self._misses.get(key) == self.state.version:
            return None
        seats = place(self.state.views(job, model), ask)
        if seats is None:
            self._misses[key] = self.state.version
        return seats

    def _lend_lack(self, job: Job, ask: Ask, model: str) -> int:
        return self.state.lend_lack(self.state.leaf(job), ask.total, model, lambda: self._free(job, model), {})

    def _free(self, job: Job, model: str) -> int:
        return sum(sum(free for free in view.free if free > 0) for view in self.state.views(job, model))

    def _rivals(self, ready: list[Job]) -> dict[str, int]:
        """How many waiting jobs can use only this model (S23)."""
        rivals: dict[str, int] = {}
        for job in ready:
            models = self.state.pool.models(job.gpu)
            if len(models) == 1:
                model = next(iter(models))
                rivals[model] = rivals.get(model, 0) + 1
        return rivals

    def _models_of(self, job: Job, ask: Ask) -> list[str]:
        """The models that a job may use: best rank first, then the one that fewer others depend on."""
        models = list(self.state.pool.models(job.gpu))
        if len(models) > 1:
            leaf, dims_of = self.state.leaf(job), self.state.tree.dims_of
            models.sort(
                key=lambda model: (
                    self.state.claim_rank(leaf, ask.total, dims_of(model)),
                    self._models.get(model, 0),
                    model,
                )
            )
        return models

    # -- changes

    def _seat(self, job: Job, seats: tuple[Seat, ...], rank: Rank) -> None:
        self.state.add(self.state.task_make(job, seats, Kind.PLACED))
        self.starts[job.id] = Start(job.id, rank, seats)

    def _keep_holds(self) -> None:
        """Bind the holds whose cards are free; keep the others as they are."""
        state = self.state
        for name in state.holds:
            task = state.tasks[name]
            rank = state.walk(task.leaf.tenant).ranks[name]
            if not task.victims and state.physically_free(task):
                state.remove(task)
                self._seat(task.job, task.seats, rank)
                self.dropped.add(name)
            else:
                self.waiting[name] = rank
                self.held[name] = HoldFor(name, rank, task.seats, task.until, task.victims)

    def _evict(self, job: Job, found: Eviction) -> None:
        state, leaf = self.state, self.state.leaf(job)
        for victim in found.victims:
            if victim.kind is Kind.RUNNING:
                self._drain(victim, job, leaf, found.rank)
                continue
            state.remove(victim)
            state.recount(victim.victims)
            self.starts.pop(victim.id, None)
            if self.held.pop(victim.id, None) is not None:
                self.waiting.pop(victim.id, None)
                self.dropped.add(victim.id)
            self.order.back(victim.job)
        if any(victim.kind is Kind.DRAINING for victim in found.victims) or not self._free_now(job, found.seats):
            self._hold(job, found)
        else:
            self._seat(job, found.seats, found.rank)

    def _drain(self, victim: Task, job: Job, leaf: Queue, rank: Rank) -> None:
        grace = min(victim.job.grace, PROD_GRACE) if leaf.klass is QueueClass.PROD else victim.job.grace
        deadline = self.state.now + grace
        borrowed = rank >= Rank.BORROWED_PROD
        why = "preempt" if victim.leaf is leaf else "reclaim"
        self.evicts.append(Evict(victim.id, job.id, why, victim.lost, deadline, borrowed))
        if borrowed:
            self.state.cooling.add((leaf.name, victim.leaf.name))
        self.state.drain(victim, deadline)

    def _free_now(self, job: Job, seats: tuple[Seat, ...]) -> bool:
        for seat in seats:
            view = self.state.pool.by_name[seat.node].now
            if any(view.free[card] < seat.milli for card in seat.cards):
                return False
            if (job.cpu and view.cpu < job.cpu) or (job.memory and view.memory < job.memory):
                return False
        return True

    def _hold(self, job: Job, found: Eviction) -> None:
        state = self.state
        rooms = {seat.node: self._wanted(job, seat) for seat in found.seats}
        chosen = {victim.id for victim in found.victims if victim.kind is Kind.DRAINING}
        leavers = [
            task
            for task in state.tasks.values()
            if task.kind is Kind.DRAINING and (task.id in chosen or _sits(task.seats, rooms))
        ]
        until = max((task.until for task in leavers), default=state.now) + state.settings.hold_timeout
        task = state.task_make(job, found.seats, Kind.HELD)
        task.victims, task.until = tuple(sorted(leaver.id for leaver in leavers)), until
        for leaver in leavers:
            if leaver.counted:
                state.uncount(leaver)
        state.add(task)
        self.waiting[job.id] = found.rank
        self.held[job.id] = HoldFor(job.id, found.rank, found.seats, until, task.victims)

    def _wanted(self, job: Job, seat: Seat) -> set[int] | None:
        """The cards of a seat; None if it also waits for CPU or memory, so for everybody who leaves that node."""
        view = self.state.pool.by_name[seat.node].now
        short = (job.cpu and view.cpu < job.cpu) or (job.memory and view.memory < job.memory)
        return None if short else set(seat.cards)

    # -- what is said

    def _waits(self) -> dict[str, tuple[Reason, ...]]:
        return {job_id: self._reasons(self.state.jobs[job_id]) for job_id in self.waiting}

    def _reasons(self, job: Job) -> tuple[Reason, ...]:
        held = self.held.get(job.id)
        if held is not None:
            leaving = [self.state.tasks[victim].until for victim in held.victims]
            return (preempting_reason(held.victims, max(leaving, default=self.state.now), self.state.now),)
        reasons = list(self._limits(job))
        blocker = self.behind.get(job.id)
        if blocker is not None:
            reasons.append(
                Reason(Code.BEHIND, f"its queue is first in, first out, and {blocker} waits", jobs=(blocker,))
            )
        return tuple(reasons)

    def _limits(self, job: Job) -> tuple[Reason, ...]:
        ask = ask_make(job)
        key = (job.queue, job.gpu, ask, job.priority, job.preemptible, job.max_duration)
        known = self._found.get(key)
        if known is None or known[0] != self.state.version:
            known = self._found[key] = (self.state.version, self._limits_find(job, ask))
        return known[1]

    def _limits_find(self, job: Job, ask: Ask) -> tuple[Reason, ...]:
        state, leaf = self.state, self.state.leaf(job)
        shape = (job.gpu, ask)
        if shape not in self._static:
            self._static[shape] = static_reason(state, job, ask)
        static = self._static[shape]
        if static is not None and static.code is not Code.CORDONED:
            return (static,)
        models = self._models_of(job, ask) or list(state.pool.configured(job.gpu))
        dims = state.tree.dims_of(models[0])
        reasons: list[Reason] = []
        if all(any(state.usage.cap_lacks(leaf, ask.total, state.tree.dims_of(model))) for model in models):
            reasons.extend(cap_reasons(list(state.usage.cap_lacks(leaf, ask.total, dims))))
        if not job.preemptible and not any(self._firm(job, ask, model) for model in models):
            lack = state.usage.guarantee_lack(leaf, ask.total, dims)
            if lack is not None:
                reasons.append(guarantee_reason(lack))
        reasons.extend(hours_reasons(state, job, ask))
        if static is not None:
            return (*reasons, static)
        rooms = self._rooms(job, ask)
        if rooms and not (reasons and eviction_find(state, job, ask, caps=False)):
            reasons.extend(rooms)
        elif not rooms and all(self._lend_lack(job, ask, model) for model in models):
            reasons.append(lend_reason(state, job, ask, models[0], self._free(job, models[0])))
        return tuple(reasons)

    def _rooms(self, job: Job, ask: Ask) -> tuple[Reason, ...]:
        key = ("rooms", job.gpu, ask)
        known = self._found.get(key)
        if known is None or known[0] != self.state.version:
            known = self._found[key] = (self.state.version, room_reasons(self.state, job, ask))
        return known[1]

    def _wait_list(self, waits: dict[str, tuple[Reason, ...]]) -> tuple[Wait, ...]:
        jobs = self.state.jobs
        blocked = sorted(
            (
                job
                for job in jobs.values()
                if job.state is RunState.QUEUED and job.blocked_by and job.submitted <= self.state.now
            ),
            key=attrgetter("queue", "id"),
        )
        blocked.sort(key=lambda job: (job.queue, claim_key(job)))
        places: dict[str, int] = {}
        counts: dict[str, int] = {}
        for job in [*sorted((jobs[job_id] for job_id in waits), key=claim_key), *blocked]:
            counts[job.queue] = places[job.id] = counts.get(job.queue, 0) + 1
        return (
            *(Wait(job_id, places[job_id], self.waiting[job_id], reasons) for job_id, reasons in waits.items()),
            *(Wait(job.id, places[job.id], None, blocked_reasons(job)) for job in blocked),
        )


def _sits(seats: tuple[Seat, ...], rooms: dict[str, set[int] | None]) -> bool:
    for seat in seats:
        if seat.node in rooms:
            cards = rooms[seat.node]
            if cards is None or cards.intersection(seat.cards):
                return True
    return False
