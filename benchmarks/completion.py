"""B4: how long jobs take from submission to end, on 64 GPUs, when the order of jobs follows their service.

The Muri traces run through the planner on 8 nodes of 8 cards in one queue that owns all of them.  A policy outside the
planner gives each job its priority and renews it whenever something happens; the planner does what it always does: the
highest priority goes first and evicts lower ones of the same queue.

``known``: durations are known; the priority is the remaining service (cards × seconds), shortest first, in steps of 2
%. ``blind``: they are not; the priority is the attained service, least first, in levels that double (least attained
service of Tiresias, discretised).  ``learnt``: they are not either, but the service of jobs that have ended says how
likely the others are to end soon (Gittins index, by number of cards, over the completions so far).

Every start is charged with the start cost that Muri's authors measured for the model and the number of GPUs; a victim
leaves `DRAIN` seconds after its warning and keeps the work that it had done at the warning.  The planner sees what
runs, and of the waiting jobs of each size the most urgent, as many as could run at once; the policy keeps the others.

Marks: published means of SRSF (durations known) and Tiresias-L (blind) of the same traces.  Bound: fluid SRPT, one
machine with 64 times the speed of a GPU, which no scheduler without time-sharing of GPUs can pass.
"""

from __future__ import annotations

import csv
import heapq
import math
import sys
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

from benchmarks.core import Desk
from benchmarks.figures import Figure, Mode, benchmark_main, progress, quantile
from benchmarks.replay import job_make, leaf_make, nodes_make
from benchmarks.service import POLICIES, Policy, Service
from benchmarks.traces import DATA, MURI_TRACES, TraceJob, muri_read
from millpond.scheduling.snapshot import RunState, Settings, Snapshot

CARDS = 64
DRAIN = 10
"""Seconds from a victim's warning until it has left."""

QUEUE = "lab"


@dataclass(slots=True)
class Live:
    """A job that has come and not ended.  ``remaining`` and ``attained`` are seconds of useful work."""

    trace: TraceJob
    start_cost: int
    remaining: int
    attained: int = 0
    attempt: int = 0
    since: int | None = None
    """When useful work of the present attempt begins; None while it waits or leaves."""

    leaving: bool = False

    def at(self, now: int) -> Service:
        done = 0 if self.since is None else max(0, now - self.since)
        return Service(self.trace.cards, self.remaining - done, self.attained + done)


@dataclass(frozen=True, slots=True)
class Course:
    """Seconds from submission to end of each job, when the last ended, how often somebody was evicted."""

    spans: tuple[int, ...]
    makespan: int
    evictions: int

    @property
    def mean(self) -> float:
        return sum(self.spans) / len(self.spans)


_ARRIVE, _END, _GONE, _CHANGE = 0, 1, 2, 3


