"""Explanations (scheduling §7): what keeps one job from starting now, who is ahead, and what would help.

Everything is read off a plan made from the same snapshot, so that an answer never differs from what the platform does.
An `Explainer` answers for any number of jobs of one snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millpond.domain.errors import Conflict, NotFound
from millpond.domain.queues import queue_tenant
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.changes import Change, Ladder, ladders
from millpond.scheduling.decisions import HoldFor, Rank, Reservation
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, RunState, Snapshot
from millpond.scheduling.tasks import seats_milli
from millpond.scheduling.trial import Trials, Verdict

_AHEAD = 20
"""Longest list of jobs ahead."""

_COUNTERFACTUALS = 3

_EVICTING = frozenset({"preemptible", "queue", "topology", "model"})
"""Kinds of changes that may let a job evict where it could not before."""

_FINAL = frozenset(
    {Code.HELD, Code.DEPENDENCY, Code.START_TIME, Code.BACKOFF, Code.CARD_HOURS_EXHAUSTED, Code.BALANCE_HELD}
)
"""What no other placement helps against, so that the planner cannot verify a change."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A waiting job that stands before this one in the pool; ``since`` is its submit time."""

    job: str
    user: str
    tenant: str
    milli: int
    since: int
    queue: str


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A change that was tried on the planner and would let the job start now, or at ``at`` when others have left.

    ``kind`` and ``value`` are those of `changes.Change`; ``change`` says it in words.
    """

    change: str
    starts_now: bool
    kind: str = ""
    value: str = ""
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """``position`` is 1-based in the leaf, ``pool_position`` in decision order; both None unless it waits.

    ``eta`` is the latest moment at which it starts, where that is certain.  ``reasons`` are empty if it runs or starts.
    """

    job: str
    state: RunState
    rank: Rank | None = None
    position: int | None = None
    pool_position: int | None = None
    reasons: tuple[Reason, ...] = ()
    ahead: tuple[Ahead, ...] = ()
    hold: HoldFor | None = None
    reservation: Reservation | None = None
    starts_now: bool = False
    eta: int | None = None
    counterfactuals: tuple[Counterfactual, ...] = ()


def explain(snapshot: Snapshot, job_id: str) -> Explanation:
    """Why `job_id` waits, by the plan that would be made now.  Raises `NotFound` for a job that is not alive."""
    return Explainer(snapshot).explain(job_id)


def offer(snapshot: Snapshot, job: Job) -> Explanation:
    """What `job` would be told if it were submitted now.  Raises `Conflict` if its id is taken."""
    if any(other.id == job.id for other in snapshot.jobs):
        raise Conflict(f"there is already a job {job.id!r}")
    offered = replace(job, submitted=min(job.submitted, snapshot.now))
    return explain(replace(snapshot, jobs=(*snapshot.jobs, offered)), job.id)


class Explainer:
    """Makes the plan of a snapshot (``plan``) and explains its jobs; one answer costs no pass over the jobs.

    Not for several threads at a time: failures are remembered on the way.
    """

    def __init__(self, snapshot: Snapshot, resident: Resident | None = None) -> None:
        """``resident``: a planner that stays, brought to this snapshot; the answers hold until it hears of the next."""
        planner = resident if resident is not None else Resident(snapshot)
        self._ranks = planner.ranks()
        tree, usage = planner.state.tree, planner.state.usage
        self.used: dict[str, int] = {dim: usage.used(tree.root, place) for place, dim in enumerate(tree.dims)}
        """Milli-cards in use by dimension, before anything that the plan changes."""
        self.queues = frozenset(tree.queues)
        self.plan = result = planner.plan()
        self._snapshot = snapshot
        self._state = planner.state
        self._starts = {start.job: start for start in result.start}
        self._waits = {wait.job: number for number, wait in enumerate(result.wait)}
        self._holds = {hold.job: hold for hold in result.hold}
        self._reservations = {found.job: found for found in result.reservations}
        self._first = [(number, wait.job) for number, wait in enumerate(result.wait) if wait.rank is not None][:_AHEAD]
        self._trials = Trials(snapshot, result, planner.state, planner.options, self._ranks)

    @property
    def ranks(self) -> Mapping[str, Rank]:
        """The ranks of what runs, before anything that the plan changes."""
        return self._ranks

    def explain(self, job_id: str, *, tries: bool = True) -> Explanation:
        """Why a job waits.  ``tries`` adds counterfactuals.  Raises `NotFound` for a job that is not alive."""
        job = self._state.jobs.get(job_id)
        if job is None:
            raise NotFound(f"there is no live job {job_id[:80]!r}")
        if job.state is not RunState.QUEUED:
            return Explanation(job_id, job.state, self._ranks.get(job_id))
        start = self._starts.get(job_id)
        if start is not None:
            return Explanation(job_id, job.state, start.rank, starts_now=True, eta=self._snapshot.now)
        index = self._waits.get(job_id)
        if index is None:
            raise NotFound(f"job {job_id[:80]!r} has not arrived yet")
        wait, hold = self.plan.wait[index], self._holds.get(job_id)
        return Explanation(
            job=job_id,
            state=job.state,
            rank=wait.rank,
            position=wait.position,
            pool_position=index + 1,
            reasons=wait.reasons,
            ahead=self._ahead(index) if wait.rank is not None else (),
            hold=hold,
            reservation=self._reservations.get(job_id),
            eta=max((reason.until for reason in wait.reasons if reason.until is not None), default=None),
            counterfactuals=tuple(_counterfactual(*pair) for pair in self.tried(job, wait.reasons))
            if tries and hold is None
            else (),
        )

    def _ahead(self, index: int) -> tuple[Ahead, ...]:
        return tuple(_ahead(self._state.jobs[name]) for number, name in self._first if number < index)

    def tried(self, job: Job, reasons: tuple[Reason, ...]) -> tuple[tuple[Change, Verdict], ...]:
        """Changes that help: first those that need nobody to leave, then the others, one of a kind."""
        if any(reason.code in _FINAL for reason in reasons):
            return ()
        trials = self._trials
        trials.runs_reset()
        times = [reserved.time for reserved in self.plan.reservations if reserved.job != job.id]
        found: dict[str, tuple[Change, Verdict]] = {}
        proposed = [ladder for ladder in ladders(self._snapshot, job, reasons, times) if ladder]
        for ladder in proposed:
            if len(found) < _COUNTERFACTUALS and ladder[0].kind not in found:
                change = _least(trials, ladder)
                verdict = trials.start(job, change.job) if change is not None else None
                if change is not None and verdict is not None:
                    found[change.kind] = (change, verdict)
        left = trials.evictions
        for change in (ladder[0] for ladder in proposed):
            wanted = change.kind in _EVICTING and change.kind not in found
            if wanted and left and len(found) < _COUNTERFACTUALS:
                left -= 1
                verdict = trials.evict(job, change.job)
                if verdict is not None:
                    found[change.kind] = (change, verdict)
        return tuple(sorted(found.values(), key=lambda pair: not pair[1].now))


def _least(trials: Trials, ladder: Ladder) -> Change | None:
    """The first change of a ladder that fits, found by halving."""
    if not trials.fits(ladder[-1].job):
        return None
    low, high = 0, len(ladder) - 1
    while low < high:
        middle = (low + high) // 2
        if trials.fits(ladder[middle].job):
            high = middle
        else:
            low = middle + 1
    return ladder[low]


def _counterfactual(change: Change, verdict: Verdict) -> Counterfactual:
    return Counterfactual(change.text, verdict.now, change.kind, change.value, verdict.at)


def _ahead(job: Job) -> Ahead:
    milli = seats_milli(job.seats) if job.seats else job.gpu.milli * job.nodes
    return Ahead(job.id, job.user, queue_tenant(job.queue), milli, job.submitted, job.queue)
