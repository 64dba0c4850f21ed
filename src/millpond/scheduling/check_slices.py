"""Slices judged a second time (scheduling §6): where they begin, that none overlap, that nobody else is beside them.

Shares the vendor's tables with the planner, and nothing else: slots are plain sets here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from millpond.domain.nodes import CardKind
from millpond.domain.slices import SliceProfile, slice_table
from millpond.scheduling.check_book import Use
from millpond.scheduling.check_world import World
from millpond.scheduling.decisions import Violation
from millpond.scheduling.snapshot import Job, NodeState, Seat

Place = tuple[str, int]


def slices(world: World) -> Iterator[Violation]:
    """Each new slice is one that its card can have, and the cards hold nothing that does not go together."""
    for use in world.added:
        if use.job.gpu.slice:
            yield from _legal(world, use)
    starts = list(world.starts.values())
    now = Cards(world.book.nodes, [*world.running.values(), *starts])
    later = Cards(world.book.nodes, world.after)
    new = {place for use in world.added for place in _places(use)}
    for place in sorted(new):
        wrong = now.wrong(place) if any(place in _places(use) for use in starts) else ""
        wrong = wrong or later.wrong(place)
        if wrong:
            owners = sorted({use.job.id for use in world.added if place in _places(use)})
            node, card = place
            yield Violation("slot-overlap", f"card {card} of {node} would hold {wrong}", (*owners, node))


def geometry(world: World) -> Iterator[Violation]:
    """The plan divides every card on which a slice starts into what is there and what starts, and no other card."""
    wanted: dict[Place, list[tuple[str, int | None]]] = defaultdict(list)
    for use in world.starts.values():
        for seat in use.seats:
            for card in seat.cards if seat.slice else ():
                wanted[seat.node, card].append((seat.slice, seat.slot))
    for use in world.running.values():
        for seat in use.seats:
            for card in seat.cards:
                if seat.slice and (seat.node, card) in wanted:
                    wanted[seat.node, card].append((seat.slice, seat.slot))
    told = {(one.node, one.card): one.geometry for one in world.plan.reshape}
    for place in sorted(wanted.keys() | told.keys()):
        if sorted(told.get(place, ())) != sorted(wanted[place], key=str):
            node, card = place
            text = f"card {card} of {node} is divided into {list(told.get(place, ()))}, but {wanted[place]} is wanted"
            yield Violation("reshape-wrong", text, (node,))


def _legal(world: World, use: Use) -> Iterator[Violation]:
    job = use.job
    each: dict[str, int] = defaultdict(int)
    for seat in use.seats:
        each[seat.node] += 1
        kind = world.book.nodes[seat.node].spec.cards
        wrong = _seat_wrong(seat, kind)
        if wrong:
            yield Violation("slice-wrong", f"{job.id} gets mig-{seat.slice} of {seat.node}, {wrong}", (job.id,))
    if any(count != job.gpu.slices for count in each.values()):
        text = f"{job.id} needs {job.gpu.slices} slices on each node and gets {sorted(each.items())}"
        yield Violation("gang-broken", text, (job.id,))


def _seat_wrong(seat: Seat, kind: CardKind | None) -> str:
    profile = profile_on(kind, seat.slice)
    if profile is None or kind is None:
        return "which its cards cannot have"
    if seat.slot not in profile.starts:
        return f"which cannot begin at slot {seat.slot}"
    table = slice_table(kind.model, kind.memory)
    share = 0 if table is None else (profile.memory * 1000 + table.memory - 1) // table.memory
    return "" if seat.milli == share else f"counted as {seat.milli} milli-cards in place of {share}"


def profile_on(kind: CardKind | None, name: str) -> SliceProfile | None:
    """A profile by name, if such cards divide and have it."""
    if kind is None or (kind.uuids and not kind.mig):
        return None
    table = slice_table(kind.model, kind.memory)
    return next((profile for profile in table.profiles if profile.name == name), None) if table else None


def _places(use: Use) -> set[Place]:
    return {(seat.node, card) for seat in use.seats for card in seat.cards}


class Cards:
    """Who has which slots of every card, and who sits on it otherwise."""

    def __init__(self, nodes: dict[str, NodeState], uses: Iterable[Use]) -> None:
        self._nodes = nodes
        self._slots: dict[Place, list[set[int]]] = defaultdict(list)
        self._media: dict[Place, int] = defaultdict(int)
        self._others: set[Place] = set()
        for use in uses:
            for seat in use.seats:
                for card in seat.cards:
                    self._sit((seat.node, card), seat)

    def _sit(self, place: Place, seat: Seat) -> None:
        if not seat.slice:
            self._others.add(place)
            return
        state = self._nodes.get(seat.node)
        profile = profile_on(state.spec.cards if state is not None else None, seat.slice)
        size = profile.slots if profile is not None else 16
        self._slots[place].append(set(range(seat.slot or 0, (seat.slot or 0) + size)))
        self._media[place] += seat.slice.endswith("+me")

    def wrong(self, place: Place) -> str:
        """What does not go together on a card; empty if all is well."""
        slots = self._slots.get(place, [])
        if slots and place in self._others:
            return "slices beside a job without"
        if sum(len(one) for one in slots) > len(set().union(*slots)):
            return "slices on the same slots"
        return "two slices with media engines" if self._media.get(place, 0) > 1 else ""

    def divided(self, node: str, card: int) -> bool:
        """Whether slices sit on a card."""
        return bool(self._slots.get((node, card)))

    def count(self, state: NodeState, job: Job) -> int:
        """How many slices of the profile that a job asks for a node could still give."""
        profile = profile_on(state.spec.cards, job.gpu.slice)
        if profile is None or state.spec.cards is None:
            return 0
        total = 0
        for card in range(state.spec.cards.count):
            place = (state.spec.name, card)
            if card in state.bad_cards or place in self._others:
                continue
            taken: set[int] = set().union(*self._slots.get(place, []))
            free = sum(1 for start in profile.starts if taken.isdisjoint(range(start, start + profile.slots)))
            total += min(free, max(0, 1 - self._media.get(place, 0))) if profile.media else free
        return total
