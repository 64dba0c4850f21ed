"""Where a job fits (scheduling §6): pure functions of what the rooms offer.

Fractions and slices go to the fullest card that takes them, everything else to the tightest node, then to the first in
natural order.  Inside a node whole cards stay in the smallest link island that holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from millpond.domain.amounts import CARD
from millpond.domain.slices import slice_milli
from millpond.scheduling.pool import Pool, Room, View
from millpond.scheduling.slices import slice_capacity, slice_free, slice_score, slice_seats
from millpond.scheduling.snapshot import Job, Seat

LINK_LEVELS = frozenset({"nvlink", "link", "island"})
"""Topology levels inside a node: all cards in one link island."""

NODE_LEVEL = "node"


@dataclass(frozen=True, slots=True)
class Ask:
    """What each of ``nodes`` distinct nodes must give: milli-cards (whole cards or one fraction), milli-CPU, MiB.

    Or ``slices`` slices of the profile ``slice``; what they count in milli-cards depends on the card: see `ask_on`.
    """

    milli: int
    nodes: int
    cpu: int
    memory: int
    require: str = ""
    prefer: str = ""
    slice: str = ""
    slices: int = 0

    @property
    def whole(self) -> int:
        """Whole cards a node; 0 for a fraction, slices or no cards."""
        return 0 if self.slice else self.milli // CARD

    @property
    def total(self) -> int:
        return self.milli * self.nodes

    @property
    def linked(self) -> bool:
        return self.require in LINK_LEVELS


def ask_make(job: Job, milli: int | None = None) -> Ask:
    """The ask of a job at `milli` a node; by default at its smallest size."""
    size = job.gpu.milli_min if milli is None else milli
    gpu = job.gpu
    return Ask(size, job.nodes, job.cpu, job.memory, job.require, job.prefer, gpu.slice, gpu.slices)


def ask_on(pool: Pool, ask: Ask, model: str) -> Ask:
    """The ask with what its slices count on cards of a model; unchanged if it is for no slices."""
    if not ask.slice:
        return ask
    kind = pool.kind(model)
    return replace(ask, milli=(slice_milli(kind.model, kind.memory, ask.slice) or 0) * ask.slices)


def cards_enough(view: View, ask: Ask) -> bool:
    """Whether the cards of one node are enough, whatever its CPU and memory."""
    if ask.slice:
        return slice_capacity(view, ask.slice, ask.slices) >= ask.slices
    if ask.milli < CARD:
        return ask.milli == 0 or view.largest >= ask.milli
    if view.idle < ask.whole:
        return False
    return not ask.linked or _island(view, ask.whole) is not None


def view_fits(view: View, ask: Ask) -> bool:
    return rest_enough(view, ask) and cards_enough(view, ask)


def rest_enough(view: View, ask: Ask) -> bool:
    """Whether CPU and memory of the node are enough; asking for none always is."""
    return (not ask.cpu or view.cpu >= ask.cpu) and (not ask.memory or view.memory >= ask.memory)


def free_milli(views: Iterable[View]) -> int:
    """Free milli-cards; of cards with slices, what further slices may have."""
    total = 0
    for view in views:
        total += sum(free for free in view.free if free > 0)
        if view.slices is not None:
            total += slice_free(view, beside=True)
    return total


def place(views: Iterable[View], ask: Ask) -> tuple[Seat, ...] | None:
    """Seats for every node of the job, or None.  Takes nothing."""
    fitting = [view for view in views if view_fits(view, ask)]
    if len(fitting) < ask.nodes:
        return None
    chosen = _topology(fitting, ask)
    if chosen is None:
        return None
    return tuple(seat for view in chosen for seat in seats_make(view, ask))


def seats_make(view: View, ask: Ask) -> tuple[Seat, ...]:
    """What the ask takes of one node: one seat, or one for each slice; the view must fit it."""
    return slice_seats(view, ask.slice, ask.slices) if ask.slice else (seat_make(view, ask),)


def seat_make(view: View, ask: Ask) -> Seat:
    """The cards of one node that an ask without slices takes; the view must fit it."""
    if ask.milli == 0:
        return Seat(view.room.name)
    if ask.milli < CARD:
        card = min((free, index) for index, free in enumerate(view.free) if free >= ask.milli)[1]
        return Seat(view.room.name, (card,), ask.milli)
    return Seat(view.room.name, _cards(view, ask.whole), CARD)


def _topology(fitting: list[View], ask: Ask) -> list[View] | None:
    if ask.require and ask.require not in LINK_LEVELS:
        return _together(fitting, ask, ask.require)
    if ask.prefer and ask.prefer not in LINK_LEVELS:
        together = _together(fitting, ask, ask.prefer)
        if together is not None:
            return together
    return _tightest(fitting, ask)


def _together(fitting: list[View], ask: Ask, level: str) -> list[View] | None:
    """All nodes under one value of a label; the value with the fewest fitting nodes, then in natural order."""
    if level == NODE_LEVEL:
        return _tightest(fitting, ask) if ask.nodes == 1 else None
    groups: dict[str, list[View]] = {}
    for view in fitting:
        value = view.room.labels.get(level)
        if value is not None:
            groups.setdefault(value, []).append(view)
    enough = [(len(group), value) for value, group in groups.items() if len(group) >= ask.nodes]
    return _tightest(groups[min(enough)[1]], ask) if enough else None


def _tightest(fitting: list[View], ask: Ask) -> list[View]:
    if ask.nodes == 1:
        return [min(fitting, key=lambda view: _score(view, ask))]
    return sorted(fitting, key=lambda view: _score(view, ask))[: ask.nodes]


def _score(view: View, ask: Ask) -> tuple[int, ...]:
    """The smaller the better: the fullest card for a fraction or slice, else the tightest node; then natural order."""
    if ask.slice:
        return slice_score(view, ask.slice, ask.slices)
    if ask.milli == 0:
        return (view.idle, view.cpu, view.memory, view.room.index)
    if ask.milli < CARD:
        best = min(free for free in view.free if free >= ask.milli)
        return (best, view.idle, sum(view.free), view.room.index)
    return (view.idle, sum(view.free), view.cpu, view.room.index)


def islands_of(room: Room) -> Sequence[Sequence[int]]:
    """The link islands of a node; all its cards are one if none are known."""
    return room.kind.islands or (range(room.kind.count),)


def _island(view: View, whole: int) -> list[int] | None:
    """The idle cards of the island with the fewest idle cards that still holds `whole`."""
    best: list[int] | None = None
    for island in islands_of(view.room):
        idle = [card for card in sorted(island) if card < len(view.free) and view.free[card] == CARD]
        if len(idle) >= whole and (best is None or (len(idle), idle) < (len(best), best)):
            best = idle
    return best


def _cards(view: View, whole: int) -> tuple[int, ...]:
    """The cards to take: inside one island if one holds them, else from as few islands as possible."""
    inside = _island(view, whole)
    if inside is not None:
        return tuple(inside[:whole])
    idle = {card for card, free in enumerate(view.free) if free == CARD}
    parts = [sorted(idle.intersection(island)) for island in islands_of(view.room)]
    linked = {card for part in parts for card in part}
    parts.extend([card] for card in sorted(idle - linked))
    taken: list[int] = []
    while len(taken) < whole:
        need = whole - len(taken)
        enough = [part for part in parts if len(part) >= need]
        part = min(enough, key=lambda p: (len(p), p)) if enough else min(parts, key=lambda p: (-len(p), p))
        parts.remove(part)
        taken.extend(part[:need])
    return tuple(sorted(taken))
