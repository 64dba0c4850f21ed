"""Explanations (scheduling §7): what keeps one job from starting now, who is ahead, and what would help.

Everything is read off a plan made from the same snapshot, so that an answer never differs from what the platform does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from millpond.domain.amounts import CARD, milli_format
from millpond.domain.cards import CardRequest
from millpond.domain.errors import Conflict, NotFound
from millpond.domain.queues import queue_tenant
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.decisions import HoldFor, Plan, Rank
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Job, RunState, Snapshot
from millpond.scheduling.state import State
from millpond.scheduling.tasks import seats_milli

_AHEAD = 20
"""Longest list of jobs ahead."""

_COUNTERFACTUALS = 3
_FINAL = frozenset({Code.HELD, Code.DEPENDENCY, Code.START_TIME, Code.BACKOFF})


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
    """A change that was tried on the planner and would let the job start now, or after evictions."""

    change: str
    starts_now: bool


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
    starts_now: bool = False
    eta: int | None = None
    counterfactuals: tuple[Counterfactual, ...] = ()


def explain(snapshot: Snapshot, job_id: str) -> Explanation:
    """Why `job_id` waits, by the plan that would be made now.  Raises `NotFound` for a job that is not alive."""
    return explain_in(snapshot, plan(snapshot), job_id)


def explain_in(snapshot: Snapshot, result: Plan, job_id: str, *, tries: bool = True) -> Explanation:
    """As `explain`, with the plan already made from that snapshot; ``tries`` adds counterfactuals."""
    job = next((job for job in snapshot.jobs if job.id == job_id), None)
    if job is None:
        raise NotFound(f"there is no live job {job_id[:80]!r}")
    if job.state is not RunState.QUEUED:
        state = State(snapshot)
        task = state.tasks[job_id]
        return Explanation(job_id, job.state, state.walk(task.leaf.tenant).ranks.get(job_id))
    for start in result.start:
        if start.job == job_id:
            return Explanation(job_id, job.state, start.rank, starts_now=True, eta=snapshot.now)
    jobs = {other.id: other for other in snapshot.jobs}
    for index, wait in enumerate(result.wait):
        if wait.job != job_id:
            continue
        hold = next((hold for hold in result.hold if hold.job == job_id), None)
        before = [jobs[other.job] for other in result.wait[:index] if other.rank is not None]
        return Explanation(
            job=job_id,
            state=job.state,
            rank=wait.rank,
            position=wait.position,
            pool_position=index + 1,
            reasons=wait.reasons,
            ahead=tuple(_ahead(other) for other in before[:_AHEAD]) if wait.rank is not None else (),
            hold=hold,
            eta=max((reason.until for reason in wait.reasons if reason.until is not None), default=None),
            counterfactuals=tuple(_counterfactuals(snapshot, job, wait.reasons)) if tries and hold is None else (),
        )
    raise NotFound(f"job {job_id[:80]!r} has not arrived yet")


def offer(snapshot: Snapshot, job: Job) -> Explanation:
    """What `job` would be told if it were submitted now.  Raises `Conflict` if its id is taken."""
    if any(other.id == job.id for other in snapshot.jobs):
        raise Conflict(f"there is already a job {job.id!r}")
    offered = replace(job, submitted=min(job.submitted, snapshot.now))
    return explain(replace(snapshot, jobs=(*snapshot.jobs, offered)), job.id)


def _ahead(job: Job) -> Ahead:
    milli = seats_milli(job.seats) if job.seats else job.gpu.milli * job.nodes
    return Ahead(job.id, job.user, queue_tenant(job.queue), milli, job.submitted, job.queue)


def _counterfactuals(snapshot: Snapshot, job: Job, reasons: tuple[Reason, ...]) -> Iterator[Counterfactual]:
    """Changes that help, each tried on the planner."""
    if any(reason.code in _FINAL for reason in reasons):
        return
    found = 0
    for text, changed in _changes(snapshot, job, reasons):
        others = tuple(other for other in snapshot.jobs if other.id != job.id)
        result = plan(replace(snapshot, jobs=(*others, changed)))
        now = any(start.job == job.id for start in result.start)
        if now or any(hold.job == job.id for hold in result.hold):
            yield Counterfactual(text, now)
            found += 1
            if found == _COUNTERFACTUALS:
                return


def _changes(snapshot: Snapshot, job: Job, reasons: tuple[Reason, ...]) -> Iterator[tuple[str, Job]]:
    """A smaller amount, another model, another queue of the same tenant; at most one of the first kind."""
    gpu = job.gpu
    have = [reason.have for reason in reasons if reason.have is not None and reason.code in _AMOUNTS]
    limits = [reason.limit - reason.have for reason in reasons if reason.limit is not None and reason.have is not None]
    smaller = min([*have, *limits], default=0) // job.nodes // CARD * CARD
    if 0 < smaller < gpu.milli_min:
        yield (
            f"asking for {milli_format(smaller)} cards" + (" on each node" if job.nodes > 1 else ""),
            replace(job, gpu=replace(gpu, milli=smaller, milli_min=smaller)),
        )
    if gpu.models:
        models = {state.spec.cards.model for state in snapshot.nodes if state.spec.cards is not None}
        for model in sorted(model for model in models if not gpu.model_matches(model))[:_COUNTERFACTUALS]:
            other = CardRequest(gpu.milli, gpu.milli_min, models=(model,), slice=gpu.slice, slices=gpu.slices)
            yield f"using {model} cards", replace(job, gpu=other)
    if not job.preemptible and any(reason.code is Code.NEEDS_GUARANTEE for reason in reasons):
        yield "setting preemptible: true", replace(job, preemptible=True)
    for queue in sorted(snapshot.queues, key=lambda config: config.name):
        if queue.leaf and queue.name != job.queue and queue_tenant(queue.name) == queue_tenant(job.queue):
            yield f"using the queue {queue.name}", replace(job, queue=queue.name)


_AMOUNTS = frozenset({Code.INSUFFICIENT_CARDS, Code.FRAGMENTED})
