"""What is taken of every node and card, as integers: running, leaving and held, each in its own layer.

A hold lies on the same cards as the victims that leave for it, so what is free to others now is
``1000 - running - max(leaving, held)`` of each card, and what is free once they have left ``1000 - running - held``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.domain.names import natural_key
from millpond.domain.nodes import CardKind
from millpond.scheduling.snapshot import Job, NodeState, Seat

RUN, LEAVE, HOLD = 0, 1, 2
"""The layers of occupancy."""

_BROKEN = 1 << 40
"""Taken on a quarantined card: no release ever makes it free."""

_NO_CARDS = CardKind(model="", vendor="", memory=0, count=0)


@dataclass(slots=True)
class View:
    """What one room offers: milli-cards of each card, idle cards, the largest share, milli-CPU and MiB."""

    room: Room
    free: list[int]
    idle: int
    largest: int
    cpu: int
    memory: int


class Room:
    """One node.  ``open`` says that new work may start there; ``now`` is its present view, always up to date."""

    __slots__ = (
        "_soon",
        "broken",
        "cards",
        "cpu",
        "index",
        "key",
        "kind",
        "labels",
        "memory",
        "name",
        "now",
        "open",
        "state",
        "whole",
    )

    def __init__(self, state: NodeState, index: int) -> None:
        spec = state.spec
        self.state = state
        self.index = index
        self.name = spec.name
        self.key = natural_key(spec.name)
        self.kind = spec.cards or _NO_CARDS
        self.labels = dict(spec.labels)
        self.open = not (state.cordoned or state.draining or state.lost or spec.taints)
        self.broken = frozenset(card for card in state.bad_cards if card < self.kind.count)
        self.cards = [[_BROKEN if card in self.broken else 0 for card in range(self.kind.count)], *self._zeros(2)]
        self.cpu = [0, 0, 0]
        self.memory = [0, 0, 0]
        self.now = View(self, [], 0, 0, 0, 0)
        self._soon: View | None = None
        self.whole = view_make(self, [CARD] * self.kind.count, spec.cpu, spec.memory)
        """The view of the node as configured, with nobody on it and every card healthy."""
        self.refresh()

    def _zeros(self, count: int) -> list[list[int]]:
        return [[0] * self.kind.count for _ in range(count)]

    def refresh(self) -> None:
        run, leave, hold = self.cards
        self._soon = None
        view = self.now
        view.free = [CARD - a - max(b, c) for a, b, c in zip(run, leave, hold, strict=True)]
        view.idle = view.free.count(CARD)
        view.largest = max(view.free, default=0)
        view.cpu = self.state.spec.cpu - self.cpu[RUN] - max(self.cpu[LEAVE], self.cpu[HOLD])
        view.memory = self.state.spec.memory - self.memory[RUN] - max(self.memory[LEAVE], self.memory[HOLD])

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
            )
        return self._soon

    def unheld(self) -> View:
        """As `soon`, if nothing were kept for anybody."""
        spec = self.state.spec
        return view_make(
            self, [CARD - taken for taken in self.cards[RUN]], spec.cpu - self.cpu[RUN], spec.memory - self.memory[RUN]
        )


def view_make(room: Room, free: list[int], cpu: int, memory: int) -> View:
    return View(room, free, free.count(CARD), max(free, default=0), cpu, memory)


def view_with(view: View, seats: Iterable[tuple[Seat, Job]]) -> View:
    """`view` as if these seats on its node were free too."""
    free, cpu, memory = list(view.free), view.cpu, view.memory
    for seat, job in seats:
        cpu += job.cpu
        memory += job.memory
        for card in seat.cards:
            if card < len(free):
                free[card] += seat.milli
    return view_make(view.room, free, cpu, memory)


class Pool:
    """All rooms, in natural order of their names."""

    def __init__(self, nodes: Iterable[NodeState]) -> None:
        ordered = sorted(nodes, key=lambda state: natural_key(state.spec.name))
        self.rooms = [Room(state, index) for index, state in enumerate(ordered)]
        self.by_name = {room.name: room for room in self.rooms}
        self._open: dict[CardRequest, dict[str, list[Room]]] = {}
        self._configured: dict[CardRequest, dict[str, list[Room]]] = {}

    def models(self, gpu: CardRequest) -> Mapping[str, list[Room]]:
        """The open rooms that a request may use, by model; a request without cards may use all, under ``""``."""
        found = self._open.get(gpu)
        if found is None:
            found = self._open[gpu] = self._matching(gpu, open_only=True)
        return found

    def configured(self, gpu: CardRequest) -> Mapping[str, list[Room]]:
        """As `models`, over every configured node, whatever its state."""
        found = self._configured.get(gpu)
        if found is None:
            found = self._configured[gpu] = self._matching(gpu, open_only=False)
        return found

    def _matching(self, gpu: CardRequest, *, open_only: bool) -> dict[str, list[Room]]:
        found: dict[str, list[Room]] = {}
        for room in self.rooms:
            kind = room.kind
            if open_only and not room.open:
                continue
            if gpu.none:
                found.setdefault("", []).append(room)
            elif kind.count and gpu.card_matches(kind.vendor, kind.model, kind.memory):
                found.setdefault(kind.model, []).append(room)
        return dict(sorted(found.items()))

    def put(self, job: Job, seats: Iterable[Seat], layer: int, sign: int = 1) -> None:
        """Seat a job in a layer; ``sign`` -1 takes it away.  Seats on unknown nodes or cards take nothing."""
        for seat in seats:
            room = self.by_name.get(seat.node)
            if room is None:
                continue
            taken = room.cards[layer]
            for card in seat.cards:
                if card < len(taken):
                    taken[card] += seat.milli * sign
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
