"""A trace through the product's own simulator: who started when, who ended when, what was lost.

Every benchmark that replays jobs goes through `replay`, so all of them run the planner that plans live clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.figures import progress
from benchmarks.traces import NODE_CARDS, TraceJob
from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import Dequeue, QueueConfig
from millpond.scheduling.snapshot import Job, NodeState, Settings, Snapshot
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work

FOREVER = 10**9
"""Seconds that no replay reaches."""


@dataclass(slots=True)
class Outcome:
    """What became of one job.  Times in seconds from the beginning; None: not yet."""

    job: TraceJob
    first_start: int | None = None
    end: int | None = None
    evictions: int = 0
    lost: int = 0
    """Milli-card-seconds of work done twice."""

    @property
    def wait(self) -> int | None:
        """From submission to the first start."""
        return None if self.first_start is None else self.first_start - self.job.submit

    @property
    def span(self) -> int | None:
        """From submission to the end."""
        return None if self.end is None else self.end - self.job.submit


@dataclass(slots=True)
class Replay:
    """``used``: milli-card-seconds given out in ``window``; ``lost``: of all, done twice; ``passes`` of the planner."""

    cards: int
    window: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    used: int = 0
    lost: int = 0
    passes: int = 0
    evictions: int = 0

    @property
    def allocated(self) -> float:
        """% of the cards' time within the window."""
        return self.used / (self.cards * self.window * 10)

    @property
    def useful(self) -> float:
        """% of the cards' time within the window, work done twice counted once."""
        return (self.used - self.lost) / (self.cards * self.window * 10)

    @property
    def makespan(self) -> int:
        return max((outcome.end or 0 for outcome in self.outcomes.values()), default=0)


def nodes_make(count: int, cards: int = NODE_CARDS, prefix: str = "n") -> tuple[NodeState, ...]:
    """`count` equal nodes of one card model."""
    kind = CardKind(model="A800-80GB", memory=81_920, count=cards)
    return tuple(
        NodeState(NodeSpec(f"{prefix}{number}", cpu=128_000, memory=2_097_152, cards=kind))
        for number in range(1, count + 1)
    )


def leaf_make(team: str, cards: int | None, *, fifo: bool = False) -> QueueConfig:
    """The batch queue of a team with a quota of `cards`; None: no quota, everything borrowed."""
    amount = None if cards is None else {"cards": cards * CARD}
    return QueueConfig(
        f"{team}/batch",
        QueueClass.BATCH,
        guarantee=amount,
        deserved=amount,
        dequeue=Dequeue.FIFO if fifo else Dequeue.TRAVERSE,
    )


def job_make(job: TraceJob, queue: str, *, priority: int = 50, checkpoint_every: int | None = None) -> Job:
    """A waiting job in `queue`; a job of more than a node's cards is a gang."""
    nodes, cards = job.shape
    return Job(
        job.id,
        queue,
        CardRequest(cards * job.share, cards * job.share),
        nodes=nodes,
        priority=priority,
        submitted=job.submit,
        checkpoint_every=checkpoint_every,
    )


def replay(
    title: str,
    nodes: tuple[NodeState, ...],
    queues: Iterable[QueueConfig],
    jobs: Sequence[tuple[TraceJob, Job]],
    *,
    window: int,
    begin: int = 0,
    settings: Settings = Settings(),
    drain: int = 0,
) -> Replay:
    """Run the jobs to the end of the last one.

    ``window``: seconds from `begin` (the clock of the trace) over which use of the cards is counted.
    """
    cards = sum(node.spec.cards.count for node in nodes if node.spec.cards is not None)
    done = Replay(cards, window, {trace.id: Outcome(trace) for trace, _ in jobs})
    simulation = Simulation(
        Snapshot(begin, nodes=nodes, queues=tuple(queues), settings=settings),
        arrivals=tuple(job for _, job in jobs),
        work={trace.id: Work(trace.duration, drain) for trace, _ in jobs},
        until=FOREVER,
        checked=False,
        waits=False,
    )
    running: dict[str, int] = {}
    ended = 0
    for event in simulation.events():
        outcome = done.outcomes.get(event.job)
        if outcome is None:
            continue
        now = begin + event.time
        if event.kind == "start":
            running[event.job] = now
            if outcome.first_start is None:
                outcome.first_start = now
        elif event.kind == "evict":
            outcome.evictions += 1
            done.evictions += 1
        elif event.kind in {"end", "requeue"}:
            since = running.pop(event.job)
            done.used += outcome.job.milli * max(0, min(now, begin + window) - min(since, begin + window))
            if event.kind == "end":
                outcome.end = now
                ended += 1
                if ended % 2000 == 0:
                    progress(f"{title}: {ended} of {len(jobs)} jobs done")
            else:
                lost = int(str(event.data["lost_milli_seconds"]))
                outcome.lost += lost
                done.lost += lost
    done.passes = int(str(simulation.summary()["passes"]))
    return done
