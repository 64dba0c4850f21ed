"""B2: complete decisions a second — order, quota, rank, fit, placement, reasons — on pools of three sizes.

    python -m benchmarks.decisions [--full]

Jobs of 30 leaves come to a planner that stays: whole cards, fractions and gangs.  Every tenth leaf is soon at its cap;
its jobs are told why they wait.  They have one priority, so that nobody is evicted: what evictions cost is in
`benchmarks.eviction`.  A decision is a job taken in, planned with all reasons, and the plan taken over.

`decisions_per_s_N`: all jobs are there at once, as the peers are measured.  `arrivals_per_s_N` and `p99_us_5000`: one
comes after the other, with a whole plan for each, and who waits is withdrawn; from half full on every arrival is
preceded by the end of an earlier job, so that the pool stays as full as it is.  The collector of garbage is on, but
does not look at what was there before, as in the server.

`durable_per_s` is measured apart: plans of two thousand starts through the product's own store path
(`benchmarks.durable`).

yunikorn-core and kube-scheduler run before, where they have been built (`benchmarks.peers.go_peers`).  kube-scheduler
writes every pod to an API server of its own; ours and yunikorn-core's decisions are in memory.
"""

from __future__ import annotations

import gc
import random
import resource
import sys
import time
from collections import deque
from dataclasses import replace

from benchmarks.durable import STARTS, durable_measure
from benchmarks.figures import Figure, Mode, benchmark_main, progress, quantile
from benchmarks.peers.go_peers import Rate, rates
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import QueueConfig
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, NodeState, Snapshot

SIZES = (1213, 5000, 20_000)
COUNTS: dict[Mode, int] = {"short": 10_000, "full": 50_000}
ARRIVALS: dict[Mode, int] = {"short": 3000, "full": 50_000}
PLANS: dict[Mode, int] = {"short": 3, "full": 10}
BURST = 2
"""Jobs a node at most, of those that come at once: what is counted is deciding, not a full pool."""

BURSTS = 3
LEAVES = 30
CARD = 1000
SHAPES = (
    (CardRequest(1000, 1000), 1, 30), (CardRequest(2000, 2000), 1, 15), (CardRequest(4000, 4000), 1, 10),
    (CardRequest(8000, 8000), 1, 8), (CardRequest(500, 500), 1, 20), (CardRequest(250, 250), 1, 12),
    (CardRequest(8000, 8000), 2, 3), (CardRequest(4000, 4000), 4, 2),
)  # fmt: skip
"""Request of a node, nodes, weight."""


