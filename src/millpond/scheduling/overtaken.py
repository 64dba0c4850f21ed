"""The earlier job without which a waiting one would start (scheduling §5, `BEHIND`).

Each of the last starts of a pass is taken back for a moment, and the waiting jobs are tried in order on what that
leaves: so a job is named only where nobody between the two would take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from millpond.domain.reasons import Code, Reason
from millpond.scheduling.options import Options
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind, Task

ROOM_CODES = frozenset(
    {Code.INSUFFICIENT_CARDS, Code.FRAGMENTED, Code.INSUFFICIENT_CPU, Code.INSUFFICIENT_MEMORY, Code.TOPOLOGY}
)
"""Reasons that say only that there is no room."""

_STARTS = 8
_WAITERS = 250
"""So many starts are taken back, and so many waiting jobs tried, at most: a long queue must not slow the pass."""


def overtaken(
    state: State,
    options: Options,
    starts: Iterable[str],
    waiters: Sequence[Job],
    waits: Mapping[str, tuple[Reason, ...]],
) -> dict[str, str]:
    """Waiting job → the start of this pass nearest before it without which it would start.

    ``starts`` in decision order.  ``waiters``, in decision order, are all that compete; ``waits`` their reasons.  The
    state is as before when this returns.
    """
    waiters = waiters[:_WAITERS]
    wanting = [job for job in waiters if waits[job.id] and all(reason.code in ROOM_CODES for reason in waits[job.id])]
    models = {model for job in wanting for model in state.pool.models(job.gpu)}
    if not models:
        return {}
    names = {job.id for job in wanting}
    placed = [state.tasks[name] for name in starts]
    found: dict[str, str] = {}
    for task in islice((task for task in reversed(placed) if _touches(state, task, models)), _STARTS):
        for name in _without(state, options, task, waiters):
            if name in names:
                found.setdefault(name, task.id)
    return found


def _touches(state: State, task: Task, models: set[str]) -> bool:
    """Whether a start may have taken what somebody wants: cards of those models, or CPU and memory of any node."""
    kinds = {state.pool.by_name[seat.node].kind.model for seat in task.seats}
    return "" in models or bool(kinds & models)


def _without(state: State, options: Options, task: Task, waiters: Iterable[Job]) -> list[str]:
    """Who of the waiting would start if that task did not."""
    state.remove(task)
    started: list[Task] = []
    for job in waiters:
        spot = options.start(job)
        if spot is not None:
            started.append(state.task_make(job, spot[0], Kind.PLACED))
            state.add(started[-1])
    for other in reversed(started):
        state.remove(other)
    state.add(task)
    return [other.id for other in started]
