"""What a claim may count on where others have reserved cards (scheduling §5)."""

from __future__ import annotations

from millpond.scheduling.fit import Ask, ask_on
from millpond.scheduling.kept import Kept
from millpond.scheduling.pool import View
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State


def bound(state: State, job: Job, ask: Ask, model: str) -> tuple[Kept, ...]:
    """The reservations that a claim must respect on a model (``""``: on any); `ask` as it is on that model."""
    if not state.kept:
        return ()
    rank = state.claim_rank(state.leaf(job), ask.total, state.tree.dims_of(model))
    return tuple(kept for kept in state.kept if model in {"", kept.model} and state.binds(kept, job, rank))


def bound_key(state: State, job: Job, ask: Ask) -> tuple[int, ...]:
    """The same over all models that it may use, to tell answers apart that differ by it."""
    if not state.kept:
        return ()
    return tuple(
        kept.serial
        for model in state.pool.models(job.gpu)
        for kept in bound(state, job, ask_on(state.pool, ask, model), model)
    )


def masked(views: list[View], kept: tuple[Kept, ...], *, shut: bool = False) -> list[View]:
    """`views` without what is reserved; ``shut``: nor what an eviction would free there."""
    for one in kept:
        views = [
            left.mask(view, shut=shut) if (left := one.rooms.get(view.room.name)) is not None else view
            for view in views
        ]
    return views


def hidden(state: State, kept: tuple[Kept, ...]) -> dict[int, View]:
    """The nodes on which something is reserved, by index, as they look without it."""
    views: dict[int, View] = {}
    for one in kept:
        for name, left in one.rooms.items():
            room = state.pool.by_name[name]
            views[room.index] = left.mask(views.get(room.index) or room.now)
    return views


def offers(state: State, job: Job, ask: Ask, model: str) -> list[View]:
    """What the open rooms of a model offer a claim now."""
    return masked(state.views(job, model), bound(state, job, ask, model))


def offers_soon(state: State, job: Job, ask: Ask, model: str) -> list[View]:
    """What they offer it once everybody who leaves has left, before any eviction."""
    return masked(state.soon(job, model), bound(state, job, ask, model), shut=True)
