"""On which card models a waiting job may start, and where it fits now, under every limit but those of eviction."""

from __future__ import annotations

from collections.abc import Iterable

from millpond.scheduling.budget import hours_reasons
from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import Ask, ask_make, ask_on, free_milli, place
from millpond.scheduling.snapshot import Job, Seat
from millpond.scheduling.state import State


class Options:
    """Answers about the state as it is when they are asked; failures are remembered until the state changes."""

    def __init__(self, state: State, ready: Iterable[Job]) -> None:
        self._state = state
        self._rivals = self._count(ready)
        self._misses: dict[tuple[object, ...], int] = {}

    def _count(self, ready: Iterable[Job]) -> dict[str, int]:
        """How many waiting jobs can use only this model (S23)."""
        rivals: dict[str, int] = {}
        for job in ready:
            models = self._state.pool.models(job.gpu)
            if len(models) == 1:
                model = next(iter(models))
                rivals[model] = rivals.get(model, 0) + 1
        return rivals

    def missed(self, key: tuple[object, ...]) -> bool:
        """Whether what `key` stands for has failed since the last change."""
        return self._misses.get(key) == self._state.version

    def miss(self, key: tuple[object, ...]) -> None:
        self._misses[key] = self._state.version

    def models(self, job: Job, ask: Ask) -> list[str]:
        """The models that a job may use: best rank first, then the one that fewer others depend on."""
        models = list(self._state.pool.models(job.gpu))
        if len(models) > 1:
            leaf, dims_of = self._state.leaf(job), self._state.tree.dims_of
            models.sort(
                key=lambda model: (
                    self._state.claim_rank(leaf, ask_on(self._state.pool, ask, model).total, dims_of(model)),
                    self._rivals.get(model, 0),
                    model,
                )
            )
        return models

    def permitted(self, job: Job, ask: Ask) -> bool:
        """Whether guarantee and budget let it start on some model."""
        state = self._state
        sized = [(ask_on(state.pool, ask, model), model) for model in state.pool.models(job.gpu)]
        return any(state.firm_fits(job, at.total, model) and not hours_reasons(state, job, at) for at, model in sized)

    def start(self, job: Job) -> tuple[tuple[Seat, ...], Rank] | None:
        """Where it starts now without an eviction, at the largest size that fits, and its rank there."""
        sizes = range(job.gpu.milli, job.gpu.milli_min - 1, -1000) if job.gpu.elastic else (job.gpu.milli,)
        for size in sizes:
            found = self._start_at(job, ask_make(job, size))
            if found is not None:
                return found
        return None

    def _start_at(self, job: Job, ask: Ask) -> tuple[tuple[Seat, ...], Rank] | None:
        state, leaf = self._state, self._state.leaf(job)
        for model in self.models(job, ask):
            sized, dims = ask_on(state.pool, ask, model), state.tree.dims_of(model)
            if any(state.usage.cap_lacks(leaf, sized.total, dims)) or not state.firm_fits(job, sized.total, model):
                continue
            if hours_reasons(state, job, sized):
                continue
            seats = self._place(job, sized, model)
            if seats is not None and not self.lend_lack(job, sized, model):
                return seats, state.claim_rank(leaf, sized.total, dims)
        return None

    def _place(self, job: Job, ask: Ask, model: str) -> tuple[Seat, ...] | None:
        key = ("place", job.gpu, ask, model)
        if self.missed(key):
            return None
        seats = place(self._state.views(job, model), ask)
        if seats is None:
            self.miss(key)
        return seats

    def lend_lack(self, job: Job, ask: Ask, model: str) -> int:
        """Milli-cards short of what queues that do not lend must keep free; `ask` as it is on that model."""
        return self._state.lend_lack(self._state.leaf(job), ask.total, model, lambda: self.free(job, model), {})

    def free(self, job: Job, model: str) -> int:
        """Free milli-cards of a model on open nodes."""
        return free_milli(self._state.views(job, model))
