"""The meter: facts of attempts into spans of use.

It remembers open attempts, and jobs that are not over, nothing else.  What it tells are signed spans that add up: a
span with sign −1 takes back what was told before.  So it may tell of an open attempt up to any moment (`settle`) and go
on later, and a fact that comes late corrects what was told: the sums are those of all facts, whenever they came.

Rules (who pays for what): work since the last checkpoint is lost when the platform takes the cards away.  A job that
has no checkpoint in any attempt pays for what a preemption lost, since it chose so, but not for faults of the platform.
Services lose nothing.  What never started is not told at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple, Protocol

from millpond.domain.jobs import EndReason
from millpond.metering.alarms import Alarm, AlarmCode
from millpond.metering.cards import Cards, Key
from millpond.metering.facts import Event, Fact, Shape
from millpond.metering.state import JobState, MeterState, RunState

FAULTS: Final = frozenset({EndReason.NODE_LOST, EndReason.CARD_FAULT})
"""Ends that are the platform's fault."""

LOSING: Final = FAULTS | {EndReason.PREEMPTED, EndReason.RECLAIMED, EndReason.MOVED}
"""Ends after which the work since the last checkpoint is lost."""

OVER: Final = frozenset({EndReason.COMPLETED, EndReason.CANCELLED, EndReason.MAX_DURATION})
"""Ends after which a job has no further attempt."""

FAILED_KEPT: Final = 86_400
"""Seconds after which a job that failed and was not tried again is over."""

WAITING_KEPT: Final = 90 * 86_400
"""The same for a job that was evicted."""

LOOK: Final = 3_600
"""Seconds between looks for such jobs."""

# Enumerations are slow to hash and to look up, which shows at ten million facts.
_STARTED: Final = Event.STARTED
_AGAIN: Final = Event.STARTED_AGAIN
_ENDED: Final = Event.ENDED
_CHECKPOINTED: Final = Event.CHECKPOINTED
_LOSES: Final = 1
_FAULT: Final = 2
_OVER: Final = 4
_KINDS: Final = {
    reason.value: _LOSES * (reason in LOSING) + _FAULT * (reason in FAULTS) + _OVER * (reason in OVER)
    for reason in EndReason
}


class Span(NamedTuple):
    """Use of ``shape`` in [start, end).  ``lost``: work that was undone.  ``sign`` −1: taken back."""

    job: str
    attempt: int
    shape: Shape
    start: int
    end: int
    lost: bool = False
    sign: int = 1


class Ended(NamedTuple):
    """An attempt that is over and billed: what a minimum per start needs.  ``lost``: whether work was lost."""

    job: str
    attempt: int
    shape: Shape
    start: int
    end: int
    lost: bool
    sign: int = 1


class Sink(Protocol):
    """Who takes what the meter tells."""

    def span(self, span: Span) -> None:
        """Use, or the taking back of it."""

    def ended(self, ended: Ended) -> None:
        """After the spans of an attempt that ended."""

    def alarm(self, alarm: Alarm) -> None:
        """Facts that contradict each other."""


class _Run:
    """An open attempt.  ``told``: up to where its use was told, as not lost."""

    __slots__ = ("attempt", "disputed", "job", "saved", "segments", "start", "told")

    def __init__(self, job: str, attempt: int, start: int, shape: Shape) -> None:
        self.job = job
        self.attempt = attempt
        self.start = start
        self.told = start
        self.saved = -1
        self.disputed = False
        self.segments: list[tuple[int, Shape]] = [(start, shape)]

    def state(self) -> RunState:
        segments = tuple(self.segments)
        return RunState(self.job, self.attempt, self.start, self.told, self.saved, self.disputed, segments)

    @staticmethod
    def of(state: RunState) -> _Run:
        run = _Run(state.job, state.attempt, state.start, state.segments[0][1])
        run.told, run.saved, run.disputed = state.told, state.saved, state.disputed
        run.segments = list(state.segments)
        return run


class _Job:
    """A job that is not over: whether it has ever saved, and its attempts that were evicted before it had.

    ``since`` is when its last attempt ended, −1 while one runs; ``failed``: that was a failure.
    """

    __slots__ = ("failed", "full", "saved", "since")

    def __init__(self) -> None:
        self.saved = False
        self.failed = False
        self.since = -1
        self.full: list[tuple[_Run, int]] = []


