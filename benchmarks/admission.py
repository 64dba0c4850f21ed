"""B3: how long until everything has been admitted and has run, with the time of deciding charged to the clock.

Kueue's own performance test makes queues that own 20 units and may borrow 100 more inside their cohort, each with three
streams of jobs.  ``baseline``: 5 cohorts of 6 queues, 15 000 jobs.  ``large-scale``: 10 cohorts of 100 queues, 50 000
jobs.  The same streams run here in memory: a unit is a card, a cohort a tenant, a queue a leaf with guarantee 20 and
cap 120.  Kueue counts quota only; here every job also gets its cards, on nodes of 20, so that a large job needs a whole
node.  As there, a job of higher priority evicts lower ones of its queue, and what is evicted begins again.

The clock is virtual and counts milliseconds.  Every decision is charged with the real time that it took: what it
starts, starts that much later.  Nobody can be faster than the bound: the work of a cohort over its cards, or the last
submission and its run time.  Kueue's figures include writes to an API server, ours no writes at all.

``short``: ``baseline``, and one of the ten cohorts of ``large-scale``.  Marks and aims are of the whole, so the part
has a bound only.
"""

from __future__ import annotations

import gc
import heapq
import math
import sys
import time
from dataclasses import dataclass, field, replace

from benchmarks.core import Desk
from benchmarks.figures import Figure, Mode, benchmark_main, progress
from benchmarks.replay import nodes_make
from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.queues import QueueConfig
from millpond.scheduling.snapshot import Job, Settings, Snapshot

QUOTA, LIMIT, NODE = 20, 120, 20
"""Cards that a queue owns, cards that it may use with what it borrows, cards of a node."""

MILLIS = 1000


@dataclass(frozen=True, slots=True)
class Stream:
    """`count` jobs of one kind in each queue, one every `interval` ms; the first after one interval."""

    kind: str
    count: int
    interval: int
    runtime: int
    priority: int
    cards: int


@dataclass(frozen=True, slots=True)
class Generator:
    """One of Kueue's generator files, with what Kueue's authors measured (seconds, % of the quota)."""

    name: str
    cohorts: int
    queues: int
    streams: tuple[Stream, ...]
    published: float | None
    published_usage: float | None

    @property
    def jobs(self) -> int:
        return self.cohorts * self.queues * sum(stream.count for stream in self.streams)

    @property
    def bound(self) -> float:
        """Seconds below which nobody can be."""
        work = sum(stream.count * stream.runtime * stream.cards for stream in self.streams) / QUOTA
        last = max(stream.count * stream.interval + stream.runtime for stream in self.streams)
        return max(work, last) / MILLIS


BASELINE = Generator(
    "baseline",
    5,
    6,
    (
        Stream("small", 350, 100, 200, 50, 1),
        Stream("medium", 100, 500, 500, 100, 5),
        Stream("large", 50, 1200, 1000, 200, 20),
    ),
    351.1,
    58.7,
)
"""kubernetes-sigs/kueue, test/performance/scheduler/configs/baseline."""

LARGE = Generator(
    "large-scale",
    10,
    100,
    (
        Stream("small", 35, 60, 150, 50, 1),
        Stream("medium", 11, 300, 350, 100, 5),
        Stream("large", 4, 700, 700, 200, 20),
    ),
    1179.0,
    38.6,
)
"""The same, configs/large-scale at commit f6517b0c (1 000 queues, 50 000 jobs)."""


@dataclass(slots=True)
class Admission:
    """What one run showed, in milliseconds, but `deciding` in seconds.  ``waits``: from submission to admission."""

    makespan: int = 0
    passes: int = 0
    deciding: float = 0.0
    longest: float = 0.0
    evictions: int = 0
    used: int = 0
    waits: dict[str, list[int]] = field(default_factory=dict)


_ARRIVE, _END, _GONE = 0, 1, 2


