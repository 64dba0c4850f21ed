"""What is taken of every node and card, as integers: running, leaving and held, each in its own layer.

A hold lies on the same cards as the victims that leave for it, so what is free to others now is
``1000 - running - max(leaving, held)`` of each card, and what is free once they have left ``1000 - running - held``.
CPU and memory are not so bound to a place: a hold may begin before somebody on its node has left whom it does not wait
for, and then both take theirs (`Room.beside`).
A slice weighs a whole card here, so that a card with slices is free to others when the last of them has gone; which
memory slots slices take is kept beside it, for rooms that have any.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.domain.names import natural_key
from millpond.domain.nodes import CardKind
from millpond.domain.slices import MEDIA, SliceTable, slice_table_of
from millpond.scheduling.snapshot import Job, NodeState, Seat

RUN: Final = 0
LEAVE: Final = 1
HOLD: Final = 2
"""The layers of occupancy."""

_BROKEN: Final = 1 << 40
"""Taken on a quarantined card: no release ever makes it free."""

ALL_SLOTS: Final = MEDIA | (MEDIA - 1)
"""A mask of every slot that any card has."""

_INDEX = attrgetter("index")

_NO_CARDS = CardKind(model="", vendor="", memory=0, count=0)


class View:
    """What one room offers: milli-cards of each card, idle cards, the largest share, milli-CPU and MiB.

    ``slices``: masks of the slots taken by slices, per card; None where no slice sits.
    """

    __slots__ = ("cpu", "free", "idle", "largest", "memory", "room", "slices")

    def __init__(
        self,
        room: Room,
        free: list[int],
        idle: int,
        largest: int,
        cpu: int,
        memory: int,
        slices: list[list[int]] | None = None,
    ) -> None:
        self.room = room
        self.free = free
        self.idle = idle
        self.largest = largest
        self.cpu = cpu
        self.memory = memory
        self.slices = slices


def state_open(state: NodeState) -> bool:
    """Whether new work may start on a node."""
    return not (state.cordoned or state.draining or state.lost or state.spec.taints)


class Room:
    """One node.  ``open`` says that new work may start there; ``now`` is its present view, always up to date."""

    __slots__ = (
        "_soon", "beside", "broken", "cards", "changes", "cpu", "demand", "index", "islands", "key", "kind", "labels",
        "memory", "name", "now", "open", "slices", "sort", "state", "table", "whole",
    )  # fmt: skip

    def __init__(self, state: NodeState, index: int, demand: Mapping[str, int], changes: list[int]) -> None:
        spec = state.spec
        self.changes = changes
        """The log of the pool: the index of every node that changed, once for each change."""
        self.demand = demand
        self.state = state
        self.index = index
        self.name = spec.name
        self.key = natural_key(spec.name)
        self.kind = spec.cards or _NO_CARDS
        self.islands: tuple[int, ...] = ()
        """Its islands as bit masks (`links`); none as long as nobody has asked."""
        self.sort = 0
        """Rooms of one number have the same kind of cards."""
        self.table: SliceTable | None = slice_table_of(self.kind)
        """How the cards of this node divide; None if they do not."""
        self.labels = dict(spec.labels)
        self.open = state_open(state)
        self.broken = frozenset(card for card in state.bad_cards if card < self.kind.count)
        self.cards = [[_BROKEN if card in self.broken else 0 for card in range(self.kind.count)], *self._zeros(2)]
        self.cpu = [0, 0, 0]
        self.memory = [0, 0, 0]
        self.beside = (0, 0)
        """CPU and memory of the holds that do not wait for everybody who leaves."""
        self.slices: list[list[list[int]]] | None = None
        """Masks of slots taken by slices, by layer and card; None as long as no slice was seated here."""
        self.now = View(self, [], 0, 0, 0, 0)
        self._soon: View | None = None
        self.whole = view_make(self, [CARD] * self.kind.count, spec.cpu, spec.memory)
        """The view of the node as configured, with nobody on it and every card healthy."""
        self.refresh()

    def _zeros(self, count: int) -> list[list[int]]:
        return [[0] * self.kind.count for _ in range(count)]

    def refresh(self) -> None:
        run, leave, hold = self.cards
        self.changes.append(self.index)
        self._soon = None
        view = self.now
        free: list[int] = []
        idle = 0
        for card in range(self.kind.count):
            left = CARD - run[card] - max(leave[card], hold[card])
            free.append(left)
            if left == CARD:
                idle += 1
        view.free = free
        view.idle = idle
        view.largest = CARD if idle else max(free, default=0)
        view.cpu, view.memory = self.rest(self.cpu, self.memory)
        view.slices = self.slices_now(self.cards, self.slices) if self.slices is not None else None

    def state_set(self, state: NodeState) -> None:
        """The node is in another state, with the same cards."""
        spec = state.spec
        broken = frozenset(card for card in state.bad_cards if card < self.kind.count)
        for card in broken - self.broken:
            self.cards[RUN][card] += _BROKEN
        for card in self.broken - broken:
            self.cards[RUN][card] -= _BROKEN
        self.state, self.broken = state, broken
        self.labels, self.open = dict(spec.labels), state_open(state)
        self.whole = view_make(self, [CARD] * self.kind.count, spec.cpu, spec.memory)
        self.refresh()

    def rest(self, cpu: list[int], memory: list[int]) -> tuple[int, int]:
        """The CPU and memory that are left when the layers take so much of them."""
        spec, (more_cpu, more_memory) = self.state.spec, self.beside
        return (
            spec.cpu - cpu[RUN] - max(cpu[LEAVE] + min(more_cpu, cpu[HOLD]), cpu[HOLD]),
            spec.memory - memory[RUN] - max(memory[LEAVE] + min(more_memory, memory[HOLD]), memory[HOLD]),
        )

    def beside_set(self, cpu: int, memory: int) -> None:
        """Note what the holds take that do not wait for everybody who leaves."""
        if self.beside != (cpu, memory):
            self.beside = (cpu, memory)
            self.refresh()

    def mask(self, seat: Seat) -> int:
        """The slots that a slice's seat takes; all of them if the seat makes no sense here."""
        table = self.table
        profile = table.find(seat.slice) if table is not None else None
        return ALL_SLOTS if profile is None or seat.slot is None else profile.mask(seat.slot)

    def slice_put(self, seat: Seat, layer: int, sign: int) -> None:
        """Seat a slice, or with ``sign`` -1 take it away."""
        if self.slices is None:
            self.slices = [[[] for _ in range(self.kind.count)] for _ in (RUN, LEAVE, HOLD)]
        mask = self.mask(seat)
        for card in seat.cards:
            if card < self.kind.count:
                if sign > 0:
                    self.slices[layer][card].append(mask)
                else:
                    self.slices[layer][card].remove(mask)

    def slots_free(self, seat: Seat, *layers: int) -> bool:
        """Whether nobody in these layers has the slots of a slice's seat, or its whole card."""
        mask = self.mask(seat)
        for card in seat.cards:
            for layer in layers:
                masks = self.slices[layer][card] if self.slices is not None else ()
                if self.cards[layer][card] > CARD * len(masks) or any(mask & other for other in masks):
                    return False
        return True

    def slices_now(self, cards: list[list[int]], slices: list[list[list[int]]]) -> list[list[int]]:
        """The masks of all layers; a card that somebody takes otherwise in some layer, as `cards` say, is full."""
        run, leave, hold = slices
        found: list[list[int]] = []
        for card in range(self.kind.count):
            masks = [*run[card], *leave[card], *hold[card]]
            if any(cards[layer][card] > CARD * len(slices[layer][card]) for layer in (RUN, LEAVE, HOLD)):
                masks.append(ALL_SLOTS)
            found.append(masks)
        return found

    def _slices_of(self, *layers: int) -> list[list[int]] | None:
        if self.slices is None:
            return None
        return [[mask for layer in layers for mask in self.slices[layer][card]] for card in range(self.kind.count)]

    def soon(self) -> View:
        """The view once everybody who leaves has left."""
        if self._soon is None:
            run, _, hold = self.cards
            free = [CARD - a - c for a, c in zip(run, hold, strict=True)]
            spec = self.state.spec
            self._soon = view_make(
                self,
                free,
                spec.cpu - self.cpu[RUN] - self.cpu[HOLD],
                spec.memory - self.memory[RUN] - self.memory[HOLD],
                self._slices_of(RUN, HOLD),
            )
        return self._soon

    def unheld(self) -> View:
        """As `soon`, if nothing were kept for anybody."""
        spec = self.state.spec
        free = [CARD - taken for taken in self.cards[RUN]]
        cpu, memory = spec.cpu - self.cpu[RUN], spec.memory - self.memory[RUN]
        return view_make(self, free, cpu, memory, self._slices_of(RUN))