def world(nodes: int) -> Snapshot:
    """An empty pool of nodes of eight cards, and leaves that deserve equal shares; every tenth is soon at its cap."""
    kind = CardKind("A800-80GB", "nvidia", 81_920, 8)
    states = tuple(NodeState(NodeSpec(f"n{index}", 128_000, 2_097_152, kind)) for index in range(nodes))
    share = nodes * 8 * CARD // LEAVES
    leaves = tuple(
        QueueConfig(
            f"t{index}/batch",
            QueueClass.BATCH,
            deserved={"cards": share},
            cap={"cards": share // 20} if index % 10 == 9 else None,
        )
        for index in range(LEAVES)
    )
    return Snapshot(0, states, leaves)


def jobs(count: int, seed: int = 1) -> list[Job]:
    """Arrivals of mixed shapes, leaves and priorities."""
    chance = random.Random(seed)  # noqa: S311
    weights = [weight for _, _, weight in SHAPES]
    found = []
    for index in range(count):
        gpu, nodes, _ = chance.choices(SHAPES, weights)[0]
        leaf, priority = chance.randrange(LEAVES), chance.choice((40, 50, 50, 60))
        if leaf % 10 == 9:
            priority = 50
        found.append(
            Job(f"j{index:06}", f"t{leaf}/batch", gpu, nodes, cpu=1000, memory=1024, priority=priority, submitted=0)
        )
    return found


def settle() -> None:
    """What is there by now stays, and the collector need not look at it again: as the server does when it starts."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def measure(nodes: int, count: int) -> tuple[float, float, int, float]:
    """(decisions a second, 99th percentile in microseconds, starts, decisions a CPU second) of `count` arrivals."""
    resident, asked = Resident(world(nodes)), jobs(count)
    half, used, started = nodes * 8 * CARD // 2, 0, 0
    running: deque[tuple[str, int]] = deque()
    times = []
    settle()
    begun, worked = time.perf_counter(), time.process_time()
    for job in asked:
        since = time.perf_counter()
        if used > half:
            name, milli = running.popleft()
            used -= milli
            resident.job_gone(name)
        resident.job_put(job)
        plan = resident.plan()
        resident.adopt(plan)
        times.append(time.perf_counter() - since)
        for wait in plan.wait:
            resident.job_gone(wait.job)
        for start in plan.start:
            milli = sum(seat.milli * len(seat.cards) for seat in start.seats)
            running.append((start.job, milli))
            used += milli
            started += 1
    cpu = count / (time.process_time() - worked)
    return count / (time.perf_counter() - begun), quantile(times, 0.99) * 1e6, started, cpu


def burst(nodes: int, count: int) -> tuple[float, float, int]:
    """(decisions a second, decisions a CPU second, starts) when `count` jobs are there at once, as with the peers."""
    resident, asked = Resident(world(nodes)), jobs(count)
    settle()
    begun, worked = time.perf_counter(), time.process_time()
    for job in asked:
        resident.job_put(job)
    plan = resident.plan()
    resident.adopt(plan)
    return count / (time.perf_counter() - begun), count / (time.process_time() - worked), len(plan.start)


def _title(peer: Rate) -> str:
    return f"{peer.peer}_{peer.workload}".lower().replace("-", "_")


def run(mode: Mode) -> list[Figure]:
    progress("decisions: the peers")
    peers, missing = rates(full=mode == "full")
    figures = []
    for nodes in SIZES:
        progress(f"decisions on {nodes} nodes")
        asked = min(COUNTS[mode], BURST * nodes)
        rate, burst_cpu, placed = max(burst(nodes, asked) for _ in range(BURSTS))
        single, p99, started, cpu = measure(nodes, ARRIVALS[mode])
        figures.append(
            Figure(
                "B2",
                f"decisions_per_s_{nodes}",
                rate,
                "/s",
                mark=810,
                mark_source="kube-scheduler, published",
                aim=20_000 if nodes == 5000 else None,
                better="more",
                runs=BURSTS,
                note=f"{asked} jobs at once, {placed} started; the best of {BURSTS}; {burst_cpu:.0f} a CPU second",
            )
        )
        figures.append(
            Figure(
                "B2",
                f"arrivals_per_s_{nodes}",
                single,
                "/s",
                better="more",
                note=f"a plan an arrival; {started} of {ARRIVALS[mode]} started; {cpu:.0f} a CPU second",
            )
        )
        if nodes == 5000:
            figures.append(Figure("B2", "p99_us_5000", p99, "us", aim=1000, note="a plan an arrival"))
        figures += [
            Figure(
                "B2",
                f"decisions_per_s_{nodes}_vs_{_title(peer)}",
                rate,
                "/s",
                mark_source=f"{peer.peer} {peer.version}, {peer.workload}",
                measured_mark=peer.per_second,
                better="more",
                note=f"{peer.peer} placed {peer.placed} of {peer.asked}",
            )
            for peer in peers
            if peer.nodes == nodes
        ]
    if missing:
        figures = [replace(figure, missing=missing) if figure.mark is not None else figure for figure in figures]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures.append(Figure("B2", "peak_rss_mib", peak, "MiB"))
    progress("decisions stored in PostgreSQL")
    durable = durable_measure(PLANS[mode])
    figures.append(
        Figure(
            "B2",
            "durable_per_s",
            durable.rate,
            "/s",
            runs=len(durable.seconds),
            aim=3000,
            better="more",
            note=f"{STARTS} starts a commit, fsync on",
        )
    )
    return figures


if __name__ == "__main__":
    sys.exit(benchmark_main("decisions", run))