class Cluster:
    """64 GPUs in virtual time under one policy."""

    def __init__(self, title: str, jobs: Sequence[TraceJob], policy: Policy) -> None:
        self.title, self.policy = title, policy
        self.desk = Desk(
            Snapshot(0, nodes=nodes_make(CARDS // 8), queues=(leaf_make(QUEUE, CARDS),), settings=Settings(cooldown=0))
        )
        self.jobs = {job.id: job for job in jobs}
        self.live: dict[str, Live] = {}
        self.backlog: list[tuple[int, int, str]] = []
        """Waiting jobs that the planner does not see: (-priority, submit, id), the most urgent first."""
        self.shown: set[str] = set()
        self.spans: list[int] = []
        self.evictions = 0
        self.now = 0
        self.heap: list[tuple[int, int, str, int]] = [(job.submit, _ARRIVE, job.id, 0) for job in jobs]
        heapq.heapify(self.heap)

    def run(self) -> Course:
        while self.heap:
            self.now = self.heap[0][0]
            changed = False
            while self.heap and self.heap[0][0] <= self.now:
                changed |= self._happen(*heapq.heappop(self.heap)[1:])
            if changed:
                self._pass()
        return Course(tuple(self.spans), self.now, self.evictions)

    def _happen(self, kind: int, name: str, attempt: int) -> bool:
        """One event; whether it changed anything."""
        if kind == _ARRIVE:
            trace = self.jobs[name]
            self.live[name] = Live(trace, start_cost(trace), trace.duration)
            self._wait(name)
            return True
        live = self.live.get(name)
        if live is None or live.attempt != attempt:
            return False
        if kind == _END:
            self.spans.append(self.now - live.trace.submit)
            self.policy.ended(live.trace)
            self.desk.gone(name)
            del self.live[name]
            if len(self.spans) % 200 == 0:
                progress(f"{self.title}: {len(self.spans)} of {len(self.jobs)} jobs done")
        elif kind == _GONE:
            live.leaving = False
            live.attempt += 1
            self.desk.gone(name)
            self._wait(name)
        else:
            self._change_plan(live)
        return True

    def _wait(self, name: str) -> None:
        live = self.live[name]
        insort(self.backlog, (-self._priority(live), live.trace.submit, name))

    def _priority(self, live: Live) -> int:
        return self.policy.priority(live.at(self.now))

    def _change_plan(self, live: Live) -> None:
        """Come back when the priority of a running job falls."""
        if live.since is None:
            return
        service = live.at(self.now)
        change = self.policy.change(service)
        if change is not None:
            when = max(self.now, live.since) + change - service.attained
            heapq.heappush(self.heap, (max(when, self.now + 1), _CHANGE, live.trace.id, live.attempt))

    def _pass(self) -> None:
        """Renew priorities, show the planner the most urgent waiting jobs, and do what it says."""
        for name in self.shown:
            live = self.live[name]
            insort(self.backlog, (-self._priority(live), live.trace.submit, name))
        if self.policy.renewed:
            self.backlog = sorted((-self._priority(self.live[name]), submit, name) for _, submit, name in self.backlog)
        shown = self._window()
        held = {hold for hold in self.shown if hold in self.desk.holding}
        for name in self.shown - shown - held:
            self.desk.gone(name)
        for name in self.live:
            live = self.live[name]
            if live.since is not None or name in shown or name in held:
                self._show(live)
        self.shown = shown | held
        kept = [item for item in self.backlog if item[2] not in self.shown]
        self.backlog = kept
        self._act()

    def _window(self) -> set[str]:
        """Of each size the most urgent, as many as could run at once: nobody else could start."""
        room: dict[int, int] = {}
        shown = set()
        for _, _, name in self.backlog:
            cards = self.live[name].trace.cards
            left = room.get(cards, CARDS // cards)
            if left:
                room[cards] = left - 1
                shown.add(name)
        return shown

    def _show(self, live: Live) -> None:
        priority = self._priority(live)
        job = self.desk.jobs.get(live.trace.id)
        if job is None:
            job = replace(job_make(live.trace, f"{QUEUE}/batch", priority=priority), grace=DRAIN, saves_on_signal=True)
            self.desk.put(job)
        elif job.priority != priority and job.state is not RunState.DRAINING:
            self.desk.put(replace(job, priority=priority))

    def _act(self) -> None:
        plan = self.desk.plan(self.now)
        for evict in plan.evict:
            live = self.live[evict.job]
            service = live.at(self.now)
            live.remaining, live.attained = service.remaining, service.attained
            live.since, live.leaving = None, True
            live.attempt += 1
            self.evictions += 1
            heapq.heappush(self.heap, (self.now + DRAIN, _GONE, evict.job, live.attempt))
        for start in plan.start:
            live = self.live[start.job]
            self.shown.discard(start.job)
            live.attempt += 1
            live.since = self.now + live.start_cost
            heapq.heappush(self.heap, (live.since + live.remaining, _END, start.job, live.attempt))
            self._change_plan(live)


def start_cost(job: TraceJob) -> int:
    """Seconds from a start until useful work begins."""
    return _start_costs()[job.kind, job.cards]


@cache
def _start_costs() -> dict[tuple[str, int], int]:
    with (DATA / "muri" / "restart_seconds.csv").open(encoding="utf-8", newline="") as lines:
        return {
            (row["model"], int(cards)): int(seconds)
            for row in csv.DictReader(lines)
            for cards, seconds in row.items()
            if cards != "model"
        }


@cache
def published() -> dict[tuple[str, str], tuple[float, float, float]]:
    """(trace, policy) → mean, 99th percentile, makespan, in seconds."""
    with (DATA / "muri" / "published.csv").open(encoding="utf-8", newline="") as lines:
        return {
            (row["trace"], row["policy"]): (float(row["mean_jct"]), float(row["p99_jct"]), float(row["makespan"]))
            for row in csv.DictReader(lines)
        }


def fluid_srpt(jobs: Iterable[TraceJob], cards: int = CARDS) -> float:
    """Mean span on one machine with `cards` times the speed of a GPU under shortest remaining service first.

    No job can use more than its own cards there, so that it is a bound: the relaxation lets it use all.
    """
    waiting: list[tuple[int, int]] = []
    order = sorted(jobs, key=lambda job: (job.submit, job.id))
    now, total = 0.0, 0.0
    place = 0
    while place < len(order) or waiting:
        if not waiting:
            now = max(now, order[place].submit)
        while place < len(order) and order[place].submit <= now:
            heapq.heappush(waiting, (order[place].work, order[place].submit))
            place += 1
        work, submit = heapq.heappop(waiting)
        until = order[place].submit if place < len(order) else math.inf
        if now + work / cards <= until:
            now += work / cards
            total += now - submit
        else:
            done = (until - now) * cards
            heapq.heappush(waiting, (math.ceil(work - done), submit))
            now = until
    return total / len(order)


def figures_of(trace: str, courses: dict[str, Course], bound: float) -> list[Figure]:
    found: list[Figure] = []
    for policy, course in courses.items():
        mark = "SRSF" if policy == "known" else "Tiresias-L"
        mean, tail, makespan = published()[trace, mark]
        count = len(course.spans)
        name, source = f"{trace}_{policy}", f"{mark}, published"
        found += [
            Figure(
                "B4", f"{name}_mean_jct_s", course.mean, "s", mark=mean, mark_source=source, bound=bound, runs=count
            ),
            Figure(
                "B4", f"{name}_p99_jct_s", quantile(course.spans, 0.99), "s", mark=tail, mark_source=source, runs=count
            ),
            Figure("B4", f"{name}_makespan_s", course.makespan, "s", mark=makespan, mark_source=source, runs=count),
        ]
    return found


SHORT: dict[str, tuple[str, ...]] = {"trace3": ("known", "blind", "learnt"), "trace3_pr": ("known",)}
"""Traces and policies of the short form."""


def run(mode: Mode) -> list[Figure]:
    """``short``: trace 3 as submitted, and with all jobs at once where durations are known; ``full``: all eight."""
    every = {f"{name}{end}": tuple(POLICIES) for name in MURI_TRACES for end in ("", "_pr")}
    chosen = SHORT if mode == "short" else every
    ratios: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    bounds: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    found: list[Figure] = []
    for trace, policies in chosen.items():
        jobs = muri_read(trace)
        bound = fluid_srpt(jobs)
        courses = {name: Cluster(f"{trace} {name}", jobs, POLICIES[name]()).run() for name in policies}
        srsf = published()[trace, "SRSF"][0]
        for name, course in courses.items():
            ratios[name].append(course.mean / srsf)
            bounds[name].append(bound / srsf)
        found += figures_of(trace, courses, bound)
    blind = min(("blind", "learnt"), key=lambda name: fmean(ratios[name]))
    known_on, blind_on = ([trace for trace, names in chosen.items() if name in names] for name in ("known", "blind"))
    tiresias = fmean(published()[trace, "Tiresias-L"][0] / published()[trace, "SRSF"][0] for trace in blind_on)
    of = "our mean over SRSF's, mean over"
    return [
        Figure("B4", "mean_jct_vs_srsf_known", fmean(ratios["known"]), "×", mark=1.0, mark_source="SRSF, published",
               bound=fmean(bounds["known"]), aim=1.0, runs=len(known_on), note=f"{of} {_list(known_on)}"),
        Figure("B4", "mean_jct_vs_srsf_blind", fmean(ratios[blind]), "×", mark=tiresias,
               mark_source="Tiresias-L, published", bound=fmean(bounds[blind]), aim=1.4, runs=len(blind_on),
               note=f"{of} {_list(blind_on)}; {blind}, the better of blind and learnt"),
        *found,
    ]  # fmt: skip


def _list(traces: Sequence[str]) -> str:
    every = 2 * len(MURI_TRACES)
    return ", ".join(traces) + ("" if len(traces) == every else f" ({len(traces)} of {every} traces)")


if __name__ == "__main__":
    sys.exit(benchmark_main("completion", run))
