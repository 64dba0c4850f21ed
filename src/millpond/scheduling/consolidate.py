"""Consolidation (scheduling §5): moving jobs together where enough cards are free for a waiting job, but scattered.

Only jobs with checkpoints move, only to cards that are free now, and only if what they lose is less than what the
waiting job gains: its milli-cards times the seconds that it need not wait for its reservation, capped like lost work.
A job moves only for a larger one of at least its rank, so that no two of them ever move each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TypeVar

from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_make, ask_on, free_milli, place, view_fits
from millpond.scheduling.kept import Kept
from millpond.scheduling.masks import bound, masked
from millpond.scheduling.pool import View, view_make, view_with
from millpond.scheduling.sets import minimal_sets
from millpond.scheduling.snapshot import Job, RunState, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task

_LISTED = 8
"""So many jobs of a node, the cheapest to move, are looked at."""

_SPARE = 4
"""So many nodes beyond those needed are tried in other combinations."""

_TRIES = 64
"""So many combinations of nodes are tried."""

_T = TypeVar("_T")


Spots = tuple[tuple[Task, tuple[Seat, ...]], ...]
"""Who moves, and to which seats."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Who moves, the whole placement of the waiting job that this makes possible, and where those go who move."""

    tasks: tuple[Task, ...]
    seats: tuple[Seat, ...]
    spots: Spots


@dataclass(frozen=True, slots=True)
class _Clearing:
    """One node and the cheapest way to make room there."""

    lost: int
    milli: int
    index: int
    view: View
    tasks: tuple[Task, ...]


def moves_find(state: State, kept: Kept) -> Moves | None:
    """The cheapest moves that let a job with a reservation start at once; None if there are none worth it."""
    job, after = kept.job, state.settings.consolidate_after
    if after is None or job.submitted > state.now - after or job.gpu.slice:
        return None
    ask = ask_on(state.pool, ask_make(job), kept.model)
    views = state.soon(job, kept.model)
    capped = any(state.usage.cap_lacks(kept.leaf, ask.total, state.tree.dims_of(kept.model)))
    if capped or free_milli(views) < ask.total:
        return None
    gain = ask.total * min(state.settings.lost_work_cap, kept.time - state.now)
    clearings = _clearings(state, kept, ask, views, gain)
    if len(clearings) < ask.nodes:
        return None
    best: tuple[tuple[int, int, list[str]], Moves] | None = None
    for chosen in choices(clearings, ask.nodes):
        tasks = tuple({task.id: task for clearing in chosen for task in clearing.tasks}.values())
        cost = _cost(state, tasks)
        if not tasks or cost[0] >= gain or (best is not None and cost >= best[0]):
            continue
        seats = _seats(chosen, tasks, ask)
        spots = _spots(state, kept, seats, tasks) if seats is not None else None
        if seats is not None and spots is not None:
            best = (cost, Moves(tasks, seats, spots))
    return best[1] if best is not None else None


def may_move(state: State, kept: Kept, task: Task) -> bool:
    """Whether a running job may be moved for the one with a reservation."""
    job, claim = task.job, kept.job
    if not may_leave_for(state, task, claim.gpu.milli_min * claim.nodes, state.settings.consolidate_after):
        return False
    rank = state.walk(task.leaf.tenant).ranks[task.id]
    same = task.leaf is kept.leaf
    if rank < kept.rank or (rank is Rank.GUARANTEED and not same):
        return False
    if same and (job.preemptible, -job.priority) < (claim.preemptible, -claim.priority):
        return False
    return (kept.leaf.name, task.leaf.name) not in state.cooling


def may_leave_for(state: State, task: Task, milli: int, after: int | None) -> bool:
    """Whether somebody may be moved at all for a claim of `milli`: smaller, saved, running for long enough.

    ``after`` is how long claims must wait for that, and who has run for less is not moved either.
    """
    job = task.job
    if task.kind is not Kind.RUNNING or job.state is not RunState.RUNNING or not state.may_leave(task):
        return False
    if not saves(job) or task.milli >= milli:
        return False
    return state.now - task.admitted >= max(1, after or 0, state.settings.min_runtime)


def choices(nodes: Sequence[_T], count: int) -> Iterator[tuple[_T, ...]]:
    """Sets of so many of `nodes`, of which the cheapest come first, as far as they are tried."""
    return islice(combinations(nodes[: count + _SPARE], count), _TRIES)


