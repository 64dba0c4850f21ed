"""B11: how long `why` takes on a crowded pool, and how often a promised start lies in its interval.

    python -m benchmarks.explain [--full]

`why` is asked for waiting jobs spread over the whole queue of a pool of openb's 1 213 nodes on which 10 000 jobs wait,
counterfactuals included.  The intervals are those that the forecast gives for the jobs of a stretch of the Philly
trace, replayed on a pool that is too small for it; at the moment of a forecast the jobs' durations are known only from
those that have ended.
"""

from __future__ import annotations

import heapq
import sys
import time
from dataclasses import dataclass, field, replace

from benchmarks import openb
from benchmarks.figures import Figure, Mode, benchmark_main, progress, quantile
from benchmarks.traces import TraceJob, philly_read
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.scheduling.decisions import Plan
from millpond.scheduling.explain import Explainer
from millpond.scheduling.forecast import WINDOW, Calibration, Eta, Forecast, Score, calibration_make
from millpond.scheduling.history import ANY_SIZE, SHARES, Key, RunTimes
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, NodeState, RunState, Seat, Snapshot

WAITING = 10_000
TENANTS = 10
PROJECTS = 3
ASKED = {"short": 200, "full": 2_000}
NOW = 1_000_000
CARD_MEMORY = 32_768

JOBS = {"short": 1_200, "full": 6_000}
PHILLY_FIRST = 30_000
DAY = 86_400
LOAD_PERCENT = 28
"""Cards of the pool in percent of what the jobs would keep busy if nobody waited: they queue for hours."""

EVERY = 7_200
SCENARIOS = 5
SCORES = 300
RUNS_MIN, RUNS_MAX = 5, 1_000


def crowded_pool(waiting: int = WAITING) -> Snapshot:
    """openb's nodes full of openb's pods, and `waiting` more of them in thirty leaves, a third of which are capped.

    All cards are borrowed by jobs of one rank, so nobody evicts anybody: they wait.
    """
    nodes = openb.nodes_read()
    milli = openb.capacity(nodes)
    cap = milli // TENANTS // PROJECTS // 1000 * 1000
    queues = [
        QueueConfig(f"t{tenant}/p{project}/batch", QueueClass.BATCH, cap={CARDS: cap} if project == 0 else None)
        for tenant in range(TENANTS)
        for project in range(PROJECTS)
    ]
    pods = openb.pods_read("default")
    order = openb.arrivals(pods, 42, milli, 1300)
    free = {node.name: [1000] * node.cards for node in nodes}
    rest = {node.name: [node.cpu, node.memory] for node in nodes}
    jobs: list[Job] = []
    left = [pods[index] for index in order if pods[index].shape.cards]
    names = [node.name for node in nodes if node.cards]
    refused: set[openb.Shape] = set()  # cards only get fewer: what did not fit once never does
    for number, pod in enumerate(left):
        job = job_of(f"r{number}", number, pod)
        seat = first_fit(job, names, free, rest) if pod.shape not in refused else None
        if seat is None:
            refused.add(pod.shape)
        else:
            if number % 64 == 0:
                names = [name for name in names if max(free[name]) > 0]
            age = 60 + number * 37 % 90_000
            jobs.append(replace(job, state=RunState.RUNNING, seats=(seat,), started=NOW - age, submitted=NOW - age))
    jobs += [job_of(f"w{number:05}", number, left[number % len(left)]) for number in range(waiting)]
    states = tuple(
        NodeState(
            NodeSpec(
                node.name,
                node.cpu,
                node.memory,
                CardKind(node.model, "nvidia", CARD_MEMORY, node.cards) if node.cards else None,
            )
        )
        for node in nodes
    )
    return Snapshot(NOW, states, tuple(queues), tuple(jobs))


def job_of(name: str, number: int, pod: openb.Pod) -> Job:
    """A pod as a waiting job of some tenant and class."""
    shape = pod.shape
    milli = shape.milli if shape.cards == 1 else shape.cards * 1000
    return Job(
        id=name,
        queue=f"t{number % TENANTS}/p{number // TENANTS % PROJECTS}/batch",
        gpu=CardRequest(milli, milli, models=shape.models),
        cpu=shape.cpu,
        memory=shape.memory,
        submitted=NOW - 1 - number * 13 % 50_000,
        user=f"u{number % 97}",
        name=pod.name,
        max_duration=None if number % 3 else 7200,
    )


