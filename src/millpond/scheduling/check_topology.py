"""Topology wishes judged a second time (scheduling §6): islands as sets of cards, labels as they stand."""

from __future__ import annotations

from collections.abc import Iterator

from millpond.domain.links import LINK_LEVELS, link_levels
from millpond.domain.nodes import CardKind
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_world import World
from millpond.scheduling.decisions import Violation
from millpond.scheduling.snapshot import NodeState, Seat


def topology(world: World) -> Iterator[Violation]:
    """What a job requires of the place that it gets, it has."""
    for use in world.added:
        wrong = _wrong(world, use) if use.job.require else ""
        if wrong:
            text = f"{use.job.id} requires one {use.job.require} and gets {wrong}"
            yield Violation("topology-broken", text, (use.job.id,))


def _wrong(world: World, use: Use) -> str:
    level, nodes = use.job.require, world.book.nodes
    names = sorted({seat.node for seat in use.seats})
    if level in LINK_LEVELS:
        return next(
            (f"cards of {seat.node} apart" for seat in use.seats if not _linked(nodes[seat.node], seat, level)), ""
        )
    if level == "node":
        return ", ".join(names) if len(names) > 1 else ""
    values = {label_of(nodes[name], level) for name in names}
    return ", ".join(names) if len(values) > 1 or "" in values else ""


def label_of(state: NodeState, level: str) -> str:
    """The value of a label; empty without it."""
    return next((value for key, value in state.spec.labels if key == level), "")


def _linked(state: NodeState, seat: Seat, level: str) -> bool:
    kind = state.spec.cards
    return kind is None or len(seat.cards) < 2 or any(set(seat.cards) <= island for island in islands(kind, level))


def islands(kind: CardKind, level: str) -> list[set[int]]:
    """The islands of a level; of the next wider known one where the node tells nothing of it; else the whole node."""
    order = ["nvlink", "pcie", "numa"]
    if kind.islands:
        return [set(island) for island in kind.islands]
    known = {one.name: [set(island) for island in one.islands] for one in link_levels(kind)}
    wider = order[order.index(LINK_LEVELS[level]) :]
    return next((known[name] for name in wider if name in known), [set(range(kind.count))])