def _with(found: dict[str, list[Room]], room: Room, gpu: CardRequest) -> dict[str, list[Room]]:
    """The open rooms that a request may use, after one of them has opened or closed."""
    if not gpu.none and not room_may(room, gpu):
        return found
    model = "" if gpu.none else room.kind.model
    rooms = found.setdefault(model, [])
    place = bisect_left(rooms, room.index, key=_INDEX)
    if room.open:
        rooms.insert(place, room)
    else:
        del rooms[place]
    return {model: found[model] for model in sorted(found) if found[model]}


def room_may(room: Room, gpu: CardRequest) -> bool:
    """Whether the cards of a node are such as a request names."""
    kind = room.kind
    if gpu.slice and (room.table is None or room.table.find(gpu.slice) is None):
        return False
    return kind.count > 0 and gpu.card_matches(kind.vendor, kind.model, kind.memory)


def view_make(room: Room, free: list[int], cpu: int, memory: int, slices: list[list[int]] | None = None) -> View:
    return View(room, free, free.count(CARD), max(free, default=0), cpu, memory, slices)


def seat_weight(seat: Seat) -> int:
    """What a seat takes of each of its cards, as others see it: next to a slice only slices may sit."""
    return CARD if seat.slice else seat.milli


def view_with(view: View, seats: Iterable[tuple[Seat, Job]]) -> View:
    """`view` as if these seats on its node were free too."""
    free, cpu, memory = list(view.free), view.cpu, view.memory
    slices = None if view.slices is None else [list(masks) for masks in view.slices]
    counted: set[str] = set()
    for seat, job in seats:
        if job.id not in counted:  # several slices of a job on one node share its CPU and memory
            counted.add(job.id)
            cpu += job.cpu
            memory += job.memory
        for card in seat.cards:
            if card < len(free):
                free[card] += seat_weight(seat)
                if seat.slice and slices is not None and (mask := view.room.mask(seat)) in slices[card]:
                    slices[card].remove(mask)
    return view_make(view.room, free, cpu, memory, slices)


