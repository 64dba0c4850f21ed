"""Who has no reason to wait when a pass has judged everybody, where equal jobs were passed (scheduling §5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millpond.scheduling.limits import Limits
from millpond.scheduling.masks import bound_key
from millpond.scheduling.order import Order
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State
from millpond.scheduling.waiting import Kin, Line, edge_of


def idle_find(
    state: State,
    limits: Limits,
    order: Order,
    able: Callable[[str], bool] | None = None,
) -> tuple[list[Job], list[Queue]]:
    """The jobs that nothing keeps waiting, and the leaves in which they wait for somebody who has cards now.

    With ``able`` those too who would get cards now.
    """
    return _Idle(state, limits).find(order, able)


class _Idle:
    """Asks one of those for whom the answer is the same."""

    def __init__(self, state: State, limits: Limits) -> None:
        self._state = state
        self._limits = limits

    def find(self, order: Order, able: Callable[[str], bool] | None = None) -> tuple[list[Job], list[Queue]]:
        """See `idle_find`."""
        state, jobs, leaves = self._state, list[Job](), list[Queue]()
        for line in state.waiters.busy.values():
            waiting: Sequence[Job] = line.jobs
            if line.leaf.fifo:
                blocker = order.blocker(line.leaf)
                waiting = [] if blocker is None else [blocker]
                if blocker is not None and blocker.id in state.tasks:
                    leaves.append(line.leaf)
            jobs += self._line(line, waiting, able)
        return jobs, leaves

    def _line(self, line: Line, waiting: Sequence[Job], able: Callable[[str], bool] | None) -> list[Job]:
        """Whether there is a reason depends on the reservations that bind, and who gets cards also on those who stand
        behind in the leaf: so of a kin one is asked for each."""
        state, found = self._state, list[Job]()
        known: dict[tuple[Kin, tuple[int, ...]], bool] = {}
        asked: dict[tuple[Kin, tuple[int, ...], tuple[bool, int] | None], bool] = {}
        for job in waiting:
            if job.id in state.tasks:
                continue
            group = state.waiters.equals(job)
            key = (group.kin, bound_key(state, job, group.ask))
            if key not in known:
                known[key] = self._limits.free(job)
            if known[key]:
                found.append(job)
            elif able is not None:
                place = (*key, edge_of(state.leaf_tasks[line.leaf], job))
                if place not in asked:
                    asked[place] = able(job.id)
                if asked[place]:
                    found.append(job)
        return found
