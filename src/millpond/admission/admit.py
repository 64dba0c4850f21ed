"""Who may start for money and budgets: pure decisions around a plan.

A pool in which nobody's money matters is planned as if there were none in the world.  Otherwise a waiting job that
could not pay alone is set aside before the plan is made, with the reason; what the plan starts is paid for one job
after the other, and the first that no longer fits is set aside for this plan, which is made again.

Its own room, since it sees both `billing` and `scheduling`, which do not know each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from millpond.billing.counter import Counter, FundsRead, Wish
from millpond.billing.holds import Held
from millpond.billing.standings import ORG
from millpond.domain.cards import CardRequest
from millpond.domain.nodes import CardKind
from millpond.domain.reasons import Code, Reason
from millpond.domain.records import JobRecord
from millpond.domain.slices import slice_milli
from millpond.scheduling.desk import Judged
from millpond.scheduling.snapshot import Job, RunState, Snapshot
from millpond.scheduling.tasks import seats_milli

ROUNDS = 5
"""Plans of a pass in which only the first job that no longer fits is set aside; after them, everybody who waits."""

_NEXT = Reason(Code.BALANCE_HELD, "it is looked at again once the jobs before it have been paid for")

Judge = Callable[[Snapshot], Judged]


@dataclass(frozen=True, slots=True)
class Funded:
    """A judgement whose starts are paid for, and what each of them holds, by job."""

    judged: Judged
    held: Mapping[str, Held] = field(default_factory=dict)


class Admission:
    """What is kept between plans: jobs set aside for the same reason."""

    def __init__(self) -> None:
        self._aside: dict[str, tuple[Job, tuple[tuple[str, str], ...], Job]] = {}

    def judge(
        self, read: FundsRead | None, snapshot: Snapshot, records: Iterable[JobRecord], judge: Judge, again: Judge
    ) -> Funded:
        """A plan whose starts can be paid for.  ``again`` judges in place of the judgement that was made last."""
        if read is None:
            self._aside.clear()
            return Funded(judge(snapshot))
        jobs = {record.id: record for record in records if read.concerns(record.tenant)}
        models = {node.spec.name: node.spec.cards.model for node in snapshot.nodes if node.spec.cards is not None}
        reasons = _alone(read, snapshot, jobs)
        judged = judge(self._set_aside(snapshot, reasons))
        for number in range(2 * ROUNDS):
            counter = read.counter()
            fresh = _pay(counter, judged, models, jobs, first=number < ROUNDS)
            if not fresh:
                judged.notes = reasons
                return Funded(judged, counter.held)
            if number >= ROUNDS - 1:
                fresh = {**_rest(judged, snapshot, jobs), **fresh}
            reasons = {**fresh, **reasons}
            judged = again(self._set_aside(snapshot, reasons))
        raise RuntimeError("a plan of jobs that were paid for did not stay the same")

    def _set_aside(self, snapshot: Snapshot, reasons: Mapping[str, tuple[Reason, ...]]) -> Snapshot:
        """The same objects again for who is set aside again, so that the planner need not look at them."""
        if not reasons:
            self._aside.clear()
            return snapshot
        kept: dict[str, tuple[Job, tuple[tuple[str, str], ...], Job]] = {}
        jobs: list[Job] = []
        for job in snapshot.jobs:
            found = reasons.get(job.id)
            if found is None:
                jobs.append(job)
                continue
            blocks = tuple((reason.code.value, reason.text) for reason in found)
            old = self._aside.get(job.id)
            if old is None or old[0] is not job or old[1] != blocks:
                old = (job, blocks, replace(job, blocked_by=(*job.blocked_by, *blocks)))
            kept[job.id] = old
            jobs.append(old[2])
        self._aside = kept
        return replace(snapshot, jobs=tuple(jobs))


def job_wish(record: JobRecord, kinds: Mapping[str, CardKind]) -> Wish:
    """The least that a waiting job asks for: its smallest size on the card models that it may get."""
    spec = record.spec
    gpu = spec.resources.gpu
    sizes = {model: _size(gpu, kind) for model, kind in kinds.items() if _matches(gpu, kind)}
    milli = min(sizes.values(), default=gpu.milli_min) * spec.nodes
    return _wish(record, tuple(sorted(sizes)) if milli else (), milli)


def kinds_of(snapshot: Snapshot) -> dict[str, CardKind]:
    """The card models of the pool."""
    return {node.spec.cards.model: node.spec.cards for node in snapshot.nodes if node.spec.cards is not None}


def _wish(record: JobRecord, skus: tuple[str, ...], milli: int) -> Wish:
    spec = record.spec
    path = (ORG, record.tenant, record.project, record.user)
    return Wish(record.id, record.attempts + 1, path, spec.queue.value, skus, milli, spec.max_duration)


def _size(gpu: CardRequest, kind: CardKind) -> int:
    if not gpu.slice:
        return gpu.milli_min
    return (slice_milli(kind.model, kind.memory, gpu.slice) or 0) * gpu.slices


def _matches(gpu: CardRequest, kind: CardKind) -> bool:
    fits = gpu.card_matches(kind.vendor, kind.model, kind.memory)
    return fits and (not gpu.slice or slice_milli(kind.model, kind.memory, gpu.slice) is not None)


def _alone(read: FundsRead, snapshot: Snapshot, jobs: Mapping[str, JobRecord]) -> dict[str, tuple[Reason, ...]]:
    """Who could not start even if nobody else did; those who ask for the same get the same answer."""
    counter, kinds = read.counter(), kinds_of(snapshot)
    known: dict[Wish, tuple[Reason, ...]] = {}
    found: dict[str, tuple[Reason, ...]] = {}
    for job in snapshot.jobs:
        record = jobs.get(job.id)
        if record is None or job.state is not RunState.QUEUED or job.blocked_by:
            continue
        same = replace(job_wish(record, kinds), job="", attempt=1)
        if same not in known:
            known[same] = counter.reasons(same)
        if known[same]:
            found[job.id] = known[same]
    return found


def _pay(
    counter: Counter, judged: Judged, models: Mapping[str, str], jobs: Mapping[str, JobRecord], *, first: bool
) -> dict[str, tuple[Reason, ...]]:
    """Pay for what the plan starts, in its order.  Those that cannot, or the first of them."""
    plan = judged.guarded.plan
    short: dict[str, tuple[Reason, ...]] = {}
    for start in plan.start if plan is not None else ():
        record = jobs.get(start.job)
        if record is None:
            continue
        milli = seats_milli(start.seats)
        sku = models.get(start.seats[0].node, "") if milli else ""
        reasons = counter.admit(_wish(record, (sku,) if sku else (), milli))
        if reasons:
            short[start.job] = reasons
            if first:
                break
    return short


def _rest(judged: Judged, snapshot: Snapshot, jobs: Mapping[str, JobRecord]) -> dict[str, tuple[Reason, ...]]:
    """All that the plan does not start wait for the next pass.  No numbers: those at hand may be another tenant's."""
    plan = judged.guarded.plan
    starting = {start.job for start in plan.start} if plan is not None else set()
    return {
        job.id: (_NEXT,)
        for job in snapshot.jobs
        if job.id in jobs and job.state is RunState.QUEUED and job.id not in starting and not job.blocked_by
    }
