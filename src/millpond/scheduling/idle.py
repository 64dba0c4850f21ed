"""Who has no reason to wait when a pass has judged everybody, where equal jobs were passed (scheduling §5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.scheduling.limits import Limits
from millpond.scheduling.masks import bound_key
from millpond.scheduling.order import Order
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State
from millpond.scheduling.waiting import Kin


def idle_find(
    state: State, limits: Limits, order: Order, barred: Mapping[str, list[str]], alike: Mapping[Kin, list[str]]
) -> tuple[list[Job], list[Queue]]:
    """The jobs that nothing keeps waiting, and the leaves in which they wait for somebody who has cards now.

    Whether there is a reason does not depend on priority, but for the reservations that bind: so one of a kin is asked.
    ``barred`` are those for whom cards were reserved that a job found free, ``alike`` the same for its equals.
    """
    jobs: list[Job] = []
    leaves: list[Queue] = []
    known: dict[Kin, dict[tuple[int, ...], bool]] = {}
    reserved = {kept.job.id for kept in state.kept}
    for line in state.waiters.busy.values():
        waiting: Sequence[Job] = line.jobs
        if line.leaf.fifo:
            blocker = order.blocker(line.leaf)
            if blocker is None:
                continue
            if blocker.id in state.tasks:
                leaves.append(line.leaf)
                continue
            waiting = [blocker]
        for job in waiting:
            if job.id in state.tasks:
                continue
            group = state.waiters.equals(job)
            found, key = known.setdefault(group.kin, {}), bound_key(state, job, group.ask)
            if key not in found:
                found[key] = not limits.of(job)
            if found[key]:
                before = barred[job.id] if job.id in barred else alike.get(group.kin, [])
                if reserved.isdisjoint(before):
                    jobs.append(job)
    return jobs, leaves
