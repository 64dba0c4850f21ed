"""The few nodes of a large pool that a claim's eviction needs, found by bounds instead of one by one (scheduling §3).

What is left out can cost no less than ``horizon``.  A choice that has to look beyond it asks for more nodes, until all
are there; so the result is that of a look at everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, view_fits
from millpond.scheduling.pool import Room, View, view_with
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Settings
from millpond.scheduling.stock import NOBODY, Flags, Ints, Stock, rooms_fit
from millpond.scheduling.tasks import Task

Sitting = Callable[[Room], list[Task]]


@dataclass(frozen=True, slots=True)
class Picked:
    """Nodes in natural order; the others cost at least ``horizon`` in lost work, None if none are."""

    views: list[View]
    chosen: list[tuple[Rank, Task]]
    horizon: int | None
    far: Callable[[Task], int] | None
    """How many of the others the less important candidates of a task's leaf free."""


class Narrow:
    """One claim on the rooms of one model."""

    def __init__(
        self, stock: Stock, eligible: Ints, rooms: list[Room], where: Ints, ask: Ask, sitting: Sitting
    ) -> None:
        self._stock, self._eligible, self._rooms, self._where = stock, eligible, rooms, where
        self._ask, self._sitting = ask, sitting
        self._place = {room.index: place for place, room in enumerate(rooms)}
        self._ready: Flags = rooms_fit(stock.free(eligible > Rank.OPPORTUNISTIC, where), ask)
        """Rooms that have the cards without anybody's leaving."""
        self._open: dict[int, Flags] = {}

    def ready(self) -> int:
        """How many rooms have the cards already."""
        return int(self._ready.sum())

    def tiers(self) -> list[Rank]:
        """The ranks of those who may leave, the lowest first."""
        return [
            Rank(rank)
            for rank in sorted({int(rank) for rank in np.unique(self._eligible)}, reverse=True)
            if rank > NOBODY
        ]

    def count(self, tier: Rank) -> int:
        """At most so many rooms fit when all of rank `tier` and lower leave."""
        self._open[tier] = rooms_fit(self._stock.free(self._eligible >= tier, self._where), self._ask)
        return int(self._open[tier].sum())

    def pick(self, tier: Rank, size: int, now: int, settings: Settings) -> Picked:
        """The `size` cheapest rooms of a tier, with all that cost a lower rank or nothing."""
        leaving: Flags = self._eligible >= tier
        fits = self._open[tier]
        sooner = self._ready.copy()
        for other, flags in self._open.items():
            if other > tier:
                sooner |= flags
        free = self._stock.free(leaving, self._where)
        least = self._stock.least(leaving, free, self._where, self._ask, now, settings.lost_work_cap)
        order = np.flatnonzero(fits & ~sooner)
        order = order[np.argsort(least[order], kind="stable")]
        taken = sooner & fits
        taken[order[:size]] = True
        chosen = self._together(taken, fits, tier)
        rest = np.flatnonzero(fits & ~taken)
        views = [self._rooms[place].soon() for place in np.flatnonzero(taken).tolist()]
        if not len(rest):
            return Picked(views, chosen, None, None)
        return Picked(views, chosen, int(least[rest].min()), self._far(tier, rest))

    def _together(self, taken: Flags, fits: Flags, tier: Rank) -> list[tuple[Rank, Task]]:
        """Who may leave the rooms `taken`, with every room that a gang among them sits in too."""
        found: dict[str, tuple[Rank, Task]] = {}
        todo = np.flatnonzero(taken).tolist()
        while todo:
            for task in self._sitting(self._rooms[todo.pop()]):
                rank = self._stock.rank_of(task, self._eligible)
                if rank < tier or task.id in found:
                    continue
                found[task.id] = (Rank(rank), task)
                for place in self._places(task) if len(task.seats) > 1 else ():
                    if fits[place] and not taken[place]:
                        taken[place] = True
                        todo.append(place)
        return list(found.values())

    def _places(self, task: Task) -> list[int]:
        rooms = self._stock.rooms_of(task)
        return [place for room in rooms if (place := self._place.get(room.index)) is not None]

    def _far(self, tier: Rank, rest: Ints) -> Callable[[Task], int]:
        known: dict[tuple[Queue, int], int] = {}

        def far(task: Task) -> int:
            key = (task.leaf, task.job.priority)
            found = known.get(key)
            if found is None:
                found = known[key] = self._freed_by(task, tier, rest)
            return found

        return far

    def _freed_by(self, task: Task, tier: Rank, rest: Ints) -> int:
        lower = self._stock.lower(self._eligible, tier, task.leaf, task.job.priority)
        free = rest[rooms_fit(self._stock.free(lower, self._where[rest]), self._ask)].tolist()
        if not (self._ask.cpu or self._ask.memory):
            return len(free)
        return sum(self._fits(self._rooms[place], task, tier) for place in free)

    def _fits(self, room: Room, task: Task, tier: Rank) -> bool:
        """Whether a room fits when those of the task's leaf leave it that are less important."""
        gone = [
            (seat, other.job)
            for other in self._sitting(room)
            if other.leaf is task.leaf
            and other.job.priority < task.job.priority
            and self._stock.rank_of(other, self._eligible) >= tier
            for seat in other.seats
            if seat.node == room.name
        ]
        return view_fits(view_with(room.soon(), gone), self._ask)
