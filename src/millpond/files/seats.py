"""Where the running jobs of a snapshot file sit: ``at: [n1]`` or ``at: [{node: n1, cards: [0, 1], slot: 4}]``.

A job with several slices on a node names the node once, and sits as the planner would seat it, or one place a slice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from millpond.domain.amounts import CARD, milli_format
from millpond.domain.cards import CardRequest
from millpond.domain.errors import InvalidInput, Position
from millpond.files.fields import Fields, integer_between, listing_read, scalar_read, text_parse
from millpond.files.nodes import MAX_CARDS_PER_NODE
from millpond.files.tree import Node, Scalar
from millpond.scheduling.pool import RUN, Pool, View
from millpond.scheduling.slices import slice_profile, slice_seats, slice_spots, slots_taken
from millpond.scheduling.snapshot import Job, NodeState, Seat

AT_KEYS = ("node", "cards", "milli", "slice", "slot")


@dataclass(frozen=True, slots=True)
class Wish:
    """One entry of ``at``: a node, and its cards if the file names them."""

    node: str
    pos: Position
    cards: tuple[int, ...] | None = None
    milli: int | None = None
    slice: str = ""
    slot: int | None = None


def wish_read(node: Node) -> Wish:
    """A node's name, or a block that also names cards."""
    if isinstance(node, Scalar):
        return Wish(scalar_read(node, str), node.pos)
    fields = Fields(node, AT_KEYS, "a place")
    cards = None
    if "cards" in fields:
        index = integer_between("card index", 0, MAX_CARDS_PER_NODE - 1)
        cards = fields.items("cards", lambda item: scalar_read(item, index), MAX_CARDS_PER_NODE)
    return Wish(
        node=fields.required("node", str, "n1"),
        pos=fields.pos,
        cards=cards,
        milli=fields.optional("milli", integer_between("share of a card in thousandths", 1, CARD)),
        slice=fields.value("slice", text_parse(32, "slice"), ""),
        slot=fields.optional("slot", integer_between("memory slot", 0, 15)),
    )


def wishes_read(node: Node) -> tuple[Wish, ...]:
    return listing_read(node, wish_read, 4096)


