"""Who must leave for a claim (scheduling §3): candidates, and the set that costs least.

The whole placement is tried before anybody is touched.  Ranks depend on who leaves, since a claim is ranked with its
own leaf's victims taken out; so a set counts only if it holds when its members are really gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millpond.scheduling.approach import Choice, approach, approach_each
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_on, place, place_possible, view_fits
from millpond.scheduling.masks import bound, offers_soon
from millpond.scheduling.narrow import Narrow
from millpond.scheduling.pool import View, seat_weight
from millpond.scheduling.quota import Dims
from millpond.scheduling.rank import Walk
from millpond.scheduling.sets import EXACT, bits_of, minimal_sets
from millpond.scheduling.snapshot import Job, RunState, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task, behind, reclaimable
from millpond.scheduling.usage import CapLack
from millpond.scheduling.victims import Victims

WIDE = 64
"""From so many nodes on bounds decide which of them are looked at."""

_NOBODY: frozenset[str] = frozenset()

Cost = tuple[int, int, int, int, int]
"""Highest victim rank counted from below, inversions, lost work, milli-cards, victims."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The chosen victims and the whole placement that they make possible."""

    rank: Rank
    victims: tuple[Task, ...]
    seats: tuple[Seat, ...]
    cost: Cost
    key: tuple[tuple[int, ...], tuple[str, ...]]


def eviction_find(state: State, job: Job, ask: Ask, *, limits: bool = True) -> Eviction | None:
    """The cheapest way to make room for a claim, over the models that it may use; None when there is none.

    ``limits`` false asks what would be possible if no cap and no guarantee stood in the way.
    """
    best: Eviction | None = None
    leaf = state.leaf(job)
    for model in state.pool.models(job.gpu):
        sized = ask_on(state.pool, ask, model)
        if limits and not state.firm_fits(job, sized.total, model):
            continue
        if not state.evictable(leaf, job, sized.total, model):
            continue
        found = Attempt(state, job, sized, model, caps=limits).find()
        if found is not None and (best is None or (found.cost, found.key) < (best.cost, best.key)):
            best = found
    return best


