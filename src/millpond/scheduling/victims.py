"""Whom a claim may evict, numbered, and the rooms where they sit: which sets of them are enough (scheduling §3).

A set of victims is a bit mask.  A room can only come free through who sits there, so a set is judged by the rooms of
its members, not by all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from millpond.scheduling.crowds import Price, card_options
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, free_milli, place, view_fits
from millpond.scheduling.pool import View, view_with
from millpond.scheduling.quota import Queue
from millpond.scheduling.sets import EXACT, bits_of, minimal_sets
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task
from millpond.scheduling.usage import CapLack

_LISTED = 12
"""Up to so many candidates on a node all sets that make room there are listed."""

_FEW = 64
"""Of so many victims the rooms are looked up one by one."""


@dataclass(slots=True)
class Node:
    """One open room: what it offers once those who leave have left, and the candidates that sit there.

    ``options`` are the smallest sets that make room there, where they are listed.
    """

    view: View
    seated: list[tuple[int, Seat, Job]]
    options: list[int] = field(default_factory=list)
    mine: int = 0
    known: dict[int, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, _, _ in self.seated:
            self.mine |= 1 << number

    def fits(self, mask: int, ask: Ask) -> bool:
        """Whether the candidates of `mask` make room here."""
        mine = mask & self.mine
        found = self.known.get(mine)
        if found is None:
            freed = [(seat, job) for number, seat, job in self.seated if mine >> number & 1]
            found = self.known[mine] = view_fits(view_with(self.view, freed), ask)
        return found

    def freed(self, mask: int) -> View:
        """What it offers without the victims of `mask`."""
        if not mask & self.mine:
            return self.view
        return view_with(self.view, [(seat, job) for number, seat, job in self.seated if mask >> number & 1])


class Victims:
    """The candidates of one tier that can matter: those on rooms that they can free, or under a full cap."""

    def __init__(
        self,
        state: State,
        leaf: Queue,
        ask: Ask,
        model: str,
        lacks: list[CapLack],
        chosen: list[tuple[Rank, Task]],
        views: list[View],
    ) -> None:
        self._state, self._leaf, self._ask, self._model, self._lacks = state, leaf, ask, model, lacks
        rooms, useful = self._rooms(chosen, views)
        for lack in lacks:
            useful.update(task.id for _, task in chosen if lack.queue in task.leaf.path and lack.dim in task.dims)
        kept = sorted((task.id, rank, task) for rank, task in chosen if task.id in useful)
        self.tasks = [task for _, _, task in kept]
        self.ranks = [rank for _, rank, _ in kept]
        self.lost = [state.lost(task) for task in self.tasks]
        self.everybody = (1 << len(self.tasks)) - 1
        self._freed = [[self._cap_freed(task, lack) for task in self.tasks] for lack in lacks]
        self._lower: dict[tuple[Queue, int], int] = {}
        self._enough: dict[int, bool] = {}
        self._prices: dict[int, Price] = {}
        index = {task.id: number for number, task in enumerate(self.tasks)}
        self.nodes = [
            Node(view, [(index[task.id], seat, task.job) for task, seat in here if task.id in index])
            for view, here in rooms
        ]
        self.ready: list[Node] = []
        """Rooms that fit without any victim."""
        self.choices: list[Node] = []
        """Rooms with their options; ``crowded`` are those with too many sets to list, which are asked each time."""
        self.crowded: list[Node] = []
        self._sort()
        self._where: dict[int, list[Node]] = {}
        for node in self.nodes:
            for number, _, _ in node.seated:
                self._where.setdefault(number, []).append(node)

    def _rooms(
        self, chosen: list[tuple[Rank, Task]], views: list[View]
    ) -> tuple[list[tuple[View, list[tuple[Task, Seat]]]], set[str]]:
        """The rooms that fit or can be made to, with who sits there, and the ids of those who can make one fit."""
        seated: dict[str, list[tuple[Task, Seat]]] = {}
        for _, task in chosen:
            for seat in task.seats:
                seated.setdefault(seat.node, []).append((task, seat))
        useful: set[str] = set()
        rooms: list[tuple[View, list[tuple[Task, Seat]]]] = []
        for view in views:
            here = seated.get(view.room.name, [])
            if not view_fits(view, self._ask):
                if not here or not view_fits(view_with(view, [(seat, task.job) for task, seat in here]), self._ask):
                    continue
                useful.update(task.id for task, _ in here)
            rooms.append((view, here))
        return rooms, useful

    def _sort(self) -> None:
        for node in self.nodes:
            if view_fits(node.view, self._ask):
                self.ready.append(node)
            elif len(self.tasks) <= EXACT and len(node.seated) > _LISTED:
                self.crowded.append(node)
            else:
                node.options = self._options(node)
                self.choices.append(node)

    def _options(self, node: Node) -> list[int]:
        """The smallest sets of candidates that make room on one node."""

        def enough(mask: int) -> bool:
            return node.fits(mask, self._ask)

        bits = bits_of(node.mine)
        if len(bits) == 1:
            return bits
        if len(bits) <= _LISTED:
            return minimal_sets(bits, enough)
        groups: dict[int, int] = {}
        for number, seat, _ in node.seated:
            for card in seat.cards or (-1,):
                groups[card] = groups.get(card, 0) | 1 << number
        single = max(self._ask.whole, self._ask.slices) <= 1
        return card_options([*groups.values()], single=single, price=self.price, enough=enough)

    def rooms_of(self, mask: int) -> list[Node]:
        """The rooms where a victim of `mask` sits, each once; of many victims all rooms."""
        if mask.bit_count() > _FEW:
            return self.nodes
        found: dict[int, Node] = {}
        for bit in bits_of(mask):
            for node in self._where.get(bit.bit_length() - 1, ()):
                found[node.view.room.index] = node
        return [*found.values()]

    # -- what is enough

    def enough(self, mask: int) -> bool:
        """Whether the victims of `mask` make room for the whole claim, under every cap."""
        known = self._enough.get(mask)
        if known is None:
            known = self._enough[mask] = self._caps_enough(mask) and self._rooms_enough(mask) and self._lent(mask)
        return known

    def _caps_enough(self, mask: int) -> bool:
        if not self._lacks:
            return True
        numbers = [bit.bit_length() - 1 for bit in bits_of(mask)]
        return all(
            sum(freed[number] for number in numbers) >= lack.deficit
            for lack, freed in zip(self._lacks, self._freed, strict=True)
        )

    def _cap_freed(self, task: Task, lack: CapLack) -> int:
        """Usage that ends with a task.

        The victims of a hold count again when it ends, but for those who are sure to leave: the new hold takes them
        over where a cap asks for it.
        """
        tasks = self._state.tasks
        back = [other for name in task.victims if (other := tasks.get(name)) and other.kind is not Kind.DRAINING]
        return sum(
            other.milli if other is task else -other.milli
            for other in (task, *back)
            if lack.queue in other.leaf.path and lack.dim in other.dims
        )

    def ready_count(self, mask: int, most: int) -> int:
        """How many rooms with listed options the victims of `mask` free; counts up to `most`."""
        count = 0
        for node in self.rooms_of(mask):
            for option in node.options:
                if not option & ~mask:
                    count += 1
                    break
            if count >= most:
                break
        return count

    def _rooms_enough(self, mask: int) -> bool:
        need = self._ask.nodes - len(self.ready)
        if need > 0:
            need -= self.ready_count(mask, need)
        if need > 0 and sum(1 for node in self.crowded if node.fits(mask, self._ask)) < need:
            return False
        if not self._ask.require or self._ask.linked:
            return True
        return place(self.fitting(mask), self._ask) is not None

    def _lent(self, mask: int) -> bool:
        if not self._state.usage.keeping:
            return True
        returned: dict[Queue, int] = {}
        for bit in bits_of(mask):
            task = self.tasks[bit.bit_length() - 1]
            for queue in task.leaf.path:
                returned[queue] = returned.get(queue, 0) + task.milli

        def free() -> int:
            return free_milli(node.freed(mask) for node in self.nodes)

        return self._state.lend_lack(self._leaf, self._ask.total, self._model, free, returned) == 0

    def fitting(self, mask: int) -> Iterator[View]:
        """The views of all rooms that may fit once the victims of `mask` have left."""
        touched = {node.view.room.index for node in self.rooms_of(mask)}
        for node in self.nodes:
            if node.view.room.index in touched:
                yield node.freed(mask)
            elif not node.options:
                yield node.view

    # -- what it costs

    def price(self, mask: int) -> Price:
        """Highest rank from below, lost work and milli-cards of the victims of `mask`."""
        known = self._prices.get(mask)
        if known is None:
            rank = lost = milli = 0
            for bit in bits_of(mask):
                number = bit.bit_length() - 1
                rank = max(rank, Rank.OPPORTUNISTIC - self.ranks[number])
                lost, milli = lost + self.lost[number], milli + self.tasks[number].milli
            known = self._prices[mask] = (rank, lost, milli)
        return known

    def own(self, mask: int) -> frozenset[str]:
        """The ids of the victims of `mask` that are of the claim's own leaf."""
        tasks = (self.tasks[bit.bit_length() - 1] for bit in bits_of(mask))
        return frozenset(task.id for task in tasks if task.leaf is self._leaf)

    def inversions(self, mask: int) -> int:
        """How many victims could be spared by evicting instead only lower-priority candidates of their leaf."""
        return sum(1 for bit in bits_of(mask) if (lower := self.lower(bit)) and self.enough(mask & ~bit | lower))

    def lower(self, bit: int) -> int:
        """The candidates of the same leaf with a lower priority, as a mask."""
        victim = self.tasks[bit.bit_length() - 1]
        key = (victim.leaf, victim.job.priority)
        found = self._lower.get(key)
        if found is None:
            found = 0
            for number, task in enumerate(self.tasks):
                if task.leaf is victim.leaf and task.job.priority < victim.job.priority:
                    found |= 1 << number
            self._lower[key] = found
        return found
