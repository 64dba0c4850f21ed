"""The virtual-time driver (scheduling §9): from one instant at which something happens to the next.

At one instant ends come first, then checkpoints, arrivals, the planning pass.  A pass that makes somebody leave at once
is followed by another at the same instant.  Nothing is planned while nothing changed: time alone changes a plan only
where a rule names a duration (hold, cool-down, minimal run time), and those moments are instants too.  That somebody
has run long enough to be moved is one only while cards are reserved for a larger job that may have others moved: else
it would make two passes of every start.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from millpond.domain.errors import MillpondError
from millpond.scheduling.check import check
from millpond.scheduling.consolidate import saves
from millpond.scheduling.decisions import Evict, HoldFor, Plan, Rank, Reservation, Start, Violation, Wait, seats_json
from millpond.scheduling.mix import MixMemory
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Hold, Job, PastEviction, RunState, Snapshot
from millpond.simulation.figures import Figures
from millpond.simulation.jobs import SimulatedJob, Work

MAX_PASSES_AT_ONCE = 1000
"""More passes at one instant mean that the planner does not come to rest."""

_END, _WAKE, _ARRIVAL, _REST = 0, 1, 2, 3

Planner = Callable[[Snapshot], Plan]


class Unsettled(MillpondError):
    """The planner kept changing its mind at one instant: a bug of the planner."""

    code = "UNSETTLED"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to `job` at ``time`` (seconds from the beginning)."""

    time: int
    kind: str
    job: str
    data: Mapping[str, object] = field(default_factory=dict)

    def json(self) -> dict[str, object]:
        return {"t": self.time, "event": self.kind, "job": self.job, **self.data}


