"""Choosing among many victims, where trying every set would take too long (scheduling §3: more than 16 candidates).

Rooms that share no victim are independent, so the cheapest way to free `need` rooms is a sum over groups of rooms:
exact within small groups, greedy within large ones, and exact across groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from millpond.scheduling.crowds import Price, dearest, union
from millpond.scheduling.sets import bits_of, minimal_sets, spare
from millpond.scheduling.victims import Victims

_GROUP = 12
"""Largest group of victims in which every set is tried."""

_EXCHANGES = 16

_SELECTED = 8
"""Of so many victims of the claim's own leaf every selection is tried."""

Step = tuple[Price, int, int]
"""Price, victims, and the number of the room that they free."""


class Choice:
    """What `approach` chooses from: ``need`` of the rooms with options must come free; `Victims.enough` judges all."""

    def __init__(self, victims: Victims, need: int, horizon: int | None = None) -> None:
        """Rooms that are not among those of `victims` cost at least ``horizon`` in lost work."""
        self.horizon = horizon
        self.short = False
        """Whether a room beyond the horizon might have been chosen."""
        self.victims = victims
        self.need = need
        self.price = victims.price
        self.enough = victims.enough
        self.order = dearest(victims.everybody, victims.price)
        self.steps: list[Step] = sorted(
            (victims.price(option), option, node.view.room.index) for node in victims.choices for option in node.options
        )
        """Every option of every room, the cheapest first."""

    def cost(self, mask: int) -> tuple[int, int, int]:
        """What decides between sets, but for ties."""
        return (self.victims.inversions(mask), *self.price(mask))

    def heed(self, price: Price) -> None:
        """A room of that price was chosen as the cheapest."""
        if self.horizon is not None and price[0] >= self.horizon:
            self.short = True

    def step(self, mask: int, banned: int) -> int:
        """The cheapest victims, besides those of `mask` and none of `banned`, that free one room more; 0 if none do.

        Only rooms where somebody of `mask` sits can cost less than their options say.
        """
        best: tuple[Price, int] | None = None
        touched = set()
        for node in self.victims.rooms_of(mask) if mask else ():
            touched.add(node.view.room.index)
            if any(not option & ~mask for option in node.options):
                continue
            for option in node.options:
                if not option & banned:
                    left = option & ~mask
                    found = (self.price(left), left)
                    if best is None or found < best:
                        best = found
        for price, option, room in self.steps:
            if best is not None and best <= (price, option):
                break
            if room not in touched and not option & banned:
                self.heed(price)
                return option
        if best is None:
            self.short = self.horizon is not None
            return 0
        self.heed(best[0])
        return best[1]

    def dear(self, mask: int) -> list[int]:
        """The victims of `mask`, the dearest first."""
        return dearest(mask, self.price)


def approach(choice: Choice, banned: Sequence[int]) -> list[int]:
    """Good sets: one for each mask of `banned` victims, and what exchanges make better."""
    found: list[int] = []
    for without in banned:
        start = _rooms_cheapest(choice, without)
        mask = _grow(choice, start, without) if start is not None else None
        if mask is not None:
            found.append(mask)
    if not found:
        return [spare(choice.victims.everybody, choice.order, choice.enough)]
    best = min(found, key=lambda mask: (choice.cost(mask), mask))
    for _ in range(_EXCHANGES):
        tries = [
            other
            for bit in bits_of(best)
            for start in (0, best & ~bit)
            if (other := _grow(choice, start, bit)) is not None
        ]
        if not tries:
            break
        better = min(tries, key=lambda mask: (choice.cost(mask), mask))
        if choice.cost(better) >= choice.cost(best):
            break
        best = better
        found.append(best)
    return found


def approach_each(choice: Choice, own: int, permitted: Callable[[int], int]) -> list[int]:
    """Sets for each selection of `own` victims, where the good ones break a rule of ranks.

    ``permitted`` says who may go when exactly a selection goes, with the selection itself; 0 if it may not.  Whoever
    may go goes, and then is spared if he can be: once with the selection last, so that it stays if any set has it.
    """
    found: set[int] = set()
    tasks = choice.victims.tasks
    important = sorted(choice.order, key=lambda bit: -tasks[bit.bit_length() - 1].job.priority)
    orders = (choice.order, choice.order[::-1], important)
    for chosen in _selections(own):
        allowed = permitted(chosen)
        if not choice.enough(allowed):
            continue
        grown = _grow(choice, chosen, choice.victims.everybody & ~allowed)
        if grown is not None:
            found.add(grown)
        for order in orders:
            mask = spare(allowed, [bit for bit in order if not bit & chosen], choice.enough)
            found.add(spare(mask, choice.dear(chosen), choice.enough))
    return sorted(found)


