"""Whole days of invented clusters: tenants, gangs, fractions, slices, evictions, lost nodes, budgets, topology.

`Cluster` invents a pool, its queues and who comes when, all from one number; `Day` lives through it in virtual time
with the planner that stays, does at once what each plan says, and gives every plan with the world that it was made for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from millpond.domain.cards import card_request_parse
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, CardHours, Dequeue, QueueConfig
from millpond.scheduling.decisions import Plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import (
    Hold,
    Job,
    NodeState,
    PastEviction,
    RunState,
    Settings,
    Snapshot,
    job_requeued,
    job_started,
)

DAY = 86_400
MODELS = (("A800-80GB", 81_920, 8), ("A100-40GB", 40_960, 4), ("H20-96GB", 98_304, 8))
Models = list[tuple[str, int, int]]

PLAIN = ("0.25", "0.5", "0.333", "1", "1", "1", "2", "2", "4", "8", "1..4", "2..8", "0")
SLICES = ("mig-1g.5gb", "mig-2g.10gb", "mig-3g.20gb", "mig-1g.5gb:2")
PASSES_AT_ONCE = 100

_END, _NODE, _ARRIVAL, _WAKE = 0, 1, 2, 3


class Restless(Exception):
    """The planner kept changing its mind at one instant."""


@dataclass(slots=True)
class Cluster:
    """Everything about one day, from one number.  ``load``: card-seconds asked for over those that there are."""

    seed: int
    snapshot: Snapshot = field(init=False)
    arrivals: list[Job] = field(init=False, default_factory=list)
    work: dict[str, tuple[int, int]] = field(init=False, default_factory=dict)
    """Seconds of useful work of each job, and seconds that it takes to leave."""

    troubles: list[tuple[int, NodeState]] = field(init=False, default_factory=list)
    """When a node becomes what."""

    def __post_init__(self) -> None:
        draw = Random(self.seed)  # noqa: S311 - a day, not a secret
        models = draw.sample(MODELS, draw.choice([1, 1, 2, 3]))
        nodes = tuple(self._node(draw, number, models) for number in range(1, draw.randint(4, 24)))
        pool: dict[str, int] = {}
        for state in nodes:
            if state.spec.cards is not None:
                pool[state.spec.cards.model] = pool.get(state.spec.cards.model, 0) + 1000 * state.spec.cards.count
        settings = Settings(
            min_runtime=draw.choice([0, 0, 300]),
            cooldown=draw.choice([60, 60, 600]),
            consolidate_after=draw.choice([None, 600]),
            reserve_after=draw.choice([900, 3600]),
        )
        queues = tuple(_queues(draw, pool))
        self.snapshot = Snapshot(0, nodes, queues, settings=settings)
        self._jobs(draw, tuple(queue for queue in queues if queue.leaf), sum(pool.values()), models)
        self._troubles(draw, nodes)

    @staticmethod
    def _node(draw: Random, number: int, models: Models) -> NodeState:
        model, memory, count = draw.choice(models)
        islands = ((0, 1, 2, 3), (4, 5, 6, 7)) if count == 8 and draw.random() < 0.7 else ()
        kind = CardKind(model, "nvidia", memory, count, islands)
        labels = (("rack", f"r{number % 3}"),)
        return NodeState(NodeSpec(f"n{number}", 64_000, 524_288, kind, labels))

    def _jobs(self, draw: Random, leaves: tuple[QueueConfig, ...], pool: int, models: Models) -> None:
        load = draw.uniform(0.8, 1.5) * pool * DAY
        asked, number = 0, 0
        patience = draw.choice([900, 3600])
        while asked < load:
            number += 1
            leaf = draw.choice(leaves)
            work = max(20, min(30_000, int(draw.expovariate(1 / patience))))
            name = f"j{number}"
            job = self._job(draw, name, leaf, work, models)
            self.work[name] = (work, draw.choice([0, 0, 5, 30]))
            self.arrivals.append(job)
            asked += max(job.gpu.milli_min, 150) * job.nodes * work
        self.arrivals.sort(key=lambda job: (job.submitted, job.id))

    @staticmethod
    def _job(draw: Random, name: str, leaf: QueueConfig, work: int, models: Models) -> Job:
        text = draw.choice(PLAIN)
        if any(model == "A100-40GB" for model, _, _ in models) and draw.random() < 0.2:
            text = draw.choice(SLICES)
        elif "." not in text and text != "0" and draw.random() < 0.2:
            text = f"{draw.choice(models)[0].partition('-')[0]}:{text}"
        whole = text.rpartition(":")[2] in {"2", "4", "8"}
        prod = leaf.klass is QueueClass.PROD
        return Job(
            id=name,
            queue=leaf.name,
            gpu=card_request_parse(text),
            nodes=draw.choice([1, 1, 1, 1, 2, 3]) if whole else 1,
            cpu=draw.choice([0, 0, 2000, 8000]),
            memory=draw.choice([0, 0, 16_384]),
            priority=draw.choice([10, 50, 50, 50, 90]),
            preemptible=draw.random() < 0.4 if prod else draw.random() < 0.95,
            submitted=draw.randrange(DAY * 9 // 10),
            max_duration=draw.choice([None, work + 60, 2 * work, max(60, work // 2)]),
            grace=draw.choice([0, 20, 60]),
            saves_on_signal=draw.random() < 0.2,
            checkpoint_every=draw.choice([None, None, 300, 1800]),
            require=draw.choice(["", "", "", "link" if whole else "", "rack"]),
        )

    def _troubles(self, draw: Random, nodes: tuple[NodeState, ...]) -> None:
        for _ in range(draw.randint(0, 2 * len(nodes))):
            state, begin = draw.choice(nodes), draw.randrange(DAY)
            kind = draw.choice(["lost", "cordoned", "bad"])
            bad = frozenset({draw.randrange(4)}) if kind == "bad" else frozenset()
            worse = replace(state, lost=kind == "lost", cordoned=kind == "cordoned", bad_cards=bad)
            self.troubles += [(begin, worse), (begin + draw.randint(60, 7200), state)]
        self.troubles.sort(key=lambda item: (item[0], item[1].spec.name))


def _queues(draw: Random, pool: dict[str, int]) -> Iterator[QueueConfig]:
    """The leaves of some tenants, with guarantees that the pool can keep, G <= D <= C; sometimes their tenants."""
    left = dict(pool) if len(pool) > 1 else {CARDS: sum(pool.values())}
    names = ("alpha", "beta", "gamma", "delta", "epsilon")[: draw.randint(2, 5)]
    for tenant in names:
        total = dict.fromkeys(left, 0)
        middle = draw.choice(["", "", "red/"])
        for klass in draw.sample(list(QueueClass), draw.randint(1, 3)):
            leaf = f"{tenant}/{middle}{klass.value}"
            dequeue = draw.choice([Dequeue.TRAVERSE, Dequeue.TRAVERSE, Dequeue.TRAVERSE, Dequeue.FIFO])
            if klass is QueueClass.BESTEFFORT:
                cap = draw.choice([None, {CARDS: 8000}])
                yield QueueConfig(leaf, klass, cap=cap, dequeue=dequeue)
                continue
            guarantee = {name: draw.randint(0, amount // (1000 * len(names))) * 1000 for name, amount in left.items()}
            more = draw.choice([0, 2000, 8000])
            deserved = {name: amount + more for name, amount in guarantee.items()}
            cap = {name: amount + draw.choice([500, 4000]) for name, amount in deserved.items()}
            for name in left:
                left[name] -= guarantee[name]
                total[name] += deserved[name]
            yield QueueConfig(leaf, klass, guarantee, deserved, cap if draw.random() < 0.4 else None, dequeue=dequeue)
        if draw.random() < 0.5:
            limit = {CARDS: sum(total.values()) + 4000} if draw.random() < 0.5 else None
            hours = CardHours(draw.choice([50_000, 400_000]), 5_000) if draw.random() < 0.4 else None
            yield QueueConfig(tenant, deserved=total, cap=limit, card_hours=hours)


class Day:
    """One day of a cluster.  ``jobs`` are those that live."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._base = cluster.snapshot
        self._now = 0
        self._nodes = {state.spec.name: state for state in self._base.nodes}
        self._jobs: dict[str, Job] = {}
        self._left: dict[str, int] = {}
        self._attempt: dict[str, int] = {}
        self._holds: dict[str, Hold] = {}
        self._evictions: list[PastEviction] = []
        self._resident = Resident(self._base)
        self._heap: list[tuple[int, int, int, str, int]] = []
        self._count = 0
        for job in cluster.arrivals:
            self._push(job.submitted, _ARRIVAL, job.id)
        self._arrivals = {job.id: job for job in cluster.arrivals}
        for place, (time, _) in enumerate(cluster.troubles):
            self._push(time, _NODE, "", place)

    def plans(self, until: int = DAY) -> Iterator[tuple[Snapshot, Plan]]:
        """Each plan with the world for which it was made."""
        while self._heap and self._heap[0][0] <= until:
            self._now = max(self._now, self._heap[0][0])
            for _ in range(PASSES_AT_ONCE):
                self._happen()
                yield self._pass()
                if not (self._heap and self._heap[0][0] <= self._now):
                    break
            else:
                raise Restless(f"day {self._cluster.seed}: the plan does not come to rest at {self._now}")

    # -- what happens

    def _push(self, time: int, what: int, name: str = "", number: int = 0) -> None:
        self._count += 1
        heapq.heappush(self._heap, (time, what, self._count, name, number))

    def _happen(self) -> None:
        while self._heap and self._heap[0][0] <= self._now:
            _, what, _, name, number = heapq.heappop(self._heap)
            if what == _ARRIVAL:
                self._left[name], self._attempt[name] = self._cluster.work[name][0], 0
                self._put(self._arrivals[name])
                for patience in (self._base.settings.reserve_after, self._base.settings.consolidate_after):
                    self._push(self._now + (patience or 0), _WAKE)
            elif what == _NODE:
                self._trouble(self._cluster.troubles[number][1])
            elif what == _END and name in self._jobs and self._attempt[name] == number:
                self._end(self._jobs[name])
        for job in list(self._jobs.values()):
            self._checkpoint(job)

    def _put(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._resident.job_put(job)

    def _checkpoint(self, job: Job) -> None:
        """Take note of the last checkpoint of a running job."""
        if job.started is None or job.checkpoint_every is None:
            return
        since = job.started if job.checkpointed is None else job.checkpointed
        count = (self._now - since) // job.checkpoint_every
        if count > 0 and job.state is RunState.RUNNING:
            self._put(replace(job, checkpointed=since + count * job.checkpoint_every))

    def _end(self, job: Job) -> None:
        """A job is done, or has left and waits again."""
        self._leaves(job.id)
        if job.state is RunState.DRAINING:
            self._requeue(job)
        else:
            del self._jobs[job.id]
            self._resident.job_gone(job.id)
            hold = self._holds.pop(job.id, None)
            if hold is not None:
                self._resident.hold_gone(job.id)

    def _requeue(self, job: Job) -> None:
        if job.started is not None and job.checkpointed is not None:
            self._left[job.id] = max(1, self._left[job.id] - (job.checkpointed - job.started))
        self._attempt[job.id] += 1
        self._put(job_requeued(job))

    def _leaves(self, name: str) -> None:
        """Somebody has left its cards, for whomever they are held."""
        for hold in list(self._holds.values()):
            if name in hold.victims:
                found = replace(hold, victims=tuple(victim for victim in hold.victims if victim != name))
                self._holds[hold.job] = found
                self._resident.hold_put(found)

    def _trouble(self, state: NodeState) -> None:
        """A node becomes another; the jobs of a lost one, or of a card that is no more, wait again."""
        name = state.spec.name
        self._nodes[name] = state
        self._resident.node_put(state)
        for job in list(self._jobs.values()):
            hit = any(
                seat.node == name and (state.lost or state.bad_cards.intersection(seat.cards)) for seat in job.seats
            )
            if hit:
                self._leaves(job.id)
                self._requeue(job)

    # -- planning

    def _pass(self) -> tuple[Snapshot, Plan]:
        cooldown = self._base.settings.cooldown
        self._evictions = [past for past in self._evictions if self._now - past.time < cooldown]
        world = replace(
            self._base,
            now=self._now,
            nodes=tuple(self._nodes.values()),
            jobs=tuple(self._jobs.values()),
            holds=tuple(self._holds.values()),
            evictions=tuple(self._evictions),
        )
        self._resident.now_set(self._now)
        found = self._resident.plan()
        self._resident.adopt(found)
        self._apply(found)
        return world, found

    def _apply(self, found: Plan) -> None:
        settings = self._base.settings
        for name in found.drop_holds:
            self._holds.pop(name, None)
        for evict in found.evict:
            job = self._jobs[evict.job]
            leaf = self._jobs[evict.claimant].queue
            self._evictions.append(PastEviction(leaf, job.queue, self._now, evict.borrowed))
            self._jobs[evict.job] = replace(job, state=RunState.DRAINING, until=evict.deadline)
            gone = min(self._now + self._cluster.work[evict.job][1], evict.deadline)
            self._attempt[evict.job] += 1
            self._push(gone, _END, evict.job, self._attempt[evict.job])
            self._push(self._now + settings.cooldown, _WAKE)
        for hold in found.hold:
            self._holds[hold.job] = Hold(hold.job, hold.seats, hold.until, hold.victims)
            self._push(hold.until, _WAKE)
        for start in found.start:
            self._start(start.job, found)
        for reserved in found.reservations:
            self._push(reserved.time, _WAKE)

    def _start(self, name: str, found: Plan) -> None:
        seats = next(start.seats for start in found.start if start.job == name)
        job = self._jobs[name]
        self._jobs[name] = job_started(job, seats, self._now)
        self._holds.pop(name, None)
        left = self._left[name]
        self._push(
            self._now + (left if job.max_duration is None else min(left, job.max_duration)),
            _END,
            name,
            self._attempt[name],
        )
        if self._base.settings.min_runtime:
            self._push(self._now + self._base.settings.min_runtime, _WAKE)
