"""Who could be asked to leave, as arrays over the pool: which nodes could come free, how cheaply (scheduling §3).

A storm has tens of thousands of candidates and needs a handful of nodes.  Here every node is judged at once by integers
that are never too high: what its cards would offer if all candidates left, and the least lost work that could free it.
Only the most promising nodes are then looked at one by one (`victims`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask
from millpond.scheduling.pool import Pool, Room
from millpond.scheduling.quota import Queue
from millpond.scheduling.tasks import Kind, Task

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NOBODY = -1
"""The rank of who must not be asked to leave."""

DEAR: Final = 1 << 50
"""More than any lost work."""

_NO_CARD: Final = -(1 << 40)

_RANK, _BEGIN, _FIXED, _MILLI, _CARDS, _LEAF, _TENANT, _PRIORITY = range(8)
"""Rows of a task's numbers: rank; since when work is lost, or how many seconds in any case (else -1); milli-cards;
cards over all nodes; leaf and tenant by index; priority."""

_SLOT, _CARD, _TAKEN = range(3)
"""Rows of a seat's card: whose, which, how much."""


class Stock:
    """See the module.  Brought up to date by `renew`; ``moved`` are the tasks that have changed since."""

    def __init__(self, pool: Pool, tasks: Iterable[Task]) -> None:
        self._pool = pool
        self._width = max((room.kind.count for room in pool.rooms), default=0) or 1
        self.moved: dict[str, Task] = {task.id: task for task in tasks}
        self._slots: dict[str, int] = {}
        self._there: list[Task | None] = [None]
        self._ranks: list[int] = [NOBODY]
        self._lines: list[list[int]] = [[]]
        self._spare_slots: list[int] = []
        self._spare_lines: list[int] = []
        self._lines_used = 0
        self._numbers: Ints = np.full((8, 1024), NOBODY, dtype=np.int64)
        self._cards: Ints = np.zeros((3, 1024), dtype=np.int64)
        self._soon: Ints = np.full((len(pool.rooms), self._width), _NO_CARD, dtype=np.int64)
        self._stale = set(range(len(pool.rooms)))
        self._ranked: set[int] = set()
        """Slots, and below lines, that are not in the arrays yet: these are written in one go."""
        self._fresh: dict[int, tuple[int, ...]] = {}
        self._drawn: dict[int, tuple[int, int, int]] = {}
        self._walks: dict[Queue, Mapping[str, Rank]] = {}
        self._where: dict[tuple[CardRequest, str], Ints] = {}
        self.sliced = False
        """Whether slices sit somewhere: they need more than sums."""

    # -- keeping up

    def renew(self, tasks: Mapping[str, Task], walks: Mapping[Queue, Mapping[str, Rank]]) -> None:
        """Take in what has moved; ``walks`` are the ranks of every tenant."""
        again: dict[str, Task] = {}
        for name, task in self.moved.items():
            self._drop(name)
            self._touch(task)
            now = tasks.get(name)
            if now is not None and now.job.preemptible:
                self._put(now)
                again[name] = now
        self.moved.clear()
        for tenant, ranks in walks.items():
            if self._walks.get(tenant) is not ranks:
                self._walks[tenant] = ranks
                for name, rank in ranks.items():
                    self._rank_set(self._slots.get(name, 0), rank)
        for name, task in again.items():
            self._rank_set(self._slots[name], walks[task.leaf.tenant].get(name, NOBODY) if task.ranked else NOBODY)
        self._write()
        rooms = self._pool.rooms
        for index in self._stale:
            view = rooms[index].soon()
            self.sliced = self.sliced or view.slices is not None
            self._soon[index, : len(view.free)] = view.free
        self._stale.clear()

    def _write(self) -> None:
        """Bring the arrays up to date."""
        while self._numbers.shape[1] < len(self._there):
            self._numbers = np.concatenate([self._numbers, np.full_like(self._numbers, NOBODY)], axis=1)
        while self._cards.shape[1] < self._lines_used:
            self._cards = np.concatenate([self._cards, np.zeros_like(self._cards)], axis=1)
        if self._fresh:
            self._numbers[1:, [*self._fresh]] = np.array([*self._fresh.values()], dtype=np.int64).T
            self._fresh.clear()
        if self._drawn:
            self._cards[:, [*self._drawn]] = np.array([*self._drawn.values()], dtype=np.int64).T
            self._drawn.clear()
        if self._ranked:
            slots = [*self._ranked]
            self._numbers[_RANK, slots] = [self._ranks[slot] for slot in slots]
            self._ranked.clear()

    def room_set(self, room: Room) -> None:
        """A node is in another state now."""
        self._stale.add(room.index)
        self._where.clear()

    def _rank_set(self, slot: int, rank: int) -> None:
        if slot and self._ranks[slot] != rank:
            self._ranks[slot] = rank
            self._ranked.add(slot)

    def _touch(self, task: Task) -> None:
        for seat in task.seats:
            room = self._pool.by_name.get(seat.node)
            if room is not None:
                self._stale.add(room.index)

    def _drop(self, name: str) -> None:
        slot = self._slots.pop(name, 0)
        if not slot:
            return
        task = self._there[slot]
        if task is not None:
            self._touch(task)
        self._there[slot] = None
        self._rank_set(slot, NOBODY)
        for line in self._lines[slot]:
            self._drawn[line] = (0, 0, 0)
        self._spare_lines.extend(self._lines[slot])
        self._lines[slot] = []
        self._spare_slots.append(slot)

    def _put(self, task: Task) -> None:
        if self._spare_slots:
            slot = self._spare_slots.pop()
        else:
            slot = len(self._there)
            self._there.append(None)
            self._ranks.append(NOBODY)
            self._lines.append([])
        self._slots[task.id] = slot
        self._there[slot] = task
        self._touch(task)
        job = task.job
        begin, fixed = 0, -1
        if task.kind is not Kind.RUNNING:
            fixed = 0
        elif job.saves_on_signal:
            fixed = job.grace
        else:
            saved = job.checkpointed if job.checkpointed is not None else job.started
            begin, fixed = (saved, -1) if saved is not None else (0, 0)
        cards = 0
        for seat in task.seats:
            room = self._pool.by_name.get(seat.node)
            for card in seat.cards if room is not None else ():
                cards += 1
                if room is not None and card < room.kind.count:
                    self._line(slot, room.index * self._width + card, seat.milli)
        self._fresh[slot] = (
            begin, fixed, task.milli, max(1, cards), task.leaf.index, task.leaf.tenant.index, job.priority,
        )  # fmt: skip

    def _line(self, slot: int, card: int, milli: int) -> None:
        if self._spare_lines:
            line = self._spare_lines.pop()
        else:
            line = self._lines_used
            self._lines_used += 1
        self._lines[slot].append(line)
        self._drawn[line] = (slot, card, milli)

    # -- asking

    def where(self, gpu: CardRequest, model: str, rooms: list[Room]) -> Ints:
        """The indexes of the rooms of a model that a request may use."""
        found = self._where.get((gpu, model))
        if found is None:
            found = self._where[gpu, model] = np.array([room.index for room in rooms], dtype=np.int64)
        return found

    def eligible(
        self,
        claim: Rank,
        leaf: Queue,
        own: Iterable[tuple[Rank, Task]],
        others: Iterable[tuple[str, Rank]],
        safe: Iterable[str],
    ) -> Ints:
        """The rank of everybody who may leave for a claim of a leaf, by slot; `NOBODY` for the rest.

        ``own`` are the candidates of its leaf; ``others`` rank otherwise once the claim is there; ``safe`` must stay.
        """
        count = len(self._there)
        ranks = self._numbers[_RANK, :count].copy()
        for name, rank in others:
            slot = self._slots.get(name, 0)
            if slot and self._ranks[slot] != NOBODY:
                ranks[slot] = rank
        keep = (ranks > claim) & (self._numbers[_LEAF, :count] != leaf.index)
        if claim is not Rank.GUARANTEED:
            keep &= (ranks != Rank.FAMILY) | (self._numbers[_TENANT, :count] == leaf.tenant.index)
        found: Ints = np.where(keep, ranks, NOBODY)
        if claim is Rank.OPPORTUNISTIC:
            found[:] = NOBODY
        for rank, task in own:
            found[self._slots[task.id]] = rank
        for name in safe:
            found[self._slots.get(name, 0)] = NOBODY
        found[0] = NOBODY
        return found

    def rank_of(self, task: Task, eligible: Ints) -> int:
        """The rank of one of them in `eligible`."""
        slot = self._slots.get(task.id, 0)
        return int(eligible[slot]) if slot else NOBODY

    def rooms_of(self, task: Task) -> list[Room]:
        """Where it sits."""
        names = self._pool.by_name
        return [names[seat.node] for seat in task.seats if seat.node in names]

    def lower(self, eligible: Ints, least: int, leaf: Queue, priority: int) -> Flags:
        """Who of a leaf has a lower priority, of those of rank `least` and more."""
        numbers = self._numbers[:, : len(eligible)]
        found: Flags = (eligible >= least) & (numbers[_LEAF] == leaf.index) & (numbers[_PRIORITY] < priority)
        return found

    def free(self, leaving: Flags, where: Ints) -> Ints:
        """What the cards of the rooms `where` offer when they leave."""
        cards = self._cards[:, : self._lines_used]
        gone = leaving[cards[_SLOT]]
        size = self._soon.size
        taken = np.bincount(cards[_CARD, gone], weights=cards[_TAKEN, gone], minlength=size).astype(np.int64)
        found: Ints = (self._soon + taken.reshape(self._soon.shape))[where]
        return found

    def least(self, leaving: Flags, free: Ints, where: Ints, ask: Ask, now: int, cap: int) -> Ints:
        """No less lost work frees each room of `where`; `free` is what they offer when all of `leaving` leave."""
        numbers = self._numbers[:, : len(leaving)]
        seconds = np.where(numbers[_FIXED] >= 0, numbers[_FIXED], now - numbers[_BEGIN])
        shares = numbers[_MILLI] * np.clip(seconds, 0, cap) // np.maximum(numbers[_CARDS], 1)
        cards = self._cards[:, : self._lines_used]
        gone = np.flatnonzero(leaving[cards[_SLOT]])
        card, share = cards[_CARD, gone], shares[cards[_SLOT, gone]]
        if ask.whole:
            lost = np.bincount(card, weights=share, minlength=self._soon.size).astype(np.int64)
            price = np.where(free == CARD, lost.reshape(self._soon.shape)[where], DEAR)
            most = min(ask.whole, self._width)
            cheapest: Ints = np.partition(price, most - 1, axis=1)[:, :most].sum(axis=1)
            return cheapest
        each = np.full(self._soon.size, DEAR, dtype=np.int64)
        np.minimum.at(each, card, share)
        soon = self._soon[where]
        price = np.where(soon >= ask.milli, 0, np.where(free >= ask.milli, each.reshape(self._soon.shape)[where], DEAR))
        best: Ints = price.min(axis=1)
        return best


def rooms_fit(free: Ints, ask: Ask) -> Flags:
    """Which rooms have the cards that an ask for cards wants."""
    if ask.whole:
        whole: Flags = (free == CARD).sum(axis=1) >= ask.whole
        return whole
    share: Flags = np.max(free, axis=1, initial=_NO_CARD) >= ask.milli
    return share
