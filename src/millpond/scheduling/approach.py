"""Choosing among many victims, where trying every set would take too long (scheduling §3: more than 16 candidates).

Rooms that share no victim are independent, so the cheapest way to free `need` rooms is a sum over groups of rooms:
exact within small groups, greedy within large ones, and exact across groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millpond.scheduling.sets import Condition, bits_of, minimal_sets, spare

Price = tuple[int, int, int]
"""(highest rank counted from below, lost work, milli-cards)."""

_GROUP = 12
"""Largest group of victims in which every set is tried."""

_EXCHANGES = 16


@dataclass(frozen=True, slots=True)
class Choice:
    """``rooms`` are the options of each room that does not fit yet; ``need`` of them must; ``enough`` judges it all."""

    price: Callable[[int], Price]
    enough: Condition
    inversions: Callable[[int], int]
    rooms: Sequence[Sequence[int]]
    need: int
    everybody: int


def card_options(groups: Sequence[int], *, single: bool, price: Callable[[int], Price], enough: Condition) -> list[int]:
    """Options of a crowded node: clear the cheapest cards one after the other, then spare whom one can.

    ``groups`` are who sits on each card; ``single`` says that one card is enough, so that each is tried on its own.
    """
    options: set[int] = set()
    everybody = _union(groups)
    for start in groups if single else [0]:
        mask = start
        while not enough(mask):
            left = [group & ~mask for group in groups if group & ~mask]
            mask |= min(left, key=lambda group: (price(group), group)) if left else everybody
        options.add(spare(mask, _dearest(mask, price), enough))
    return sorted(options)


def approach(choice: Choice, banned: Sequence[int]) -> list[int]:
    """Good sets: one for each mask of `banned` victims, and what exchanges make better."""
    order = _dearest(choice.everybody, choice.price)
    found: list[int] = []
    for without in banned:
        start = _rooms_cheapest(choice, without)
        mask = _grow(choice, start, without, order) if start is not None else None
        if mask is not None:
            found.append(mask)
    if not found:
        return [spare(choice.everybody, order, choice.enough)]
    best = min(found, key=lambda mask: (_cost(choice, mask), mask))
    for _ in range(_EXCHANGES):
        tries = [
            other
            for bit in bits_of(best)
            for start in (0, best & ~bit)
            if (other := _grow(choice, start, bit, order)) is not None
        ]
        if not tries or _cost(choice, better := min(tries, key=lambda mask: (_cost(choice, mask), mask))) >= _cost(
            choice, best
        ):
            break
        best = better
        found.append(best)
    return found


def _cost(choice: Choice, mask: int) -> tuple[int, int, int, int]:
    rank, lost, milli = choice.price(mask)
    return (rank, choice.inversions(mask), lost, milli)


def _dearest(mask: int, price: Callable[[int], Price]) -> list[int]:
    return sorted(bits_of(mask), key=lambda bit: (price(bit), bit), reverse=True)


def _union(masks: Sequence[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _ready(rooms: Sequence[Sequence[int]], mask: int) -> int:
    return sum(1 for options in rooms if any(option & ~mask == 0 for option in options))


def _grow(choice: Choice, mask: int, banned: int, order: Sequence[int]) -> int | None:
    """Add the cheapest room, or where rooms are enough the cheapest victim, until all is well."""
    while not choice.enough(mask):
        steps: list[int] = []
        if _ready(choice.rooms, mask) < choice.need:
            steps = [
                option & ~mask
                for options in choice.rooms
                if not any(option & ~mask == 0 for option in options)
                for option in options
                if not option & banned
            ]
        steps = steps or [bit for bit in order if not bit & (mask | banned)]
        if not steps:
            return None
        mask |= min(steps, key=lambda step: (choice.price(step), step))
    return spare(mask, order, choice.enough)


def _rooms_cheapest(choice: Choice, banned: int) -> int | None:
    """The cheapest victims that free `need` rooms without anybody of `banned`; None when that cannot be."""
    rooms = [allowed for options in choice.rooms if (allowed := [mask for mask in options if not mask & banned])]
    if choice.need == 1:  # one room is enough: no sums
        return min((mask for options in rooms for mask in options), key=_keyed(choice), default=None)
    best: dict[int, tuple[Price, int]] = {0: ((0, 0, 0), 0)}
    for group in _groups(rooms):
        steps = _group_steps(choice, group)
        merged = dict(best)
        for have, (price, mask) in best.items():
            for gain, step in steps:
                total = min(choice.need, have + gain)
                added = choice.price(step)
                both = (max(price[0], added[0]), price[1] + added[1], price[2] + added[2])
                if total not in merged or (both, mask | step) < merged[total]:
                    merged[total] = (both, mask | step)
        best = merged
    found = best.get(max(0, choice.need))
    return found[1] if found is not None else None


def _keyed(choice: Choice) -> Callable[[int], tuple[Price, int]]:
    return lambda mask: (choice.price(mask), mask)


def _groups(rooms: Sequence[Sequence[int]]) -> list[list[Sequence[int]]]:
    """Rooms that share a victim, directly or through others, together."""
    members: dict[int, list[int]] = {}
    group_of: dict[int, int] = {}
    for index, options in enumerate(rooms):
        bits = bits_of(_union(options))
        joined = {group_of[bit] for bit in bits if bit in group_of}
        largest = max(joined, key=lambda group: (len(members[group]), group), default=index)
        mine = members.setdefault(largest, [])
        mine.append(index)
        for other in joined - {largest}:
            moved = members.pop(other)
            mine.extend(moved)
            for room in moved:
                for bit in bits_of(_union(rooms[room])):
                    group_of[bit] = largest
        for bit in bits:
            group_of[bit] = largest
    return [
        [rooms[room] for room in sorted(members[group])] for group in sorted(members, key=lambda g: min(members[g]))
    ]


def _group_steps(choice: Choice, group: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """(rooms freed, cheapest victims for that) within a group."""
    bits = bits_of(_union([_union(options) for options in group]))
    steps: list[tuple[int, int]] = []
    for gain in range(1, min(choice.need, len(group)) + 1):

        def enough(mask: int, wanted: int = gain) -> bool:
            return _ready(group, mask) >= wanted

        if len(bits) <= _GROUP:
            steps.append((gain, min(minimal_sets(bits, enough), key=lambda mask: (choice.price(mask), mask))))
            continue
        mask = 0
        while not enough(mask):
            left = [option & ~mask for options in group for option in options if option & ~mask]
            mask |= min(left, key=lambda step: _per_room(choice, group, mask, step))
        steps.append((gain, spare(mask, _dearest(mask, choice.price), enough)))
    return steps


def _per_room(choice: Choice, group: Sequence[Sequence[int]], mask: int, step: int) -> tuple[int, int, int]:
    """Price of a step for each room that it frees, as an integer."""
    rank, lost, _ = choice.price(step)
    gain = _ready(group, mask | step) - _ready(group, mask)
    return (rank, lost * 1000 // max(gain, 1), step)
