"""Hypothesis strategies for whole snapshots: small pools, several tenants, gangs, fractions, running jobs in seats that
make sense, quotas that a configuration would accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, CardHours, Dequeue, QueueConfig
from millpond.scheduling.decisions import Plan
from millpond.scheduling.snapshot import Hold, Job, NodeState, PastEviction, RunState, Seat, Settings, Snapshot

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[T]], T]

MODELS = {"A800-80GB": 81_920, "H20-96GB": 98_304}
TENANTS = ("alpha", "beta", "gamma")
NOW = 1_000_000


@dataclass
class Floor:
    """Free milli-cards of every card, and free milli-CPU of every node, while running jobs take their seats."""

    nodes: tuple[NodeState, ...]
    free: dict[tuple[str, int], int] = field(default_factory=dict)
    cpu: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for state in self.nodes:
            self.cpu[state.spec.name] = state.spec.cpu
            kind = state.spec.cards
            for card in range(kind.count if kind else 0):
                self.free[state.spec.name, card] = 1000

    def seat(self, job: Job, names: list[str]) -> tuple[Seat, ...]:
        """Seats on the first of `names` that have room; empty if there are not enough."""
        seats = [seat for name in names if (seat := self._one(job, name)) is not None][: job.nodes]
        if len(seats) < job.nodes:
            return ()
        for seat in seats:
            self.cpu[seat.node] -= job.cpu
            for card in seat.cards:
                self.free[seat.node, card] -= seat.milli
        return tuple(seats)

    def _one(self, job: Job, name: str) -> Seat | None:
        state = next(state for state in self.nodes if state.spec.name == name)
        kind = state.spec.cards
        if self.cpu[name] < job.cpu or kind is None:
            return None
        if not job.gpu.none and not job.gpu.card_matches(kind.vendor, kind.model, kind.memory):
            return None
        share = job.gpu.milli if job.gpu.fraction else 1000
        count = 1 if job.gpu.fraction else job.gpu.milli // 1000
        cards = [card for card in range(kind.count) if self.free[name, card] >= share][:count]
        return Seat(name, tuple(cards), share) if len(cards) == count else None


@st.composite
def node_states(draw: Draw[object]) -> tuple[NodeState, ...]:
    count = draw(st.integers(1, 4))
    size = draw(st.sampled_from([2, 4, 8]))
    mixed = draw(st.booleans())
    states = []
    for index in range(1, count + 1):
        model = draw(st.sampled_from(sorted(MODELS))) if mixed else "A800-80GB"
        spec = NodeSpec(f"n{index}", 32_000, 262_144, CardKind(model, "nvidia", MODELS[model], size))
        trouble = draw(st.sampled_from(["", "", "", "", "", "cordoned", "lost", "bad"]))
        states.append(
            NodeState(
                spec,
                cordoned=trouble == "cordoned",
                lost=trouble == "lost",
                bad_cards=frozenset({0}) if trouble == "bad" else frozenset(),
            )
        )
    return tuple(states)


@st.composite
def queue_configs(draw: Draw[object], pool: Mapping[str, int]) -> tuple[QueueConfig, ...]:
    """Leaves of one to three tenants; guarantees fit the pool, G ≤ D ≤ C.  In a pool of several models amounts name
    models, and a cap may name just one."""
    queues: list[QueueConfig] = []
    left = dict(pool) if len(pool) > 1 else {CARDS: sum(pool.values())}
    for tenant in TENANTS[: draw(st.integers(1, 3))]:
        classes = draw(st.lists(st.sampled_from(list(QueueClass)), min_size=1, max_size=3, unique=True))
        middle = draw(st.sampled_from(["", "", "red/"]))
        total = dict.fromkeys(left, 0)
        for klass in classes:
            config = draw(leaf_configs(f"{tenant}/{middle}{klass}", klass, left))
            for name in left:
                left[name] -= (config.guarantee or {}).get(name, 0)
                total[name] += (config.deserved or {}).get(name, 0)
            queues.append(config)
        if draw(st.booleans()):
            extra = draw(st.sampled_from([0, 1000, 4000]))
            deserved = {name: amount + extra for name, amount in total.items()}
            cap = {CARDS: sum(deserved.values()) + 1000}
            hours = draw(st.sampled_from([None, None, CardHours(20_000, 5_000)]))
            queues.append(
                QueueConfig(tenant, deserved=deserved, cap=cap if draw(st.booleans()) else None, card_hours=hours)
            )
    return tuple(queues)


@st.composite
def leaf_configs(draw: Draw[object], name: str, klass: QueueClass, left: Mapping[str, int]) -> QueueConfig:
    """One leaf that takes its guarantee from what is `left` per dimension."""
    if klass is QueueClass.BESTEFFORT:
        cap = draw(st.sampled_from([None, None, {CARDS: 500}, {CARDS: 4000}]))
        return QueueConfig(name, klass, cap=cap, dequeue=draw(DEQUEUES))
    guarantee = {dim: draw(st.integers(0, amount // 1000)) * 1000 for dim, amount in left.items()}
    more = draw(st.sampled_from([0, 0, 1000, 2000, 8000]))
    deserved = {dim: amount + more for dim, amount in guarantee.items()}
    capped = draw(st.sampled_from([(), (), tuple(left), tuple(left)[:1]]))
    cap = {dim: deserved[dim] + draw(st.sampled_from([500, 4000])) for dim in capped}
    lend = draw(st.sampled_from([True] * 9 + [False]))
    return QueueConfig(name, klass, guarantee, deserved, cap or None, lend=lend, dequeue=draw(DEQUEUES))


DEQUEUES = st.sampled_from([Dequeue.TRAVERSE, Dequeue.TRAVERSE, Dequeue.FIFO])

REQUESTS = ("0.25", "0.5", "0.333", "1", "1", "2", "2", "4", "8", "1..4", "A800:2", "H20:1", "0")


@st.composite
def waiting_jobs(draw: Draw[object], name: str, leaves: tuple[QueueConfig, ...]) -> Job:
    leaf = draw(st.sampled_from(leaves))
    gpu: CardRequest = card_request_parse(draw(st.sampled_from(REQUESTS)))
    prod = leaf.klass is QueueClass.PROD
    return Job(
        id=name,
        queue=leaf.name,
        gpu=gpu,
        nodes=draw(st.sampled_from([1, 1, 1, 2, 3])),
        cpu=draw(st.sampled_from([0, 0, 0, 4000, 16_000])),
        priority=draw(st.sampled_from([10, 50, 50, 90])),
        preemptible=draw(st.booleans()) if prod else draw(st.sampled_from([True, True, True, False])),
        submitted=NOW - draw(st.integers(0, 4000)),
        max_duration=draw(st.sampled_from([None, None, 600, 7200])),
        grace=draw(st.sampled_from([0, 20, 60])),
        saves_on_signal=draw(st.booleans()),
        checkpoint_every=draw(st.sampled_from([None, 300])),
    )


@st.composite
def snapshots(draw: Draw[object]) -> Snapshot:
    nodes: tuple[NodeState, ...] = draw(node_states())
    pool: dict[str, int] = {}
    for state in nodes:
        kind = state.spec.cards
        if kind is not None:
            pool[kind.model] = pool.get(kind.model, 0) + kind.count * 1000
    queues = draw(queue_configs(pool))
    leaves = tuple(queue for queue in queues if queue.leaf)
    floor = Floor(nodes)
    jobs: list[Job] = []
    for index in range(draw(st.integers(0, 10))):
        job = draw(waiting_jobs(f"r{index}", leaves))
        if job.gpu.elastic:
            job = replace(job, gpu=replace(job.gpu, milli_min=job.gpu.milli))
        seats = floor.seat(job, draw(st.permutations([state.spec.name for state in nodes])))
        if seats:
            jobs.append(_running(draw, job, seats))
    jobs += [draw(waiting_jobs(f"w{index}", leaves)) for index in range(draw(st.integers(0, 8)))]
    settings = Settings(min_runtime=draw(st.sampled_from([0, 0, 120])))
    return Snapshot(NOW, nodes, queues, tuple(jobs), settings=settings)


def _running(draw: Draw[object], job: Job, seats: tuple[Seat, ...]) -> Job:
    started = draw(st.integers(job.submitted, NOW))
    saved = draw(st.sampled_from([None, 0, 1])) if started < NOW else None
    leaving = draw(st.sampled_from([False] * 7 + [True]))
    return replace(
        job,
        state=RunState.DRAINING if leaving else RunState.RUNNING,
        seats=seats,
        started=started,
        checkpointed=None if saved is None else started + saved * (NOW - started) // 2,
        until=NOW + draw(st.sampled_from([10, 10, 0, -5])) if leaving else None,
    )


@st.composite
def followups(draw: Draw[object], before: Snapshot, plan: Plan, number: int) -> Snapshot:
    """The world some seconds after a plan was applied: victims drain or have left, cards are held, and by then a node
    or a job may be gone, or a new job may have come.  ``number`` tells the follow-ups of one world apart."""
    now = before.now + draw(st.sampled_from([0, 5, 25, 100]))
    leaf = {job.id: job.queue for job in before.jobs}
    starts = {start.job: start for start in plan.start}
    deadlines = {evict.job: evict.deadline for evict in plan.evict}
    jobs: list[Job] = []
    gone: set[str] = set()
    for job in before.jobs:
        if job.id in starts:
            seats = starts[job.id].seats
            jobs.append(replace(job, state=RunState.RUNNING, seats=seats, started=before.now))
        elif job.id in deadlines and draw(st.booleans()):
            jobs.append(replace(job, state=RunState.DRAINING, until=deadlines[job.id]))
        elif job.id in deadlines:
            gone.add(job.id)
            jobs.append(replace(job, state=RunState.QUEUED, seats=(), started=None, checkpointed=None))
        elif draw(st.integers(0, 9)):
            jobs.append(job)
        else:
            gone.add(job.id)
    names = {job.id for job in jobs}
    holds = {hold.job: hold for hold in before.holds if hold.job not in plan.drop_holds}
    holds |= {hold.job: Hold(hold.job, hold.seats, hold.until, hold.victims) for hold in plan.hold}
    leaves = tuple(queue for queue in before.queues if queue.leaf)
    jobs += [draw(waiting_jobs(f"x{number}-{index}", leaves)) for index in range(draw(st.integers(0, 3)))]
    nodes = [replace(state, lost=True) if not draw(st.integers(0, 9)) else state for state in before.nodes]
    return replace(
        before,
        now=now,
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        holds=tuple(
            replace(hold, victims=tuple(victim for victim in hold.victims if victim in names - gone))
            for hold in holds.values()
            if hold.job in names and hold.job not in starts
        ),
        evictions=(
            *before.evictions,
            *(PastEviction(leaf[e.claimant], leaf[e.job], before.now, e.borrowed) for e in plan.evict),
        ),
    )
