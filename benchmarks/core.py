"""The planner as a benchmark holds it when it keeps the time itself.

`Desk` says what happened (a job came, ended, changed its priority), asks for a plan and takes it as done.  It is what a
brain does around the planner, without a database.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from millpond.scheduling.decisions import Plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, RunState, Snapshot, job_requeued, job_started


class Desk:
    """``jobs`` are those that live, as the planner sees them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._resident = Resident(snapshot)
        self._holding = {hold.job for hold in snapshot.holds}
        self.jobs: dict[str, Job] = {job.id: job for job in snapshot.jobs}

    @property
    def holding(self) -> AbstractSet[str]:
        """Who waits for cards that are kept for it."""
        return self._holding

    def put(self, job: Job) -> None:
        """A job came, or is other than it was."""
        self.jobs[job.id] = job
        self._resident.job_put(job)

    def gone(self, name: str) -> None:
        """A job has ended, or waits where the planner does not see it."""
        del self.jobs[name]
        self._holding.discard(name)
        self._resident.job_gone(name)

    def back(self, name: str) -> None:
        """A job waits again."""
        job = self.jobs[name]
        self.put(job_requeued(job))

    def plan(self, now: int) -> Plan:
        """Plan at `now` and take everything that the plan says as done then."""
        self._resident.now_set(now)
        found = self._resident.plan(waits=False)
        self._resident.adopt(found)
        self._holding.difference_update(found.drop_holds)
        for evict in found.evict:
            self.jobs[evict.job] = replace(self.jobs[evict.job], state=RunState.DRAINING, until=evict.deadline)
        self._holding.update(hold.job for hold in found.hold)
        for start in found.start:
            self._holding.discard(start.job)
            job = job_started(self.jobs[start.job], start.seats, now)
            self.jobs[start.job] = job
        return found
