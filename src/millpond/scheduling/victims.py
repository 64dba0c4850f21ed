"""Whom a claim may evict, numbered, and the rooms where they sit: which sets of them are enough (scheduling §3).

A set of victims is a bit mask.  A room can only come free through who sits there, so a set is judged by the rooms of
its members, not by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from millpond.domain.amounts import CARD
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

LISTED = 12
"""Up to so many candidates on a node all sets that make room there are listed."""

_FEW = 64
"""Of so many victims the rooms are looked up one by one."""


class Node:
    """One open room: what it offers once those who leave have left, and the candidates that sit there.

    ``options`` are the smallest sets that make room there, where they are listed.
    """

    __slots__ = ("_ask", "_cards", "_idle", "_known", "_largest", "_numbers", "mine", "options", "seated", "view")

    def __init__(self, view: View, seated: list[tuple[int, Seat, Job]], ask: Ask) -> None:
        self.view = view
        self.seated = seated
        self.options: list[int] = []
        self.mine = 0
        for number, _, _ in seated:
            self.mine |= 1 << number
        self._ask = ask
        self._numbers = sorted({number for number, _, _ in seated})
        self._known: dict[int, bool] = {}
        self._cards: list[tuple[int, list[tuple[int, int]]]] = []
        self._idle = self._largest = 0
        self._cards_make()

    def _cards_make(self) -> None:
        """Of each card where candidates sit what is free, and the local bit and milli-cards of each of them."""
        takers: dict[int, list[tuple[int, int]]] = {}
        for number, seat, _ in self.seated:
            for card in seat.cards:
                takers.setdefault(card, []).append((1 << self._numbers.index(number), seat.milli))
        for card, free in enumerate(self.view.free):
            if card in takers:
                self._cards.append((free, takers[card]))
            else:
                self._idle += free == CARD
                self._largest = max(self._largest, free)

    @property
    def count(self) -> int:
        """How many candidates sit here."""
        return len(self._numbers)

    def mask(self, local: int) -> int:
        """The mask of candidates that are numbered within this room."""
        mask = 0
        for index, number in enumerate(self._numbers):
            if local >> index & 1:
                mask |= 1 << number
        return mask

    def local(self, mask: int) -> int:
        """The candidates of `mask` that sit here, numbered within this room."""
        found = 0
        if mask & self.mine:
            for index, number in enumerate(self._numbers):
                if mask >> number & 1:
                    found |= 1 << index
        return found

    def fits(self, local: int) -> bool:
        """Whether those candidates make room here."""
        found = self._known.get(local)
        if found is None:
            ask = self._ask
            if ask.slice or ask.linked or self.view.slices is not None:
                found = view_fits(self.freed(self.mask(local)), ask)
            else:
                found = self._rest_fits(local) and self._cards_fit(local)
            self._known[local] = found
        return found

    def _rest_fits(self, local: int) -> bool:
        ask = self._ask
        if not (ask.cpu or ask.memory):
            return True
        cpu, memory = self.view.cpu, self.view.memory
        for number, _, job in self.seated:
            if local >> self._numbers.index(number) & 1:
                cpu, memory = cpu + job.cpu, memory + job.memory
        return (not ask.cpu or cpu >= ask.cpu) and (not ask.memory or memory >= ask.memory)

    def _cards_fit(self, local: int) -> bool:
        ask, idle, largest = self._ask, self._idle, self._largest
        for free, takers in self._cards:
            for bit, milli in takers:
                if local & bit:
                    free += milli
            if free == CARD:
                idle += 1
            largest = max(largest, free)
        if ask.milli < CARD:
            return ask.milli == 0 or largest >= ask.milli
        return idle >= ask.whole

    def freed(self, mask: int) -> View:
        """What it offers without the victims of `mask`."""
        if not mask & self.mine:
            return self.view
        return view_with(self.view, [(seat, job) for number, seat, job in self.seated if mask >> number & 1])

    def options_list(self, price: Callable[[int], Price], *, single: bool) -> list[int]:
        """The smallest sets of candidates that make room here, or good ones if there are too many to list."""
        bits = [1 << index for index in range(len(self._numbers))]
        if len(bits) == 1:
            return [self.mine]
        if len(bits) <= LISTED:
            return sorted(self.mask(local) for local in minimal_sets(bits, self.fits))
        groups: dict[int, int] = {}
        for number, seat, _ in self.seated:
            for card in seat.cards or (-1,):
                groups[card] = groups.get(card, 0) | 1 << number
        return card_options([*groups.values()], single=single, price=price, enough=self._fits_mask)

    def _fits_mask(self, mask: int) -> bool:
        return self.fits(self.local(mask))


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
        far: Callable[[Task], int] | None = None,
    ) -> None:
        """``far`` tells how many rooms that are not among `views` those less important in a task's leaf free."""
        self._far = far
        self._state, self._leaf, self._ask, self._model, self._lacks = state, leaf, ask, model, lacks
        rooms, useful = self._rooms(chosen, views)
        for lack in lacks:
            useful.update(task.id for _, task in chosen if lack.queue in task.leaf.path and lack.dim in task.dims)
        kept = sorted((task.id, rank, task) for rank, task in chosen if task.id in useful)
        self.tasks = [task for _, _, task in kept]
        self.ranks = [rank for _, rank, _ in kept]
        self._lost: list[int] = []
        """Lost work of each of ``tasks``, once somebody asks."""
        self.everybody = (1 << len(self.tasks)) - 1
        self._freed = [self._amounts(lack) for lack in lacks]
        """Under each cap that lacks, who would free how much: there are few amounts, and so few masks."""
        self._lower: dict[tuple[Queue, int], int] = {}
        self._leaves: dict[Queue, list[int]] = {}
        """The numbers of the candidates of each leaf, once somebody asks."""
        self._enough: dict[int, bool] = {}
        self._prices: dict[int, Price] = {}
        index = {task.id: number for number, task in enumerate(self.tasks)}
        self.nodes = [
            Node(view, [(index[task.id], seat, task.job) for task, seat in here if task.id in index], ask)
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
        single = max(self._ask.whole, self._ask.slices) <= 1
        for node in self.nodes:
            if view_fits(node.view, self._ask):
                self.ready.append(node)
            elif len(self.tasks) <= EXACT and node.count > LISTED:
                self.crowded.append(node)
            else:
                node.options = node.options_list(self.price, single=single)
                self.choices.append(node)

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
        for lack, freed in zip(self._lacks, self._freed, strict=True):
            total = 0
            for amount, those in freed:
                total += amount * (mask & those).bit_count()
            if total < lack.deficit:
                return False
        return True

    def _amounts(self, lack: CapLack) -> list[tuple[int, int]]:
        """Each amount that candidates free under a cap, with the mask of those who do."""
        found: dict[int, int] = {}
        for number, task in enumerate(self.tasks):
            amount = self._cap_freed(task, lack)
            if amount:
                found[amount] = found.get(amount, 0) | 1 << number
        return sorted(found.items())

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
        count, stay = 0, ~mask
        for node in self.choices if len(self.choices) <= EXACT else self.rooms_of(mask):
            for option in node.options:
                if not option & stay:
                    count += 1
                    break
            if count >= most:
                break
        return count

    def _rooms_enough(self, mask: int) -> bool:
        need = self._ask.nodes - len(self.ready)
        if need > 0:
            need -= self.ready_count(mask, need)
        if need > 0 and sum(1 for node in self.crowded if node.fits(node.local(mask))) < need:
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
        """Lost work and milli-cards of the victims of `mask`."""
        known = self._prices.get(mask)
        if known is None:
            if not self._lost:
                self._lost = [self._state.lost(task) for task in self.tasks]
            lost = milli = 0
            for bit in bits_of(mask):
                number = bit.bit_length() - 1
                lost, milli = lost + self._lost[number], milli + self.tasks[number].milli
            known = self._prices[mask] = (lost, milli)
        return known

    def own(self, mask: int) -> frozenset[str]:
        """The ids of the victims of `mask` that are of the claim's own leaf."""
        tasks = (self.tasks[bit.bit_length() - 1] for bit in bits_of(mask))
        return frozenset(task.id for task in tasks if task.leaf is self._leaf)

    def inversions(self, mask: int) -> int:
        """How many victims could be spared by evicting instead only lower-priority candidates of their leaf."""
        return sum(1 for bit in bits_of(mask) if self._inverted(mask, bit))

    def _inverted(self, mask: int, bit: int) -> bool:
        lower = self.lower(bit)
        others = mask & ~bit | lower
        if lower and self.enough(others):
            return True
        more = 0 if self._far is None else self._far(self.tasks[bit.bit_length() - 1])
        nodes = self._ask.nodes
        return more > 0 and len(self.ready) + self.ready_count(others, nodes) + more >= nodes

    def lower(self, bit: int) -> int:
        """The candidates of the same leaf with a lower priority, as a mask."""
        victim = self.tasks[bit.bit_length() - 1]
        key = (victim.leaf, victim.job.priority)
        found = self._lower.get(key)
        if found is None:
            if not self._leaves:
                for number, task in enumerate(self.tasks):
                    self._leaves.setdefault(task.leaf, []).append(number)
            found = 0
            for number in self._leaves[victim.leaf]:
                if self.tasks[number].job.priority < victim.job.priority:
                    found |= 1 << number
            self._lower[key] = found
        return found
