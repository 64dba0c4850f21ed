"""Which cards of a node a job takes, so that linked cards stay together (scheduling §6, S14).

The islands of all levels form a tree, from pairs below a PCIe switch up to the whole node.  A job goes to the island
with the fewest idle cards that still holds it: into one that is broken already before one that is whole, and into a
small one before a large one.  Where no island holds it, it takes whole islands, and of the last one again the fewest.
"""

from __future__ import annotations

from functools import lru_cache

from millpond.domain.amounts import CARD
from millpond.domain.links import LINK_LEVELS, LinkLevel, link_levels
from millpond.domain.nodes import CardKind
from millpond.scheduling.pool import View

Masks = tuple[int, ...]


@lru_cache(maxsize=4096)
def _tree(levels: tuple[LinkLevel, ...], count: int) -> Masks:
    """Every island of a node as a bit mask, the tightest level first; the whole node last."""
    everything = (1 << count) - 1
    found = [mask for level in levels for island in level.islands if (mask := _mask(island) & everything)]
    return (*dict.fromkeys(found), everything)


@lru_cache(maxsize=4096)
def _level(levels: tuple[LinkLevel, ...], count: int, name: str, told: bool) -> Masks:
    """The islands of one level; of the nearest wider one where the node does not know it, else the whole node.

    ``told``: the only level is what the node said, and stands for all.
    """
    order = list(dict.fromkeys(LINK_LEVELS.values()))
    wanted = order.index(LINK_LEVELS[name])
    wider = [level for level in levels if order.index(level.name) >= wanted]
    chosen = wider[:1] or (list(levels) if told else [])
    if not chosen:
        return ((1 << count) - 1,)
    masks = [_mask(island) for island in chosen[0].islands]
    single = [1 << card for card in range(count) if not any(mask >> card & 1 for mask in masks)]
    return (*masks, *single)


def _mask(island: tuple[int, ...]) -> int:
    mask = 0
    for card in island:
        mask |= 1 << card
    return mask


def islands_at(kind: CardKind, level: str) -> Masks:
    """The islands of a level of a node as bit masks."""
    return _level(link_levels(kind), kind.count, level, bool(kind.islands))


def idle_mask(view: View) -> int:
    """The idle cards of a node, as bits."""
    mask = 0
    for card, free in enumerate(view.free):
        if free == CARD:
            mask |= 1 << card
    return mask


def linked_fits(view: View, whole: int, level: str) -> bool:
    """Whether one island of a level has so many idle cards."""
    return linked_most(view, level) >= whole


def linked_most(view: View, level: str) -> int:
    """How many idle cards the best island of a level has."""
    idle = idle_mask(view)
    return max((mask & idle).bit_count() for mask in (0, *islands_at(view.room.kind, level)))


def cards_pick(view: View, whole: int, level: str = "") -> tuple[int, ...]:
    """`whole` idle cards, within one island of `level` if that is possible; the view must have so many."""
    kind, idle = view.room.kind, idle_mask(view)
    if level:
        holding = [mask & idle for mask in islands_at(kind, level) if (mask & idle).bit_count() >= whole]
        if holding:
            idle = min(holding, key=lambda mask: (mask.bit_count(), mask & -mask))
    room = view.room
    if not room.islands:
        room.islands = _tree(link_levels(kind), kind.count)
    taken = _lowest(idle, whole) if len(room.islands) == 1 else _pick(room.islands, idle, whole)
    return tuple([card for card in range(kind.count) if taken >> card & 1])


def _pick(tree: Masks, idle: int, need: int) -> int:
    """`need` of the idle cards as a mask; there are so many."""
    if idle.bit_count() == need:
        return idle
    holding = [part for mask in tree if (part := mask & idle).bit_count() >= need]
    inside = min(holding, key=lambda part: (part.bit_count(), part & -part), default=idle)
    if inside != idle:
        return _pick(tree, inside, need)
    taken = 0
    while need:
        parts = _parts(tree, idle & ~taken, idle)
        enough = [part for part in parts if part.bit_count() >= need]
        if enough:
            part = min(enough, key=lambda part: (part.bit_count(), part & -part))
            return taken | (_pick(tree, part, need) if part != idle else _lowest(part, need))
        part = max(parts, key=lambda part: (part.bit_count(), -(part & -part)))
        taken |= part
        need -= part.bit_count()
    return taken


def _parts(tree: Masks, left: int, idle: int) -> list[int]:
    """The largest islands smaller than `idle`, as far as they are left, and the cards outside of them alone."""
    found: list[int] = []
    for mask in sorted(tree, key=lambda mask: -(mask & idle).bit_count()):
        part = mask & left
        if part and mask & idle != idle and not any(part & other for other in found):
            found.append(part)
    rest = left
    for part in found:
        rest &= ~part
    return [*found, *(1 << card for card in range(rest.bit_length()) if rest >> card & 1)]


def _lowest(mask: int, need: int) -> int:
    taken = 0
    for _ in range(need):
        bit = mask & -mask
        taken |= bit
        mask ^= bit
    return taken
