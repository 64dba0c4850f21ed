"""Snapshot and plan side by side, as the checker's rules see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from millpond.scheduling.check_book import Book, Use
from millpond.scheduling.decisions import Evict, Plan
from millpond.scheduling.snapshot import Job, RunState, Snapshot, job_requeued


@dataclass(slots=True)
class World:
    """Snapshot and plan side by side.  ``staying`` run on; ``leaving`` occupy their seats but not their quota.

    Who moves is there twice until it has left: in ``running`` as it is, in ``holds`` as it will wait.
    """

    snapshot: Snapshot
    plan: Plan
    book: Book = field(init=False)
    jobs: dict[str, Job] = field(init=False)
    running: dict[str, Use] = field(init=False)
    starts: dict[str, Use] = field(init=False)
    holds: dict[str, Use] = field(init=False)
    old_holds: dict[str, Use] = field(init=False)
    evicted: dict[str, Evict] = field(init=False)
    leaving: set[str] = field(init=False)
    firm: dict[str, dict[str, int]] = field(init=False)
    """Milli-cards of non-preemptible jobs after the plan, by queue and dimension."""

    def __post_init__(self) -> None:
        snapshot, plan = self.snapshot, self.plan
        now = snapshot.now
        self.book = Book(snapshot)
        self.jobs = {job.id: job for job in snapshot.jobs}
        self.running = {
            job.id: self.book.use(job, job.seats, job.submitted if job.started is None else job.started)
            for job in snapshot.jobs
            if job.state is not RunState.QUEUED
        }
        waits = {job.id: job if job.state is RunState.QUEUED else job_requeued(job) for job in snapshot.jobs}
        self.starts = {start.job: self.book.use(self.jobs[start.job], start.seats, now) for start in plan.start}
        gone = {*plan.drop_holds, *self.starts}
        self.old_holds = {
            hold.job: self.book.use(waits[hold.job], hold.seats, now) for hold in snapshot.holds if hold.job not in gone
        }
        self.holds = {
            **self.old_holds,
            **{hold.job: self.book.use(waits[hold.job], hold.seats, now) for hold in plan.hold},
        }
        self.evicted = {evict.job: evict for evict in plan.evict}
        renewed = {*plan.drop_holds, *(hold.job for hold in plan.hold)}
        victims = {v for hold in snapshot.holds if hold.job not in renewed for v in hold.victims}
        victims |= {victim for hold in plan.hold for victim in hold.victims}
        draining = {job_id for job_id, use in self.running.items() if use.job.state is RunState.DRAINING}
        self.leaving = set(self.evicted) | (draining & victims)
        self.firm = self.book.usage(use for use in self.after if not use.job.preemptible)

    @property
    def staying(self) -> list[Use]:
        """Running jobs whose usage counts after the plan."""
        return [use for job_id, use in self.running.items() if job_id not in self.leaving]

    @property
    def after(self) -> list[Use]:
        """Everything that counts as usage once the plan is applied."""
        return [*self.staying, *self.starts.values(), *self.holds.values()]

    @property
    def added(self) -> list[Use]:
        """What the plan adds: starts and new holds."""
        return [*self.starts.values(), *(self.holds[hold.job] for hold in self.plan.hold)]


def load_of(uses: Iterable[Use]) -> dict[tuple[str, int], int]:
    load: dict[tuple[str, int], int] = defaultdict(int)
    for use in uses:
        for place, milli in places_of(use).items():
            load[place] += milli
    return load


def places_of(use: Use) -> dict[tuple[str, int], int]:
    places: dict[tuple[str, int], int] = {}
    for seat in use.seats:
        for card in seat.cards:
            places[seat.node, card] = places.get((seat.node, card), 0) + seat.milli
    return places
