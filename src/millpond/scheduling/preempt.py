"""Who must leave for a claim (scheduling §3): candidates, and the set that costs least.

The whole placement is tried before anybody is touched.  Ranks depend on who leaves, since a claim is ranked with its
own leaf's victims taken out; so a set counts only if it holds when its members are really gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from millpond.scheduling.approach import Choice, Price, approach, card_options
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_on, free_milli, place, view_fits
from millpond.scheduling.masks import offers_soon
from millpond.scheduling.pool import View, view_with
from millpond.scheduling.quota import Dims, Queue
from millpond.scheduling.rank import Walk
from millpond.scheduling.sets import EXACT, bits_of, minimal_sets
from millpond.scheduling.snapshot import Job, RunState, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task, behind, reclaimable
from millpond.scheduling.usage import CapLack

_LISTED = 12
"""Up to so many candidates on a node all sets that make room there are listed."""

_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Eviction:
    """The chosen victims and the whole placement that they make possible."""

    rank: Rank
    victims: tuple[Task, ...]
    seats: tuple[Seat, ...]
    cost: tuple[int, int, int, int, int]
    key: tuple[tuple[int, ...], tuple[str, ...]]


def eviction_find(state: State, job: Job, ask: Ask, *, limits: bool = True) -> Eviction | None:
    """The cheapest way to make room for a claim, over the models that it may use; None when there is none.

    ``limits`` false asks what would be possible if no cap and no guarantee stood in the way.
    """
    best: Eviction | None = None
    for model in state.pool.models(job.gpu):
        sized = ask_on(state.pool, ask, model)
        if limits and not state.firm_fits(job, sized.total, model):
            continue
        found = Attempt(state, job, sized, model, caps=limits).find()
        if found is not None and (best is None or (found.cost, found.key) < (best.cost, best.key)):
            best = found
    return best


@dataclass(slots=True)
class _Node:
    """One open room: what it offers once those who leave have left, and the candidates that sit there."""

    view: View
    seated: list[tuple[int, Seat, Job]]
    known: dict[int, bool] = field(default_factory=dict)

    def fits(self, mask: int, ask: Ask) -> bool:
        """Whether the candidates of `mask` make room here."""
        mine = mask & sum(1 << number for number, _, _ in self.seated)
        found = self.known.get(mine)
        if found is None:
            freed = ((seat, job) for number, seat, job in self.seated if mine >> number & 1)
            found = self.known[mine] = view_fits(view_with(self.view, freed), ask)
        return found


class Attempt:
    """One claim on one model."""

    def __init__(self, state: State, job: Job, ask: Ask, model: str, *, caps: bool) -> None:
        self.state, self.job, self.ask, self.model = state, job, ask, model
        self.leaf = state.leaf(job)
        self.dims: Dims = state.tree.dims_of(model)
        self.claim = (self.leaf, ask.total, self.dims)
        self.lacks: list[CapLack] = list(state.usage.cap_lacks(*self.claim)) if caps else []
        self._ever = False
        self._walks: dict[frozenset[str], Walk] = {}
        self.base = self._walk(_NOBODY)
        self.tasks: list[Task] = []
        self.ranks: list[Rank] = []
        self.nodes: list[_Node] = []
        self._enough: dict[int, bool] = {}
        self._prices: dict[int, Price] = {}
        self._ready = 0
        """Rooms that fit without any victim; ``_choices`` are the options of the others."""
        self._choices: list[list[int]] = []
        self._crowded: list[_Node] = []
        """Rooms with too many sets to list, which are asked each time."""

    def find(self) -> Eviction | None:
        candidates = self.candidates()
        if not candidates and not self.state.leaving:
            return None
        views = offers_soon(self.state, self.job, self.ask, self.model)
        tiers = sorted({rank for rank, _ in candidates}, reverse=True)
        for tier in (None, *tiers):
            chosen = [(rank, task) for rank, task in candidates if tier is not None and rank >= tier]
            self._load(chosen, views)
            if not self.enough((1 << len(self.tasks)) - 1):
                continue
            found = self._choose()
            if found is not None:
                return found
        return None

    # -- candidates

    def claim_rank(self) -> Rank:
        """The rank of the claim as things stand, with nobody taken out."""
        return _claim(self.base)

    def _walk(self, without: frozenset[str]) -> Walk:
        found = self._walks.get(without)
        if found is None:
            found = self._walks[without] = self.state.walk_with(self.claim, without)
        return found

    def candidates(self, *, ever: bool = False) -> list[tuple[Rank, Task]]:
        """Everybody who might leave for this claim, with the lowest rank that he may have.

        ``ever`` also names those whom `min_runtime` or the cool-down still protects.
        """
        self._ever = ever
        state = self.state
        own = [task for task in state.leaf_tasks[self.leaf] if state.may_leave(task) and behind(task.job, self.job)]
        last = self._walk(frozenset(task.id for task in own)) if own else self.base
        claim = min(_claim(self.base), _claim(last))
        ranks = self.base.ranks
        found = [(ranks[task.id], task) for task in own if ranks[task.id] >= claim and self._old(task, claim)]
        if claim is Rank.OPPORTUNISTIC:
            return found
        for tenant in state.tree.root.children:
            for rank, tasks in state.movable(tenant).items():
                if tenant is self.leaf.tenant:
                    ranked = [
                        (max(self.base.ranks[task.id], last.ranks.get(task.id, rank)), task)
                        for task in tasks
                        if task.leaf is not self.leaf
                    ]
                    found.extend(pair for pair in ranked if self._reclaimable(pair[1], pair[0], claim))
                elif rank > claim:
                    found.extend((rank, task) for task in tasks if self._reclaimable(task, rank, claim))
        return found

    def _reclaimable(self, task: Task, rank: Rank, claim: Rank) -> bool:
        family = task.leaf.tenant is self.leaf.tenant
        return reclaimable(rank, claim, family=family) and self._old(task, claim)

    def _old(self, task: Task, claim: Rank) -> bool:
        """`min_runtime` and the cool-down protect from borrowed claims."""
        if claim < Rank.BORROWED_PROD or self._ever:
            return True
        if (self.leaf.name, task.leaf.name) in self.state.cooling:
            return False
        running = task.kind is Kind.RUNNING and task.job.state is RunState.RUNNING
        return not running or self.state.now - task.admitted >= self.state.settings.min_runtime

    # -- what is enough

    def _load(self, chosen: list[tuple[Rank, Task]], views: list[View]) -> None:
        """Number the candidates of a tier that can matter: those on rooms that they can free, or under a full cap."""
        seated: dict[str, list[tuple[Task, Seat]]] = {}
        for _, task in chosen:
            for seat in task.seats:
                seated.setdefault(seat.node, []).append((task, seat))
        useful: set[str] = set()
        rooms: list[tuple[View, list[tuple[Task, Seat]]]] = []
        for view in views:
            here = seated.get(view.room.name, [])
            if not view_fits(view, self.ask):
                if not here or not view_fits(view_with(view, ((seat, task.job) for task, seat in here)), self.ask):
                    continue
                useful.update(task.id for task, _ in here)
            rooms.append((view, here))
        for lack in self.lacks:
            useful.update(task.id for _, task in chosen if lack.queue in task.leaf.path and lack.dim in task.dims)
        kept = sorted((task.id, rank, task) for rank, task in chosen if task.id in useful)
        self.tasks = [task for _, _, task in kept]
        self.ranks = [rank for _, rank, _ in kept]
        index = {task.id: number for number, task in enumerate(self.tasks)}
        self._enough, self._prices = {}, {}
        self.nodes = [
            _Node(view, [(index[task.id], seat, task.job) for task, seat in here if task.id in index])
            for view, here in rooms
        ]
        self._ready, self._choices, self._crowded = 0, [], []
        for node in self.nodes:
            if view_fits(node.view, self.ask):
                self._ready += 1
            elif len(self.tasks) <= EXACT and len(node.seated) > _LISTED:
                self._crowded.append(node)
            else:
                self._choices.append(self._options(node))

    def _options(self, node: _Node) -> list[int]:
        """The smallest sets of candidates that make room on one node."""

        def enough(mask: int) -> bool:
            return node.fits(mask, self.ask)

        bits = [1 << number for number, _, _ in node.seated]
        if len(bits) == 1:
            return bits
        if len(bits) <= _LISTED:
            return minimal_sets(bits, enough)
        groups: dict[int, int] = {}
        for number, seat, _ in node.seated:
            for card in seat.cards or (-1,):
                groups[card] = groups.get(card, 0) | 1 << number
        return card_options(
            [*groups.values()], single=max(self.ask.whole, self.ask.slices) <= 1, price=self._price, enough=enough
        )

    def enough(self, mask: int) -> bool:
        """Whether the victims of `mask` make room for the whole claim, under every cap."""
        known = self._enough.get(mask)
        if known is None:
            known = self._enough[mask] = self._caps_enough(mask) and self._rooms_enough(mask) and self._lent(mask)
        return known

    def _caps_enough(self, mask: int) -> bool:
        for lack in self.lacks:
            freed = sum(self._freed(task, lack) for number, task in enumerate(self.tasks) if mask >> number & 1)
            if freed < lack.deficit:
                return False
        return True

    def _freed(self, task: Task, lack: CapLack) -> int:
        """Usage that ends with a task.

        The victims of a hold count again when it ends, but for those who are sure to leave: the new hold takes them
        over where a cap asks for it.
        """
        names = (name for name in task.victims if name in self.state.tasks)
        back = [other for name in names if (other := self.state.tasks[name]).kind is not Kind.DRAINING]
        return sum(
            other.milli if other is task else -other.milli
            for other in (task, *back)
            if lack.queue in other.leaf.path and lack.dim in other.dims
        )

    def _rooms_enough(self, mask: int) -> bool:
        ready = self._ready + sum(1 for options in self._choices if any(option & ~mask == 0 for option in options))
        ready += sum(1 for node in self._crowded if node.fits(mask, self.ask))
        if ready < self.ask.nodes:
            return False
        if not self.ask.require or self.ask.linked:
            return True
        return place(self._freed_views(mask), self.ask) is not None

    def _lent(self, mask: int) -> bool:
        if not self.state.usage.keeping:
            return True
        victims = [task for number, task in enumerate(self.tasks) if mask >> number & 1]
        returned: dict[Queue, int] = {}
        for task in victims:
            for queue in task.leaf.path:
                returned[queue] = returned.get(queue, 0) + task.milli

        def free() -> int:
            return free_milli(self._freed_views(mask))

        return self.state.lend_lack(self.leaf, self.ask.total, self.model, free, returned) == 0

    def _freed_views(self, mask: int) -> Iterable[View]:
        for node in self.nodes:
            freed = [(seat, job) for number, seat, job in node.seated if mask >> number & 1]
            yield view_with(node.view, freed) if freed else node.view

    # -- the choice

    def _choose(self) -> Eviction | None:
        if len(self.tasks) <= EXACT:
            masks = minimal_sets([1 << number for number in range(len(self.tasks))], self.enough)
        else:
            own = sum(1 << number for number, task in enumerate(self.tasks) if task.leaf is self.leaf)
            everybody = (1 << len(self.tasks)) - 1
            need = self.ask.nodes - self._ready
            choice = Choice(self._price, self.enough, self.inversions, self._choices, need, everybody)
            # the claim's rank depends on who of its own leaf goes, so each side is also tried alone
            masks = approach(choice, sorted({0, own, everybody & ~own}) if own else [0])
        costs = sorted((cost, mask) for mask in masks if (cost := self._cost(mask)) is not None)
        if not costs:
            return None
        least = costs[0][0]
        return min((self._eviction(mask, cost) for cost, mask in costs if cost == least), key=lambda found: found.key)

    def _price(self, mask: int) -> Price:
        known = self._prices.get(mask)
        if known is None:
            rank = lost = milli = 0
            for bit in bits_of(mask):
                number = bit.bit_length() - 1
                task = self.tasks[number]
                rank = max(rank, Rank.OPPORTUNISTIC - self.ranks[number])
                lost, milli = lost + self.state.lost(task), milli + task.milli
            known = self._prices[mask] = (rank, lost, milli)
        return known

    def _own(self, mask: int) -> frozenset[str]:
        return frozenset(
            task.id for number, task in enumerate(self.tasks) if mask >> number & 1 and task.leaf is self.leaf
        )

    def _cost(self, mask: int) -> tuple[int, int, int, int, int] | None:
        """(highest victim rank, inversions, lost work, milli-cards, victims); None when a rank does not allow it.

        The rank is counted from below: 0 is the lowest, so that a smaller tuple is the better one.
        """
        walk = self._walk(self._own(mask))
        claim = _claim(walk)
        highest = Rank.OPPORTUNISTIC
        lost = milli = count = 0
        for number, task in enumerate(self.tasks):
            if not mask >> number & 1:
                continue
            if task.leaf is self.leaf:
                rank = self.ranks[number]
                allowed = rank >= claim and self._old(task, claim)
            else:
                mine = walk if task.leaf.tenant is self.leaf.tenant else self.state.walk(task.leaf.tenant)
                rank = mine.ranks[task.id]
                allowed = self._reclaimable(task, rank, claim)
            if not allowed:
                return None
            highest = min(highest, rank)
            lost, milli, count = lost + self.state.lost(task), milli + task.milli, count + 1
        return (Rank.OPPORTUNISTIC - highest, self.inversions(mask), lost, milli, count)

    def inversions(self, mask: int) -> int:
        """How many victims could be spared by evicting instead only lower-priority candidates of their leaf."""
        return sum(1 for bit in bits_of(mask) if (lower := self.lower(bit)) and self.enough(mask & ~bit | lower))

    def lower(self, bit: int) -> int:
        """The candidates of the same leaf with a lower priority, as a mask."""
        victim = self.tasks[bit.bit_length() - 1]
        return sum(
            1 << number
            for number, task in enumerate(self.tasks)
            if task.leaf is victim.leaf and task.job.priority < victim.job.priority
        )

    def _eviction(self, mask: int, cost: tuple[int, int, int, int, int]) -> Eviction:
        seats = place(self._freed_views(mask), self.ask)
        if seats is None:  # `enough` has said that it fits
            raise AssertionError(f"{self.job.id} does not fit after its evictions")
        victims = tuple(task for number, task in enumerate(self.tasks) if mask >> number & 1)
        rooms = self.state.pool.by_name
        key = (tuple(sorted(rooms[seat.node].index for seat in seats)), tuple(sorted(task.id for task in victims)))
        return Eviction(_claim(self._walk(self._own(mask))), victims, seats, cost, key)


def _claim(walk: Walk) -> Rank:
    if walk.claim is None:
        raise AssertionError("the claim was not in the walk")
    return walk.claim