class Meter:
    """Takes facts, a second at a time, and tells the sink.  A fact that comes late is a second of its own."""

    def __init__(self, sink: Sink, state: MeterState | None = None) -> None:
        self._sink = sink
        self._open: dict[Key, _Run] = {}
        self._jobs: dict[str, _Job] = {}
        self._orphans: dict[Key, Fact] = {}
        self._cards = Cards()
        # Jobs without an attempt, by when the last one ended: the oldest first.
        self._failed: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._look = 0
        if state is not None:
            self._restore(state)

    @property
    def open(self) -> int:
        """Attempts that have started and not ended."""
        return len(self._open)

    @property
    def remembered(self) -> int:
        """Everything that is kept: open attempts, jobs that are not over, ends whose start has not come."""
        return len(self._open) + len(self._jobs) + len(self._orphans)

    def state(self) -> MeterState:
        """All that is remembered: ``Meter(sink, state)`` goes on where this one is."""
        jobs = [
            JobState(name, job.saved, job.since, job.failed, tuple((run.state(), end) for run, end in job.full))
            for name, job in self._jobs.items()
        ]
        runs = [run.state() for run in self._open.values()]
        return MeterState(tuple(sorted(runs)), tuple(sorted(jobs)), tuple(sorted(self._orphans.values())))

    def _restore(self, state: MeterState) -> None:
        for item in state.runs:
            key = (item.job, item.attempt)
            self._open[key] = _Run.of(item)
            self._cards.add(key, item.segments[-1][1].cards)
        self._cards.touched.clear()
        for known in sorted(state.jobs, key=lambda known: known.since):
            job = self._jobs[known.job] = _Job()
            job.saved, job.since, job.failed = known.saved, known.since, known.failed
            job.full = [(_Run.of(item), end) for item, end in known.full]
            if known.since >= 0:
                (self._failed if known.failed else self._waiting)[known.job] = known.since
        self._orphans = {(fact.job, fact.attempt): fact for fact in state.orphans}

    def take(self, facts: Sequence[Fact]) -> None:
        """Facts of one second, sorted, each for the first time (`seen.facts_fresh`)."""
        later: list[Fact] = []
        for fact in facts:
            if fact.event is _STARTED:
                self._started(fact)
            elif not self._applied(fact):
                later.append(fact)
        for fact in later:
            if not self._applied(fact):
                self._unmatched(fact)
        if self._cards.touched:
            self._overlaps(facts[0].time)
        now = facts[0].time
        if now >= self._look:
            self._look = now + LOOK
            self._forget(now)

    def settle(self, up_to: int) -> None:
        """Tell the use of open attempts until `up_to` that was not told yet."""
        for run in self._open.values():
            if run.told < up_to and not run.disputed:
                self._tell(run, run.told, up_to, lost=False, sign=1)
                run.told = up_to

    def finish(self, up_to: int) -> None:
        """There are no more facts: attempts that are open are told until `up_to`, ends without a start are alarms."""
        self.settle(up_to)
        for fact in self._orphans.values():
            self._gap(fact, "the attempt ends, but has not started")
        self._orphans.clear()

    def _started(self, fact: Fact) -> None:
        key = (fact.job, fact.attempt)
        shape = fact.shape
        assert shape is not None  # noqa: S101  the files and the server make no other starts
        if self._orphans and key in self._orphans:
            orphan = self._orphans.pop(key)
            text = f"the attempt ends {fact.time - orphan.time} s before it starts"
            self._sink.alarm(Alarm(orphan.time, AlarmCode.NEGATIVE, fact.job, fact.attempt, text, orphan.id))
            return
        if key in self._open:
            self._twice(fact)
            return
        self._open[key] = _Run(fact.job, fact.attempt, fact.time, shape)
        job = self._jobs.get(fact.job)
        if job is not None:
            self._job_runs(fact.job, job)
        if shape.cards:
            self._cards.add(key, shape.cards)

    def _applied(self, fact: Fact) -> bool:
        """Whether the fact's attempt is open, so that it means something."""
        run = self._open.get((fact.job, fact.attempt))
        event = fact.event
        if event is _AGAIN:
            self._twice(fact)
        elif run is None:
            return False
        elif event is _ENDED:
            self._ended(run, fact)
        elif fact.time < run.start:
            self._gap(fact, f"{event.name.lower()} before the attempt starts")
        elif event is _CHECKPOINTED:
            run.saved = max(run.saved, fact.time)
            if not run.segments[0][1].service:
                self._job_saved(fact.job)
        else:
            self._changed(run, fact)
        return True

    def _ended(self, run: _Run, fact: Fact) -> None:
        key = (run.job, run.attempt)
        del self._open[key]
        shape = run.segments[-1][1]
        if shape.cards:
            self._cards.remove(key, shape.cards)
        end, reason = fact.time, fact.reason
        assert reason is not None  # noqa: S101
        if end < run.start:
            self._take_back(run)
            text = f"the attempt ends {run.start - end} s before it starts"
            self._sink.alarm(Alarm(end, AlarmCode.NEGATIVE, run.job, run.attempt, text, fact.id))
            return
        lost_from = end
        kind = _KINDS[reason._value_]
        job = self._jobs.get(run.job)
        if kind & _LOSES and not shape.service:
            known = run.saved >= 0 or (job is not None and job.saved)
            if known or kind & _FAULT:
                lost_from = min(end, max(run.saved, run.start))
            elif not run.disputed:
                if job is None:
                    job = self._jobs[run.job] = _Job()
                job.full.append((run, end))
        if reason is EndReason.START_FAILED:
            self._take_back(run)
        elif not run.disputed:
            self._tell_end(run, end, lost_from)
        if job is not None:
            self._job_runs(run.job, job)
            if kind & _OVER:
                self._jobs.pop(run.job, None)
            else:
                self._job_left(run.job, job, end, reason)

    def _tell_end(self, run: _Run, end: int, lost_from: int) -> None:
        if run.told < lost_from:
            self._tell(run, run.told, lost_from, lost=False, sign=1)
        elif run.told > lost_from:
            self._tell(run, lost_from, run.told, lost=False, sign=-1)
        if lost_from < end:
            self._tell(run, lost_from, end, lost=True, sign=1)
        self._sink.ended(Ended(run.job, run.attempt, run.segments[-1][1], run.start, end, lost_from < end))

    def _changed(self, run: _Run, fact: Fact) -> None:
        before, after = run.segments[-1][1], fact.shape
        assert after is not None  # noqa: S101
        if fact.time < run.segments[-1][0]:
            self._gap(fact, "changed before an earlier change")
            return
        told = run.told
        if told > fact.time and not run.disputed:
            self._tell(run, fact.time, told, lost=False, sign=-1)
        run.segments.append((fact.time, after))
        if told > fact.time and not run.disputed:
            self._tell(run, fact.time, told, lost=False, sign=1)
        key = (run.job, run.attempt)
        if before.cards:
            self._cards.remove(key, before.cards)
        if after.cards:
            self._cards.add(key, after.cards)

    def _tell(self, run: _Run, start: int, end: int, *, lost: bool, sign: int) -> None:
        """Spans of `run` in [start, end), one for each shape."""
        if start >= end:
            return
        segments = run.segments
        if len(segments) == 1:
            self._sink.span(Span(run.job, run.attempt, segments[0][1], start, end, lost, sign))
            return
        for index, (begin, shape) in enumerate(segments):
            until = segments[index + 1][0] if index + 1 < len(segments) else end
            low, high = max(start, begin), min(end, until)
            if low < high:
                self._sink.span(Span(run.job, run.attempt, shape, low, high, lost, sign))

    def _take_back(self, run: _Run) -> None:
        if not run.disputed:
            self._tell(run, run.start, run.told, lost=False, sign=-1)
        run.told = run.start

    def _job_saved(self, name: str) -> None:
        """The first checkpoint of a job: what its earlier attempts were billed for is lost after all."""
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = _Job()
        if job.saved:
            return
        job.saved = True
        for run, end in job.full:
            if run.disputed:
                continue
            shape = run.segments[-1][1]
            self._tell(run, run.start, end, lost=False, sign=-1)
            self._sink.ended(Ended(run.job, run.attempt, shape, run.start, end, lost=False, sign=-1))
            self._tell(run, run.start, end, lost=True, sign=1)
            self._sink.ended(Ended(run.job, run.attempt, shape, run.start, end, lost=run.start < end))
        job.full.clear()

    def _job_runs(self, name: str, job: _Job) -> None:
        if job.since >= 0:
            del (self._failed if job.failed else self._waiting)[name]
            job.since = -1

    def _job_left(self, name: str, job: _Job, end: int, reason: EndReason) -> None:
        job.since = end
        job.failed = reason is EndReason.FAILED
        (self._failed if job.failed else self._waiting)[name] = end

    def _forget(self, now: int) -> None:
        for line, kept in ((self._failed, FAILED_KEPT), (self._waiting, WAITING_KEPT)):
            old = list(takewhile(lambda name: line[name] < now - kept, line))  # noqa: B023  used at once
            for name in old:
                del line[name]
                del self._jobs[name]

    def _overlaps(self, now: int) -> None:
        for card, keys in self._cards.overlaps():
            for key in keys:
                run = self._open[key]
                self._take_back(run)
                run.disputed = True
            job, attempt = keys[0]
            names = ", ".join(f"{name}-{number}" for name, number in keys)
            text = f"more than one card's worth is taken of {card} by {names}"
            self._sink.alarm(Alarm(now, AlarmCode.OVERLAP, job, attempt, text, "", card, tuple(keys[1:])))

    def _unmatched(self, fact: Fact) -> None:
        key = (fact.job, fact.attempt)
        if fact.event is Event.ENDED and key not in self._orphans:
            self._orphans[key] = fact
        else:
            self._gap(fact, f"{fact.event.name.lower()}, but the attempt is not running")

    def _twice(self, fact: Fact) -> None:
        text = "the attempt had started before; its first start counts"
        self._sink.alarm(Alarm(fact.time, AlarmCode.TWICE, fact.job, fact.attempt, text, fact.id))

    def _gap(self, fact: Fact, text: str) -> None:
        self._sink.alarm(Alarm(fact.time, AlarmCode.GAP, fact.job, fact.attempt, text, fact.id))
