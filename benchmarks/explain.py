"""B11: how long `why` takes on a crowded pool, and how often a promised start lies in its interval.

    python -m benchmarks.explain [--full]

`why` is asked for waiting jobs spread over the whole queue of a pool of openb's 1 213 nodes on which 10 000 jobs wait,
counterfactuals included; then over HTTP on a live server with that pool, while jobs are submitted and stopped all the
time (`benchmarks.busy`), beside the rebuild that such a question cost before.

The intervals are those that the forecast gives for the jobs of some days of the Philly trace, replayed on a pool of
such a size that they keep `LOAD_PERCENT` of it busy: queues come and go.  At the moment of a forecast it is known how
long those jobs ran that have ended, and for how long the others have run.
"""

from __future__ import annotations

import heapq
import sys
import time
from dataclasses import dataclass, field, replace
from operator import itemgetter

from benchmarks import openb
from benchmarks.busy import busy_measure
from benchmarks.figures import Figure, Mode, benchmark_main, progress, quantile
from benchmarks.traces import TraceJob, philly_read
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.domain.records import RunRecord
from millpond.scheduling.calibration import HORIZON, Eta, Score, calibration_make
from millpond.scheduling.decisions import Plan
from millpond.scheduling.explain import Explainer
from millpond.scheduling.forecast import WINDOW, Forecast
from millpond.scheduling.history import times_make
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, NodeState, RunState, Seat, Snapshot

WAITING = 10_000
TENANTS = 10
PROJECTS = 3
ASKED = {"short": 200, "full": 2_000}
LIVE_S = {"short": 10.0, "full": 120.0}
REBUILDS = {"short": 1, "full": 5}
NOW = 1_000_000
CARD_MEMORY = 32_768

MINUTE, DAY = 60, 86_400
FIRST_DAY = 40
DAYS = {"short": 7, "full": 28}
LOAD_PERCENT = 85
"""Card-seconds of the jobs of those days in percent of what the pool has.

Set before the first run.
"""

LONGEST = 2 * DAY
"""Longer jobs are left out: there are days enough for a steady state only without them."""

EVERY = 3_600
SCENARIOS = {"short": 3, "full": 5}
SCORES = 5_000


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


def why_figures(asked: int, snapshot: Snapshot, result: Plan) -> list[Figure]:
    """Milliseconds of one `why`, median and p99."""
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


def busy_figures(mode: Mode, snapshot: Snapshot) -> list[Figure]:
    """The same over HTTP, on a server whose pool is being written to."""
    progress("explain: asking a live server")
    busy = busy_measure(snapshot, LIVE_S[mode], REBUILDS[mode])
    asked, own, runs = busy.asked, busy.own, len(busy.asked)
    note = f"HTTP; {busy.written / busy.seconds:.0f} submissions a second, as many jobs stopped; {runs} questions"
    fresh = "about a job submitted just before: waits until the pool has been judged with it"
    return [
        Figure("B11", "why_live_ms", quantile(asked, 0.5), "ms", runs=runs, aim=20, note=note),
        Figure("B11", "why_live_p99_ms", quantile(asked, 0.99), "ms", runs=runs),
        Figure("B11", "why_live_age_ms", quantile(busy.ages, 0.5), "ms", runs=runs, note="of the pool that answers"),
        Figure("B11", "why_live_own_ms", quantile(own, 0.5), "ms", runs=len(own), note=fresh),
        Figure(
            "B11",
            "why_rebuilt_ms",
            quantile(busy.rebuilt, 0.5),
            "ms",
            runs=len(busy.rebuilt),
            note="read, convert, plan, check and explain anew, as each question after a write did before",
        ),
    ]


# -- intervals


@dataclass(frozen=True, slots=True)
class Promise:
    """A forecast made at ``made``: ``raw`` as the scenarios say, ``told`` as corrected."""

    made: int
    raw: Eta
    told: Eta

    def score(self, then: int, *, started: bool) -> Score | None:
        """What became of it; None where it said nothing."""
        made, raw = self.made, self.raw
        if raw.p10 is None or raw.p50 is None:
            return None
        p90 = raw.p90 if raw.p90 is not None else raw.p50 * 2 - made
        return Score(raw.p10 - made, raw.p50 - made, p90 - made, then - made, started, made)


