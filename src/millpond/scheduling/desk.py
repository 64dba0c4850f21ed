"""Where a pool is judged again and again: two planners that stay, so that one answers questions while the other plans.

A `Judged` holds what a plan says and answers why jobs wait.  It stands on a planner, which must hear of later events at
some time; so each judgement is made on the planner that does not hold the one before, and the one before that is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from millpond.domain.reasons import Reason
from millpond.domain.records import World
from millpond.scheduling.check import check_safety
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.explain import Explainer, Explanation
from millpond.scheduling.guarded import Guard, Guarded, harmful, plan_without, set_aside
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Snapshot

Locks = Callable[[], AbstractContextManager[object]]
"""Makes a lock, such as `threading.Lock`: this room itself knows no threads."""


class Judged:
    """A snapshot, its plan, and explanations that fit it.  Threads may share it.

    ``guarded`` is what may be applied.  Where the guard refused something, ``plan``, ranks and explanations are those
    of the pool without whom it set aside, so that they are told so.  ``notes``: reasons that the snapshot brought along
    as words, with their numbers, by job.
    """

    def __init__(self, snapshot: Snapshot, guarded: Guarded, explainer: Explainer, locks: Locks) -> None:
        self.snapshot = snapshot
        self.guarded = guarded
        self.plan: Plan = explainer.plan
        self.ranks: Mapping[str, Rank] = explainer.ranks
        self.used: Mapping[str, int] = explainer.used
        self.queues: frozenset[str] = explainer.queues
        self.notes: Mapping[str, tuple[Reason, ...]] = {}
        self._explainer: Explainer | None = explainer
        self._lock = locks()

    def explain(self, job: str) -> Explanation | None:
        """As `Explainer.explain`; None once it is over: ask a newer one."""
        with self._lock:
            found = self._explainer.explain(job) if self._explainer is not None else None
        known = {(reason.code, reason.text): reason for reason in self.notes.get(job, ())}
        if found is None or not known:
            return found
        return replace(found, reasons=tuple(known.get((one.code, one.text), one) for one in found.reasons))

    def end(self) -> None:
        """Answer no more, since the planner below it goes on.  Waits for an answer that is being made."""
        with self._lock:
            self._explainer = None


class Desk:
    """See the module.  One thread at a time; what it gives may be shared."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self._planners: list[Resident | None] = [None, None]
        self._judged: list[Judged | None] = [None, None]
        self._front = 0

    def judge(self, snapshot: Snapshot, guard: Guard = check_safety) -> Judged:
        """The plan for `snapshot` and all that follows from it.  The last judgement still answers, earlier ones do not.

        Equal to one that is made without anything kept; costs what has changed, and the plan.
        """
        self._front = 1 - self._front
        return self._make(self._front, snapshot, guard)

    def again(self, snapshot: Snapshot, guard: Guard = check_safety) -> Judged:
        """In place of the last judgement, which is over: of the same pool, with others set aside."""
        return self._make(self._front, snapshot, guard)

    def trial(self, snapshot: Snapshot, guard: Guard = check_safety) -> Judged:
        """The same of a snapshot that is not the pool's; it is over with the next call, and the last `judge` is not."""
        return self._make(1 - self._front, snapshot, guard)

    def _make(self, place: int, snapshot: Snapshot, guard: Guard) -> Judged:
        before, planner = self._judged[place], self._planners[place]
        if before is not None:
            before.end()
        self._planners[place] = None  # an error on the way leaves none that is half told
        if planner is None:
            planner = Resident(snapshot)
        else:
            planner.follow(snapshot)
        explainer = Explainer(snapshot, planner)
        found = guard(snapshot, explainer.plan)
        refused = harmful(found)
        guarded = Guarded(explainer.plan, weak=found)
        if refused:
            guarded = plan_without(snapshot, explainer.plan, refused, guard)
            explainer = Explainer(set_aside(snapshot, guarded.aside))
        self._planners[place] = planner
        self._judged[place] = judged = Judged(snapshot, guarded, explainer, self._locks)
        return judged


@dataclass(frozen=True, slots=True)
class Judgement:
    """A pool judged at ``now``: the world as it was read, its mark, and how long reading and judging took."""

    world: World
    mark: tuple[object, ...]
    now: datetime
    took: timedelta
    judged: Judged


class Newest:
    """The last judgement of whoever makes them, for whoever asks.  Threads may share it."""

    def __init__(self) -> None:
        self._last: Judgement | None = None

    def put(self, judgement: Judgement) -> None:
        """From now on this one."""
        self._last = judgement

    def get(self) -> Judgement | None:
        """None if there was none yet."""
        return self._last
