"""What is idle, judged a second time: which card models would take a job as things stand."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from millpond.domain.amounts import CARD
from millpond.domain.links import LINK_LEVELS
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_slices import Cards
from millpond.scheduling.check_topology import islands, label_of
from millpond.scheduling.check_world import World, load_of, places_of
from millpond.scheduling.snapshot import Job, NodeState


class Idle:
    """What `uses` leave idle, and which card models would take a job there."""

    def __init__(self, world: World, uses: list[Use]) -> None:
        self._world, self._uses = world, uses
        self._nodes = [state for state in world.snapshot.nodes if not (state.cordoned or state.draining or state.lost)]
        self._load = load_of(uses)
        self._cards = Cards(world.book.nodes, uses)
        self._cpu: dict[str, int] = defaultdict(int)
        self._memory: dict[str, int] = defaultdict(int)
        for use in uses:
            for node in {seat.node for seat in use.seats}:
                self._cpu[node] += use.job.cpu
                self._memory[node] += use.job.memory
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}

    def without(self, reserved: Use, later: Idle) -> Idle:
        """The same for those who would still be there at the time of a reservation, when idle is what `later` says."""
        found = Idle(self._world, [*self._uses, replace(reserved, milli=0)])
        nodes = {seat.node for seat in reserved.seats}
        for place, milli in places_of(reserved).items():
            found._load[place] = max(self._load[place], later._load[place] + milli)
        for node in nodes:
            found._cpu[node] = max(self._cpu[node], later._cpu[node] + reserved.job.cpu)
            found._memory[node] = max(self._memory[node], later._memory[node] + reserved.job.memory)
        return found

    def free_cards(self) -> int:
        """A measure of how much is idle."""
        return -sum(self._load.values())

    def models(self, job: Job) -> tuple[str, ...]:
        """Models with enough nodes that each take one piece of the job now ("" for a job without cards)."""
        key = (job.gpu, job.nodes, job.cpu, job.memory, job.require)
        if key not in self._known:
            across = job.require if job.require not in {*LINK_LEVELS, "node"} else ""
            count = Counter(
                (state.spec.cards.model if state.spec.cards and not job.gpu.none else "", label_of(state, across))
                for state in self._nodes
                if self._takes(job, state) and (not across or label_of(state, across))
            )
            apart = job.require == "node" and job.nodes > 1
            models = {model for (model, _), nodes in count.items() if nodes >= job.nodes and not apart}
            self._known[key] = tuple(sorted(models))
        return self._known[key]

    def _takes(self, job: Job, state: NodeState) -> bool:
        spec, request = state.spec, job.gpu
        if job.cpu and self._cpu[spec.name] + job.cpu > spec.cpu:
            return False
        if job.memory and self._memory[spec.name] + job.memory > spec.memory:
            return False
        if request.none:
            return True
        kind = spec.cards
        if kind is None or not request.card_matches(kind.vendor, kind.model, kind.memory) or spec.taints:
            return False
        left = {
            card: 0 if self._cards.divided(spec.name, card) else CARD - self._load[spec.name, card]
            for card in range(kind.count)
            if card not in state.bad_cards
        }
        if request.slice:
            return self._cards.count(state, job) >= request.slices
        if request.fraction:
            return any(free >= request.milli for free in left.values())
        idle = {card for card, free in left.items() if free == CARD}
        most = len(idle)
        if job.require in LINK_LEVELS and request.milli_min:
            most = max(1 if idle else 0, *(len(idle & island) for island in islands(kind, job.require)))
        return most * CARD >= request.milli_min
