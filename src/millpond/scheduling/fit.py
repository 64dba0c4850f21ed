"""Where a job fits (scheduling §6): pure functions of what the rooms offer.

Fractions and slices go to the fullest card that takes them, everything else to the tightest node, then to the first in
natural order.  Inside a node whole cards stay in the smallest link island that holds them (`links`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millpond.domain.amounts import CARD
from millpond.domain.links import LINK_LEVELS
from millpond.domain.slices import slice_milli
from millpond.scheduling.links import cards_pick, linked_fits
from millpond.scheduling.pool import Pool, View
from millpond.scheduling.slices import slice_capacity, slice_free, slice_score, slice_seats
from millpond.scheduling.snapshot import Job, Seat

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
    return not ask.linked or linked_fits(view, ask.whole, ask.require)


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


def place_possible(views: Iterable[View], ask: Ask) -> bool:
    """Whether `place` finds seats; looks no further than it must."""
    if ask.require:
        return place(views, ask) is not None
    left = ask.nodes
    for view in views:
        if view_fits(view, ask):
            left -= 1
            if left <= 0:
                return True
    return False


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
    level = next((level for level in (ask.require, ask.prefer) if level in LINK_LEVELS), "")
    return Seat(view.room.name, cards_pick(view, ask.whole, level), CARD)


def _topology(fitting: list[View], ask: Ask) -> list[View] | None:
    """The nodes of the job: as `require` says, and among those as `prefer` says as far as it can be had."""
    if not ask.require or ask.require in LINK_LEVELS:
        return _preferred(fitting, ask)
    if ask.require == NODE_LEVEL:
        return _preferred(fitting, ask) if ask.nodes == 1 else None
    groups = [group for group in _groups(fitting, ask.require) if len(group) >= ask.nodes]
    if not groups:
        return None
    return _preferred(next((group for group in groups if _pleases(group, ask)), groups[0]), ask)


def _groups(views: list[View], level: str) -> list[list[View]]:
    """The nodes under each value of a label: the value with the fewest nodes first, then in order of the values."""
    groups: dict[str, list[View]] = {}
    for view in views:
        value = view.room.labels.get(level)
        if value is not None:
            groups.setdefault(value, []).append(view)
    return [groups[value] for value in sorted(groups, key=lambda value: (len(groups[value]), value))]


def _pleases(views: list[View], ask: Ask) -> bool:
    """Whether the preference can be had in full on these nodes."""
    if not ask.prefer or ask.prefer == NODE_LEVEL:
        return True
    if ask.prefer in LINK_LEVELS:
        return len(_linked(views, ask)) >= ask.nodes
    return any(len(group) >= ask.nodes for group in _groups(views, ask.prefer))


def _preferred(views: list[View], ask: Ask) -> list[View]:
    """Nodes by the preference: linked cards first, or from as few groups of a label as possible."""
    if ask.prefer in LINK_LEVELS:
        linked = _linked(views, ask)
        return _tightest(linked if len(linked) >= ask.nodes else views, ask)
    if not ask.prefer or ask.prefer == NODE_LEVEL or ask.nodes == 1:
        return _tightest(views, ask)
    groups = _groups(views, ask.prefer)
    chosen: list[View] = []
    while len(chosen) < ask.nodes:
        need = ask.nodes - len(chosen)
        group = next((group for group in groups if len(group) >= need), groups[-1] if groups else None)
        if group is None:  # the rest has no such label
            taken = {view.room.index for view in chosen}
            rest = [view for view in views if view.room.index not in taken]
            return [*chosen, *_tightest(rest, replace(ask, nodes=need))]
        chosen.extend(_tightest(group, replace(ask, nodes=min(need, len(group)))))
        groups.remove(group)
    return chosen


def _linked(views: list[View], ask: Ask) -> list[View]:
    """The nodes on which one island of the preferred level holds the cards."""
    return [view for view in views if not ask.whole or linked_fits(view, ask.whole, ask.prefer)]


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
