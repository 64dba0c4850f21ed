"""One claim in a full pool, and what every set of victims costs: the rules of scheduling §3 without the planner.

The best set has the smallest tuple of §3: (highest victim rank, inversions, lost work, evicted milli-cards, number of
victims); node key and names only break what is then equal, so they are left out.  A set counts only if

- it makes room for the whole claim, on distinct nodes, under every cap,
- none of its members could be spared,
- its ranks permit it *when its members are gone*: the claim is ranked at the very end of its walk with its own leaf's
  victims taken out, victims of other leaves in that same walk, victims of its own leaf in the walk before.

Ranks come from the checker's book, which shares no code with the planner.  `best_brute` tries every set.  The problems
are one model of card each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from millpond.domain.queues import queue_ancestors, queue_tenant
from millpond.scheduling.check_book import Book, Use
from millpond.scheduling.decisions import Rank
from millpond.scheduling.snapshot import Job, RunState, Snapshot

Cost = tuple[int, int, int, int, int]
"""(rank counted from the lowest, inversions, lost milli-card-seconds, milli-cards, victims); the smallest wins."""

WHOLE = 1000


@dataclass(frozen=True, slots=True)
class View:
    """Ranks while certain jobs of the claim's leaf are gone: of whom they permit, by index of candidate."""

    own: frozenset[int]
    ranks: dict[int, Rank]


@dataclass(slots=True)
class Room:
    """One node: what is free without any eviction, and which candidates would free what."""

    cpu: int
    memory: int
    free: list[int]
    seated: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    """Candidate → (its cards here, milli-cards on each)."""