class Simulation:
    """One run.  `events` may be read once; `summary` tells about the time up to the last event read.

    Without a ``planner`` one stays and is told what happens; a given one gets the whole snapshot at each pass.
    ``checked`` false leaves out the check of every plan, which looks at all jobs; ``waits`` false the events that tell
    who waits and why.  Neither changes what starts, and when.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        planner: Planner | None = None,
        *,
        arrivals: tuple[Job, ...] = (),
        work: Mapping[str, Work] | None = None,
        until: int = 86_400,
        checked: bool = True,
        waits: bool = True,
    ) -> None:
        self._base = snapshot
        self._requests = MixMemory(snapshot.mix)
        self._planner = planner
        self._resident = Resident(snapshot, saved=self._saved) if planner is None else None
        self._checked, self._waits = checked, waits
        self._waiting = 0
        self._work = dict(work or {})
        self._begin = self._time = snapshot.now
        self._until = snapshot.now + until
        self._jobs: dict[str, SimulatedJob] = {}
        self._holds = {hold.job: hold for hold in snapshot.holds}
        self._evictions = [*snapshot.evictions]
        self._reserved: dict[str, Reservation] = {}
        self._heap: list[tuple[int, int, int, str, int, str]] = []
        self._count = 0
        self._figures = Figures.of(snapshot)
        self._arrivals = {job.id: job for job in arrivals}
        for job in snapshot.jobs:
            self._admit(job)
        for job in arrivals:
            self._push(job.submitted, _ARRIVAL, job.id, 0, "")
        for hold in snapshot.holds:
            self._push(hold.until, _WAKE, "", 0, "")

    @property
    def time(self) -> int:
        """Seconds since the beginning."""
        return self._time - self._begin

    def events(self) -> Iterator[Event]:
        """Everything that happens up to and including the last second."""
        if self._waiting:
            yield from self._passes()
        while self._heap and self._heap[0][0] <= self._until:
            if not self._jobs and self._heap[0][1] == _WAKE:
                heapq.heappop(self._heap)  # nobody is there whom that moment could concern
                continue
            moment, order, _, name, attempt, _ = self._heap[0]
            if order == _REST and not self._rested(moment, name, attempt):
                heapq.heappop(self._heap)
                continue
            self._time = self._heap[0][0]
            happened = list(self._happen())
            for event in happened:
                if event is not None:
                    yield event
            if self._waiting and (happened or self._waits):
                yield from self._passes()
        if self._waiting < len(self._jobs):
            self._time = self._until

    def summary(self) -> dict[str, object]:
        running: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        for simulated in self._jobs.values():
            (waiting if simulated.job.state is RunState.QUEUED else running)[simulated.job.queue] += 1
        return self._figures.summary(self.time, running, waiting, self._time)

    # -- time

    def _push(self, time: int, order: int, job: str, attempt: int, what: str) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(time, self._begin), order, self._count, job, attempt, what))

    def _happen(self) -> Iterator[Event | None]:
        """Take everything off the heap that is due: ends, wakes (None), arrivals."""
        while self._heap and self._heap[0][0] <= self._time:
            _, order, _, name, attempt, what = heapq.heappop(self._heap)
            if order == _ARRIVAL:
                yield self._arrive(self._arrivals[name])
            elif order == _WAKE:
                if not name or ((waiter := self._jobs.get(name)) and waiter.job.state is RunState.QUEUED):
                    yield None
            elif order == _REST:
                if self._rested(self._time, name, attempt):
                    yield None
            else:
                simulated = self._jobs.get(name)
                if simulated is not None and simulated.attempt == attempt:
                    yield self._end(simulated, what)

    def _event(self, kind: str, job: str, **data: object) -> Event:
        return Event(self.time, kind, job, data)

    # -- jobs

    def _admit(self, job: Job) -> None:
        simulated = SimulatedJob(job, self._work.get(job.id, Work()), waited_since=job.submitted)
        self._jobs[job.id] = simulated
        self._figures.queues[job.queue].arrived += 1
        if job.state is RunState.QUEUED:
            self._wait_begin(simulated)
            return
        self._figures.queues[job.queue].begin(simulated.milli, self._time)
        simulated.first_start = job.started
        self._plan_end(simulated)
        if job.state is RunState.DRAINING and job.until is not None:
            simulated.warned = self._begin
            self._push(job.until, _END, job.id, 0, "gone")

    def _arrive(self, job: Job) -> Event:
        self._admit(job)
        if self._requests.learn(job):
            self._base = replace(self._base, mix=self._requests.mix)
            if self._resident is not None:
                self._resident.mix_set(self._requests.mix)
        if self._resident is not None:
            self._resident.job_put(job)
        return self._event("arrive", job.id, queue=job.queue)

    def _plan_end(self, simulated: SimulatedJob) -> None:
        """When its attempt is over by itself, and from when on it may be moved."""
        job, end = simulated.job, simulated.end()
        for rest in self._rests() if job.started is not None and saves(job) else ():
            self._push((job.started or 0) + rest, _REST, job.id, simulated.attempt, "")
        if end is not None:
            self._push(end[0], _END, simulated.job.id, simulated.attempt, end[1])

    def _end(self, simulated: SimulatedJob, why: str) -> Event:
        """An attempt is over: for good, or (``gone``) back to the queue."""
        job = simulated.job
        figures = self._figures.queues[job.queue]
        for name, hold in self._holds.items():
            if job.id in hold.victims:
                hold = self._holds[name] = replace(hold, victims=tuple(v for v in hold.victims if v != job.id))
                if self._resident is not None:
                    self._resident.hold_put(hold)
        figures.end(simulated.milli, self._time)
        if why != "gone":
            del self._jobs[job.id]
            if self._resident is not None:
                self._resident.job_gone(job.id)
            figures.ended += 1
            return self._event("end", job.id, reason=why)
        simulated.checkpoint(self._time)
        lost = simulated.milli * simulated.requeue(self._time)
        simulated.attempt += 1
        figures.lost += lost
        self._wait_begin(simulated)
        if self._resident is not None:
            self._resident.job_put(simulated.job)
        return self._event(
            "requeue",
            job.id,
            lost_milli_seconds=lost,
            saved=simulated.saved,
            submitted=job.submitted - self._begin,
        )

    # -- planning

    def _wait_begin(self, simulated: SimulatedJob) -> None:
        self._waiting += 1
        if not self._waits:
            self._patience(simulated.job)

    def _saved(self, job: Job) -> int | None:
        """The last checkpoint of a running job at this instant."""
        simulated = self._jobs[job.id]
        simulated.checkpoint(self._time)
        return simulated.job.checkpointed

    def _passes(self) -> Iterator[Event]:
        for _ in range(MAX_PASSES_AT_ONCE):
            yield from self._pass()
            changed = [event for event in self._happen() if event is not None]
            if not changed:
                return
            yield from changed
        raise Unsettled(f"the plan does not come to rest at t={self.time}", hint="report this snapshot")

    def _snapshot(self) -> Snapshot:
        for simulated in self._jobs.values():
            simulated.checkpoint(self._time)
        return replace(
            self._base,
            now=self._time,
            jobs=tuple(simulated.job for simulated in self._jobs.values()),
            holds=tuple(self._holds.values()),
            evictions=tuple(self._evictions),
        )

    def _plan(self) -> tuple[Plan, tuple[Violation, ...]]:
        """The plan of this instant, and what is wrong with it."""
        snapshot = self._snapshot() if self._checked or self._planner is not None else None
        if self._resident is not None:
            self._resident.now_set(self._time)
            plan = self._resident.plan(waits=self._waits or self._checked)
            self._resident.adopt(plan)
        elif self._planner is not None and snapshot is not None:
            plan = self._planner(snapshot)
        return plan, check(snapshot, plan) if self._checked and snapshot is not None else ()

    def _pass(self) -> Iterator[Event]:
        cooldown = self._base.settings.cooldown
        self._evictions = [past for past in self._evictions if self._time - past.time < cooldown]
        plan, violations = self._plan()
        self._figures.passes += 1
        for violation in violations:
            subjects = list(violation.subjects)
            yield self._event("violation", subjects[0] if subjects else "", rule=violation.rule, text=violation.text)
        bound = {start.job for start in plan.start} | {hold.job for hold in plan.hold}
        for name in plan.drop_holds:
            if self._holds.pop(name, None) is not None and name not in bound:
                yield self._event("lapse", name)
        for evict in plan.evict:
            yield self._evict(evict)
        for hold in plan.hold:
            event = self._hold(hold)
            if event is not None:
                yield event
        for start in plan.start:
            yield self._start(start)
        before, self._reserved = self._reserved, {found.model: found for found in plan.reservations}
        for model, found in self._reserved.items():
            if before.get(model) != found:
                yield self._reserve(found)
        for wait in plan.wait if self._waits else ():
            event = self._wait(wait)
            if event is not None:
                yield event

    def _evict(self, evict: Evict) -> Event:
        simulated = self._jobs[evict.job]
        claimant = self._jobs[evict.claimant].job.queue
        self._evictions.append(PastEviction(claimant, simulated.job.queue, self._time, evict.borrowed))
        if evict.borrowed:
            self._push(self._time + self._base.settings.cooldown, _WAKE, "", 0, "")
        gone = simulated.warn(self._time, evict.deadline)
        self._push(gone, _END, evict.job, simulated.attempt, "gone")
        self._figures.queues[simulated.job.queue].leave(evict.why)
        return self._event("evict", evict.job, **{"for": evict.claimant}, why=evict.why, lost_milli_seconds=evict.lost)

    def _hold(self, hold: HoldFor) -> Event | None:
        before = self._holds.get(hold.job)
        self._holds[hold.job] = Hold(hold.job, hold.seats, hold.until, hold.victims)
        if before is not None and (before.seats, before.until) == (hold.seats, hold.until):
            return None
        self._push(hold.until, _WAKE, "", 0, "")
        return self._event(
            "hold",
            hold.job,
            rank=hold.rank.word,
            placement=seats_json(hold.seats),
            until=hold.until - self._begin,
            victims=list(hold.victims),
        )

    def _reserve(self, found: Reservation) -> Event:
        """Told when a model's reservation changes."""
        self._push(found.time, _WAKE, "", 0, "")
        return self._event(
            "reserve", found.job, model=found.model, time=found.time - self._begin, placement=seats_json(found.seats)
        )

    def _start(self, start: Start) -> Event:
        self._holds.pop(start.job, None)
        simulated = self._jobs[start.job]
        figures = self._figures.queues[simulated.job.queue]
        if simulated.first_start is None:
            figures.waits.append(self._time - simulated.job.submitted)
        figures.started += 1
        simulated.start(self._time, start.seats)
        self._waiting -= 1
        figures.begin(simulated.milli, self._time)
        self._plan_end(simulated)
        if self._base.settings.min_runtime:
            self._push(self._time + self._base.settings.min_runtime, _WAKE, "", 0, "")
        resumed: dict[str, object] = {"resumed_from": simulated.saved} if simulated.saved else {}
        return self._event("start", start.job, rank=start.rank.word, placement=seats_json(start.seats), **resumed)

    def _rests(self) -> set[int]:
        """After so many seconds a job that has started may be moved, for the one reason or the other."""
        settings = self._base.settings
        after = (settings.consolidate_after, settings.regroup_after)
        return {max(1, settings.min_runtime, each) for each in after if each is not None}

    def _rested(self, time: int, name: str, attempt: int) -> bool:
        """Whether it matters that somebody has run long enough: a larger job has cards reserved and may have him moved.

        Of others than the first that waits nobody is told while reasons are left out, so they do not count.
        """
        simulated, settings = self._jobs.get(name), self._base.settings
        if simulated is None or simulated.attempt != attempt or simulated.job.state is not RunState.RUNNING:
            return False
        for found in self._reserved.values():
            claim = self._jobs[found.job].job if found.job in self._jobs else None
            if claim is None or claim.gpu.milli_min * claim.nodes <= simulated.milli:
                continue
            patiences = (settings.consolidate_after, settings.regroup_after if found.rank is Rank.GUARANTEED else None)
            if any(after is not None and claim.submitted + after <= time for after in patiences):
                return True
        return False

    def _wait(self, wait: Wait) -> Event | None:
        """Told when the reasons change, not at every pass."""
        simulated = self._jobs[wait.job]
        codes = tuple(reason.code.value for reason in wait.reasons)
        if codes == simulated.codes:
            return None
        if not simulated.codes:
            self._patience(simulated.job)
        simulated.codes = codes
        return self._event("wait", wait.job, codes=list(codes), position=wait.position)

    def _patience(self, job: Job) -> None:
        """A job begins to wait: there are moments at which it has waited long enough for more than its turn."""
        settings = self._base.settings
        back = settings.hold_back_for if settings.hold_back else None
        for patience in (settings.reserve_after, settings.consolidate_after, settings.regroup_after, back):
            if patience is not None and job.submitted + patience > self._time:
                self._push(job.submitted + patience, _WAKE, "" if self._waits else job.id, 0, "")