@dataclass(slots=True)
class Replay:
    """A trace in virtual time.  Every ``every`` seconds those that newly wait get a promise.

    ``results`` are the promises of jobs that started, with the moment; ``promises`` those that stand, by job.
    """

    arrivals: list[Job]
    trace: dict[str, TraceJob]
    every: int
    scenarios: int
    due: int = 0
    forecasts: int = 0
    promises: dict[str, Promise] = field(default_factory=dict)
    results: list[tuple[Promise, int]] = field(default_factory=list)
    runs: list[tuple[int, RunRecord]] = field(default_factory=list)
    """Those that have ended, with their start."""
    going: dict[str, int] = field(default_factory=dict)
    emptied: int = 0
    """How often nobody waited any more."""

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
                began = self.going.pop(name)
                self.runs.append((began, self._run(name, now - began, ended=True)))
            while job is not None and job.submitted <= now:
                resident.job_put(job)
                waiting.add(job.id)
                job = next(coming, None)
            resident.now_set(now)
            result = resident.plan(waits=False)
            resident.adopt(result)
            before = len(waiting)
            for start in result.start:
                waiting.discard(start.job)
                self._start(start.job, now)
                heapq.heappush(ends, (now + self.trace[start.job].duration, start.job))
            self.emptied += before > 0 and not waiting
            if now >= self.due and not waiting <= self.promises.keys():
                self.due = now + self.every
                progress(f"explain: replay at {now * 100 // last} %, {len(waiting)} wait, {self.forecasts} forecasts")
                self._look(resident.snapshot())

    def _start(self, name: str, now: int) -> None:
        self.going[name] = now
        promise = self.promises.pop(name, None)
        if promise is not None:
            self.results.append((promise, now))

    def _run(self, name: str, seconds: int, *, ended: bool) -> RunRecord:
        job = self.trace[name]
        return RunRecord(job.team, "", job.cards * 1000, seconds, ended)

    def _look(self, snapshot: Snapshot) -> None:
        self.forecasts += 1
        now = snapshot.now
        recent = [job for job in self.arrivals if now - WINDOW < job.submitted <= now]
        going = [(began, self._run(name, now - began, ended=False)) for name, began in self.going.items()]
        runs = sorted((*self.runs, *going), key=itemgetter(0), reverse=True)
        times = times_make(run for _, run in runs)
        rolled = Forecast(snapshot, times, arrivals=recent, scenarios=self.scenarios)
        while rolled.step():
            pass
        calibration = calibration_make(self._scores(now))
        for name, raw in rolled.raw().items():
            if name not in self.promises and raw.p50 is not None:
                self.promises[name] = Promise(now, raw, calibration.correct(raw, now))

    def _scores(self, now: int) -> list[Score]:
        """The latest promises and what became of them."""
        judged = [(promise, start, True) for promise, start in self.results[-SCORES:]]
        judged += [(promise, now, False) for promise in self.promises.values()]
        judged.sort(key=lambda item: item[0].made, reverse=True)
        scores = (promise.score(then, started=started) for promise, then, started in judged[:SCORES])
        return [score for score in scores if score is not None]