@dataclass
class Case:
    """One claim that waits in a full pool."""

    snapshot: Snapshot
    claim: Job

    def __post_init__(self) -> None:
        self.book = Book(self.snapshot)
        self.uses = [
            self.book.use(job, job.seats, job.submitted if job.started is None else job.started)
            for job in self.snapshot.jobs
            if job.state is RunState.RUNNING
        ]
        model = next(state.spec.cards.model for state in self.snapshot.nodes if state.spec.cards)
        total = self.claim.gpu.milli * self.claim.nodes
        order = (self.claim.preemptible, -self.claim.priority, self.snapshot.now, self.claim.id)
        names = self.book.counts_in(model)
        self.use = Use(self.claim, (), total, names, queue_tenant(self.claim.queue), order)
        self.base = self.book.ranks(self.uses, self.use)
        self.candidates = [use for use in self.uses if use.job.preemptible and self._may(use)]
        self.own = [number for number, use in enumerate(self.candidates) if use.job.queue == self.claim.queue]
        self.rooms = self._rooms()
        self._views: dict[frozenset[int], View | None] = {}

    def _may(self, use: Use) -> bool:
        """Other leaves, and in the own leaf those who stand behind the claim."""
        behind = (use.job.preemptible, -use.job.priority) > (self.claim.preemptible, -self.claim.priority)
        return use.job.queue != self.claim.queue or behind

    def _rooms(self) -> list[Room]:
        numbers = {use.job.id: number for number, use in enumerate(self.candidates)}
        rooms: dict[str, Room] = {}
        for state in self.snapshot.nodes:
            count = state.spec.cards.count if state.spec.cards else 0
            rooms[state.spec.name] = Room(state.spec.cpu, state.spec.memory, [WHOLE] * count)
        for use in self.uses:
            for seat in use.seats:
                room = rooms[seat.node]
                room.cpu, room.memory = room.cpu - use.job.cpu, room.memory - use.job.memory
                for card in seat.cards:
                    room.free[card] -= seat.milli
                if use.job.id in numbers:
                    room.seated[numbers[use.job.id]] = (seat.cards, seat.milli)
        return list(rooms.values())

    # -- rules

    @cached_property
    def firm(self) -> bool:
        """Whether the guarantee lets the claim run at all (§1: nothing that may not be stopped on borrowed cards)."""
        if self.claim.preemptible:
            return True
        there = sum(use.milli for use in self.uses if use.job.queue == self.claim.queue and not use.job.preemptible)
        guarantee = self.book.guarantee(self.claim.queue)
        return all(there + self.use.milli <= guarantee[name] for name in self.use.names)

    @cached_property
    def caps(self) -> list[tuple[str, int]]:
        """Queues whose cap stands in the way, with the milli-cards that must go from under them."""
        usage = self.book.usage(self.uses)
        lacks = []
        for queue in queue_ancestors(self.claim.queue):
            over = max(usage[queue][name] + self.use.milli - self.book.cap(queue, name) for name in self.use.names)
            if over > 0:
                lacks.append((queue, over))
        return lacks

    def views(self) -> Iterator[View]:
        """Every selection of own victims that the ranks permit."""
        for bits in range(1 << len(self.own)):
            view = self.view(frozenset(number for place, number in enumerate(self.own) if bits >> place & 1))
            if view is not None:
                yield view

    def view(self, own: frozenset[int]) -> View | None:
        if own not in self._views:
            self._views[own] = self._view(own)
        return self._views[own]

    def _view(self, own: frozenset[int]) -> View | None:
        gone = {self.candidates[number].job.id for number in own}
        ranks = self.book.ranks([use for use in self.uses if use.job.id not in gone], self.use)
        claim = ranks[self.claim.id]
        found: dict[int, Rank] = {}
        for number, use in enumerate(self.candidates):
            if number in self.own:
                rank = self.base[use.job.id]
                permitted = rank >= claim
            else:
                rank = ranks[use.job.id]
                permitted = rank > claim and (
                    rank is not Rank.FAMILY or claim is Rank.GUARANTEED or use.tenant == self.use.tenant
                )
            if permitted and self._old(use, claim):
                found[number] = rank
        return View(own, found) if own <= set(found) else None

    def _old(self, use: Use, claim: Rank) -> bool:
        started = use.job.submitted if use.job.started is None else use.job.started
        return claim < Rank.BORROWED_PROD or self.snapshot.now - started >= self.snapshot.settings.min_runtime

    # -- room

    def enough(self, gone: frozenset[int]) -> bool:
        """Whether the claim fits when these candidates are gone."""
        for queue, over in self.caps:
            if sum(self.candidates[n].milli for n in gone if self.under(n, queue)) < over:
                return False
        return sum(self._fits(room, gone) for room in self.rooms) >= self.claim.nodes

    def under(self, number: int, queue: str) -> bool:
        return queue in queue_ancestors(self.candidates[number].job.queue)

    def _fits(self, room: Room, gone: frozenset[int]) -> bool:
        here = [number for number in room.seated if number in gone]
        cpu = room.cpu + sum(self.candidates[number].job.cpu for number in here)
        memory = room.memory + sum(self.candidates[number].job.memory for number in here)
        if cpu < self.claim.cpu or memory < self.claim.memory:
            return False
        free = list(room.free)
        for number in here:
            cards, milli = room.seated[number]
            for card in cards:
                free[card] += milli
        want = self.claim.gpu.milli
        if want >= WHOLE:
            return free.count(WHOLE) >= want // WHOLE
        return want == 0 or max(free) >= want

    def movable(self, view: View, tier: Rank) -> frozenset[int]:
        """The own victims of a selection, and everybody of other leaves whose rank the tier lets go."""
        others = (n for n, rank in view.ranks.items() if rank >= tier and n not in self.own)
        return view.own | frozenset(others)

    # -- cost

    def lost(self, number: int) -> int:
        """Milli-card-seconds since the last saved moment, or since the start; at most an hour's."""
        job = self.candidates[number].job
        started = job.submitted if job.started is None else job.started
        saved = started if job.checkpointed is None else job.checkpointed
        seconds = min(self.snapshot.now - saved, self.snapshot.settings.lost_work_cap)
        return self.candidates[number].milli * seconds

    def lower(self, number: int, view: View, tier: Rank) -> frozenset[int]:
        """Candidates of the same leaf with lower priority, of ranks that the tier allows to go."""
        job = self.candidates[number].job
        return frozenset(
            other
            for other, rank in view.ranks.items()
            if rank >= tier
            and self.candidates[other].job.queue == job.queue
            and self.candidates[other].job.priority < job.priority
        )

    def cost(self, gone: frozenset[int]) -> Cost | None:
        """The tuple of a set, or None if it does not count."""
        view = self.view(frozenset(number for number in gone if number in self.own))
        if view is None or not gone <= set(view.ranks) or not self.minimal(gone):
            return None
        tier = min(view.ranks[number] for number in gone)
        inversions = sum(self.inverted(number, gone, view, tier) for number in gone)
        lost = sum(self.lost(number) for number in gone)
        milli = sum(self.candidates[number].milli for number in gone)
        return Rank.OPPORTUNISTIC - tier, inversions, lost, milli, len(gone)

    def inverted(self, number: int, gone: frozenset[int], view: View, tier: Rank) -> bool:
        lower = self.lower(number, view, tier)
        return bool(lower) and self.enough((gone - {number}) | lower)

    def minimal(self, gone: frozenset[int]) -> bool:
        return self.enough(gone) and not any(self.enough(gone - {number}) for number in gone)


@dataclass(frozen=True, slots=True)
class Best:
    """The best set (indexes of candidates) and its tuple."""

    cost: Cost
    gone: frozenset[int]


def best_brute(case: Case) -> Best | None:
    """Every set of candidates, one by one; for a dozen candidates."""
    best: Best | None = None
    if not case.firm:
        return None
    for bits in range(1, 1 << len(case.candidates)):
        gone = frozenset(number for number in range(len(case.candidates)) if bits >> number & 1)
        cost = case.cost(gone) if case.enough(gone) else None
        if cost is not None and (best is None or cost < best.cost):
            best = Best(cost, gone)
    return best
