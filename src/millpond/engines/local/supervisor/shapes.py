"""Simulated slices: into which a card is divided, which of them are in use, and whether an order may have them.

Which geometries a vendor allows, the caller has checked.
"""

from __future__ import annotations

from typing import Any

from .attempts import Rank, Record, shape_record
from .core import Core
from .orders import Problem


def reshape(core: Core, node: str, card: int, geometry: Any) -> None:
    """Record the slices of a card; those in use must be among them."""
    if not isinstance(geometry, list) or not all(_sound(item) for item in geometry):
        raise Problem("refused", "a geometry is a list of profiles and slots")
    wanted = [list(item) for item in geometry]
    if core.memory.shapes.get((node, card), []) == wanted:
        return
    gone = [item for item in _used(core, node, card) if item not in wanted]
    if gone or (wanted and _whole(core, node, card)):
        raise Problem("retry", f"card {card} of {node} is in use")
    core.record(shape_record(node, card, wanted))


def order_shapes(core: Core, order: Record) -> None:
    """Slices of an order must be there; cards ordered as cards are made whole."""
    for rank in order["ranks"]:
        node = str(rank["node"])
        for card, item in _slices(rank):
            if item not in core.memory.shapes.get((node, card), []):
                raise Problem("refused", f"card {card} of {node} has no slice mig-{item[0]} at slot {item[1]}")
        for card in rank["cards"] if not rank["slices"] else ():
            if (node, card) not in core.memory.shapes:
                continue
            if _used(core, node, card):
                raise Problem("retry", f"slices of card {card} of {node} are in use")
            core.record(shape_record(node, card, []))


def _sound(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], int)


def _slices(rank: Record) -> list[tuple[int, list[Any]]]:
    """(card, [profile, slot]) of every slice of a rank, each written ``card:profile@slot``."""
    found: list[tuple[int, list[Any]]] = []
    for text in rank["slices"]:
        card, colon, rest = text.partition(":")
        profile, at, slot = rest.partition("@")
        if not (colon and at and card.isdecimal() and slot.isdecimal()):
            raise Problem("refused", f"{text[:80]!r} is not a slice of a card")
        found.append((int(card), [profile, int(slot)]))
    return found


def _used(core: Core, node: str, card: int) -> list[list[Any]]:
    return [item for rank in _ranks(core, node) for at, item in _slices(rank.order) if at == card]


def _whole(core: Core, node: str, card: int) -> bool:
    return any(card in rank.order["cards"] and not rank.order["slices"] for rank in _ranks(core, node))


def _ranks(core: Core, node: str) -> list[Rank]:
    return [rank for attempt in core.memory.live.values() for rank in attempt.ranks if rank.node == node]
