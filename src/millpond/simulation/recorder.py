"""What happened over time, from the events alone: series with bounded memory, and figures of every tenant.

Time is cut into intervals of equal width.  When there would be more than `MAX_POINTS`, neighbours are merged and the
width doubles, so a run of a minute and one of a year take the same memory.  Values are integrals over an interval
(milli-card-seconds, job-seconds) or counts, all integers, so merging loses nothing but resolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from millpond.domain.queues import queue_tenant
from millpond.scheduling.snapshot import Job, RunState, Snapshot
from millpond.simulation.driver import Event
from millpond.simulation.figures import waits_json
from millpond.simulation.shapes import Floor, shapes_of

MAX_POINTS = 512

SERIES = ("used", "stranded", "waiting", "evictions", "lost", "ended")
"""``used``, ``stranded`` in milli-card-seconds, ``waiting`` in job-seconds; ``lost`` in milli-card-seconds of work done
twice; ``evictions`` and ``ended`` are counts."""


@dataclass(slots=True)
class TenantFigures:
    """``used``, ``lost`` in milli-card-seconds; ``waits`` in seconds from submission to the first start."""

    arrived: int = 0
    ended: int = 0
    evicted: int = 0
    used: int = 0
    lost: int = 0
    waits: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Record:
    """A run, added up.  ``series``: the names in `SERIES` → one value for each interval of ``width`` seconds.

    ``pool`` is the milli-cards of all nodes, ``weight`` what ``stranded`` is to be divided by.  The last interval ends
    at ``elapsed`` and may be shorter than the others.  ``violations`` are what the checker objected to.
    """

    elapsed: int
    width: int
    pool: int
    weight: int
    series: Mapping[str, tuple[int, ...]]
    tenants: Mapping[str, Mapping[str, object]]
    waits: Mapping[str, int]
    violations: int = 0

    def total(self, name: str) -> int:
        return sum(self.series[name])

    def fragmentation(self) -> int:
        """Milli-cards that were free, but not usable for the usual job, on average over time."""
        return self.total("stranded") // (self.weight * self.elapsed) if self.weight and self.elapsed else 0


@dataclass(slots=True)
class _Run:
    """A job as far as the recorder must know it."""

    tenant: str
    submitted: int
    cpu: int
    memory: int
    milli: int = 0
    seats: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    started: bool = False
    running: bool = False


class Recorder:
    """Give it every event in order (`see`), then `close` it."""

    def __init__(self, snapshot: Snapshot, arrivals: Iterable[Job] = ()) -> None:
        coming = tuple(arrivals)
        shapes = shapes_of((*snapshot.jobs, *coming))
        self._weight = sum(shape.weight for shape in shapes)
        self._floors = {state.spec.name: Floor(state, shapes) for state in snapshot.nodes}
        self._pool = sum(state.spec.cards.count for state in snapshot.nodes if state.spec.cards) * 1000
        self._jobs: dict[str, _Run] = {}
        self._coming = {job.id: job for job in coming}
        self._tenants: dict[str, TenantFigures] = {
            queue_tenant(queue.name): TenantFigures() for queue in snapshot.queues if queue.leaf
        }
        self._time, self._width = 0, 1
        self._points: list[list[int]] = []
        self._used = self._stranded = self._waiting = 0
        self._worth = dict.fromkeys(self._floors, 0)
        self._dirty: set[str] = set(self._floors)
        self._using: Counter[str] = Counter()
        self._violations = 0
        for job in snapshot.jobs:
            self._admit(job, job.submitted - snapshot.now)

    def see(self, event: Event) -> None:
        """Take note of what happened."""
        if event.time > self._time:
            self._advance(event.time)
        kind = event.kind
        if kind == "arrive":
            self._admit(self._coming.pop(event.job), event.time)
        elif kind == "start":
            self._start(event)
        elif kind == "end":
            self._leave(event.job)
            self._tenants[self._jobs.pop(event.job).tenant].ended += 1
            self._count("ended", 1)
        elif kind == "requeue":
            lost = _integer(event.data["lost_milli_seconds"])
            self._leave(event.job)
            run = self._jobs[event.job]
            self._waiting += 1
            self._tenants[run.tenant].lost += lost
            self._count("lost", lost)
        elif kind == "violation":
            self._violations += 1
        elif kind == "evict" and event.data["why"] != "consolidate":
            self._tenants[self._jobs[event.job].tenant].evicted += 1
            self._count("evictions", 1)

    def close(self, time: int) -> Record:
        """The record up to `time`.  Jobs that have not started yet count with their wait so far."""
        self._advance(max(time, self._time))
        waits = {name: list(figures.waits) for name, figures in self._tenants.items()}
        for run in self._jobs.values():
            if not run.started:
                waits[run.tenant].append(self._time - run.submitted)
        states = Counter((run.tenant, run.running) for run in self._jobs.values())
        tenants: dict[str, Mapping[str, object]] = {}
        for name, figures in sorted(self._tenants.items()):
            tenants[name] = {
                "arrived": figures.arrived,
                "ended": figures.ended,
                "running": states[name, True],
                "waiting": states[name, False],
                "evicted": figures.evicted,
                "card_seconds": figures.used // 1000,
                "lost_milli_seconds": figures.lost,
                "wait_seconds": waits_json(waits[name]),
            }
        return Record(
            elapsed=self._time,
            width=self._width,
            pool=self._pool,
            weight=self._weight,
            series={name: tuple(point[index] for point in self._points) for index, name in enumerate(SERIES)},
            tenants=tenants,
            waits=waits_json([wait for each in waits.values() for wait in each]),
            violations=self._violations,
        )

    # -- jobs

    def _admit(self, job: Job, submitted: int) -> None:
        run = _Run(queue_tenant(job.queue), submitted, job.cpu, job.memory)
        self._jobs[job.id] = run
        self._tenants[run.tenant].arrived += 1
        if job.state is RunState.QUEUED:
            self._waiting += 1
            return
        run.started = True
        self._sit(run, tuple((seat.node, seat.cards, seat.milli) for seat in job.seats))

    def _start(self, event: Event) -> None:
        run = self._jobs[event.job]
        self._waiting -= 1
        if not run.started:
            run.started = True
            self._tenants[run.tenant].waits.append(event.time - run.submitted)
        self._sit(run, tuple(_seat(seat) for seat in _listed(event.data["placement"])))

    def _sit(self, run: _Run, seats: tuple[tuple[str, tuple[int, ...], int], ...]) -> None:
        run.seats, run.running = seats, True
        run.milli = sum(milli * len(cards) for _, cards, milli in seats)
        self._used += run.milli
        self._using[run.tenant] += run.milli
        self._take(run, 1)

    def _leave(self, name: str) -> None:
        run = self._jobs[name]
        if run.running:
            self._used -= run.milli
            self._using[run.tenant] -= run.milli
            self._take(run, -1)
        run.seats, run.running, run.milli = (), False, 0

    def _take(self, run: _Run, sign: int) -> None:
        asked: set[str] = set()
        for node, cards, milli in run.seats:
            first = node not in asked
            asked.add(node)
            self._floors[node].take(
                cards, sign * milli, sign * run.cpu if first else 0, sign * run.memory if first else 0
            )
        self._dirty |= asked

    # -- time

    def _advance(self, time: int) -> None:
        """Add up what held since the last event."""
        for node in self._dirty:
            worth = self._floors[node].stranded()
            self._stranded += worth - self._worth[node]
            self._worth[node] = worth
        self._dirty.clear()
        for tenant, milli in self._using.items():
            if milli:
                self._tenants[tenant].used += milli * (time - self._time)
        while self._time < time:
            point = self._point(self._time)
            end = min(time, (self._time // self._width + 1) * self._width)
            seconds = end - self._time
            point[0] += self._used * seconds
            point[1] += self._stranded * seconds
            point[2] += self._waiting * seconds
            self._time = end
            if end < time:
                self._room(time)

    def _count(self, name: str, amount: int) -> None:
        self._point(self._time)[SERIES.index(name)] += amount

    def _point(self, time: int) -> list[int]:
        self._room(time)
        index = time // self._width
        while len(self._points) <= index:
            self._points.append([0] * len(SERIES))
        return self._points[index]

    def _room(self, time: int) -> None:
        """Widen the intervals until `time` lies in one of them."""
        while time // self._width >= MAX_POINTS:
            self._width *= 2
            merged = []
            for index in range(0, len(self._points), 2):
                pair = self._points[index : index + 2]
                merged.append([sum(values) for values in zip(*pair, strict=True)])
            self._points = merged


def _seat(seat: Mapping[str, object]) -> tuple[str, tuple[int, ...], int]:
    cards = tuple(_integer(card) for card in _sequence(seat["cards"]))
    return str(seat["node"]), cards, _integer(seat["milli"]) // max(len(cards), 1)


def _listed(value: object) -> Sequence[Mapping[str, object]]:
    return value if isinstance(value, list) else []


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0
