"""B9: what one shared pool is worth against an island for every team.

Two traces, each run twice on the same number of cards: every team alone on an island of its quota, and all teams in one
pool where the quotas stay theirs and what nobody uses is lent (`benchmarks.tenants` for quotas and policy).

``philly``: 15 virtual clusters.  Quotas are those that a yearly plan would give: the mean demand of the first third of
the trace (`PLANNED` days), by whole nodes, and at least the largest job of the team.  Demand moves afterwards, which is
what islands cannot follow.
``unequal`` and ``crowded``: days 33 to 36 and 30 to 35 of the same trace with the same quotas, from empty clusters on.
Of all spans of three and of five days they are those in which islands could do the smallest part of what a pool could
do, since the teams' demand is most unequal.  Elsewhere islands are busier than in the source documents.
``openb``: the pods with cards of the last 40 days, on 8-card nodes.  The trace has no teams, so its classes of
service stand for them; shares of a card count as shares.  Quotas in the same way.

*Allocated* is the share of the cards' time in use within the trace's span, lost work not counted.  *Jobs done a day*
counts the jobs that ended within the span.  A team is *worse off* when the 95th percentile of its waits, or their
mean, is longer in the pool.  The bound of the allocated share is the work that was submitted, and that could be done
within the span by a pool that never waits, over the cards' time; where that is below 78 % the
share has no aim.  The ratios are bound by the same work, and by the jobs that would have ended within the span had none
waited, over what the islands did.
"""

from __future__ import annotations

import sys

from benchmarks.figures import Figure, Mode, benchmark_main, quantile
from benchmarks.replay import Replay
from benchmarks.tenants import SHORT_NOTE, Tenants, islands_run, philly_part, quotas_of, shared_run, tenants_make
from benchmarks.traces import TraceJob, openb_read, philly_read
from millpond.domain.amounts import CARD

DAY = 86_400
PLANNED = 36
"""Days whose demand the quotas were planned by: a third of the trace."""

UNEQUAL = {"unequal": (33, 36), "crowded": (30, 35)}
"""Days of the Philly trace in which the teams' demand is most unequal; see the module."""

BUSY = 110
"""Day of the openb trace from which on nearly all of its pods come."""


def philly_tenants(mode: Mode) -> Tenants:
    jobs = philly_read()
    quotas = quotas_of(jobs, until=PLANNED * DAY)
    return tenants_make(jobs, quotas) if mode == "full" else philly_part(jobs, quotas)


def unequal_tenants(begin: int, end: int) -> Tenants:
    """The tenants of some days of the Philly trace."""
    jobs = philly_read()
    quotas = quotas_of(jobs, until=PLANNED * DAY)
    return tenants_make([job for job in jobs if begin <= job.submit / DAY < end], quotas)


def openb_tenants(mode: Mode) -> Tenants:
    jobs = openb_read(begin=BUSY * DAY)
    quotas = quotas_of(jobs, until=jobs[-1].submit // 3)
    if mode == "short":
        jobs = jobs[-1500:]
    return tenants_make(jobs, quotas)


def done_within(replays: list[Replay], begin: int, window: int) -> int:
    """Jobs that ended within the window."""
    return sum(
        1
        for replay in replays
        for outcome in replay.outcomes.values()
        if outcome.end is not None and outcome.end <= begin + window
    )


def waits_of(replay: Replay, team: str) -> list[int]:
    return [outcome.wait or 0 for outcome in replay.outcomes.values() if outcome.job.team == team]


def bound_of(jobs: tuple[TraceJob, ...], cards: int, window: int) -> float:
    """% of the cards' time that jobs could use within the window if none ever waited."""
    end = jobs[0].submit + window
    possible = sum(job.milli * min(job.duration, end - job.submit) for job in jobs)
    return min(100.0, possible / (cards * window * 10))


def done_bound(jobs: tuple[TraceJob, ...], window: int) -> int:
    """Jobs that would end within the window if none ever waited."""
    end = jobs[0].submit + window
    return sum(1 for job in jobs if job.submit + job.duration <= end)


def figures_of(name: str, tenants: Tenants, note: str) -> list[Figure]:
    islands = islands_run(tenants)
    shared = shared_run(tenants, saves=False)
    begin, window, cards = tenants.jobs[0].submit, tenants.window, shared.cards
    alone = list(islands.values())
    days = window / DAY
    done = [done_within(replays, begin, window) for replays in (alone, [shared])]
    waits = {team: (waits_of(islands[team], team), waits_of(shared, team)) for team in islands}
    worse = [team for team, (apart, together) in waits.items() if _worse(apart, together)]
    prefix = "" if name == "philly" else f"{name}_"
    source = "broker's documents"
    apart = 100 * sum(replay.used for replay in alone) / (cards * window * CARD)
    bound = bound_of(tenants.jobs, cards, window)
    found = [
        Figure("B9", f"{prefix}allocated_islands", apart, "%", mark=42.0, mark_source=source, bound=bound, note=note),
        Figure("B9", f"{prefix}allocated_pooled", shared.useful, "%", mark=78.0, mark_source=source, bound=bound,
               aim=78.0 if bound >= 78.0 else None, better="more", note=note),
        Figure("B9", f"{prefix}throughput_ratio", done[1] / max(1, done[0]), "×", mark=2.0, mark_source=source, aim=2.0,
               bound=done_bound(tenants.jobs, window) / max(1, done[0]), better="more",
               note=f"{done[1] / days:.0f} against {done[0] / days:.0f} jobs done a day"),
        Figure("B9", f"{prefix}work_ratio", shared.useful / apart if apart else 0.0, "×", better="more",
               bound=bound / apart if apart else None,
               note="card-time of work done within the span, pool over islands"),
        Figure("B9", f"{prefix}teams_worse_off", len(worse), "teams", bound=0, aim=0, runs=len(waits),
               note=", ".join(worse)),
    ]  # fmt: skip
    for team, (lone, together) in sorted(waits.items(), key=lambda item: -len(item[1][0]))[:6]:
        wait = Figure("B9", f"{prefix}p95_wait_{team}_s", quantile(together, 0.95), "s", runs=len(lone),
                      measured_mark=quantile(lone, 0.95), mark_source="its island", note="")  # fmt: skip
        found.append(wait)
    return found


def _worse(apart: list[int], together: list[int]) -> bool:
    return quantile(together, 0.95) > quantile(apart, 0.95) or sum(together) > sum(apart)


def run(mode: Mode) -> list[Figure]:
    part = SHORT_NOTE if mode == "short" else "the whole trace"
    pods = "the last 1 500 pods with cards" if mode == "short" else "all pods with cards"
    return [
        *figures_of("philly", philly_tenants(mode), part),
        *(
            figure
            for name, (begin, end) in UNEQUAL.items()
            for figure in figures_of(name, unequal_tenants(begin, end), f"days {begin} to {end} of the trace")
        ),
        *figures_of("openb", openb_tenants(mode), pods),
    ]


if __name__ == "__main__":
    sys.exit(benchmark_main("pooling", run))
