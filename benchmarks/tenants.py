"""The tenants of a trace: what each owns, its private island, and the pool that all of them share.

A team's quota is its mean demand over the whole trace, rounded up to whole nodes, and at least the largest job that it
has: with less, a private cluster could never run it.  The shared pool has as many nodes as all quotas together, and
so has the pool without quotas, so that the three ways of running the trace are paid with the same cards.

Jobs of a team start in the order of their submission (``dequeue: fifo``), on the island and in the pool, and carry that
order as their priority.  As far as cards are only counted, nobody then waits longer in the pool than on his island:

  Let s be the moment at which job k starts on the island.  By then every earlier job of the team has started there, and
  those that still run fit into the quota together with k.  In the pool, by induction, the earlier jobs are never
  behind, so that those that still run there are among them.  Ranks inside a queue follow priority, so that k comes
  after these only.  So at s job k fits into what is left of the guarantee: it is a guaranteed claim, which takes what
  others borrow, and once it runs its rank stays guaranteed, so that nobody takes it away.

Three things are outside of the argument and are measured.  Cards may be free in the wrong places, between guaranteed
jobs that nobody may evict: with ``regroup_after: 0s`` those are moved, and without it jobs do lose.  Who is moved or
evicted must not lose work, or whoever of its team follows it waits for that: jobs save on their warning signal, as
``checkpoint: {signal: …}`` of a job file has them do, and as migration does in Gandiva (OSDI 2018); without that
(``saves`` false) they go on from the last of their checkpoints, one every `CHECKPOINT` seconds.  And a victim needs its
grace to leave.  Where small jobs may pass a blocked one in the pool (``traverse``), more of them hold guarantees in
more places at once; that is measured as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.replay import Replay, job_make, leaf_make, nodes_make, replay
from benchmarks.traces import NODE_CARDS, TraceJob
from millpond.domain.amounts import CARD
from millpond.scheduling.snapshot import Job, Settings

CHECKPOINT = 1800
"""Seconds between checkpoints: what a victim loses at most that does not save on its signal."""

TOP = 10_000_000


@dataclass(frozen=True, slots=True)
class Tenants:
    """``quotas`` in cards; ``window`` in seconds, over which the use of cards is counted."""

    jobs: tuple[TraceJob, ...]
    quotas: dict[str, int]
    window: int

    @property
    def nodes(self) -> int:
        return sum(self.quotas.values()) // NODE_CARDS

    def of(self, team: str) -> list[TraceJob]:
        return [job for job in self.jobs if job.team == team]


def quotas_of(jobs: Sequence[TraceJob], until: int | None = None) -> dict[str, int]:
    """Cards that each team owns; see the module.  ``until``: only the demand of jobs submitted before counts."""
    begin = min((job.submit for job in jobs), default=0)
    end = max((job.submit for job in jobs), default=0) if until is None else until
    work: dict[str, int] = {}
    largest: dict[str, int] = {}
    for job in jobs:
        seconds = max(0, min(job.duration, end - job.submit)) if until is not None else job.duration
        work[job.team] = work.get(job.team, 0) + job.milli * seconds // CARD
        largest[job.team] = max(largest.get(job.team, 0), job.shape[0])
    node = NODE_CARDS * max(1, end - begin)
    return {team: NODE_CARDS * max(-(-work[team] // node), largest[team]) for team in sorted(work)}


def tenants_make(jobs: Iterable[TraceJob], quotas: dict[str, int]) -> Tenants:
    """The tenants of some jobs of a trace; the window ends with the last submission."""
    ordered = tuple(sorted(jobs, key=lambda job: (job.submit, job.id)))
    return Tenants(ordered, quotas, ordered[-1].submit - ordered[0].submit)


SHORT_DAYS = (46, 61)
SHORT_WITHOUT = frozenset({"6214e9", "11cb48", "b436b2", "6c71a0"})
SHORT_NOTE = "days 46 to 61 of the trace, which begin with empty clusters, without the four teams that have most jobs"
"""In those days 1.09 times the cards are asked for, and four teams ask for 90 % or more of what they own."""


def philly_part(jobs: Sequence[TraceJob], quotas: dict[str, int]) -> Tenants:
    """The part of the Philly trace that short forms run: many cards asked for by few jobs (`SHORT_NOTE`)."""
    part = [
        job for job in jobs if SHORT_DAYS[0] <= job.submit / 86_400 < SHORT_DAYS[1] and job.team not in SHORT_WITHOUT
    ]
    return tenants_make(part, {team: cards for team, cards in quotas.items() if team not in SHORT_WITHOUT})


def _jobs(
    jobs: Iterable[TraceJob], *, checkpoint: int | None = None, saves: bool = False
) -> list[tuple[TraceJob, Job]]:
    made = (
        (job, job_make(job, f"{job.team}/batch", priority=TOP - place, checkpoint_every=checkpoint))
        for place, job in enumerate(jobs)
    )
    return [(trace, replace(job, saves_on_signal=True) if saves else job) for trace, job in made]


def islands_run(tenants: Tenants, *, fifo: bool = True) -> dict[str, Replay]:
    """Every team alone on nodes of its own."""
    return {
        team: replay(
            f"island of {team}",
            nodes_make(cards // NODE_CARDS),
            [leaf_make(team, cards, fifo=fifo)],
            _jobs(tenants.of(team)),
            window=tenants.window,
            begin=tenants.jobs[0].submit,
        )
        for team, cards in tenants.quotas.items()
        if tenants.of(team)
    }


def shared_run(
    tenants: Tenants, *, drain: int = 0, fifo: bool = True, moves: bool = True, saves: bool = True
) -> Replay:
    """All teams in one pool, each with its quota; what nobody uses is lent.

    ``moves``: who claims his own and finds it scattered has others moved at once (``regroup_after: 0s``).
    ``saves``: jobs save on their warning signal, else every `CHECKPOINT` seconds only.
    """
    return replay(
        "shared pool",
        nodes_make(tenants.nodes),
        [leaf_make(team, cards, fifo=fifo) for team, cards in tenants.quotas.items()],
        _jobs(tenants.jobs, checkpoint=CHECKPOINT, saves=saves),
        window=tenants.window,
        begin=tenants.jobs[0].submit,
        settings=Settings(regroup_after=0 if moves else None),
        drain=drain,
    )


def open_run(tenants: Tenants) -> Replay:
    """One queue for all on the same nodes: nobody owns anything or is evicted, small jobs pass blocked ones."""
    jobs = [(job, job_make(job, "all/batch")) for job in tenants.jobs]
    return replay(
        "pool without quotas",
        nodes_make(tenants.nodes),
        [leaf_make("all", None)],
        jobs,
        window=tenants.window,
        begin=tenants.jobs[0].submit,
    )
