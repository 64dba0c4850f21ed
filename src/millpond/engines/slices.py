"""Slices in orders, for every engine: how they are written, and which geometries a vendor allows."""

from __future__ import annotations

import re

from millpond.domain.nodes import CardKind
from millpond.domain.slices import cards_divide, slice_table
from millpond.engines.base import Geometry, Refused

_TEXT = re.compile(r"(\d+):([^@:]+)@(\d+)\Z")


def slice_text(card: int, profile: str, slot: int) -> str:
    """A slice in an order: ``0:1g.5gb@4`` is that on card 0 which begins at slot 4."""
    return f"{card}:{profile}@{slot}"


def slice_parse(text: str) -> tuple[int, str, int]:
    """(card, profile, first slot) of `slice_text`.  Raises `Refused`."""
    match = _TEXT.match(text)
    if match is None:
        raise Refused(f"{text[:80]!r} is not a slice of a card", hint="write card:profile@slot")
    return int(match.group(1)), match.group(2), int(match.group(3))


def geometry_check(node: str, kind: CardKind | None, card: int, geometry: Geometry) -> None:
    """Raise `Refused` unless such a card can be divided so."""
    if kind is None or not 0 <= card < kind.count:
        raise Refused(f"{node} has no card {card}")
    if not geometry:
        return
    table = slice_table(kind.model, kind.memory)
    if table is None or not cards_divide(kind):
        raise Refused(f"the cards of {node} ({kind.model}) cannot be divided")
    taken = 0
    for name, slot in geometry:
        profile = table.find(name)
        if profile is None or slot not in profile.starts:
            raise Refused(f"{kind.model} has no slice mig-{name} that begins at slot {slot}")
        if profile.mask(slot) & taken:
            raise Refused(f"mig-{name} at slot {slot} lies on another slice of card {card} of {node}")
        taken |= profile.mask(slot)