def replay(days: int, every: int, scenarios: int) -> Replay:
    """Some days of the Philly trace from `FIRST_DAY` on, on a pool sized for them."""
    begin = FIRST_DAY * DAY
    chosen = [job for job in philly_read() if begin <= job.submit < begin + days * DAY and job.duration <= LONGEST]
    work = sum(job.duration * job.cards for job in chosen)
    nodes = round(work * 100 / LOAD_PERCENT / (days * DAY) / 8)
    pool = tuple(
        NodeState(NodeSpec(f"n{number}", 0, 0, CardKind("P100", "nvidia", 16_384, 8))) for number in range(1, nodes + 1)
    )
    queues = tuple(QueueConfig(f"{team}/batch", QueueClass.BATCH) for team in sorted({job.team for job in chosen}))
    by_id = {job.id: job for job in chosen if job.cards <= nodes * 8}
    arrivals = [
        Job(
            job.id,
            f"{job.team}/batch",
            CardRequest(job.shape[1] * 1000, job.shape[1] * 1000),
            nodes=job.shape[0],
            submitted=job.submit - begin,
            user=job.team,
            preemptible=True,
        )
        for job in by_id.values()
    ]
    played = Replay(arrivals, by_id, every, scenarios)
    played.play(Snapshot(0, pool, queues))
    return played


def eta_figures(mode: Mode) -> list[Figure]:
    """The share of intervals that held, with and without the correction.

    Promises that are broken already, although their job still waits at the end, count as broken.
    """
    played = replay(DAYS[mode], EVERY, SCENARIOS[mode])
    end = played.arrivals[-1].submitted
    late = [(promise, end) for promise in played.promises.values() if promise.told.p90 is not None]
    judged = sorted(
        [*played.results, *((promise, then) for promise, then in late if then > (promise.told.p90 or then))],
        key=lambda pair: pair[0].made,
    )
    results = judged[len(judged) // 5 :]  # the first fifth teaches
    held = [told_held(promise.told, start) for promise, start in results]
    raw = [told_held(promise.raw, start) for promise, start in results]
    errors = [abs(start - promise.told.p50) for promise, start in results if promise.told.p50 is not None]
    bounds = [interval(promise) for promise, _ in results]
    widths = [last - first for first, last in bounds]
    ratios = [(last + MINUTE) / (first + MINUTE) for first, last in bounds]
    endless = sum(1 for promise, _ in results if promise.told.p90 is None)
    note = (
        f"{len(played.arrivals)} jobs of {DAYS[mode]} days, {played.forecasts} forecasts, {len(results)} promises "
        f"judged; the queue was empty again {played.emptied} times"
    )
    coverage = 100 * sum(held) / max(1, len(held))
    return [
        Figure("B11", "eta_coverage", coverage, "%", runs=len(held), aim=75, better="more", note=note),
        Figure("B11", "eta_coverage_from_80", abs(coverage - 80), "points", aim=5, note="75 to 85 % should hold"),
        Figure("B11", "eta_coverage_raw", 100 * sum(raw) / max(1, len(raw)), "%", runs=len(raw), note="uncorrected"),
        Figure("B11", "eta_median_error_s", quantile(errors or [0], 0.5), "s", runs=len(errors)),
        Figure("B11", "eta_median_width_s", quantile(widths or [0], 0.5), "s", runs=len(widths)),
        Figure(
            "B11",
            "eta_median_ratio",
            quantile(ratios or [0], 0.5),
            "×",
            runs=len(ratios),
            note="how many times farther P90 is than P10, a minute added to both",
        ),
        Figure("B11", "eta_without_end", 100 * endless / max(1, len(results)), "%", note="promises without a P90"),
    ]


def interval(promise: Promise) -> tuple[int, int]:
    """P10 and P90 as told, in seconds from the promise; what has no end ends where forecasts do."""
    told, made = promise.told, promise.made
    first = HORIZON if told.p10 is None else told.p10 - made
    return first, HORIZON if told.p90 is None else told.p90 - made


def told_held(told: Eta, start: int) -> bool:
    """Whether a start lies between P10 and P90."""
    return told.p10 is not None and told.p10 <= start and (told.p90 is None or start <= told.p90)


def run(mode: Mode) -> list[Figure]:
    progress("explain: filling the pool")
    snapshot, result = settled(crowded_pool())
    return [*why_figures(ASKED[mode], snapshot, result), *busy_figures(mode, snapshot), *eta_figures(mode)]


if __name__ == "__main__":
    sys.exit(benchmark_main("explain", run))