class Course:
    """One generator, from the first submission to the last end."""

    def __init__(self, generator: Generator, *, charge: bool = True) -> None:
        self.generator = generator
        self.charge = charge
        self.desk = Desk(_world(generator))
        self.streams = {stream.kind: stream for stream in generator.streams}
        self.jobs: dict[str, tuple[Job, Stream]] = {}
        self.attempts: dict[str, int] = {}
        self.started: dict[str, int] = {}
        self.found = Admission()
        self.heap: list[tuple[int, int, str, int]] = []
        for job, stream in _jobs(generator):
            self.jobs[job.id] = (job, stream)
            self.heap.append((job.submitted, _ARRIVE, job.id, 0))
        heapq.heapify(self.heap)

    def run(self) -> Admission:
        """Garbage collection is off while the clock is charged: it would count the benchmark's own objects."""
        now, left = 0, len(self.jobs)
        gc.collect()
        gc.disable()
        try:
            while left:
                now = max(now, self.heap[0][0])
                before = left
                now, left = self._decide(now, left)
                if before // 1000 != left // 1000:
                    progress(f"{self.generator.name}: {left} of {len(self.jobs)} left at {now / 1000:.0f} s")
        finally:
            gc.enable()
        self.found.makespan = now
        return self.found

    def _decide(self, now: int, left: int) -> tuple[int, int]:
        """Take in what has happened, decide, and let it take effect: the time after it, and how many have not ended."""
        due = []
        while self.heap and self.heap[0][0] <= now:
            due.append(heapq.heappop(self.heap))
        began = time.perf_counter()
        for when, kind, name, attempt in due:
            if kind == _ARRIVE:
                self.desk.put(self.jobs[name][0])
            elif kind == _GONE:
                self.desk.back(name)
            elif self.attempts[name] == attempt:
                self.desk.gone(name)
                left -= 1
                self._use(name, when)
        if not left:
            return now, left
        plan = self.desk.plan(now)
        spent = time.perf_counter() - began
        found = self.found
        found.passes, found.deciding, found.longest = (
            found.passes + 1,
            found.deciding + spent,
            max(found.longest, spent),
        )
        if self.charge:
            now += math.ceil(spent * MILLIS)
        for evict in plan.evict:
            found.evictions += 1
            self.attempts[evict.job] += 1
            self._use(evict.job, now)
            heapq.heappush(self.heap, (now, _GONE, evict.job, 0))
        for start in plan.start:
            job, stream = self.jobs[start.job]
            attempt = self.attempts[start.job] = self.attempts.get(start.job, 0) + 1
            if attempt == 1:
                found.waits.setdefault(stream.kind, []).append(now - job.submitted)
            self.started[start.job] = now
            heapq.heappush(self.heap, (now + stream.runtime, _END, start.job, attempt))
        return now, left

    def _use(self, name: str, now: int) -> None:
        self.found.used += self.jobs[name][1].cards * (now - self.started[name])


def _world(generator: Generator) -> Snapshot:
    cohort = {"cards": generator.queues * QUOTA * CARD}
    own, limit = {"cards": QUOTA * CARD}, {"cards": LIMIT * CARD}
    queues: list[QueueConfig] = []
    for number in range(generator.cohorts):
        queues.append(QueueConfig(f"cohort{number}", guarantee=cohort, deserved=cohort, cap=cohort))
        queues += [
            QueueConfig(f"cohort{number}/cq{queue}/batch", QueueClass.BATCH, guarantee=own, deserved=own, cap=limit)
            for queue in range(generator.queues)
        ]
    nodes = nodes_make(generator.cohorts * generator.queues * QUOTA // NODE, NODE)
    scaled = Settings(cooldown=60 * MILLIS, hold_timeout=60 * MILLIS, reserve_after=3600 * MILLIS)
    return Snapshot(0, nodes=nodes, queues=tuple(queues), settings=scaled)


def _jobs(generator: Generator) -> list[tuple[Job, Stream]]:
    return [
        (
            Job(
                f"{stream.kind}-{cohort}-{queue}-{number}",
                f"cohort{cohort}/cq{queue}/batch",
                CardRequest(stream.cards * CARD, stream.cards * CARD),
                priority=stream.priority,
                submitted=number * stream.interval,
                grace=0,
            ),
            stream,
        )
        for cohort in range(generator.cohorts)
        for queue in range(generator.queues)
        for stream in generator.streams
        for number in range(1, stream.count + 1)
    ]


def part_make(generator: Generator, *, cohorts: int, share: int) -> Generator:
    """Some of the cohorts, and of every stream the first of `share` parts; nobody has published that."""
    streams = tuple(replace(stream, count=stream.count // share) for stream in generator.streams)
    return replace(generator, cohorts=cohorts, streams=streams, published=None, published_usage=None)


def figures_of(generator: Generator, found: Admission, name: str, aim: float | None, part: str = "") -> list[Figure]:
    seconds = found.makespan / MILLIS
    cards = generator.cohorts * generator.queues * QUOTA
    note = (
        f"{generator.jobs} jobs, {found.passes} passes, {found.deciding:.1f} s of deciding charged, longest pass "
        f"{found.longest * 1000:.0f} ms, {found.evictions} evictions{part}"
    )
    kueue = "Kueue, published" if generator.published is not None else ""
    found_figures = [
        Figure("B3", f"makespan_{name}_s", seconds, "s", mark=generator.published, mark_source=kueue,
               bound=generator.bound, aim=aim, note=note),
        Figure("B3", f"usage_{name}", 100 * found.used / (cards * found.makespan), "%", mark=generator.published_usage,
               mark_source=kueue, bound=100.0, note="of the cards' time until the last end, evicted attempts included"),
    ]  # fmt: skip
    for kind, waits in sorted(found.waits.items()):
        mean = sum(waits) / len(waits) / MILLIS
        found_figures.append(Figure("B3", f"admission_{name}_{kind}_s", mean, "s", runs=len(waits)))
    return found_figures


def run(mode: Mode) -> list[Figure]:
    """Both generators, or a part of each."""
    if mode == "short":
        large = part_make(LARGE, cohorts=1, share=1)
        return [
            *figures_of(BASELINE, Course(BASELINE).run(), "15k", 70.0),
            *figures_of(large, Course(large).run(), "50k_one_cohort", None, "; one cohort of ten"),
        ]
    return [
        *figures_of(BASELINE, Course(BASELINE).run(), "15k", 70.0),
        *figures_of(LARGE, Course(LARGE).run(), "50k", 12.0),
    ]


if __name__ == "__main__":
    sys.exit(benchmark_main("admission", run))