@dataclass(slots=True)
class Floor:
    """Which card is taken by how much and by whom, while a file's jobs take their seats."""

    nodes: dict[str, NodeState]
    taken: dict[tuple[str, int], list[tuple[int, str]]] = field(default_factory=dict)
    seated: dict[str, list[tuple[Job, Seat]]] = field(default_factory=dict)

    def seat_all(self, jobs: dict[str, Job], wishes: dict[str, tuple[Wish, ...]]) -> dict[str, Job]:
        """`jobs` with their seats.  Named cards first, then the others as the planner would, in id order."""
        seats: dict[str, list[tuple[Seat, ...]]] = {}
        for job_id, places in wishes.items():
            self._distinct(jobs[job_id], places)
            seats[job_id] = [() if place.cards is None else (self.seat_named(jobs[job_id], place),) for place in places]
        for job_id in sorted(wishes):
            for index, place in enumerate(wishes[job_id]):
                if place.cards is None:
                    seats[job_id][index] = self._seats_planned(jobs[job_id], place)
        return {
            job_id: replace(job, seats=tuple(seat for group in seats.get(job_id, ()) for seat in group))
            for job_id, job in jobs.items()
        }

    def seat_named(self, job: Job, place: Wish, *, take: bool = True) -> Seat:
        """The cards that the file names, if they exist, suit the request and are free."""
        node = self._node(place)
        cards = place.cards or ()
        request = job.gpu
        count = node.spec.cards.count if node.spec.cards else 0
        for card in cards:
            if card >= count:
                raise InvalidInput(f"{place.node} has no card {card}; it has {count}", position=place.pos)
        if len(set(cards)) != len(cards):
            raise InvalidInput("a card is named twice", position=place.pos)
        self._count_check(request, len(cards), place)
        if request.slice:
            seat = self._slice_named(job, place, cards[0], free=take)
            if take:
                self._sit(job, seat)
            return seat
        default = request.milli if request.fraction else CARD
        seat = Seat(place.node, cards, place.milli or default, place.slice or request.slice, place.slot)
        if take:
            for card in cards:
                self._take(seat, card, job.id, place)
            self.seated.setdefault(seat.node, []).append((job, seat))
        return seat

    def _slice_named(self, job: Job, place: Wish, card: int, *, free: bool) -> Seat:
        """A slice on the card that the file names, at its slot or at the planner's; ``free``: nobody may sit there."""
        view, name = self._view(place), job.gpu.slice
        profile = slice_profile(view.room, name)
        if place.slice not in {"", name} or profile is None or view.room.table is None:
            asked = place.slice or name
            raise InvalidInput(f"the cards of {place.node} give {job.id} no slice mig-{asked}", position=place.pos)
        milli = view.room.table.milli(profile)
        if place.milli not in {None, milli}:
            raise InvalidInput(f"mig-{name} counts {milli} milli-cards on {place.node}", position=place.pos)
        if place.slot is not None and place.slot not in profile.starts:
            starts = ", ".join(str(start) for start in profile.starts)
            hint = f"it begins at {starts}"
            raise InvalidInput(f"mig-{name} cannot begin at slot {place.slot}", hint=hint, position=place.pos)
        taken = slots_taken(view, card) if free or place.slot is None else 0
        only = View(view.room, [left if index == card else 0 for index, left in enumerate(view.free)], 0, 0, 0, 0)
        only.slices = view.slices
        spots = slice_spots(only, name, 1) if place.slot is None else [(card, place.slot)]
        start = next((slot for _, slot in spots or () if not profile.mask(slot) & taken), None)
        if start is None:
            others = ", ".join(sorted({user for _, user in self.taken.get((place.node, card), ())})) or "nobody"
            raise InvalidInput(
                f"the slots of card {card} of {place.node} that {job.id} needs are taken (by {others})",
                hint="name another slot or card",
                position=place.pos,
            )
        return Seat(place.node, (card,), milli, name, start)

    def _sit(self, job: Job, seat: Seat) -> None:
        """A slice takes its seat; to others than slices the card is full."""
        for card in seat.cards:
            self.taken.setdefault((seat.node, card), []).append((CARD, job.id))
        self.seated.setdefault(seat.node, []).append((job, seat))

    def _view(self, place: Wish) -> View:
        """What a node offers, as the planner sees it."""
        pool = Pool([self._node(place)])
        for job, seat in self.seated.get(place.node, ()):
            pool.put(job, (seat,), RUN)
        return pool.rooms[0].now

    def _seats_planned(self, job: Job, place: Wish) -> tuple[Seat, ...]:
        if not job.gpu.slice:
            return (self._seat_planned(job, place),)
        view = self._view(place)
        if slice_profile(view.room, job.gpu.slice) is None:
            raise InvalidInput(f"{place.node} has no card that suits gpu: {job.gpu}", position=place.pos)
        if slice_spots(view, job.gpu.slice, job.gpu.slices) is None:
            raise InvalidInput(
                f"{job.id} does not fit on {place.node}: it has no room for {job.gpu}",
                hint="name another node",
                position=place.pos,
            )
        seats = slice_seats(view, job.gpu.slice, job.gpu.slices)
        for seat in seats:
            self._sit(job, seat)
        return seats

    def _seat_planned(self, job: Job, place: Wish) -> Seat:
        node = self._node(place)
        request = job.gpu
        if request.none:
            return Seat(place.node)
        kind = node.spec.cards
        if kind is None or not request.card_matches(kind.vendor, kind.model, kind.memory):
            raise InvalidInput(f"{place.node} has no card that suits gpu: {request}", position=place.pos)
        free = {card: self._free(place.node, card) for card in range(kind.count) if card not in node.bad_cards}
        if request.fraction:
            cards = self._fullest(free, request.milli)
            seat = Seat(place.node, cards, request.milli)
        else:
            cards = tuple(card for card, left in sorted(free.items()) if left == CARD)[: request.milli // CARD]
            cards = cards if len(cards) * CARD >= request.milli_min else ()
            seat = Seat(place.node, cards)
        if not cards:
            raise InvalidInput(
                f"{job.id} does not fit on {place.node}: it needs {milli_format(request.milli_min)} cards, "
                f"{sum(left == CARD for left in free.values())} are free",
                hint="name another node",
                position=place.pos,
            )
        for card in cards:
            self._take(seat, card, job.id, place)
        self.seated.setdefault(seat.node, []).append((job, seat))
        return seat

    @staticmethod
    def _fullest(free: dict[int, int], milli: int) -> tuple[int, ...]:
        fits = [(left, card) for card, left in free.items() if left >= milli]
        return (min(fits)[1],) if fits else ()

    def _free(self, node: str, card: int) -> int:
        """Milli-cards left; whole cards and slices leave nothing that a fraction or a whole card may use."""
        users = self.taken.get((node, card), ())
        return CARD - sum(milli for milli, _ in users)

    def _node(self, place: Wish) -> NodeState:
        node = self.nodes.get(place.node)
        if node is None:
            raise InvalidInput(f"there is no node {place.node[:80]!r}", hint=_some(self.nodes), position=place.pos)
        return node

    @staticmethod
    def _count_check(request: CardRequest, count: int, place: Wish) -> None:
        if request.slice or request.fraction:
            low = high = 1
        else:
            low, high = request.milli_min // CARD, request.milli // CARD
        if not low <= count <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise InvalidInput(f"gpu: {request} takes {wanted} cards on a node, {count} are named", position=place.pos)

    @staticmethod
    def _distinct(job: Job, places: tuple[Wish, ...]) -> None:
        names = Counter(place.node for place in places)
        each = {1} if any(place.cards is None for place in places) else {max(1, job.gpu.slices)}
        if len(names) == job.nodes and set(names.values()) == each:
            return
        position = places[0].pos if places else None
        if len(places) == job.nodes * max(each):
            raise InvalidInput("the nodes of a job are distinct", position=position)
        hint = "name one place for each node"
        if job.gpu.slices > 1:
            hint += ", or one for each slice"
        text = f"{job.id} runs on {job.nodes} nodes, at names {len(places)} places"
        raise InvalidInput(text, hint=hint, position=position)

    def _take(self, seat: Seat, card: int, job_id: str, place: Wish) -> None:
        users = self.taken.setdefault((seat.node, card), [])
        if sum(milli for milli, _ in users) + seat.milli > CARD:
            others = ", ".join(sorted({user for _, user in users}))
            raise InvalidInput(
                f"card {card} of {seat.node} is taken by {others}", hint="name another card", position=place.pos
            )
        users.append((seat.milli, job_id))


def _some(names: dict[str, NodeState]) -> str:
    shown = ", ".join(list(names)[:8])
    return f"the nodes are {shown}{', …' if len(names) > 8 else ''}" if shown else "the file has no nodes"
