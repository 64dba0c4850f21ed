"""A reservation while a pass goes on: whom it binds, and what it leaves to them (scheduling §5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millpond.domain.amounts import CARD
from millpond.scheduling.decisions import Rank
from millpond.scheduling.pool import View, view_make
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job, Seat, Settings
from millpond.scheduling.tasks import Task, behind, reclaimable

_SHUT = -(1 << 40)
"""Free on a card that an eviction must not make free: no victim brings it above zero."""


@dataclass(slots=True)
class Left:
    """What a reservation leaves of one node to those whom it binds.

    ``cards``: milli-cards of each card that is reserved whole or in part; ``slices``: masks of the slots that are
    reserved, by card.  CPU and memory are None where the reserved job asks for none.
    """

    cards: dict[int, int]
    slices: dict[int, list[int]]
    cpu: int | None
    memory: int | None

    def take(self, job: Job, seat: Seat, sign: int) -> None:
        for card in seat.cards:
            if card in self.cards:
                self.cards[card] -= seat.milli * sign
        if self.cpu is not None:
            self.cpu -= job.cpu * sign
        if self.memory is not None:
            self.memory -= job.memory * sign

    def mask(self, view: View, *, shut: bool = False) -> View:
        """`view` without what is reserved; ``shut`` keeps the cards closed whoever is evicted from them."""
        free = list(view.free)
        for card, left in self.cards.items():
            free[card] = _SHUT if shut else min(free[card], left)
            if view.slices is not None and view.slices[card]:
                free[card] -= CARD  # beside what is divided now comes somebody who is no slice: no more slices there
        slices = view.slices
        if self.slices:
            slices = [[] for _ in free] if slices is None else [list(masks) for masks in slices]
            for card, masks in self.slices.items():
                slices[card].extend(masks)
                free[card] -= CARD * len(masks)
        cpu = view.cpu if self.cpu is None else min(view.cpu, self.cpu)
        memory = view.memory if self.memory is None else min(view.memory, self.memory)
        return view_make(view.room, free, cpu, memory, slices)


@dataclass(eq=False, slots=True)
class Kept:
    """``rank`` is that of the claim; ``rooms`` by name of the node; ``serial`` tells the reservations of a state apart.

    ``early``: its job has waited so long that it counts as the first of its rank, and has not been judged yet; until
    then only smaller jobs are bound.  ``broken``: somebody whom it does not bind has taken of it since.
    """

    serial: int
    job: Job
    leaf: Queue
    rank: Rank
    model: str
    time: int
    seats: tuple[Seat, ...]
    rooms: dict[str, Left]
    early: bool = False
    broken: bool = False
    taken: set[str] = field(default_factory=set)
    """Jobs seated since on its nodes that will still be there then."""

    def same(self, other: Kept) -> bool:
        """Whether two reservations leave the same to others."""
        mine = (self.job.id, self.model, self.time, self.rank, self.early)
        return mine == (other.job.id, other.model, other.time, other.rank, other.early) and self.seats == other.seats

    def binds(
        self, job: Job, leaf: Queue, rank: Rank, now: int, settings: Settings, cooling: Mapping[tuple[str, str], int]
    ) -> bool:
        """Whether a job must stay off: not of higher rank, not gone by the time, and not to be evicted then."""
        if job.id == self.job.id or rank < self.rank:
            return False
        if self.early and job_size(job) >= job_size(self.job):
            return False
        if job.max_duration is not None and now + job.max_duration <= self.time:
            return False
        if not job.preemptible:
            return True
        if leaf is self.leaf:
            may = behind(job, self.job)
        else:
            may = reclaimable(rank, self.rank, family=leaf.tenant is self.leaf.tenant)
        safe = self.rank >= Rank.BORROWED_PROD and (
            now + settings.min_runtime > self.time or cooling.get((self.leaf.name, leaf.name), now) > self.time
        )
        return safe or not may

    def seated(self, task: Task, *, bound: bool, above: bool) -> None:
        """A task has got seats since the reservation was made; ``above``: by its rank, which may upset it."""
        for seat in task.seats:
            left = self.rooms.get(seat.node)
            if left is None:
                continue
            self.broken |= above or (self.early and not bound)
            if bound:
                self.taken.add(task.id)
                left.take(task.job, seat, 1)

    def unseated(self, task: Task) -> None:
        """It has lost them again."""
        if task.id in self.taken:
            self.taken.discard(task.id)
            for seat in task.seats:
                left = self.rooms.get(seat.node)
                if left is not None:
                    left.take(task.job, seat, -1)


def job_size(job: Job) -> int:
    """A measure of what a job asks for in all, to tell the smaller of two."""
    return job.gpu.milli_min * max(1, job.gpu.slices) * job.nodes
