"""Reservation and backfill (scheduling §5): when and where the first blocked job of each card model will fit.

The time is found by walking the ends of what runs, in order, until the job fits; jobs that it may evict count as free
from the moment at which nothing protects them.  What that leaves to others is in `kept`, who must heed it in `masks`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.scheduling.budget import hours_reasons
from millpond.scheduling.decisions import Rank, Reservation
from millpond.scheduling.fit import Ask, ask_on, free_milli, place, place_possible, view_fits
from millpond.scheduling.kept import Kept, Left
from millpond.scheduling.order import job_rank
from millpond.scheduling.pool import HOLD, LEAVE, RUN, Pool, Room, View, seat_weight, view_make
from millpond.scheduling.preempt import Attempt
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task, claim_key, reclaimable
from millpond.scheduling.waiting import Kin, Line

Gone = list[tuple[int, Seat, Job]]
"""Seats that are free by then, with the layer that they are in now."""

_LAYER = {Kind.RUNNING: RUN, Kind.PLACED: RUN, Kind.DRAINING: LEAVE, Kind.HELD: HOLD}


@dataclass(frozen=True, slots=True)
class Fit:
    """The earliest moment at which a job fits, where, and what of its nodes is left to others then."""

    time: int
    seats: tuple[Seat, ...]
    rooms: dict[str, Left]


def earliest(state: State, job: Job, ask: Ask, model: str, *, now: bool = False) -> Fit | None:
    """When and where `job` fits on a model if nobody else comes; None if never.

    ``now`` false: not before the next second, since what is possible now has been tried.
    """
    walk = _Walk(ask, {room.name: room for room in state.pool.models(job.gpu)[model]}, now=now)
    leaf = state.leaf(job)
    begin = state.now if now else state.now + 1

    def fit(time: int) -> Fit | None:
        seats = walk.seats() if time >= begin else None
        if seats is None or state.lend_lack(leaf, ask.total, model, walk.free, {}):
            return None
        return Fit(time, seats, walk.left(job, seats))

    freed: set[str] = set()
    time = state.now
    for moment, task in heapq.merge(_evictable(state, job, ask, model), state.ends().upcoming(model, time), key=_time):
        if moment > time:
            found = fit(time)
            if found is not None:
                return found
            time = moment
        if task.id not in freed:
            freed.add(task.id)
            walk.release(task)
    return fit(max(time, begin))


def _time(event: tuple[int, Task]) -> int:
    return event[0]


def _evictable(state: State, job: Job, ask: Ask, model: str) -> list[tuple[int, Task]]:
    """Whom `job` may evict, from when on; the earliest first."""
    leaf = state.leaf(job)
    if not state.asked(leaf, job, ask.total, model):
        return []
    attempt = Attempt(state, job, ask, model, caps=False)
    claim = attempt.claim_rank()  # victims of its own leaf might better it, but need not help
    protected = claim >= Rank.BORROWED_PROD
    found: list[tuple[int, Task]] = []
    for rank, task in attempt.candidates(ever=True):
        if model not in state.models_of(task.seats):
            continue
        if task.leaf is not leaf and not reclaimable(rank, claim, family=task.leaf.tenant is leaf.tenant):
            continue
        time = state.now
        if protected:
            since = max(state.now, task.until) if task.kind is Kind.HELD else task.admitted
            time = max(time, since + state.settings.min_runtime, state.cooling.get((leaf.name, task.leaf.name), 0))
        found.append((time, task))
    found.sort(key=lambda event: (event[0], event[1].id))
    return found


class _Walk:
    """The rooms of a model while one after the other leaves them."""

    def __init__(self, ask: Ask, rooms: dict[str, Room], *, now: bool) -> None:
        self._ask, self._rooms = ask, rooms
        self._views = {name: room.now for name, room in rooms.items()}
        self._gone: dict[str, Gone] = {}
        self._ready: set[str] = set()
        if ask.nodes > 1 or now:  # else it fits nowhere now, or it would have started
            self._ready = {name for name, view in self._views.items() if view_fits(view, ask)}

    def release(self, task: Task) -> None:
        layer = _LAYER[task.kind]
        for seat in task.seats:
            room = self._rooms.get(seat.node)
            if room is None:
                continue
            gone = self._gone.setdefault(seat.node, [])
            gone.append((layer, seat, task.job))
            view = self._views[seat.node] = view_later(room, gone)
            if view_fits(view, self._ask):
                self._ready.add(seat.node)

    def seats(self) -> tuple[Seat, ...] | None:
        """Where it sits then; None if it does not fit yet."""
        if len(self._ready) < self._ask.nodes:
            return None
        return place([view for name, view in self._views.items() if name in self._ready], self._ask)

    def free(self) -> int:
        return free_milli(self._views.values())

    def left(self, job: Job, seats: tuple[Seat, ...]) -> dict[str, Left]:
        """What `job` on these seats leaves of each node to others."""
        rooms: dict[str, Left] = {}
        for seat in seats:
            left, view = rooms.get(seat.node), self._views[seat.node]
            if left is None:
                cpu = view.cpu - job.cpu if job.cpu else None
                memory = view.memory - job.memory if job.memory else None
                left = rooms[seat.node] = Left({}, {}, cpu, memory)
            for card in seat.cards:
                if seat.slice:
                    left.slices.setdefault(card, []).append(view.room.mask(seat))
                else:
                    left.cards[card] = view.free[card] - seat.milli
        return rooms


def view_later(room: Room, gone: Gone) -> View:
    """What a node offers once these seats are free."""
    cards = [list(layer) for layer in room.cards]
    cpu, memory = list(room.cpu), list(room.memory)
    slices = None if room.slices is None else [[list(masks) for masks in layer] for layer in room.slices]
    counted: set[tuple[int, str]] = set()
    for layer, seat, job in gone:
        if (layer, job.id) not in counted:
            counted.add((layer, job.id))
            cpu[layer] -= job.cpu
            memory[layer] -= job.memory
        for card in seat.cards:
            if card < len(cards[layer]):
                cards[layer][card] -= seat_weight(seat)
                if seat.slice and slices is not None:
                    slices[layer][card].remove(room.mask(seat))
    return view_make(
        room,
        [CARD - run - max(leave, hold) for run, leave, hold in zip(*cards, strict=True)],
        *room.rest(cpu, memory),
        room.slices_now(cards, slices) if slices is not None else None,
    )


class Reserves:
    """The reservations of a pass, made as jobs are found blocked.  They live in ``state.kept``."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._freed = state.freed
        self._ranks_seen: set[Rank] = set()
        self._vacated = False
        state.kept.clear()

    def plan(self) -> tuple[Reservation, ...]:
        """Those that stand, in the order in which they were made."""
        return tuple(
            Reservation(kept.job.id, kept.model, kept.time, kept.seats, kept.rank) for kept in self._state.kept
        )

    def rank_begin(self, rank: Rank, *, early: bool = True) -> None:
        """The first of a rank is to be judged: who has waited for `reserve_after` counts as blocked before it.

        ``early`` says that it has not been judged itself; then what it may have now is kept for it too.
        """
        if rank in self._ranks_seen:
            return
        self._ranks_seen.add(rank)
        state = self._state
        taken = {kept.model for kept in state.kept}
        for model in sorted(state.tree.models.keys() - taken):
            elder = self._elder(rank, model)
            if elder is not None:
                self._reserve(elder, [model], early=early)

    def blocked(self, job: Job) -> None:
        """Reserve for a job that has been judged and waits, on one of the models that nobody has yet."""
        state = self._state
        for kept in state.kept:
            if kept.job.id == job.id:
                kept.early = False
        gone = {kept.model for kept in state.kept if kept.job.id == job.id and self._past(kept)}
        state.kept[:] = [kept for kept in state.kept if kept.job.id != job.id or kept.model not in gone]
        taken = {kept.model for kept in state.kept}
        vacant = [model for model in state.pool.models(job.gpu) if model and model not in taken]
        if vacant and all(kept.job.id != job.id for kept in state.kept):
            self._reserve(job, vacant)
        if gone:  # who was judged before has been passed over for it
            self._vacated |= not gone <= {kept.model for kept in state.kept}

    def again(self, job: Job) -> bool:
        """Whether an equal of a job that has just been found blocked may reserve too, on another model."""
        kept = self._state.kept
        if all(one.job.id != job.id for one in kept):
            return False
        return not {model for model in self._state.pool.models(job.gpu) if model} <= {one.model for one in kept}

    def settled(self, job: Job) -> bool:
        """A job starts or holds cards: what was reserved for it is free again.

        Whether cards were kept for it before it had its turn: it may be somebody whom those kept off may push out.
        """
        state = self._state
        mine = [kept for kept in state.kept if kept.job.id == job.id]
        if mine:
            state.kept[:] = [kept for kept in state.kept if kept.job.id != job.id]
            self._vacated = True
        return any(kept.early for kept in mine)

    def stale(self) -> bool:
        """Whether what has happened since they were made may have changed them."""
        state = self._state
        return self._freed != state.freed or self._vacated or any(self._past(kept) for kept in state.kept)

    def refresh(self, waiting: Iterable[Job]) -> None:
        """Make them anew, in decision order, if what has happened since they were made may have changed them."""
        state = self._state
        if not self.stale():
            return
        state.kept.clear()
        self._ranks_seen.clear()
        for job in waiting:
            self.rank_begin(job_rank(state, job), early=False)
            self.blocked(job)
        self._freed = state.freed

    def _past(self, kept: Kept) -> bool:
        """Whether a reservation is no longer what it was."""
        state = self._state
        return (
            kept.broken
            or kept.time <= state.now
            or kept.job.id in state.tasks
            or kept.rank is not self._rank(kept.job, kept.model)
        )

    def _rank(self, job: Job, model: str) -> Rank:
        state = self._state
        ask = ask_on(state.pool, state.group(job).ask, model)
        return state.claim_rank(state.leaf(job), ask.total, state.tree.dims_of(model))

    def _reserve(self, job: Job, models: Iterable[str], *, early: bool = False) -> None:
        """Reserve on the one of `models` where the job fits first."""
        state = self._state
        group = state.group(job)
        if group.closed == state.version:
            return
        best: tuple[int, int] | None = None
        chosen: tuple[str, Fit] | None = None
        may = False
        for index, model in enumerate(models):
            ask = ask_on(state.pool, group.ask, model)
            if not self._may(job, ask, model):
                continue
            may = True
            fit = earliest(state, job, ask, model, now=early)
            if fit is not None and (best is None or (fit.time, index) < best):
                best, chosen = (fit.time, index), (model, fit)
        if not may and not group.budgeted and len(state.pool.models(job.gpu)) == 1:
            group.closed = state.version  # its equals need not be looked at
        if chosen is None:
            return
        model, fit = chosen
        leaf, rank = state.leaf(job), self._rank(job, model)
        kept = Kept(0, job, leaf, rank, model, fit.time, fit.seats, fit.rooms, early)
        same = next((old.serial for old in state.kept_before if old.same(kept)), None)
        if same is None:
            state.pool.serial += 1
        kept.serial = state.pool.serial if same is None else same
        state.kept.append(kept)

    def _may(self, job: Job, ask: Ask, model: str) -> bool:
        """Whether only room is missing: no cap, guarantee or budget, and an empty pool would do."""
        state = self._state
        if state.usage.capped(state.leaf(job), ask.total, state.tree.dims_of(model)):
            return False
        return (
            state.firm_fits(job, ask.total, model)
            and not hours_reasons(state, job, ask)
            and empty_fits(state.pool, job.gpu, ask, model)
        )

    def _elder(self, rank: Rank, model: str) -> Job | None:
        """Who of a rank has waited for `reserve_after`: of each leaf the first, of them the oldest."""
        since = self._state.now - self._state.settings.reserve_after
        found = [
            job
            for line in self._state.waiters.busy.values()
            if (job := self._leaf_elder(line, rank, model, since)) is not None
        ]
        return min(found, key=lambda job: (job.submitted, job.id), default=None)

    def _leaf_elder(self, line: Line, rank: Rank, model: str, since: int) -> Job | None:
        """The first elder of a leaf; of a first-in-first-out leaf only its head may be one.

        Whether a job may be one does not depend on its priority: one of a kin is asked.
        """
        state = self._state
        never: set[Kin] = set()
        jobs = line.jobs
        if line.leaf.fifo:
            jobs = jobs[:1]
        elif 2 * len(line.groups) < len(jobs):  # the first of each group is enough
            firsts = [group.first(state.tasks) for group in line.groups.values() if group.places[0][0] <= since]
            jobs = sorted([job for job in firsts if job is not None], key=claim_key)
        for job in jobs:
            if job.submitted > since or job.id in state.tasks:
                continue
            kin = state.waiters.equals(job).kin
            if kin in never:
                continue
            if self._elders(job, rank, model):
                return job
            never.add(kin)
        return None

    def _elders(self, job: Job, rank: Rank, model: str) -> bool:
        """Whether a job ranks so on a model, and waits for nothing but room."""
        state = self._state
        if job_rank(state, job) > rank or model not in state.pool.models(job.gpu):
            return False
        ask = ask_on(state.pool, state.group(job).ask, model)
        mine = state.claim_rank(state.leaf(job), ask.total, state.tree.dims_of(model))
        return mine is rank and self._may(job, ask, model)


def empty_fits(pool: Pool, gpu: CardRequest, ask: Ask, model: str) -> bool:
    """Whether a job would fit if nobody else were there."""
    key = (gpu, ask, model)
    known = pool.empty.get(key)
    if known is None:
        known = pool.empty[key] = place_possible([room.whole for room in pool.models(gpu)[model]], ask)
    return known