class Attempt:
    """One claim on one model."""

    def __init__(self, state: State, job: Job, ask: Ask, model: str, *, caps: bool, wide: int = WIDE) -> None:
        self.state, self.job, self.ask, self.model = state, job, ask, model
        self.leaf = state.leaf(job)
        self.dims: Dims = state.tree.dims_of(model)
        self.claim = (self.leaf, ask.total, self.dims)
        self.lacks: list[CapLack] = list(state.usage.cap_lacks(*self.claim)) if caps else []
        self._caps, self._wide = caps, wide
        self._ever = False
        self._walks: dict[frozenset[str], Walk] = {}

    def find(self) -> Eviction | None:
        """The cheapest way to make room; None if there is none."""
        asked = self.state.asked(self.leaf, self.job, self.ask.total, self.model)
        narrow = self._narrow() if asked else None
        if narrow is not None:
            return self._find_narrow(narrow)
        views = offers_soon(self.state, self.job, self.ask, self.model)
        if asked and self.state.own_asked(self.leaf, self.job, self.ask.total, self.model):
            asked = self._hopeful(self._behind(), views)
        candidates = self._bearable(self.candidates()) if asked else []
        if (not candidates and not self.state.leaving) or not self._relieved(candidates):
            return None
        tiers = sorted({rank for rank, _ in candidates}, reverse=True)
        if place_possible(views, self.ask):
            found = self._find_among([], views)
            if found is not None:
                return found
        for tier in tiers:
            chosen = [(rank, task) for rank, task in candidates if rank >= tier]
            if self._hopeful([task for _, task in chosen], views):
                found = self._find_among(chosen, views)
                if found is not None:
                    return found
        return None

    def _hopeful(self, tasks: list[Task], views: list[View]) -> bool:
        """Whether enough rooms have as many cards as are wanted, free or held by `tasks`: a first, cheap look."""
        ask = self.ask
        if ask.slice or not ask.milli:
            return True
        freed: dict[str, int] = {}
        for task in tasks:
            for seat in task.seats:
                freed[seat.node] = freed.get(seat.node, 0) + seat_weight(seat) * len(seat.cards)
        need = ask.nodes
        for view in views:
            more = freed.get(view.room.name, -1)
            if view_fits(view, ask) or (more >= 0 and more + sum(free for free in view.free if free > 0) >= ask.milli):
                need -= 1
                if need <= 0:
                    return True
        return False

    def _find_among(self, chosen: list[tuple[Rank, Task]], views: list[View]) -> Eviction | None:
        """The cheapest way with some candidates."""
        victims = Victims(self.state, self.leaf, self.ask, self.model, self.lacks, chosen, views)
        return self._choose(victims) if victims.enough(victims.everybody) else None

    # -- in a large pool

    def _narrow(self) -> Narrow | None:
        """How to look at few nodes of many; None where sums of cards do not tell enough, or the pool is small."""
        state, ask = self.state, self.ask
        rooms = state.pool.models(self.job.gpu)[self.model]
        if len(rooms) < self._wide or ask.require or ask.slice or not ask.milli or not state.timed:
            return None
        if self.lacks or state.usage.keeping or (self._caps and state.returning()):
            return None
        if bound(state, self.job, ask, self.model):
            return None
        own, last, claim = self._own()
        if claim >= Rank.BORROWED_PROD and state.protecting:
            return None
        stock = state.stock()
        if stock.sliced:
            return None
        eligible = stock.eligible(claim, self.leaf, own, self._others(last), state.safe())
        where = stock.where(self.job.gpu, self.model, rooms)
        return Narrow(stock, eligible, rooms, where, ask, state.sitting_in)

    def _find_narrow(self, narrow: Narrow) -> Eviction | None:
        state, nodes = self.state, self.ask.nodes
        tiers = narrow.tiers()
        if (tiers or state.leaving) and narrow.ready() >= nodes:
            found = self._find_among([], state.soon(self.job, self.model))
            if found is not None:
                return found
        for tier in tiers:
            if narrow.count(tier) < nodes:
                continue
            found = self._find_tier(narrow, tier)
            if found is not None:
                return found
        return None

    def _find_tier(self, narrow: Narrow, tier: Rank) -> Eviction | None:
        """The cheapest way with those of a rank and lower: among few nodes, or more until none can be better."""
        state, size = self.state, self.ask.nodes + self._wide // 8
        while True:
            picked = narrow.pick(tier, size, state.now, state.settings)
            victims = Victims(
                state, self.leaf, self.ask, self.model, self.lacks, picked.chosen, picked.views, picked.far
            )
            last = picked.horizon is None
            if victims.enough(victims.everybody) and (last or len(victims.tasks) > EXACT):
                choice = Choice(victims, self.ask.nodes - len(victims.ready), picked.horizon)
                found = self._choose(victims, choice)
                if not choice.short:
                    return found
            elif last:
                return None
            size *= 4

    def _bearable(self, candidates: list[tuple[Rank, Task]]) -> list[tuple[Rank, Task]]:
        """Without the holds whose end could break a cap of the claim.

        Who is overdue counts again when the hold ends that counts in his place, and nobody may say when he leaves.
        """
        back = self.state.returning() if self._caps else []
        if not back:
            return candidates
        tight = [
            lack
            for lack in self.state.usage.caps(*self.claim)
            if lack.deficit + sum(task.milli for task in back if _inside(task, lack)) > 0
        ]
        names = {task.id for task in back if any(_inside(task, lack) for lack in tight)}
        return [(rank, task) for rank, task in candidates if names.isdisjoint(task.victims)]

    def _relieved(self, candidates: list[tuple[Rank, Task]]) -> bool:
        """Whether all of them together can free what the caps lack: where not, no room need be looked at."""
        return all(
            sum(task.milli for _, task in candidates if _inside(task, lack)) >= lack.deficit for lack in self.lacks
        )

    # -- candidates

    def claim_rank(self) -> Rank:
        """The rank of the claim as things stand, with nobody taken out."""
        return self.state.claim_rank(*self.claim)

    @property
    def base(self) -> Walk:
        """The ranks with nobody taken out."""
        return self._walk(_NOBODY)

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
        found, last, claim = self._own()
        if claim is Rank.OPPORTUNISTIC:
            return found
        found.extend(self._family(last, claim))
        for tenant in state.tree.root.children:
            for rank, tasks in state.movable(tenant).items() if tenant is not self.leaf.tenant else ():
                if rank > claim:
                    found.extend((rank, task) for task in tasks if self._reclaimable(task, rank, claim))
        return found

    def _own(self) -> tuple[list[tuple[Rank, Task]], Walk, Rank]:
        """Candidates of its own leaf, the ranks when all behind it have left, and the best rank that it may have."""
        base = self.base
        own = self._behind()
        last = self._walk(frozenset(task.id for task in own)) if own else base
        claim = min(_claim(base), _claim(last))
        ranks = base.ranks
        found = [(ranks[task.id], task) for task in own if ranks[task.id] >= claim and self._old(task, claim)]
        return found, last, claim

    def _behind(self) -> list[Task]:
        """Who of its leaf stands behind the claim and might leave."""
        state = self.state
        return [task for task in state.leaf_tasks[self.leaf] if state.may_leave(task) and behind(task.job, self.job)]

    def _family(self, last: Walk, claim: Rank) -> list[tuple[Rank, Task]]:
        """Candidates of the other leaves of its tenant."""
        if claim is Rank.OPPORTUNISTIC:
            return []
        ranks = self.base.ranks
        found = [
            (max(ranks[task.id], last.ranks.get(task.id, rank)), task)
            for rank, tasks in self.state.movable(self.leaf.tenant).items()
            for task in tasks
            if task.leaf is not self.leaf
        ]
        return [(rank, task) for rank, task in found if self._reclaimable(task, rank, claim)]

    def _others(self, last: Walk) -> list[tuple[str, Rank]]:
        """Who of its tenant ranks otherwise in the walks of the claim, and how."""
        before, base, gone = self.state.walk(self.leaf.tenant).ranks, self.base.ranks, last.ranks
        if base is before and gone is before:
            return []
        ranks = ((name, rank, max(base[name], gone.get(name, rank))) for name, rank in before.items())
        return [(name, other) for name, rank, other in ranks if other is not rank]

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

    # -- the choice

    def _choose(self, victims: Victims, choice: Choice | None = None) -> Eviction | None:
        if len(victims.tasks) <= EXACT:
            costs = self._costs(victims, minimal_sets(bits_of(victims.everybody), victims.enough))
        else:
            own = sum(1 << number for number, task in enumerate(victims.tasks) if task.leaf is self.leaf)
            # the claim's rank depends on who of its own leaf goes, so each side is also tried alone
            banned = sorted({0, own, victims.everybody & ~own}) if own else [0]
            choice = choice or Choice(victims, self.ask.nodes - len(victims.ready))
            costs = self._costs(victims, approach(choice, banned))
            if not costs and choice.horizon is not None:
                choice.short = True
                return None
            if not costs:
                costs = self._costs(victims, approach_each(choice, own, lambda own: self._permitted(victims, own)))
        if not costs:
            return None
        least = costs[0][0]
        found = (self._eviction(victims, mask, cost) for cost, mask in costs if cost == least)
        return min(found, key=lambda one: one.key)

    def _costs(self, victims: Victims, masks: Iterable[int]) -> list[tuple[Cost, int]]:
        """The sets that the ranks allow, the least first."""
        return sorted((cost, mask) for mask in masks if (cost := self._cost(victims, mask)) is not None)

    def _permitted(self, victims: Victims, chosen: int) -> int:
        """Whom the ranks allow to go when of the claim's own leaf exactly `chosen` go; 0 if one of these may not."""
        walk = self._walk(victims.own(chosen))
        claim = _claim(walk)
        found = 0
        for bit, task, rank in zip(bits_of(victims.everybody), victims.tasks, victims.ranks, strict=True):
            if task.leaf is not self.leaf:
                found |= bit if self._reclaimable(task, self._rank(task, walk), claim) else 0
            elif chosen & bit:
                if rank < claim or not self._old(task, claim):
                    return 0
                found |= bit
        return found

    def _rank(self, task: Task, walk: Walk) -> Rank:
        """The rank of somebody of another leaf; ``walk`` is of the claim's tenant with its victims taken out."""
        mine = walk if task.leaf.tenant is self.leaf.tenant else self.state.walk(task.leaf.tenant)
        return mine.ranks[task.id]

    def _cost(self, victims: Victims, mask: int) -> Cost | None:
        """(highest victim rank, inversions, lost work, milli-cards, victims); None when a rank does not allow it.

        The rank is counted from below: 0 is the lowest, so that a smaller tuple is the better one.
        """
        walk = self._walk(victims.own(mask))
        claim = _claim(walk)
        highest = Rank.OPPORTUNISTIC
        lost, milli = victims.price(mask)
        for bit in bits_of(mask):
            number = bit.bit_length() - 1
            task = victims.tasks[number]
            if task.leaf is self.leaf:
                rank = victims.ranks[number]
                allowed = rank >= claim and self._old(task, claim)
            else:
                rank = self._rank(task, walk)
                allowed = self._reclaimable(task, rank, claim)
            if not allowed:
                return None
            highest = min(highest, rank)
        return (Rank.OPPORTUNISTIC - highest, victims.inversions(mask), lost, milli, mask.bit_count())

    def _eviction(self, victims: Victims, mask: int, cost: Cost) -> Eviction:
        seats = place(victims.fitting(mask), self.ask)
        if seats is None:  # `enough` has said that it fits
            raise AssertionError(f"{self.job.id} does not fit after its evictions")
        leaving = tuple(victims.tasks[bit.bit_length() - 1] for bit in bits_of(mask))
        rooms = self.state.pool.by_name
        key = (tuple(sorted(rooms[seat.node].index for seat in seats)), tuple(sorted(task.id for task in leaving)))
        return Eviction(_claim(self._walk(victims.own(mask))), leaving, seats, cost, key)


def _claim(walk: Walk) -> Rank:
    if walk.claim is None:
        raise AssertionError("the claim was not in the walk")
    return walk.claim


def _inside(task: Task, lack: CapLack) -> bool:
    """Whether a task counts under a cap."""
    return lack.queue in task.leaf.path and lack.dim in task.dims
