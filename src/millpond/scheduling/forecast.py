"""When waiting jobs will start (scheduling §7): the planner, rolled forward in virtual time.

How long jobs run is not known, so the future is played several times.  In each scenario every job runs for as long as
some share of its kind does (`history`); the shares are dealt so that over the scenarios each job gets short and long
runs alike, and no two jobs go in step: job j gets share (a·s + b) mod S in scenario s, with a and b from its name and
S prime (a rank-1 lattice; Niederreiter, *Random Number Generation and Quasi-Monte Carlo Methods*, 1992, ch. 5).  There
is no randomness: the same input gives the same answer.

Others will come meanwhile: the jobs that came in the last `WINDOW` are taken to come again in the next one, and so on,
in each scenario at another hour.  The grace of evictions passes in no time here.  What all that misses is learnt from
how earlier promises did (`calibration`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from zlib import crc32

from millpond.scheduling.calibration import HORIZON, Calibration, Eta
from millpond.scheduling.decisions import Plan
from millpond.scheduling.history import WHOLE, RunTimes, Span, span_of
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Hold, Job, RunState, Seat, Snapshot, job_requeued, job_started

SCENARIOS = 13
"""Prime, as the lattice needs it."""

_SCENARIOS_LARGE = 7
_LARGE = 3_000
"""Jobs and nodes from which fewer scenarios are played."""

WINDOW = 86_400
"""Seconds of arrivals that are taken to repeat themselves."""

_PASSES = 160
"""Planning passes of one scenario."""

_STEP_MIN, _STEP_SHARE = 5, 16
"""Ends closer together than 1/16 of the time gone by are taken as one; nothing is told more precisely anyway."""

_AGAIN = "~"
"""Ends the name of a job in the name of its repetition."""


def forecast(
    snapshot: Snapshot,
    times: RunTimes | None = None,
    *,
    arrivals: Sequence[Job] = (),
    calibration: Calibration | None = None,
    scenarios: int | None = None,
) -> dict[str, Eta]:
    """The start of every job that waits for the scheduler, by id.  ``arrivals``: as `Forecast`."""
    rolled = Forecast(snapshot, times or RunTimes(), arrivals=arrivals, scenarios=scenarios)
    while rolled.step():
        pass
    return rolled.etas(calibration or Calibration())


class Forecast:
    """A forecast in the making: one `step` is one planning pass, so that who has other things to do may pause.

    ``arrivals`` are the jobs submitted in the last `WINDOW`, whatever became of them.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        times: RunTimes,
        *,
        arrivals: Sequence[Job] = (),
        scenarios: int | None = None,
    ) -> None:
        large = len(snapshot.jobs) + len(snapshot.nodes) > _LARGE
        self._count = scenarios or (_SCENARIOS_LARGE if large else SCENARIOS)
        self._snapshot = snapshot
        leaves = {config.name for config in snapshot.queues if config.leaf}
        self._arrivals = sorted(
            (job for job in arrivals if job.queue in leaves and job.submitted > snapshot.now - WINDOW),
            key=lambda job: (job.submitted, job.id),
        )
        self._spans = {job.id: span_of(job, times, snapshot.settings) for job in (*arrivals, *snapshot.jobs)}
        self._names = [
            job.id
            for job in snapshot.jobs
            if job.state is RunState.QUEUED and not job.blocked_by and job.submitted <= snapshot.now
        ]
        self._starts: dict[str, list[int | None]] = {name: [] for name in self._names}
        self._done = 0
        self._rolling: _Scenario | None = None

    def step(self) -> bool:
        """One pass further; False when there is nothing left to do."""
        if not self._names or self._done == self._count:
            return False
        if self._rolling is None:
            self._rolling = _Scenario(self._snapshot, self._spans, self._arrivals, self._done, self._count)
        if not self._rolling.step():
            for name, found in self._starts.items():
                found.append(self._rolling.starts.get(name))
            self._rolling, self._done = None, self._done + 1
        return True

    def etas(self, calibration: Calibration) -> dict[str, Eta]:
        """What the scenarios played so far say, corrected by how earlier promises did."""
        now = self._snapshot.now
        return {name: calibration.correct(found, now) for name, found in self.raw().items()}

    def raw(self) -> dict[str, Eta]:
        """What the scenarios say by themselves."""
        return {name: _eta(found) for name, found in self._starts.items() if found}