def first_fit(job: Job, names: list[str], free: dict[str, list[int]], rest: dict[str, list[int]]) -> Seat | None:
    """The first node that takes the job, whose cards it takes."""
    count, share = max(1, job.gpu.milli // 1000), min(job.gpu.milli, 1000)
    for name in names:
        if rest[name][0] < job.cpu or rest[name][1] < job.memory or job.gpu.models:
            continue
        cards = [card for card, left in enumerate(free[name]) if left >= share][:count]
        if len(cards) == count:
            for card in cards:
                free[name][card] -= share
            rest[name][0] -= job.cpu
            rest[name][1] -= job.memory
            return Seat(name, tuple(cards), share)
    return None


def settled(snapshot: Snapshot) -> tuple[Snapshot, Plan]:
    """The pool once the planner has nothing more to start, and the plan that says so."""
    result = plan(snapshot)
    while result.start or result.evict:
        seats = {start.job: start.seats for start in result.start}
        gone = {evict.job for evict in result.evict}
        jobs = (
            replace(job, state=RunState.RUNNING, seats=seats[job.id], started=NOW - 1) if job.id in seats else job
            for job in snapshot.jobs
            if job.id not in gone
        )
        snapshot = replace(snapshot, jobs=tuple(jobs))
        result = plan(snapshot)
    return snapshot, result


def why_figures(asked: int) -> list[Figure]:
    """Milliseconds of one `why`, median and p99."""
    progress("explain: filling the pool")
    snapshot, result = settled(crowded_pool())
    explainer = Explainer(snapshot)
    step = max(1, len(result.wait) // asked)
    times: list[float] = []
    helped = 0
    explainer.explain(result.wait[0].job)  # the first one prepares what all share
    for wait in result.wait[::step]:
        began = time.perf_counter()
        found = explainer.explain(wait.job)
        times.append((time.perf_counter() - began) * 1000)
        helped += bool(found.counterfactuals)
    note = f"{len(result.wait)} waiting, {len(snapshot.nodes)} nodes; {helped} of {len(times)} had a counterfactual"
    return [
        Figure("B11", "why_ms", quantile(times, 0.5), "ms", runs=len(times), aim=20, note=note),
        Figure("B11", "why_p99_ms", quantile(times, 0.99), "ms", runs=len(times), aim=20),
    ]


# -- intervals


@dataclass(slots=True)
class Promise:
    """A forecast made at ``made``: ``raw`` as the scenarios say, ``told`` as corrected."""

    made: int
    raw: Eta
    told: Eta


@dataclass(slots=True)
class Replay:
    """A trace in virtual time.  Every `EVERY` seconds those that newly wait get a promise."""

    arrivals: list[Job]
    runs_of: dict[str, TraceJob]
    due: int = 0
    forecasts: int = 0
    promises: dict[str, Promise] = field(default_factory=dict)
    scores: list[Score] = field(default_factory=list)
    runs: dict[Key, list[int]] = field(default_factory=dict)
    results: list[tuple[Promise, int]] = field(default_factory=list)

    def play(self, pool: Snapshot) -> None:
        """All of it: ends, arrivals, a pass, and now and then a look ahead."""
        resident, coming, ends = Resident(pool), iter(self.arrivals), list[tuple[int, str]]()
        job, waiting, last = next(coming, None), set[str](), self.arrivals[-1].submitted
        while job is not None or ends:
            now = min([*(end[0] for end in ends[:1]), *([job.submitted] if job is not None else [])])
            if now > last:
                break
            while ends and ends[0][0] <= now:
                name = heapq.heappop(ends)[1]
                resident.job_gone(name)
                self.ended(self.runs_of[name])
            while job is not None and job.submitted <= now:
                resident.job_put(job)
                waiting.add(job.id)
                job = next(coming, None)
            resident.now_set(now)
            result = resident.plan(waits=False)
            resident.adopt(result)
            for start in result.start:
                waiting.discard(start.job)
                heapq.heappush(ends, (now + self.runs_of[start.job].duration, start.job))
                promise = self.promises.pop(start.job, None)
                if promise is not None:
                    self._score(promise, now)
            if now >= self.due and not waiting <= self.promises.keys():
                self.due = now + EVERY
                progress(f"explain: replay at {now * 100 // last} %, {len(waiting)} wait, {self.forecasts} forecasts")
                self._look(resident.snapshot())

    def ended(self, job: TraceJob) -> None:
        """One run more to learn from."""
        size = job.cards * 1000
        for key in ((job.team, "", size), (job.team, "", ANY_SIZE), ("", "", size), ("", "", ANY_SIZE)):
            self.runs.setdefault(key, []).append(job.duration)

    def _look(self, snapshot: Snapshot) -> None:
        self.forecasts += 1
        recent = [job for job in self.arrivals if snapshot.now - WINDOW < job.submitted <= snapshot.now]
        rolled = Forecast(snapshot, RunTimes(self._times()), arrivals=recent, scenarios=SCENARIOS)
        while rolled.step():
            pass
        calibration = calibration_make(self.scores[-SCORES:]) if self.scores else Calibration()
        for name, raw in rolled.raw().items():
            if name not in self.promises and raw.p50 is not None:
                self.promises[name] = Promise(snapshot.now, raw, calibration.correct(raw, snapshot.now))

    def _times(self) -> dict[Key, tuple[int, ...]]:
        found: dict[Key, tuple[int, ...]] = {}
        for key, seconds in self.runs.items():
            if len(seconds) >= RUNS_MIN:
                ordered = sorted(seconds[-RUNS_MAX:])
                found[key] = tuple(ordered[(len(ordered) - 1) * share // 1000] for share in SHARES)
        return found

    def _score(self, promise: Promise, now: int) -> None:
        made, raw = promise.made, promise.raw
        if raw.p10 is not None and raw.p50 is not None:
            p90 = raw.p90 if raw.p90 is not None else raw.p50 * 2 - made
            self.scores.append(Score(raw.p10 - made, raw.p50 - made, p90 - made, now - made))
        self.results.append((promise, now))


def replay(count: int) -> Replay:
    """`count` jobs of the Philly trace's busy middle on a pool too small for them."""
    chosen = philly_read()[PHILLY_FIRST : PHILLY_FIRST + count]
    first, last = chosen[0].submit, chosen[-1].submit
    teams = sorted({job.team for job in chosen})
    work = sum(min(job.duration, DAY * 2) * job.cards for job in chosen)
    nodes = max(2, work * LOAD_PERCENT // 100 // max(1, last - first) // 8)
    pool = tuple(
        NodeState(NodeSpec(f"n{number}", 0, 0, CardKind("P100", "nvidia", 16_384, 8))) for number in range(1, nodes + 1)
    )
    queues = tuple(QueueConfig(f"{team}/batch", QueueClass.BATCH) for team in teams)
    by_id = {job.id: job for job in chosen if job.cards <= nodes * 8 and job.duration <= DAY * 2}
    arrivals = [
        Job(
            job.id,
            f"{job.team}/batch",
            CardRequest(job.shape[1] * 1000, job.shape[1] * 1000),
            nodes=job.shape[0],
            submitted=job.submit - first,
            user=job.team,
            preemptible=True,
        )
        for job in by_id.values()
    ]
    played = Replay(arrivals, by_id)
    played.play(Snapshot(0, pool, queues))
    return played


def eta_figures(count: int) -> list[Figure]:
    """The share of intervals that held, with and without the correction."""
    played = replay(count)
    results = played.results[len(played.results) // 5 :]  # the first fifth teaches
    held = [told_held(promise.told, start) for promise, start in results]
    raw = [told_held(promise.raw, start) for promise, start in results]
    errors = [abs(start - promise.told.p50) for promise, start in results if promise.told.p50 is not None]
    note = f"{count} jobs of the Philly trace, {played.forecasts} forecasts, {len(results)} promises judged"
    coverage = 100 * sum(held) / max(1, len(held))
    return [
        Figure("B11", "eta_coverage", coverage, "%", runs=len(held), aim=75, better="more", note=note),
        Figure("B11", "eta_coverage_raw", 100 * sum(raw) / max(1, len(raw)), "%", runs=len(raw), note="uncorrected"),
        Figure("B11", "eta_median_error_s", quantile(errors or [0], 0.5), "s", runs=len(errors)),
    ]


def told_held(told: Eta, start: int) -> bool:
    """Whether a start lies between P10 and P90."""
    return told.p10 is not None and told.p10 <= start and (told.p90 is None or start <= told.p90)


def run(mode: Mode) -> list[Figure]:
    return [*why_figures(ASKED[mode]), *eta_figures(JOBS[mode])]


if __name__ == "__main__":
    sys.exit(benchmark_main("explain", run))
