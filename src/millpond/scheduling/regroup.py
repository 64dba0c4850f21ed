"""Regrouping (scheduling §3 and §5): moves for a guaranteed claim whose cards are there, but scattered.

All guarantees together fit the pool, so what a guaranteed claim needs is always somewhere: free, or with somebody who
may be evicted for it.  But guaranteed jobs of other queues, which nobody may evict, can sit in between.  Once the claim
has waited `regroup_after` they are moved: who only borrows leaves as for any claim, and guaranteed jobs with a
checkpoint leave if they are smaller than the claim and find cards elsewhere at once: free ones, or by evictions and
moves that they may claim in their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from millpond.scheduling.consolidate import Spots, choices, may_leave_for, sets_freeing, view_freed, view_less
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_make, ask_on, free_milli, place, view_fits
from millpond.scheduling.masks import bound, masked, offers_soon
from millpond.scheduling.pool import View
from millpond.scheduling.preempt import Eviction
from millpond.scheduling.quota import Dims, Queue
from millpond.scheduling.reserve import earliest
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Task, behind, reclaimable

_CHAINS = 512
"""So many choices of whom to move for somebody who moves are looked at for one claim."""

Taken = dict[str, list[tuple[Seat, Job]]]
"""Seats that are given away already, by node, and to whom."""

Cost = tuple[int, int, int, int]
"""Lost work of those who move; of those evicted the highest rank, from below, and the lost work; milli-cards of all."""


@dataclass(frozen=True, slots=True)
class Regrouping:
    """The evictions that make room for a claim; those of `moved` start again elsewhere.

    ``spots``: where those of them go who need neither an eviction nor a move of others for it.
    """

    eviction: Eviction
    moved: frozenset[str]
    spots: Spots


@dataclass(frozen=True, slots=True)
class _Clearing:
    """One node, and who must move from it and who be evicted there, so that the claim fits."""

    view: View
    moved: tuple[Task, ...]
    evicted: tuple[Task, ...]


def regrouping_find(state: State, job: Job, ask: Ask) -> Regrouping | None:
    """The cheapest moves, with what evictions they need, that let a claim start; None if there are none worth it.

    Asked for claims that neither fit nor can evict their way in.  None also for a claim that is not guaranteed.
    """
    after = state.settings.regroup_after
    if after is None or job.submitted > state.now - after or ask.slice or not ask.milli:
        return None
    best: Regrouping | None = None
    for model in state.pool.models(job.gpu):
        found = _Search(state, job, ask, model).find() if state.firm_fits(job, ask.total, model) else None
        if found is not None and (best is None or _order(found) < _order(best)):
            best = found
    return best


def spot_again(state: State, task: Task, seats: tuple[Seat, ...]) -> tuple[Seat, ...] | None:
    """Where somebody who moves goes on the nodes found for him, now that the claim has got its own.

    None where others have reserved that: then he must claim it when he has left.
    """
    rooms = [state.pool.by_name[name] for name in {seat.node: None for seat in seats}]
    model = state.model_of(seats)
    ask = ask_on(state.pool, ask_make(task.job), model)
    return place(masked([room.soon() for room in rooms], bound(state, task.job, ask, model)), ask)


def _order(found: Regrouping) -> tuple[object, ...]:
    return found.eviction.cost, found.eviction.key


class _Search:
    """One claim on one model."""

    def __init__(self, state: State, job: Job, ask: Ask, model: str) -> None:
        self._state, self._job, self._ask, self._model = state, job, ask, model
        self._leaf = state.leaf(job)
        self._dims = state.tree.dims_of(model)
        self._most = ask.total * state.settings.lost_work_cap
        self._left = [_CHAINS]

    def find(self) -> Regrouping | None:
        state, ask = self._state, self._ask
        if state.claim_rank(self._leaf, ask.total, self._dims) is not Rank.GUARANTEED:
            return None
        if any(state.usage.cap_lacks(self._leaf, ask.total, self._dims)):
            return None
        offers = offers_soon(state, self._job, ask, self._model)
        clearings = [clearing for view in offers if (clearing := self._clearing(view)) is not None]
        if len(clearings) < ask.nodes:
            return None
        clearings.sort(key=lambda one: (self._cost(one.moved, one.evicted), one.view.room.index))
        best: tuple[Cost, Regrouping] | None = None
        for chosen in choices(clearings, ask.nodes):
            found = self._together(chosen)
            if found is not None and (best is None or (found[0], _order(found[1])) < (best[0], _order(best[1]))):
                best = found
        return best[1] if best is not None and self._worth(best[0][0]) else None

    def _worth(self, lost: int) -> bool:
        """Whether the claim gains more by starting now than those lose who move."""
        fit = earliest(self._state, self._job, self._ask, self._model)
        wait = self._state.settings.lost_work_cap
        if fit is not None:
            wait = min(wait, fit.time - self._state.now)
        return lost < self._ask.total * wait

    def _cost(self, moved: Iterable[Task], evicted: Iterable[Task]) -> Cost:
        state, moving, leaving = self._state, list(moved), list(evicted)
        ranks = [Rank.OPPORTUNISTIC - state.walk(task.leaf.tenant).ranks[task.id] for task in leaving]
        return (
            sum(state.lost(task) for task in moving),
            max(ranks, default=0),
            sum(state.lost(task) for task in leaving),
            sum(task.milli for task in (*moving, *leaving)),
        )

    # -- one node

    def _clearing(self, view: View) -> _Clearing | None:
        """The cheapest way to make the claim fit on a node; None if there is none."""
        here = list(self._state.sitting.get(view.room.name, {}).values())
        evictable = [task for task in here if _evictable(self._state, self._job, task)]
        moved: tuple[Task, ...] = ()
        bare = view_freed(view, evictable)
        if not view_fits(bare, self._ask):
            movable = [task for task in here if task not in evictable and _movable(self._state, self._ask.total, task)]
            moved = self._cheapest(bare, movable, lambda tasks: self._cost(tasks, ()))
            if not moved or self._cost(moved, ())[0] >= self._most:
                return None
        base = view_freed(view, moved)
        if view_fits(base, self._ask):
            return _Clearing(view, moved, ())
        evicted = self._cheapest(base, evictable, lambda tasks: self._cost((), tasks))
        return _Clearing(view, moved, evicted or tuple(evictable))

    def _cheapest(self, view: View, tasks: list[Task], cost: Callable[[tuple[Task, ...]], Cost]) -> tuple[Task, ...]:
        """The cheapest set of `tasks` without which the claim fits on a node; empty if there is none."""
        sets = sets_freeing(self._state, view, self._ask, tasks)
        return min(sets, key=lambda found: (cost(found), _ids(found)), default=())

    # -- all nodes

    def _together(self, chosen: tuple[_Clearing, ...]) -> tuple[Cost, Regrouping] | None:
        """What these nodes cost together; None if some of those who move would find no other cards."""
        rooms = self._state.pool.by_name
        moved = {task.id for clearing in chosen for task in clearing.moved}
        found = {task.id: task for clearing in chosen for task in (*clearing.moved, *clearing.evicted)}
        tasks = self._spared(chosen, list(found.values()), moved)
        moving = [task for task in tasks if task.id in moved]
        leaving = [task for task in tasks if task.id not in moved]
        seats = place([view_freed(clearing.view, tasks) for clearing in chosen], self._ask)
        if not moving or seats is None:
            return None
        elsewhere = _Elsewhere(self._state, tasks, {}, self._left)
        elsewhere.take(self._job, seats)
        if not elsewhere.fits(moving) or self._lend_lack(leaving):
            return None
        cost = self._cost(moving, leaving)
        key = (tuple(sorted(rooms[seat.node].index for seat in seats)), _ids(tasks))
        price = (cost[1], 0, cost[0] + cost[2], cost[3], len(tasks))
        eviction = Eviction(Rank.GUARANTEED, (*leaving, *moving), seats, price, key)
        return cost, Regrouping(eviction, frozenset(task.id for task in moving), tuple(elsewhere.spots))

    def _spared(self, chosen: tuple[_Clearing, ...], tasks: list[Task], moved: set[str]) -> list[Task]:
        """`tasks` without those who turn out to be needless since somebody leaves several nodes at once."""
        for task in sorted(tasks, key=lambda task: (task.id not in moved, -self._state.lost(task), task.id)):
            rest = [other for other in tasks if other is not task]
            if place([view_freed(clearing.view, rest) for clearing in chosen], self._ask) is not None:
                tasks = rest
        return tasks

    def _lend_lack(self, leaving: list[Task]) -> bool:
        """Whether queues that do not lend would lack what they must find free; who moves takes as much as before."""
        state, returned = self._state, dict[Queue, int]()
        for task in leaving:
            for queue in task.leaf.path:
                returned[queue] = returned.get(queue, 0) + task.milli

        def free() -> int:
            return free_milli(state.soon(self._job, self._model)) + sum(task.milli for task in leaving)

        return state.lend_lack(self._leaf, self._ask.total, self._model, free, returned) > 0


class _Elsewhere:
    """Where those go who move for a claim, with those of `gone` out of the way and some seats `taken` already."""

    def __init__(self, state: State, gone: list[Task], taken: Taken, left: list[int]) -> None:
        self._state, self._gone, self._taken = state, gone, taken
        self._left = left
        """How many more choices may be looked at, shared with what is looked at on the way."""
        self._cleared = False
        self.spots: list[tuple[Task, tuple[Seat, ...]]] = []
        """Who has found cards that nobody else must leave."""

    def take(self, job: Job, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self._taken.setdefault(seat.node, []).append((seat, job))

    def fits(self, moving: Iterable[Task]) -> bool:
        """Whether all of them fit; they take their seats."""
        return all(self._seat(task) for task in sorted(moving, key=lambda task: (-task.milli, task.key)))

    def _seat(self, task: Task) -> bool:
        """Seat one of them: on free cards, on such as it may evict somebody from, or where smaller ones move for it."""
        state, ask = self._state, ask_make(task.job)
        for model in state.pool.models(task.job.gpu):
            on = ask_on(state.pool, ask, model)
            views = [self._view(view) for view in state.soon(task.job, model)]
            spot = place(views, on)
            if spot is not None and not self._cleared:
                self.spots.append((task, spot))
            if spot is None:
                again = _Again(state, task, state.tree.dims_of(model), self._gone)
                views = [view_freed(view, again.evictable(view.room.name)) for view in views]
                spot = place(views, on)
                if spot is None and again.guaranteed and on.nodes == 1:
                    return self._seat_cleared(task, on, views)
            if spot is not None:
                self.take(task.job, spot)
                return True
        return False

    def _view(self, view: View) -> View:
        return view_less(view_freed(view, self._gone), self._taken.get(view.room.name, ()))

    def _seat_cleared(self, task: Task, ask: Ask, views: Iterable[View]) -> bool:
        """Seat one where smaller ones make room, who all fit elsewhere."""
        state, gone = self._state, {other.id for other in self._gone}
        for view in views:
            here = state.sitting.get(view.room.name, {}).values()
            movable = [other for other in here if other.id not in gone and _movable(state, ask.total, other)]
            for chosen in sets_freeing(state, view, ask, movable):
                self._left[0] -= 1
                spot = place([view_freed(view, chosen)], ask)
                if self._left[0] < 0 or spot is None:
                    return False
                taken = {name: list(seats) for name, seats in self._taken.items()}
                then = _Elsewhere(state, [*self._gone, *chosen], taken, self._left)
                then.take(task.job, spot)
                if then.fits(chosen):
                    self._gone, self._taken, self._cleared = then._gone, then._taken, True
                    return True
        return False


class _Again:
    """The claim of somebody who has been moved: whom it may evict (§3), with those of `gone` out of the way."""

    def __init__(self, state: State, task: Task, dims: Dims, gone: list[Task]) -> None:
        self._state, self._task = state, task
        self._gone = frozenset(other.id for other in gone)
        self._walk = state.walk_with((task.leaf, task.milli, dims), self._gone)

    @property
    def guaranteed(self) -> bool:
        """Whether it would be a guaranteed claim, which may have others moved."""
        return self._walk.claim is Rank.GUARANTEED

    def evictable(self, node: str) -> list[Task]:
        """Those on a node whom it may evict, but for guaranteed jobs of its own leaf."""
        here = self._state.sitting.get(node, {}).values()
        return [task for task in here if task.id not in self._gone and self._state.may_leave(task) and self._may(task)]

    def _may(self, other: Task) -> bool:
        state, leaf, claim = self._state, self._task.leaf, self._walk.claim
        if claim is None or (claim >= Rank.BORROWED_PROD and state.protecting):
            return False
        if other.leaf is leaf:
            rank = self._walk.ranks[other.id]
            return behind(other.job, self._task.job) and rank >= claim and rank is not Rank.GUARANTEED
        family = other.leaf.tenant is leaf.tenant
        ranks = self._walk.ranks if family else state.walk(other.leaf.tenant).ranks
        return reclaimable(ranks[other.id], claim, family=family)


def _movable(state: State, milli: int, task: Task) -> bool:
    """Whether a guaranteed job may be moved for a guaranteed claim of `milli` in all."""
    if not may_leave_for(state, task, milli, state.settings.regroup_after):
        return False
    return state.walk(task.leaf.tenant).ranks[task.id] is Rank.GUARANTEED


def _evictable(state: State, job: Job, task: Task) -> bool:
    """Whether a guaranteed claim may evict somebody (§3), as ranks are now."""
    if not state.may_leave(task):
        return False
    if task.leaf is state.leaf(job):
        return behind(task.job, job)
    return state.walk(task.leaf.tenant).ranks[task.id] > Rank.GUARANTEED


def _ids(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(sorted(task.id for task in tasks))
