"""Which slots of which card a slice takes (scheduling §6): pure functions of what a room offers.

Slices go to the fullest card that takes them, so that whole cards stay whole.  On that card a slice begins where it
leaves most room: first for the slices that wait (their best packing into what is left), then for slices in general
(every placement of every profile that is still possible counts its slots).  Alone on an A100 a 3g begins at slot 4 and
a 1g at slot 6, as NVIDIA's own driver does.  Only profiles of equal placements compete for them, and those of one
profile never overlap: taking one after the other finds as many as there are.
"""

from __future__ import annotations

from functools import lru_cache

from millpond.domain.amounts import CARD
from millpond.domain.slices import MEDIA, SliceProfile, slice_table
from millpond.scheduling.pool import ALL_SLOTS, Room, View
from millpond.scheduling.snapshot import Seat

Wants = tuple[tuple[str, int], ...]
"""How many slices of which profile wait, by name."""

ALL_MEMORY = ALL_SLOTS & ~MEDIA

Spot = tuple[int, int]
"""(card, first slot)."""


def slice_profile(room: Room, name: str) -> SliceProfile | None:
    """A profile by name, if the cards of a node have it."""
    table = room.table
    return table.find(name) if table is not None else None


def slots_taken(view: View, card: int) -> int:
    """A mask of the slots of a card that a slice cannot have."""
    if view.slices is None:
        return 0 if view.free[card] == CARD else ALL_SLOTS
    masks = view.slices[card]
    if CARD - view.free[card] > CARD * len(masks):
        return ALL_SLOTS  # somebody sits there who is no slice, or the card is bad
    taken = 0
    for mask in masks:
        taken |= mask
    return taken


def slice_capacity(view: View, name: str, most: int = 1 << 30) -> int:
    """How many slices of a profile fit on a node now; counted up to `most`."""
    profile = slice_profile(view.room, name)
    if profile is None:
        return 0
    if view.slices is None:  # whole idle cards and nothing else
        return view.idle * profile.instances
    found = 0
    for card in range(len(view.free)):
        if found >= most:
            break
        found += _capacity(profile, slots_taken(view, card))
    return found


def _capacity(profile: SliceProfile, taken: int) -> int:
    """How many slices of a profile fit on a card with these slots taken."""
    if not taken:
        return profile.instances
    free = sum(1 for start in profile.starts if not profile.mask(start) & taken)
    return min(free, 1) if profile.media else free


def slice_free(view: View, *, beside: bool = False) -> int:
    """Milli-cards of a node that slices could still have: memory slots that some placement can reach.

    ``beside``: only of cards that hold slices already.
    """
    table = view.room.table
    if table is None:
        return 0
    total = 0
    for card in range(len(view.free)):
        taken = slots_taken(view, card)
        if beside and not taken:
            continue
        reach = 0
        for profile in table.profiles:
            for start in profile.starts:
                mask = profile.mask(start)
                if not mask & taken:
                    reach |= mask
        total += (reach & ALL_MEMORY).bit_count() * CARD // table.slots
    return total


def slice_spots(view: View, name: str, count: int) -> list[Spot] | None:
    """Where `count` slices of a profile go on one node; None if they do not fit."""
    profile = slice_profile(view.room, name)
    if profile is None:
        return None
    kind, wants = view.room.kind, _wants(view.room, name, count)
    taken = [slots_taken(view, card) for card in range(len(view.free))]
    spots: list[Spot] = []
    for _ in range(count):
        cards = [card for card in range(len(taken)) if _capacity(profile, taken[card])]
        if not cards:
            return None
        card = max(cards, key=lambda card: ((taken[card] & ALL_MEMORY).bit_count(), -card))
        start = _start(kind.model, kind.memory, name, taken[card], wants)
        taken[card] |= profile.mask(start)
        spots.append((card, start))
    return spots


