"""On which card models a waiting job may start, and where it fits now, under every limit but those of eviction."""

from __future__ import annotations

from collections.abc import Mapping

from millpond.scheduling.budget import hours_reasons
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_make, ask_on, free_milli, place
from millpond.scheduling.kept import Kept
from millpond.scheduling.masks import bound, hidden, masked
from millpond.scheduling.placing import Placement, scored
from millpond.scheduling.pool import Room
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State
from millpond.scheduling.waiting import Group

_MISSES = 10_000
"""More remembered failures than that are forgotten."""


_FREE_TO_ALL: tuple[Kept, ...] = ()
"""Nothing is kept from anybody; typed, since a compiled module takes a bare ``()`` for a tuple that stays empty."""


class Options:
    """Answers about the state as it is when they are asked; failures are remembered until something may mend them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rivals: dict[str, int] | None = None
        self._misses: dict[tuple[object, ...], int] = {}
        self.barred: tuple[Kept, ...] = _FREE_TO_ALL
        """The reservations that alone kept the last one from starting."""

    def begin(self) -> None:
        """A pass begins: other jobs may be waiting now."""
        self._rivals = None
        if len(self._misses) > _MISSES:
            self._misses.clear()

    def _rival(self, model: str) -> int:
        """How many waiting jobs can use only this model (S23)."""
        if self._rivals is None:
            self._rivals = {}
            for group in self._state.waiters.groups.values():
                models = self._state.pool.models(group.job.gpu)
                if len(models) == 1:
                    only = next(iter(models))
                    self._rivals[only] = self._rivals.get(only, 0) + len(group.jobs)
        return self._rivals.get(model, 0)

    def missed(self, key: tuple[object, ...]) -> bool:
        """Whether what `key` stands for has failed since anything was freed."""
        return self._misses.get(key) == self._state.freed

    def miss(self, key: tuple[object, ...]) -> None:
        """Remember a failure that nothing but freed room can mend."""
        self._misses[key] = self._state.freed

    def models(self, job: Job, ask: Ask) -> list[str]:
        """The models that a job may use: best rank first, then by name, whoever else waits."""
        models = list(self._state.pool.models(job.gpu))
        if len(models) > 1:
            models.sort(key=lambda model: (self._preference(job, ask, model)[0], model))
        return models

    def _preference(self, job: Job, ask: Ask, model: str) -> tuple[Rank, int]:
        """The rank that it would get on a model, and how many others depend on that."""
        state = self._state
        total = ask_on(state.pool, ask, model).total
        return state.claim_rank(state.leaf(job), total, state.tree.dims_of(model)), self._rival(model)

    def permitted(self, job: Job, ask: Ask) -> bool:
        """Whether guarantee and budget let it start on some model."""
        state = self._state
        sized = [(ask_on(state.pool, ask, model), model) for model in state.pool.models(job.gpu)]
        return any(state.firm_fits(job, at.total, model) and not hours_reasons(state, job, at) for at, model in sized)

    def start(self, job: Job) -> tuple[tuple[Seat, ...], Rank] | None:
        """Where it starts now without an eviction, at the largest size that fits, and its rank there."""
        group, state = self._state.group(job), self._state
        moment = (state.freed, state.now if group.budgeted else 0)
        self.barred = _FREE_TO_ALL
        if group.unplaced == moment:
            return None
        found = self._start(job, group)
        if found is None and not self.barred:
            group.unplaced = moment
        return found

    def _start(self, job: Job, group: Group) -> tuple[tuple[Seat, ...], Rank] | None:
        if group.plain:
            models = self._state.pool.models(job.gpu) if group.row is None else None
            if models is None or len(models) == 1:
                return self._start_plain(job, group, models)
        sizes = range(job.gpu.milli, job.gpu.milli_min - 1, -1000) if job.gpu.elastic else (job.gpu.milli,)
        for size in sizes:
            found = self._start_at(job, ask_make(job, size))
            if found is not None:
                return found
        return None

    def _start_plain(
        self, job: Job, group: Group, models: Mapping[str, list[Room]] | None
    ) -> tuple[tuple[Seat, ...], Rank] | None:
        """As `_start_at`, for a group that may use only one model.  ``models`` are given where no row is known."""
        state, leaf, ask, row = self._state, group.leaf, group.ask, group.row
        if row is None or models is not None:
            row = group.row = state.placer.row(job.gpu, ask, next(iter(models or ("",))))
        model = row.models[0]
        dims, total = state.tree.dims_of(model), ask.total
        if state.usage.capped(leaf, total, dims) or not state.firm_fits(job, total, model):
            return None
        if row.missed == state.freed or (group.budgeted and hours_reasons(state, job, ask)):
            return None
        kept = bound(state, job, ask, model) if state.kept else _FREE_TO_ALL
        seats = state.placer.spot(row, hidden(state, kept))
        if seats is None:
            if kept and state.placer.spot(row, {}) is not None:
                self.barred = kept
            else:
                row.missed = state.freed
            return None
        if state.usage.keeping and self.lend_lack(job, ask, model):
            return None
        return seats, state.claim_rank(leaf, total, dims)

    def _start_at(self, job: Job, ask: Ask) -> tuple[tuple[Seat, ...], Rank] | None:
        state, leaf = self._state, self._state.leaf(job)
        for alike in self._alike(job, ask):
            models = [model for model in alike if self._allowed(job, ask_on(state.pool, ask, model), model)]
            while models:
                found = self._place(job, ask, models)
                if found is None:
                    break
                seats, model = found
                sized = ask_on(state.pool, ask, model)
                if not self.lend_lack(job, sized, model):
                    return seats, state.claim_rank(leaf, sized.total, state.tree.dims_of(model))
                models.remove(model)
        return None

    def _alike(self, job: Job, ask: Ask) -> list[list[str]]:
        """The models that a job may use, best first; where only their scores tell them apart, together."""
        models = list(self._state.pool.models(job.gpu))
        if len(models) == 1:
            return [models]
        together: dict[tuple[Rank, int, str], list[str]] = {}
        for model in models:
            rank, rivals = self._preference(job, ask, model)
            together.setdefault((rank, rivals, "" if scored(ask) else model), []).append(model)
        return [together[key] for key in sorted(together)]

    def _allowed(self, job: Job, ask: Ask, model: str) -> bool:
        """Whether caps, guarantee and budget let it start on a model; `ask` as it is on that model."""
        state = self._state
        if any(state.usage.cap_lacks(state.leaf(job), ask.total, state.tree.dims_of(model))):
            return False
        return state.firm_fits(job, ask.total, model) and not hours_reasons(state, job, ask)

    def _place(self, job: Job, ask: Ask, models: list[str]) -> Placement | None:
        """Seats on one of `models`, which nothing but their scores tells apart, or on the only one of them."""
        state = self._state
        models = [model for model in models if not self.missed((job.gpu, ask_on(state.pool, ask, model), model))]
        if not models:
            return None
        kept = tuple(one for model in models for one in bound(state, job, ask_on(state.pool, ask, model), model))
        found = self._find(job, ask, models, kept)
        if found is None:
            if kept and self._find(job, ask, models, ()) is not None:
                self.barred = kept
            else:
                for model in models:
                    self.miss((job.gpu, ask_on(state.pool, ask, model), model))
        return found

    def _find(self, job: Job, ask: Ask, models: list[str], kept: tuple[Kept, ...]) -> Placement | None:
        state = self._state
        if scored(ask):
            return state.placer.find(job.gpu, ask, models, hidden(state, kept))
        for model in models:
            seats = place(masked(state.views(job, model), kept), ask_on(state.pool, ask, model))
            if seats is not None:
                return seats, model
        return None

    def lend_lack(self, job: Job, ask: Ask, model: str) -> int:
        """Milli-cards short of what queues that do not lend must keep free; `ask` as it is on that model."""
        return self._state.lend_lack(self._state.leaf(job), ask.total, model, lambda: self.free(job, model), {})

    def free(self, job: Job, model: str) -> int:
        """Free milli-cards of a model on open nodes."""
        return free_milli(self._state.views(job, model))
