"""Whether a changed job would start, exactly as the planner would decide it (scheduling §7).

Two ways lead to the same answer.  The plain one runs the planner on the changed snapshot.  The quick one uses that
most pools are *settled*: the plan of this moment starts, evicts and holds nothing new, so every waiting job was judged
on one and the same state, and failed there.  Put the changed job in:

- Whoever is judged before it fails as before, since nothing has changed.  So it meets that very state, and starts if
  `Options.start` finds seats there, or holds cards if `eviction_find` finds victims.  Only the reservations of those
  whose turn comes after its own do not stand yet.  Without them it starts all the more, if perhaps elsewhere; but
  whom it would evict, and whether it must, nobody can tell, and the plain way decides.
- Nobody takes its place later in the pass.  One that must not be stopped, or that holds cards, cannot be chosen as a
  victim.  For any other: a claim that evicts it with a set of victims could have used the idle cards it sits on, and
  would have evicted the rest of that set before; unless its coming lowers somebody else's rank, or moves a reservation
  that kept such a claim off these cards.  Both are looked at, and where they may be so, the plain way decides.

Leaves that are first in, first out, and jobs with a reservation, are left to the plain way, since there a job that goes
makes others move up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from millpond.domain.jobs import QueueClass
from millpond.scheduling.decided import PROD_GRACE
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.fit import ask_make
from millpond.scheduling.leavers import Awaited
from millpond.scheduling.masks import bound_key
from millpond.scheduling.options import Options
from millpond.scheduling.plan import plan
from millpond.scheduling.preempt import Eviction, eviction_find
from millpond.scheduling.rank import tenant_walk
from millpond.scheduling.snapshot import Job, Seat, Snapshot
from millpond.scheduling.state import State
from millpond.scheduling.tasks import Kind

_SMALL = 500
"""Jobs and nodes up to which a pool may be planned anew, or searched for victims, while somebody waits."""

_RUNS, _EVICTIONS = 8, 3
"""Runs of the planner, and searches for victims, for one question."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """It would start at once (``now``), or hold cards and start when the last victim has left, at ``at``."""

    now: bool
    at: int


class Trials:
    """Trials on one snapshot.

    ``result`` is its plan, ``state`` what the making of that plan has left, ``options`` those of that pass, and
    ``ranks`` those of what ran before it.
    ``runs``: how often one question may run the planner; by default as the size of the pool allows.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        result: Plan,
        state: State,
        options: Options,
        ranks: Mapping[str, Rank],
        runs: int | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._state = state
        self._options = options
        self._settled = not result.start and not result.evict and not result.drop_holds
        self._settled = self._settled and all(hold.job in state.holds for hold in result.hold)
        self._reserved = {reserved.job for reserved in result.reservations}
        small = len(snapshot.jobs) + len(snapshot.nodes) <= _SMALL
        self._most = runs if runs is not None else _RUNS if small else 0
        self.evictions = _EVICTIONS if small else 0
        self._runs = self._most
        self._ranks = ranks
        self._families = {
            state.tasks[name].leaf.tenant for name, rank in ranks.items() if rank is Rank.FAMILY and name in state.tasks
        }

    def runs_reset(self) -> None:
        """A new question: the planner may be run again."""
        self._runs = self._most

    def fits(self, job: Job) -> bool:
        """Whether it fits without anybody leaving, beside all that the plan starts."""
        return self._options.start(_alias(job)) is not None

    def start(self, job: Job, changed: Job) -> Verdict | None:
        """The verdict on `changed`, which `fits`, in place of `job`; None if it does not start, or nobody can tell."""
        if self._quick(job, changed):
            found = self._options.start(_alias(changed))
            if found is None:
                return None
            if not changed.preemptible or self._harmless(changed, *found):
                return Verdict(True, self._snapshot.now)
        return self._plan(job, changed)

    def evict(self, job: Job, changed: Job) -> Verdict | None:
        """The verdict on `changed`, which does not fit as things are."""
        if not self._quick(job, changed) or self._binding(changed):
            return self._plan(job, changed)
        claim = _alias(changed)
        ask = ask_make(claim)
        if not self._options.permitted(claim, ask):
            return None
        found = eviction_find(self._state, claim, ask)
        if found is None:
            return None
        if any(victim.kind is Kind.HELD for victim in found.victims):
            return self._plan(job, changed)
        awaited = Awaited(self._state, changed, found.seats)
        if awaited.free_now() or len(awaited.among(found.victims)) < len(found.victims):
            return self._plan(job, changed)  # somebody goes for a cap alone, or a reservation stands in the way
        return Verdict(False, self._gone(changed, found, awaited))

    def _quick(self, job: Job, changed: Job) -> bool:
        fifo = self._state.leaf(job).fifo or self._state.leaf(changed).fifo
        sure = self._settled and not self._state.settings.hold_back
        return sure and not fifo and job.id not in self._reserved

    def _binding(self, changed: Job) -> bool:
        """Whether a reservation binds it at any size, or would if it had not taken another one's place as an elder."""
        state = self._state
        elder = state.now - changed.submitted >= state.settings.reserve_after
        sizes = {changed.gpu.milli, changed.gpu.milli_min}
        return bool(state.kept) and (elder or any(bound_key(state, changed, ask_make(changed, size)) for size in sizes))

    def _moves(self, changed: Job, seats: tuple[Seat, ...], rank: Rank) -> bool:
        """Whether it takes of a reservation that it may upset, being of a higher rank or judged before an elder."""
        state = self._state
        since = state.now - state.settings.reserve_after
        return any(
            (rank < kept.rank or kept.job.submitted <= since)
            and any(seat.node in kept.rooms for seat in seats)
            and not state.binds(kept, changed, rank)
            for kept in state.kept
        )

    def _harmless(self, changed: Job, seats: tuple[Seat, ...], rank: Rank) -> bool:
        """Whether everybody keeps his rank, and every reservation its cards, although it runs.

        The last of its leaf takes only what all others of the leaf have left.  Where nobody ranks as family, nothing
        depends on what the leaf leaves to the tenant either, and no walk is needed.
        """
        state = self._state
        leaf = state.leaf(changed)
        if self._moves(changed, seats, rank):
            return False
        if leaf.klass is QueueClass.BESTEFFORT:
            return True
        task, tasks = state.task_make(changed, seats, Kind.PLACED), state.leaf_tasks[leaf]
        if leaf.tenant not in self._families and (not tasks or tasks[-1].key <= task.key):
            return True
        if (changed.gpu.elastic or len(state.pool.models(changed.gpu)) > 1) and self._binding(changed):
            return False  # it may sit elsewhere, and count as something else
        mine = sorted([*tasks, task], key=attrgetter("key"))
        after = tenant_walk(leaf.tenant, {**state.leaf_tasks, leaf: mine}).ranks
        return all(rank is self._ranks.get(name, rank) for name, rank in after.items())

    def _gone(self, changed: Job, found: Eviction, awaited: Awaited) -> int:
        """When the last of those who leave the seats, or the node where CPU or memory is short, is gone."""
        state = self._state
        most = PROD_GRACE if state.leaf(changed).klass is QueueClass.PROD else None
        chosen = [victim for victim in found.victims if victim.kind is Kind.RUNNING]
        times = [
            state.now + (victim.job.grace if most is None else min(victim.job.grace, most))
            for victim in awaited.among(chosen)
        ]
        draining = [task for task in state.tasks.values() if task.kind is Kind.DRAINING]
        leaving = [*awaited.among(draining), *(victim for victim in found.victims if victim.kind is Kind.DRAINING)]
        times += [task.until for task in leaving]
        return max(times, default=state.now)

    def _plan(self, job: Job, changed: Job) -> Verdict | None:
        """Run the planner on the changed snapshot, if it may still be run."""
        if self._runs <= 0:
            return None
        self._runs -= 1
        return verdict_plan(self._snapshot, job, changed)


def verdict_plan(snapshot: Snapshot, job: Job, changed: Job) -> Verdict | None:
    """What the planner says when `changed` waits in place of `job`."""
    others = tuple(other for other in snapshot.jobs if other.id != job.id)
    result = plan(replace(snapshot, jobs=(*others, changed)))
    if any(start.job == changed.id for start in result.start):
        return Verdict(True, snapshot.now)
    for hold in result.hold:
        if hold.job == changed.id:
            return Verdict(False, max(snapshot.now, hold.until - snapshot.settings.hold_timeout))
    return None


def _alias(changed: Job) -> Job:
    """The changed job under another name: under its own, it would be taken for the one that waits."""
    return replace(changed, id=f"{changed.id}*")