def saves(job: Job) -> bool:
    """Whether a job goes on where it was saved when it starts again."""
    return job.saves_on_signal or job.checkpointed is not None or job.checkpoint_every is not None


def _clearings(state: State, kept: Kept, ask: Ask, views: Iterable[View], gain: int) -> list[_Clearing]:
    """The nodes where the job fits if some jobs move, or as they are; the cheapest first."""
    found: list[_Clearing] = []
    for view in views:
        index = view.room.index
        if view_fits(view, ask):
            found.append(_Clearing(0, 0, index, view, ()))
            continue
        movable = [task for task in state.sitting.get(view.room.name, {}).values() if may_move(state, kept, task)]
        sets = sets_freeing(state, view, ask, [task for task in movable if state.lost(task) < gain])
        tasks = min(sets, key=lambda one: _cost(state, one), default=())
        if tasks:
            lost, milli, _ = _cost(state, tasks)
            found.append(_Clearing(lost, milli, index, view, tasks))
    found.sort(key=lambda clearing: (clearing.lost, clearing.milli, clearing.index))
    return found


def sets_freeing(state: State, view: View, ask: Ask, tasks: Iterable[Task]) -> list[tuple[Task, ...]]:
    """The smallest sets of `tasks`, the cheapest of them, without which an ask fits on a node."""
    listed = sorted(tasks, key=lambda task: (state.lost(task), task.milli, task.id))[:_LISTED]

    def chosen(mask: int) -> tuple[Task, ...]:
        return tuple(task for number, task in enumerate(listed) if mask >> number & 1)

    def enough(mask: int) -> bool:
        return view_fits(view_freed(view, chosen(mask)), ask)

    return [chosen(mask) for mask in minimal_sets([1 << number for number in range(len(listed))], enough)]


def _cost(state: State, tasks: Iterable[Task]) -> tuple[int, int, list[str]]:
    """(lost work, milli-cards, ids) of a set."""
    found = list(tasks)
    return (
        sum(state.lost(task) for task in found),
        sum(task.milli for task in found),
        sorted(task.id for task in found),
    )


def view_freed(view: View, tasks: Iterable[Task]) -> View:
    name = view.room.name
    return view_with(view, ((seat, task.job) for task in tasks for seat in task.seats if seat.node == name))


def _seats(chosen: Iterable[_Clearing], tasks: tuple[Task, ...], ask: Ask) -> tuple[Seat, ...] | None:
    return place([view_freed(clearing.view, tasks) for clearing in chosen], ask)


def _spots(state: State, kept: Kept, seats: tuple[Seat, ...], tasks: tuple[Task, ...]) -> Spots | None:
    """Cards for all who move that are free now, that the waiting job does not take and nobody else has reserved."""
    taken: dict[str, list[tuple[Seat, Job]]] = {}
    found: list[tuple[Task, tuple[Seat, ...]]] = []
    for seat in seats:
        taken.setdefault(seat.node, []).append((seat, kept.job))
    for task in sorted(tasks, key=lambda task: task.key):
        spot = _spot(state, kept, task, taken)
        if spot is None:
            return None
        found.append((task, spot))
        for seat in spot:
            taken.setdefault(seat.node, []).append((seat, task.job))
    return tuple(found)


def _spot(state: State, kept: Kept, task: Task, taken: dict[str, list[tuple[Seat, Job]]]) -> tuple[Seat, ...] | None:
    """Where one of those who move goes."""
    ask = ask_make(task.job)
    for model in state.pool.models(task.job.gpu):
        on = ask_on(state.pool, ask, model)
        others = tuple(one for one in bound(state, task.job, on, model) if one is not kept)
        views = [view_less(view, taken.get(view.room.name, ())) for view in state.views(task.job, model)]
        spot = place(masked(views, others), on)
        if spot is not None:
            return spot
    return None


def view_less(view: View, seats: Iterable[tuple[Seat, Job]]) -> View:
    """`view` with these seats taken."""
    free, cpu, memory = list(view.free), view.cpu, view.memory
    for seat, job in seats:
        cpu -= job.cpu
        memory -= job.memory
        for card in seat.cards:
            free[card] -= seat.milli
    return view_make(view.room, free, cpu, memory, view.slices)
