"""B5: is anybody worse off in the shared pool than alone?

The Philly trace, 15 virtual clusters as tenants, run three ways on equally many cards: every team in a private
cluster of its quota, all teams in one pool with quotas, and one pool without quotas.  See `benchmarks.tenants` for
quotas and policy.  An *anomaly* (HiveD, OSDI 2020) is a job that waits longer for its start in the pool than in its
private cluster. ρ is the time from submission to end in the pool over that in the private cluster, the worst of all
jobs (the finish-time fairness of Themis with the private cluster as what is fair).  *Utilisation* is the card-time of
work done within the trace's span; work that an eviction made to be done twice is not counted.

The islands are first in, first out, as the pool is: an island on which small jobs pass blocked ones would use its
cards better and let some jobs start earlier than either.

In the pool a guaranteed claim that finds its cards scattered has others moved at once (``regroup_after: 0s``), and jobs
save on their warning signal.  The figures ``without_moves`` and ``without_saving`` show what each is worth; without
saving, jobs go on from checkpoints of every 30 minutes.

``short``: `benchmarks.tenants.SHORT_NOTE`, and without the runs that charge for grace and let small jobs pass.
``full``: all 82 247 jobs.
"""

from __future__ import annotations

import sys
from collections import Counter

from benchmarks.figures import Figure, Mode, benchmark_main
from benchmarks.replay import Replay
from benchmarks.tenants import (
    SHORT_NOTE,
    Tenants,
    islands_run,
    open_run,
    philly_part,
    quotas_of,
    shared_run,
    tenants_make,
)
from benchmarks.traces import philly_read

GRACE = 20
"""Seconds that a victim takes to leave in the run that charges for it."""


def tenants_of(mode: Mode) -> Tenants:
    """The tenants of the whole trace, or of the part for short forms with the quotas of the whole."""
    jobs = philly_read()
    quotas = quotas_of(jobs)
    return tenants_make(jobs, quotas) if mode == "full" else philly_part(jobs, quotas)


def anomalies(shared: Replay, islands: dict[str, Replay], slack: int = 0) -> list[str]:
    """The jobs that waited more than `slack` seconds longer than in their island."""
    found = []
    for island in islands.values():
        for name, alone in island.outcomes.items():
            wait, private = shared.outcomes[name].wait, alone.wait
            if wait is None or private is None or wait > private + slack:
                found.append(name)
    return found


def sizes(shared: Replay, names: list[str]) -> str:
    """Of how many cards these jobs are, as a note."""
    cards = Counter(shared.outcomes[name].job.cards for name in names)
    return ", ".join(f"{count} of {size} cards" for size, count in sorted(cards.items()))


def worst(shared: Replay, islands: dict[str, Replay]) -> tuple[float, int]:
    """(the largest ρ, seconds that a job ended later than in its island at most)."""
    rho, late = 0.0, 0
    for island in islands.values():
        for name, alone in island.outcomes.items():
            span, private = shared.outcomes[name].span, alone.span
            if span is None or private is None:
                return float("inf"), 0
            rho, late = max(rho, span / private), max(late, span - private)
    return rho, late


def run(mode: Mode) -> list[Figure]:
    tenants = tenants_of(mode)
    islands = islands_run(tenants)
    shared = shared_run(tenants)
    pooled = open_run(tenants)
    count = len(tenants.jobs)
    part = "" if mode == "full" else f"; {SHORT_NOTE}"
    losers = anomalies(shared, islands)
    lost = f"; who lost: {sizes(shared, losers)}" if losers else ""
    hived = "HiveD's definition"
    rho, late = worst(shared, islands)
    moved = f"{shared.evictions} evictions and moves, of jobs that save on their warning signal{part}"
    found = [
        Figure("B5", "anomalies", len(losers), "jobs", mark_source=hived, bound=0, aim=0,
               runs=count, note=f"victims leave at once, as millpond simulate does by default; {moved}{lost}"),
        Figure("B5", "utilisation_vs_pooled", 100 * shared.useful / pooled.useful, "%", mark=100.0,
               mark_source="pool without quotas, same run", aim=97.0, better="more",
               note=f"{shared.useful:.2f} % against {pooled.useful:.2f} % of {shared.cards} cards{part}"),
        Figure("B5", "worst_rho", rho, "×", mark=1.2, mark_source="Sia, published", aim=1.2, runs=count,
               note=f"nobody ends more than {late} s later than alone"),
        Figure("B5", "utilisation_islands", sum(island.used for island in islands.values())
               / (shared.cards * tenants.window * 10), "%", note=f"private clusters, first in, first out{part}"),
    ]  # fmt: skip
    found += without(tenants, islands)
    return found if mode == "short" else [*found, *variants(tenants, islands, pooled)]


def without(tenants: Tenants, islands: dict[str, Replay]) -> list[Figure]:
    """The pool in which nobody is moved for a guaranteed claim, and the one in which nobody saves on its signal."""
    found: list[Figure] = []
    for name, shared in (
        ("without_moves", shared_run(tenants, moves=False)),
        ("without_saving", shared_run(tenants, saves=False)),
    ):
        losers = anomalies(shared, islands)
        rho, late = worst(shared, islands)
        lost = f"; {shared.lost / 3_600_000:.0f} card-hours done twice" if shared.lost else ""
        found += [
            Figure("B5", f"anomalies_{name}", len(losers), "jobs", runs=len(tenants.jobs),
                   note=(f"who lost: {sizes(shared, losers)}" if losers else "nobody lost") + lost),
            Figure("B5", f"worst_rho_{name}", rho, "×", runs=len(tenants.jobs),
                   note=f"nobody ends more than {late} s later than alone"),
        ]  # fmt: skip
    return found


def variants(tenants: Tenants, islands: dict[str, Replay], pooled: Replay) -> list[Figure]:
    """The pool with victims that take time to leave, and the one in which small jobs may pass a blocked one."""
    graceful = shared_run(tenants, drain=GRACE)
    passing = shared_run(tenants, fifo=False)
    slow_rho, slow_late = worst(graceful, islands)
    count = len(tenants.jobs)
    return [
        Figure("B5", "anomalies_grace_20", len(anomalies(graceful, islands, GRACE)), "jobs", runs=count,
               note=f"victims take {GRACE} s to leave; jobs that wait more than those {GRACE} s longer"),
        Figure("B5", "worst_rho_grace_20", slow_rho, "×", runs=count,
               note=f"nobody ends more than {slow_late} s later than alone"),
        Figure("B5", "anomalies_traverse", len(anomalies(passing, islands)), "jobs", runs=count,
               note="where small jobs may pass a blocked one in the pool"),
        Figure("B5", "utilisation_traverse_vs_pooled", 100 * passing.useful / pooled.useful, "%", note="the same"),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(benchmark_main("sharing", run))
