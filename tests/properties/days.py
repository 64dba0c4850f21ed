"""Whole days in virtual time, driven from outside: jobs arrive, end, are evicted; nodes are lost and come back.

Everything that a plan says is done at once, and every plan is checked.  What the simulation driver cannot do (nodes
that fail) and does not look for (cycles of evictions) is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Hold, Job, NodeState, PastEviction, RunState, Snapshot, job_requeued

PASSES = 60
"""More passes at one instant mean that the planner does not come to rest."""


@dataclass
class Day:
    """``work``: seconds of useful work of each job; ``promised``: the first time reserved for a job."""

    snapshot: Snapshot
    work: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    evicted: dict[str, set[str]] = field(default_factory=dict)
    """Who drove out whom since the set of jobs last changed."""

    @property
    def now(self) -> int:
        return self.snapshot.now

    def waiting(self) -> list[Job]:
        return [job for job in self.snapshot.jobs if job.state is RunState.QUEUED]

    # -- what happens

    def arrive(self, job: Job, work: int) -> None:
        self.work[job.id] = work
        self.snapshot = replace(self.snapshot, jobs=(*self.snapshot.jobs, replace(job, submitted=self.now)))
        self.evicted.clear()
        self.settle()

    def node_put(self, state: NodeState) -> None:
        """A node becomes another: lost, cordoned, well.  The jobs of a lost one are queued again."""
        name = state.spec.name
        nodes = tuple(state if other.spec.name == name else other for other in self.snapshot.nodes)
        jobs = tuple(
            job_requeued(job) if state.lost and any(seat.node == name for seat in job.seats) else job
            for job in self.snapshot.jobs
        )
        self.snapshot = replace(self.snapshot, nodes=nodes, jobs=jobs)
        self._holds_trim()
        self.evicted.clear()
        self.settle()

    def pass_time(self, seconds: int) -> None:
        """Let time go by, with an instant for everybody who ends or is gone."""
        until = self.now + seconds
        while (moment := min([until, *self._ends().values()])) < until:
            self._instant(max(moment, self.now))
        self._instant(until)

    def _instant(self, moment: int) -> None:
        self.snapshot = replace(self.snapshot, now=moment)
        over = {name for name, end in self._ends().items() if end <= moment}
        gone = {job.id for job in self.snapshot.jobs if job.id in over and job.state is RunState.DRAINING}
        if over - gone:
            self.evicted.clear()
        self.snapshot = replace(
            self.snapshot,
            jobs=tuple(
                job_requeued(job) if job.id in gone else job for job in self.snapshot.jobs if job.id not in over - gone
            ),
        )
        self._holds_trim()
        self.settle()

    def _ends(self) -> dict[str, int]:
        ends: dict[str, int] = {}
        for job in self.snapshot.jobs:
            if job.state is RunState.DRAINING and job.until is not None:
                ends[job.id] = job.until
            elif job.state is RunState.RUNNING and job.started is not None:
                work = self.work[job.id]
                ends[job.id] = job.started + (work if job.max_duration is None else min(work, job.max_duration))
        return ends

    def _holds_trim(self) -> None:
        there = {job.id for job in self.snapshot.jobs if job.state is not RunState.QUEUED}
        self.snapshot = replace(
            self.snapshot,
            holds=tuple(
                replace(hold, victims=tuple(victim for victim in hold.victims if victim in there))
                for hold in self.snapshot.holds
            ),
        )

    # -- planning

    def settle(self) -> Plan:
        """Plan, and do what the plan says, until it says nothing new."""
        for _ in range(PASSES):
            found = plan(self.snapshot)
            violations = check(self.snapshot, found)
            assert not violations, violations
            for reserved in found.reservations:
                self.promised.setdefault(reserved.job, reserved.time)
            if not (found.start or found.evict):
                self._apply(found)
                return found
            self._apply(found)
        raise AssertionError(f"the plan does not come to rest at {self.now}")

    def _apply(self, found: Plan) -> None:
        starts = {start.job: start for start in found.start}
        leaving = {evict.job: evict for evict in found.evict}
        leaf = {job.id: job.queue for job in self.snapshot.jobs}
        for evict in found.evict:
            self.evicted.setdefault(evict.claimant, set()).add(evict.job)
        for name in starts:
            self.started.setdefault(name, self.now)
            self.promised.pop(name, None)
        holds = {hold.job: hold for hold in self.snapshot.holds if hold.job not in found.drop_holds}
        holds |= {hold.job: Hold(hold.job, hold.seats, hold.until, hold.victims) for hold in found.hold}
        self.snapshot = replace(
            self.snapshot,
            jobs=tuple(
                replace(job, state=RunState.RUNNING, seats=starts[job.id].seats, started=self.now)
                if job.id in starts
                else replace(job, state=RunState.DRAINING, until=leaving[job.id].deadline)
                if job.id in leaving
                else job
                for job in self.snapshot.jobs
            ),
            holds=tuple(hold for name, hold in sorted(holds.items()) if name not in starts),
            evictions=(
                *self.snapshot.evictions,
                *(PastEviction(leaf[e.claimant], leaf[e.job], self.now, e.borrowed) for e in found.evict),
            ),
        )


def cyclic(edges: dict[str, set[str]]) -> bool:
    """Whether somebody can be reached from itself."""
    done: set[str] = set()

    def visit(name: str, path: frozenset[str]) -> bool:
        if name in path:
            return True
        if name in done:
            return False
        found = any(visit(other, path | {name}) for other in sorted(edges.get(name, ())))
        done.add(name)
        return found

    return any(visit(name, frozenset()) for name in sorted(edges))
