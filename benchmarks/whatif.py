"""B7: how long a what-if takes, and whether it says the same twice.

One openb run (`benchmarks.packing`): 1 213 nodes fill up with pods through the board and the price book that the
planner uses.  ``full`` also runs the six published policies on all 17 files and 10 seeds, 1 020 runs, by the native
kernel of `benchmarks.peers`, and our policy on the same lists.  The Philly replay puts the trace through the
product's simulator with 15 tenants and their quotas.  The published simulator says of itself: 10 minutes an
experiment on 2 CPUs.

Repeats are compared byte for byte: a replay in another process, and one with nodes, queues and jobs in shuffled order.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from random import Random

from benchmarks import openb
from benchmarks.figures import ROOT, Figure, Mode, benchmark_main, progress
from benchmarks.packing import Trial, outcome, outcomes
from benchmarks.peers import policies
from benchmarks.replay import Replay, job_make, leaf_make, nodes_make, replay
from benchmarks.tenants import CHECKPOINT, TOP, Tenants, quotas_of, tenants_make
from benchmarks.traces import philly_read
from millpond.domain.errors import Unavailable

SHORT_JOBS = 4_000
"""Jobs of the Philly prefix in the short form."""

REPEAT_JOBS = 1_000
"""Jobs of the prefix that is replayed again in another process and shuffled."""

PUBLISHED_RUN = 600.0
"""Seconds of one openb experiment, by the README of the published simulator."""

SIMULATOR = "published simulator"


def philly_tenants(count: int | None) -> Tenants:
    """The first `count` jobs of the trace with the quotas of the whole."""
    jobs = philly_read()
    return tenants_make(jobs[:count], quotas_of(jobs))


def philly_replay(tenants: Tenants, shuffle: int | None = None) -> Replay:
    """The trace in one pool with quotas; ``shuffle`` seeds another order of every list."""
    nodes = [*nodes_make(tenants.nodes)]
    queues = [leaf_make(team, cards) for team, cards in tenants.quotas.items()]
    jobs = [
        (job, job_make(job, f"{job.team}/batch", priority=TOP - place, checkpoint_every=CHECKPOINT))
        for place, job in enumerate(tenants.jobs)
    ]
    if shuffle is not None:
        draws = Random(shuffle)  # noqa: S311 - an order, not a secret
        for items in (nodes, queues, jobs):
            draws.shuffle(items)
    return replay("philly", tuple(nodes), queues, jobs, window=tenants.window)


def digest(done: Replay) -> str:
    """A fingerprint of who started and ended when, and of what was evicted and lost."""
    lines = (
        f"{name} {outcome.first_start} {outcome.end} {outcome.evictions} {outcome.lost}\n"
        for name, outcome in sorted(done.outcomes.items())
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def digest_elsewhere(count: int) -> str:
    """The same fingerprint from a process of its own with another hash seed."""
    code = f"from benchmarks.whatif import *; print(digest(philly_replay(philly_tenants({count}))))"
    environ = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repeats_differ() -> int:
    """How many of two repeats are not like the first run."""
    tenants = philly_tenants(REPEAT_JOBS)
    first = digest(philly_replay(tenants))
    again = (digest_elsewhere(REPEAT_JOBS), digest(philly_replay(tenants, shuffle=7)))
    return sum(other != first for other in again)


def openb_all() -> tuple[float, int, str]:
    """(seconds of all 1 020 runs of the published policies, runs, what is missing)."""
    began = time.perf_counter()
    try:
        done = policies.courses(policies.POLICIES, openb.WORKLOADS, openb.SEEDS, "name", os.cpu_count() or 1)
    except Unavailable as error:
        return 0.0, 0, str(error)
    return time.perf_counter() - began, sum(len(runs) for runs in done.values()), ""


def ours_all() -> tuple[float, int]:
    """(seconds of our policy on all files and seeds, runs), on all cores."""
    trials = [Trial(file, seed) for file in openb.WORKLOADS for seed in openb.SEEDS]
    began = time.perf_counter()
    done = outcomes(trials)
    return time.perf_counter() - began, len(done)


def best_of(seconds: Sequence[float]) -> float:
    """The least: the machine is shared, and nothing makes a run faster than it is."""
    return min(seconds)


def run(mode: Mode) -> list[Figure]:
    runs = []
    for _ in range(3):
        began = time.perf_counter()
        outcome(Trial("default", openb.SEEDS[0]))
        runs.append(time.perf_counter() - began)
    figures = [
        Figure("B7", "openb_run_s", best_of(runs), "s", mark=PUBLISHED_RUN, mark_source=SIMULATOR, aim=1.0,
               runs=len(runs), note="one run of our policy on 1 213 nodes, the best of three"),
    ]  # fmt: skip
    if mode == "full":
        progress("1 020 runs of the published policies")
        seconds, count, missing = openb_all()
        if count:
            mark = PUBLISHED_RUN * count / 128
            figures.append(
                Figure("B7", "openb_all_s", seconds, "s", mark=mark, mark_source=f"{SIMULATOR}, 256 CPUs", aim=300.0,
                       runs=count, note="six published policies, 17 files, 10 seeds, in the kernel of benchmarks.peers")
            )  # fmt: skip
        ours, ours_count = ours_all()
        figures.append(
            Figure("B7", "openb_ours_all_s", ours, "s", runs=ours_count, missing=missing, note="our policy, all files")
        )
    count_of = None if mode == "full" else SHORT_JOBS
    tenants = philly_tenants(count_of)
    began = time.perf_counter()
    done = philly_replay(tenants)
    spent = time.perf_counter() - began
    whole = count_of is None
    figures.append(
        Figure("B7", "philly_s" if whole else f"philly_{SHORT_JOBS}_jobs_s", spent, "s", aim=10.0 if whole else None,
               runs=len(tenants.jobs), note=f"{done.passes} passes, {done.passes / spent:.0f} a second")
    )  # fmt: skip
    figures.append(
        Figure("B7", "repeats_that_differ", repeats_differ(), "runs", bound=0, aim=0, runs=2,
               note=f"first {REPEAT_JOBS} jobs of Philly: another process, shuffled input")
    )  # fmt: skip
    return figures


if __name__ == "__main__":
    sys.exit(benchmark_main("whatif", run))
