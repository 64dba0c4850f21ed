"""A job in virtual time: how far its work is, when it saved, when it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millpond.scheduling.snapshot import Job, RunState, Seat, job_requeued, job_started


@dataclass(frozen=True, slots=True)
class Work:
    """What a job does: seconds of useful work (None: it never ends), and of leaving after a warning."""

    duration: int | None = None
    drain: int = 0


@dataclass(slots=True)
class SimulatedJob:
    """``saved`` is the useful work kept from earlier attempts; ``attempt`` counts starts, and makes old events void."""

    job: Job
    work: Work
    saved: int = 0
    attempt: int = 0
    warned: int | None = None
    waited_since: int = 0
    first_start: int | None = None
    codes: tuple[str, ...] = ()

    @property
    def milli(self) -> int:
        return sum(seat.milli * len(seat.cards) for seat in self.job.seats)

    def start(self, time: int, seats: tuple[Seat, ...]) -> None:
        self.job = job_started(self.job, seats, time)
        self.attempt += 1
        self.warned = None
        self.codes = ()
        if self.first_start is None:
            self.first_start = time

    def end(self) -> tuple[int, str] | None:
        """When the present attempt ends by itself, and why; None if it runs on."""
        job = self.job
        if job.started is None:
            return None
        ends = []
        if self.work.duration is not None:
            ends.append((job.started + max(0, self.work.duration - self.saved), "completed"))
        if job.max_duration is not None:
            ends.append((job.started + job.max_duration, "max_duration"))
        return min(ends, default=None)

    def checkpoint(self, time: int) -> None:
        """Take note of the last checkpoint at or before `time`."""
        job = self.job
        if job.started is None or job.checkpoint_every is None or job.state is RunState.QUEUED:
            return
        since = job.started if job.checkpointed is None else job.checkpointed
        count = (time - since) // job.checkpoint_every
        if count > 0:
            self.job = replace(job, checkpointed=since + count * job.checkpoint_every)

    def warn(self, time: int, until: int) -> int:
        """Begin to leave; returns when it is gone: after its drain, at `until` at the latest."""
        self.job = replace(self.job, state=RunState.DRAINING, until=until)
        self.warned = time
        return min(time + self.work.drain, until)

    def requeue(self, time: int) -> int:
        """Back to the queue with what was saved; returns the seconds of work that are lost."""
        job = self.job
        started = time if job.started is None else job.started
        mark = started if job.checkpointed is None else job.checkpointed
        if job.saves_on_signal and self.warned is not None:
            mark = max(mark, self.warned)
        self.saved += mark - started
        self.job = job_requeued(job)
        self.waited_since = time
        self.codes = ()
        return time - mark