def _selections(own: int) -> Iterator[int]:
    """Every selection of few; of many nobody, one, the first two, four, eight and so on, all."""
    bits = bits_of(own)
    if len(bits) <= _SELECTED:
        for number in range(1 << len(bits)):
            yield union([bit for index, bit in enumerate(bits) if number >> index & 1])
        return
    yield 0
    size = 1
    while size < len(bits):
        yield union(bits[:size])
        size *= 2
    yield own


def _grow(choice: Choice, mask: int, banned: int) -> int | None:
    """Add the cheapest room, or where rooms are enough the cheapest victim, until all is well."""
    place = len(choice.order)
    ready = dry = False  # rooms that are free stay so; where no room more can come free, none can with more victims;
    # and who was passed over once is not looked at again
    while not choice.enough(mask):
        step = 0
        ready = ready or choice.victims.ready_count(mask, choice.need) >= choice.need
        if not (ready or dry):
            step = choice.step(mask, banned)
            dry = not step
        excluded = mask | banned
        while not step and place:
            place -= 1
            step = 0 if choice.order[place] & excluded else choice.order[place]
        if not step:
            return None
        mask |= step
    return spare(mask, choice.dear(mask), choice.enough)


def _rooms_cheapest(choice: Choice, banned: int) -> int | None:
    """The cheapest victims that free `need` rooms without anybody of `banned`; None when that cannot be."""
    if choice.need == 1:  # one room is enough: no sums
        for price, option, _ in choice.steps:
            if not option & banned:
                choice.heed(price)
                return option
        choice.short = choice.horizon is not None
        return None
    rooms = [
        allowed for node in choice.victims.choices if (allowed := [mask for mask in node.options if not mask & banned])
    ]
    best: dict[int, tuple[Price, int]] = {0: ((0, 0), 0)}
    gains = [_group_steps(choice, group) for group in _groups(rooms)]
    if choice.horizon is not None:  # as many groups as are needed must be sure to be better than any room beyond
        sure = sum(1 for steps in gains if choice.price(steps[0][1])[0] < choice.horizon)
        choice.short = choice.short or sure < choice.need
    for steps in gains:
        merged = dict(best)
        for have, (price, mask) in best.items():
            for gain, step in steps:
                total = min(choice.need, have + gain)
                added = choice.price(step)
                both = (price[0] + added[0], price[1] + added[1])
                if total not in merged or (both, mask | step) < merged[total]:
                    merged[total] = (both, mask | step)
        best = merged
    found = best.get(max(0, choice.need))
    return found[1] if found is not None else None


def _ready(rooms: Sequence[Sequence[int]], mask: int) -> int:
    return sum(1 for options in rooms if any(option & ~mask == 0 for option in options))


def _groups(rooms: Sequence[Sequence[int]]) -> list[list[Sequence[int]]]:
    """Rooms that share a victim, directly or through others, together."""
    members: dict[int, list[int]] = {}
    group_of: dict[int, int] = {}
    for index, options in enumerate(rooms):
        bits = bits_of(union(options))
        joined = {group_of[bit] for bit in bits if bit in group_of}
        largest = max(joined, key=lambda group: (len(members[group]), group), default=index)
        mine = members.setdefault(largest, [])
        mine.append(index)
        for other in joined - {largest}:
            moved = members.pop(other)
            mine.extend(moved)
            for room in moved:
                for bit in bits_of(union(rooms[room])):
                    group_of[bit] = largest
        for bit in bits:
            group_of[bit] = largest
    return [
        [rooms[room] for room in sorted(members[group])] for group in sorted(members, key=lambda g: min(members[g]))
    ]


def _group_steps(choice: Choice, group: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """(rooms freed, cheapest victims for that) within a group."""
    bits = bits_of(union([union(options) for options in group]))
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
        steps.append((gain, spare(mask, choice.dear(mask), enough)))
    return steps


def _per_room(choice: Choice, group: Sequence[Sequence[int]], mask: int, step: int) -> tuple[int, int]:
    """Price of a step for each room that it frees, as an integer."""
    lost, _ = choice.price(step)
    gain = _ready(group, mask | step) - _ready(group, mask)
    return (lost * 1000 // max(gain, 1), step)
