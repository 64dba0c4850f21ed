"""Random small pools in which one claim waits for somebody to leave; made from a seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from benchmarks.openb import Draws
from benchmarks.peers.evictions import Case
from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.jobs import QueueClass
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.queues import CARDS, QueueConfig
from millpond.scheduling.snapshot import Job, NodeState, RunState, Seat, Settings, Snapshot

NOW = 100_000
TENANTS = ("alpha", "beta", "gamma")
REQUESTS = ("0.25", "0.5", "0.5", "1", "1", "2", "2", "4", "4", "8")
SMALL = ("0.25", "0.5", "1", "1", "1", "2")
"""What runs in a crowded pool."""
CLAIMS = ("0.5", "1", "2", "4", "4", "8", "8")
LEAST, EXACT, MOST = 3, 16, 32
"""Candidates of a case.  Those of even seeds are crowded: more than the planner may try one by one (scheduling §3)."""
OWN = 8
"""At most so many of them in the claim's own leaf: the program is solved for each selection of those."""

T = TypeVar("T")


@dataclass(slots=True)
class _Maker:
    """A pool that fills up."""

    draws: Draws
    cards: int
    nodes: tuple[NodeState, ...] = ()
    leaves: list[QueueConfig] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    free: dict[str, list[int]] = field(default_factory=dict)
    cpu: dict[str, int] = field(default_factory=dict)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.draws.below(len(choices))]

    def nodes_make(self) -> None:
        kind = CardKind("A800-80GB", "nvidia", 81_920, self.cards)
        names = [f"n{number}" for number in range(1, 2 + self.draws.below(4))]
        self.nodes = tuple(NodeState(NodeSpec(name, 64_000, 524_288, kind)) for name in names)
        self.free = {name: [1000] * self.cards for name in names}
        self.cpu = dict.fromkeys(names, 64_000)

    def leaves_make(self) -> list[QueueConfig]:
        """Leaves of two or three tenants, some with an inner queue that lends to them or caps them."""
        left = self.cards * len(self.nodes) * 1000
        inner: list[QueueConfig] = []
        for tenant in TENANTS[: 2 + self.draws.below(2)]:
            total = 0
            for klass in QueueClass:
                if self.draws.below(4) == 0:
                    continue
                leaf = self._leaf(f"{tenant}/{klass.value}", klass, left)
                total += (leaf.deserved or {}).get(CARDS, 0)
                left -= (leaf.deserved or {}).get(CARDS, 0)
                self.leaves.append(leaf)
            if self.draws.below(3) == 0:
                deserved = total + 1000 * self.draws.below(5)
                cap = {CARDS: deserved + 1000 * self.draws.below(9)} if self.draws.below(2) else None
                inner.append(QueueConfig(tenant, deserved={CARDS: deserved}, cap=cap))
        return inner

    def _leaf(self, name: str, klass: QueueClass, left: int) -> QueueConfig:
        if klass is QueueClass.BESTEFFORT:
            return QueueConfig(name, klass)
        deserved = min(left, 1000 * self.pick((0, 2, 4, 8)))
        guarantee = min(deserved, 1000 * self.pick((0, 2, 4, 8)))
        cap = {CARDS: deserved + 1000 * self.draws.below(9)} if self.draws.below(5) == 0 else None
        return QueueConfig(name, klass, {CARDS: guarantee}, {CARDS: deserved}, cap)

    def job(self, name: str, requests: Sequence[str]) -> Job:
        leaf = self.pick(self.leaves)
        gpu: CardRequest = card_request_parse(self.pick(requests))
        prod = leaf.klass is QueueClass.PROD
        return Job(
            id=name,
            queue=leaf.name,
            gpu=gpu,
            nodes=self.pick((1, 1, 1, 1, 2)),
            cpu=self.pick((0, 1000, 4000, 8000)),
            priority=self.pick((10, 50, 50, 50, 90)),
            preemptible=not prod or self.draws.below(3) == 0,
            submitted=NOW - 10_000,
        )

    def run(self, job: Job) -> bool:
        """Seat a job on the first nodes from a random one on; False if it does not fit."""
        names = sorted(self.free)
        turn = self.draws.below(len(names))
        seats = [seat for name in names[turn:] + names[:turn] if (seat := self._seat(job, name))][: job.nodes]
        if len(seats) < job.nodes:
            return False
        for seat in seats:
            self.cpu[seat.node] -= job.cpu
            for card in seat.cards:
                self.free[seat.node][card] -= seat.milli
        started = NOW - 1 - self.draws.below(7200)
        saved = started + self.draws.below(NOW - started) if self.draws.below(2) else None
        self.jobs.append(replace(job, state=RunState.RUNNING, seats=tuple(seats), started=started, checkpointed=saved))
        return True

    def _seat(self, job: Job, node: str) -> Seat | None:
        milli = min(1000, job.gpu.milli)
        count = max(1, job.gpu.milli // 1000)
        cards = [card for card, free in enumerate(self.free[node]) if free >= milli][:count]
        return Seat(node, tuple(cards), milli) if len(cards) == count and self.cpu[node] >= job.cpu else None


def case_make(seed: int) -> Case | None:
    """The case of a seed; None if nobody waits in it or if the number of candidates is not as wanted."""
    crowded = seed % 2 == 0
    maker = _Maker(Draws(seed), 8 if crowded else 4 + 4 * Draws(seed + 1).below(2))
    maker.nodes_make()
    inner = maker.leaves_make()
    if not maker.leaves:
        return None
    misses = 0
    while misses < 6 and len(maker.jobs) < 2 * MOST:
        misses += not maker.run(maker.job(f"r{len(maker.jobs)}", SMALL if crowded else REQUESTS))
    claim = maker.job("claim", CLAIMS)
    settings = Settings(min_runtime=maker.pick((0, 0, 0, 600)))
    queues = (*maker.leaves, *inner)
    case = Case(Snapshot(NOW, maker.nodes, queues, (*maker.jobs, claim), settings=settings), claim)
    wanted = range(EXACT + 1, MOST + 1) if crowded else range(LEAST, EXACT + 1)
    waits = not case.enough(frozenset())
    return case if waits and len(case.candidates) in wanted and len(case.own) <= OWN else None


def cases(seed: int) -> Iterator[tuple[int, Case]]:
    """Seeds from `seed` on, with their cases, in which somebody may be evicted so that the claim fits."""
    while True:
        case = case_make(seed)
        if case is not None and case.firm and any(case.enough(view.own | set(view.ranks)) for view in case.views()):
            yield seed, case
        seed += 1