class Pool:
    """All rooms, in natural order of their names."""

    def __init__(self, nodes: Iterable[NodeState]) -> None:
        ordered = sorted(nodes, key=lambda state: natural_key(state.spec.name))
        self.demand: dict[str, int] = {}
        """How many slices of each profile are waited for: where a new one begins leaves them room (`slices`)."""
        self.changes: list[int] = []
        self.rooms = [Room(state, index, self.demand, self.changes) for index, state in enumerate(ordered)]
        self.by_name = {room.name: room for room in self.rooms}
        self._sort()
        self.serial = 0
        """The last number given to a reservation."""
        self.empty: dict[tuple[object, ...], bool] = {}
        """What would fit if nobody were there, as far as somebody has asked."""
        self._open: dict[CardRequest, dict[str, list[Room]]] = {}
        self._asked: CardRequest | None = None
        self._answer: dict[str, list[Room]] = {}
        self._kinds: dict[str, CardKind] = {}
        self._configured: dict[CardRequest, dict[str, list[Room]]] = {}

    def _sort(self) -> None:
        """Number the kinds of cards, so that a request is compared with each of them once."""
        sorts: dict[CardKind, int] = {}
        before: Room | None = None
        for room in self.rooms:
            if before is not None and room.kind is before.kind:
                room.sort = before.sort
            else:
                room.sort = sorts.setdefault(room.kind, len(sorts))
            before = room

    def models(self, gpu: CardRequest) -> Mapping[str, list[Room]]:
        """The open rooms that a request may use, by model; a request without cards may use all, under ``""``."""
        if gpu is self._asked:  # a job is asked about many times in a row, and its request is long to hash
            return self._answer
        found = self._open.get(gpu)
        if found is None:
            found = self._open[gpu] = self._matching(gpu, open_only=True)
        self._asked, self._answer = gpu, found
        return found

    def configured(self, gpu: CardRequest) -> Mapping[str, list[Room]]:
        """As `models`, over every configured node, whatever its state."""
        found = self._configured.get(gpu)
        if found is None:
            found = self._configured[gpu] = self._matching(gpu, open_only=False)
        return found

    def node_set(self, state: NodeState) -> Room | None:
        """Take over another state of a node; None where that is another pool: a new node, or other cards."""
        room = self.by_name.get(state.spec.name)
        if room is None or (room.state.spec.cards or _NO_CARDS) != (state.spec.cards or _NO_CARDS):
            return None
        opened = room.open
        room.state_set(state)
        self.empty.clear()
        if room.open is not opened:
            self._asked = None
            for gpu, found in self._open.items():
                self._open[gpu] = _with(found, room, gpu)
        return room

    def demand_set(self, wanted: Mapping[str, int]) -> None:
        """Note how many slices of each profile the waiting jobs want."""
        if wanted or self.demand:
            self.demand.clear()
            self.demand.update(wanted)

    def kind(self, model: str) -> CardKind:
        """The cards of a model, as the first node has them."""
        if not self._kinds:
            for room in reversed(self.rooms):
                self._kinds[room.kind.model] = room.kind
        return self._kinds.get(model, _NO_CARDS)

    def _matching(self, gpu: CardRequest, *, open_only: bool) -> dict[str, list[Room]]:
        found: dict[str, list[Room]] = {}
        by_sort: dict[int, list[Room]] = {}
        everywhere = gpu.none
        for room in self.rooms:
            if open_only and not room.open:
                continue
            mine = by_sort.get(room.sort)
            if mine is None:
                mine = []
                if everywhere:
                    mine = found.setdefault("", mine)
                elif room_may(room, gpu):
                    mine = found.setdefault(room.kind.model, mine)
                by_sort[room.sort] = mine
            mine.append(room)
        return dict(sorted(found.items()))

    def put(self, job: Job, seats: Iterable[Seat], layer: int, sign: int = 1) -> None:
        """Seat a job in a layer; ``sign`` -1 takes it away.  Seats on unknown nodes or cards take nothing."""
        counted: set[str] = set()
        for seat in seats:
            room = self.by_name.get(seat.node)
            if room is None:
                continue
            taken = room.cards[layer]
            for card in seat.cards:
                if card < len(taken):
                    taken[card] += seat_weight(seat) * sign
            if seat.slice:
                room.slice_put(seat, layer, sign)
            if seat.node not in counted:  # several slices of a job on one node share its CPU and memory
                counted.add(seat.node)
                room.cpu[layer] += job.cpu * sign
                room.memory[layer] += job.memory * sign
            room.refresh()


def pool_size(nodes: Iterable[NodeState]) -> dict[str, int]:
    """Milli-cards of each model as configured, healthy or not (§1)."""
    size: dict[str, int] = {}
    for state in nodes:
        kind = state.spec.cards
        if kind is not None and kind.count:
            size[kind.model] = size.get(kind.model, 0) + kind.count * CARD
    return size