def slice_seats(view: View, name: str, count: int) -> tuple[Seat, ...]:
    """One seat for each slice, in order of card and slot; the view must fit them."""
    table, profile = view.room.table, slice_profile(view.room, name)
    spots = slice_spots(view, name, count)
    if table is None or profile is None or spots is None:
        raise AssertionError(f"{view.room.name} does not take {count} slices of {name}")
    milli = table.milli(profile)
    return tuple(Seat(view.room.name, (card,), milli, name, start) for card, start in sorted(spots))


def slice_score(view: View, name: str, count: int) -> tuple[int, int, int, int, int]:
    """The smaller the better: fewest idle cards begun, fullest cards, fewest idle cards, CPU, natural order."""
    profile, left, begun, slots = slice_profile(view.room, name), count, 0, 0
    if profile is not None and view.slices is not None:
        used = [taken for card in range(len(view.free)) if (taken := slots_taken(view, card))]
        rooms = [((taken & ALL_MEMORY).bit_count(), _capacity(profile, taken)) for taken in used]
        for full, room in sorted(rooms, reverse=True):
            if left > 0 < room:
                slots += full
                left -= room
    if profile is not None and left > 0:
        begun = -(-left // profile.instances)
    return (begun, -slots, view.idle, view.cpu, view.room.index)


def seat_fits(view: View, seat: Seat) -> bool:
    """Whether a slice's seat is free in a view."""
    mask = view.room.mask(seat)
    return all(card < len(view.free) and not slots_taken(view, card) & mask for card in seat.cards)


def seats_clash(room: Room, first: Seat, second: Seat) -> bool:
    """Whether two seats on a node want the same: the same card, or of two slices the same slots of it."""
    if not set(first.cards).intersection(second.cards):
        return False
    return not (first.slice and second.slice) or bool(room.mask(first) & room.mask(second))


def _wants(room: Room, name: str, count: int) -> Wants:
    """The demand behind this request, as far as one card could serve it."""
    table = room.table
    if table is None:
        return ()
    found: list[tuple[str, int]] = []
    for profile in table.profiles:
        waiting = room.demand.get(profile.name, 0) - (count if profile.name == name else 0)
        if waiting > 0:
            found.append((profile.name, min(waiting, profile.instances)))
    return tuple(found)


@lru_cache(maxsize=65_536)
def _start(model: str, memory: int, name: str, taken: int, wants: Wants) -> int:
    """The slot at which a slice leaves most room.  The profile must fit the card."""
    table = slice_table(model, memory)
    profile = table.find(name) if table is not None else None
    if table is None or profile is None:
        raise AssertionError(f"{model} has no {name}")
    best: tuple[int, int, int] | None = None
    for start in profile.starts:
        mask = profile.mask(start)
        if mask & taken:
            continue
        after = taken | mask
        key = (-_packed(model, memory, after, wants, 0), -_room(model, memory, after), start)
        if best is None or key < best:
            best = key
    if best is None:
        raise AssertionError(f"no slot is free for {name}")
    return best[2]


@lru_cache(maxsize=65_536)
def _room(model: str, memory: int, taken: int) -> int:
    """Slots of all placements that are still possible."""
    table = slice_table(model, memory)
    profiles = table.profiles if table is not None else ()
    return sum(profile.slots for profile in profiles for start in profile.starts if not profile.mask(start) & taken)


@lru_cache(maxsize=65_536)
def _packed(model: str, memory: int, taken: int, wants: Wants, begin: int) -> int:
    """Milli-cards of the best packing of what is wanted into the free slots from `begin` on."""
    table = slice_table(model, memory)
    if table is None or not wants or begin >= table.slots:
        return 0
    best = _packed(model, memory, taken, wants, begin + 1)
    for index, (name, count) in enumerate(wants):
        profile = table.find(name)
        if profile is None or begin not in profile.starts or profile.mask(begin) & taken:
            continue
        left = ((name, count - 1),) if count > 1 else ()
        rest = (*wants[:index], *left, *wants[index + 1 :])
        after = taken | profile.mask(begin)
        best = max(best, table.milli(profile) + _packed(model, memory, after, rest, begin + profile.slots))
    return best