def _eta(starts: Sequence[int | None]) -> Eta:
    far = max((start for start in starts if start is not None), default=0) + 1
    ordered = sorted(far if start is None else start for start in starts)
    last = len(ordered) - 1
    points = [ordered[index] for index in (last // 10, last // 2, -(-last * 9 // 10))]
    return Eta(*(None if point == far else point for point in points))


def share_of(name: str, scenario: int, count: int) -> int:
    """The share of a job in a scenario, thousandths: the middle of one of `count` equal parts."""
    code = crc32(name.encode())
    factor, shift = 1 + code % (count - 1) if count > 1 else 1, (code >> 8) % count
    return ((factor * scenario + shift) % count * 2 + 1) * WHOLE // (2 * count)


def _again(arrivals: Sequence[Job], now: int, number: int, count: int) -> Iterator[Job]:
    """The arrivals of the last `WINDOW` once more, and once more, from another hour on in each scenario."""
    if not arrivals:
        return
    shift = WINDOW * number // count
    turned = sorted((((job.submitted - now + WINDOW + shift) % WINDOW, job) for job in arrivals), key=_offset)
    for turn in range(HORIZON // WINDOW):
        for offset, job in turned:
            yield replace(
                job,
                id=f"{job.id}{_AGAIN}{turn}",
                submitted=now + 1 + turn * WINDOW + offset,
                state=RunState.QUEUED,
                seats=(),
                started=None,
                checkpointed=None,
                until=None,
                blocked_by=(),
            )


def _offset(item: tuple[int, Job]) -> tuple[int, str]:
    return (item[0], item[1].id)


class _Scenario:
    """One play of the future.  ``starts``: when each job first starts."""

    def __init__(
        self,
        snapshot: Snapshot,
        spans: Mapping[str, Span | None],
        arrivals: Sequence[Job],
        number: int,
        count: int,
    ) -> None:
        self._spans = spans
        self._number, self._count = number, count
        self._begin = self._now = snapshot.now
        self._jobs = {job.id: job for job in snapshot.jobs if job.submitted <= snapshot.now}
        self._resident = Resident(replace(snapshot, jobs=tuple(self._jobs.values())))
        self._held: set[str] = set()
        """Jobs whose cards are held and whose victims have left."""
        self._saved: dict[str, int] = {}
        """Seconds of work that a job keeps from before it was evicted."""
        self._ends: list[tuple[int, str, int]] = []
        self._asked = {job.id for job in self._jobs.values() if job.state is RunState.QUEUED and not job.blocked_by}
        """Those whose start is still to be seen."""
        self._coming = _again(arrivals, snapshot.now, number, count)
        self._next = next(self._coming, None)
        self._passes = 0
        self.starts: dict[str, int] = {}
        for job in self._jobs.values():
            self._end_plan(job)

    def step(self) -> bool:
        """One pass, and on to the next moment at which something ends; False when nobody else will start."""
        self._passes += 1
        self._resident.now_set(self._now)
        result = self._resident.plan(waits=False)
        self._resident.adopt(result)
        again = self._apply(result)
        if not again and not self._advance():
            return False
        return bool(self._asked) and self._passes < _PASSES and self._now - self._begin < HORIZON

    # -- one pass

    def _apply(self, result: Plan) -> bool:
        """Let the plan happen at once; True if cards are held, so that the same moment needs another pass."""
        self._held.difference_update(result.drop_holds)
        graces = {evict.claimant: evict.deadline for evict in result.evict}
        for evict in result.evict:
            self._leave(self._jobs[evict.job])
        for start in result.start:
            self._start(self._jobs[start.job], start.seats)
        fresh = False
        for hold in result.hold:
            leaving = [name for name in hold.victims if self._jobs[name].state is not RunState.QUEUED]
            drained = [job for name in leaving if (job := self._jobs[name]).state is RunState.DRAINING]
            until = graces.get(hold.job, max((job.until or self._now for job in drained), default=None))
            if until is not None:
                self.starts.setdefault(hold.job, max(until, self._now))
            for job in drained:
                self._leave(job)
            fresh = fresh or hold.job not in self._held or bool(leaving)
            self._held.add(hold.job)
            self._resident.hold_put(Hold(hold.job, hold.seats, hold.until))
        return fresh

    def _start(self, job: Job, seats: tuple[Seat, ...]) -> None:
        self._held.discard(job.id)
        self.starts.setdefault(job.id, self._now)
        self._asked.discard(job.id)
        started = job_started(job, seats, self._now)
        self._jobs[job.id] = started
        self._end_plan(started)

    def _leave(self, job: Job) -> None:
        """Back to the queue, with what it has saved."""
        started = job.started if job.started is not None else self._now
        saved = self._now if job.saves_on_signal else job.checkpointed
        if saved is not None:
            self._saved[job.id] = self._saved.get(job.id, 0) + max(0, saved - started)
        self._come(replace(job_requeued(job), blocked_by=()))

    def _come(self, job: Job) -> None:
        """A job waits."""
        self._jobs[job.id] = job
        self._resident.job_put(job)

    # -- time

    def _end_plan(self, job: Job) -> None:
        span = self._spans[job.id.partition(_AGAIN)[0]]
        if job.state is RunState.QUEUED or job.started is None:
            return
        if job.state is RunState.DRAINING:
            heapq.heappush(self._ends, (max(self._now, job.until or self._now), job.id, job.started))
        elif span is not None:
            ran = max(0, self._begin - job.started) if job.started < self._begin else 0
            share = share_of(job.id, self._number, self._count)
            seconds = span.after(ran, share, job.max_duration) - self._saved.get(job.id, 0)
            heapq.heappush(self._ends, (job.started + max(1, seconds), job.id, job.started))

    def _advance(self) -> bool:
        """Go to the next end, and take those that follow soon after with it; False if nothing ends any more.

        Who comes until then is there.
        """
        while self._ends and not self._alive(self._ends[0]):
            heapq.heappop(self._ends)
        if not self._ends:
            return False
        first = self._ends[0][0]
        until = first + max(_STEP_MIN, (first - self._begin) // _STEP_SHARE)
        while self._ends and self._ends[0][0] <= until:
            moment, name, started = heapq.heappop(self._ends)
            if self._alive((moment, name, started)):
                self._now = max(self._now, moment)
                job = self._jobs[name]
                if job.state is RunState.DRAINING:
                    self._leave(job)
                else:
                    del self._jobs[name]
                    self._resident.job_gone(name)
        while self._next is not None and self._next.submitted <= self._now:
            self._come(self._next)
            self._next = next(self._coming, None)
        return True

    def _alive(self, end: tuple[int, str, int]) -> bool:
        job = self._jobs.get(end[1])
        return job is not None and job.state is not RunState.QUEUED and job.started == end[2]
