"""Why a job waits, and what an offer would get.  Judged on the pool as it is at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from millpond.authz.actors import Actor
from millpond.db.session import Tx
from millpond.db.stores.promises import promise_list
from millpond.domain.jobs import JobState
from millpond.domain.records import JobRecord, PromiseRecord
from millpond.scheduling.explain import Explanation
from millpond.scheduling.snapshot import RunState
from millpond.services.deps import Services
from millpond.services.jobs import JobRef, job_find
from millpond.services.planning import Pool, Sight, sight_of
from millpond.services.promises import offer_promise
from millpond.services.standing import Standings
from millpond.services.submissions import job_prepare, spec_read


@dataclass(frozen=True, slots=True)
class Answer:
    """An explanation as far as the caller may see, and what it is about."""

    explanation: Explanation
    name: str
    queue: str
    state: JobState
    now: datetime
    simulated: bool
    offered: bool
    names: Mapping[str, str]
    """Names of the jobs ahead that may be shown, by id."""
    promise: PromiseRecord | None = None
    """When it was last said to start; only while it waits."""


def job_why(deps: Services, standings: Standings, actor: Actor, ref: JobRef) -> Answer:
    """Every limit that binds now, who is ahead, and the expected start."""

    def work(tx: Tx) -> tuple[JobRecord, PromiseRecord | None]:
        record = job_find(tx, actor, ref)
        return record, promise_list(tx, actor, [record.id]).get(record.id)

    found, promise = deps.database.run("job_why", work)
    standing, explanation = standings.explain(found)
    pool = standing.pool
    if explanation is None:
        # It has ended, perhaps between the two reads.
        ended = deps.database.run("job_why", lambda tx: job_find(tx, actor, JobRef(found.id)))
        return _answer(_over(ended), ended, pool)
    job = pool.by_id[found.id]
    return replace(_answer(_shown(explanation, sight_of(actor), pool), job, pool), promise=promise)


def offer_make(deps: Services, standings: Standings, actor: Actor, body: object) -> Answer:
    """What would happen to this job if it were submitted now.  Refused like a submission; nothing is stored."""
    spec = spec_read(body)

    job = deps.database.run("offer_make", lambda tx: job_prepare(deps, tx, actor, spec), snapshot=True)
    pool, found = standings.offer(job)
    promise = None
    if found.reasons and found.hold is None:
        promise = offer_promise(deps, pool.snapshot, job)
    return replace(_answer(_shown(found, sight_of(actor), pool), job, pool), offered=True, promise=promise)


def _answer(found: Explanation, job: JobRecord, pool: Pool) -> Answer:
    """`found` holds only what the caller may see."""
    jobs = pool.jobs()
    return Answer(
        explanation=found,
        name=job.name,
        queue=job.queue,
        state=job.state,
        now=pool.now,
        simulated=pool.simulated,
        offered=False,
        names={ahead.job: jobs[ahead.job].name for ahead in found.ahead if ahead.job in jobs},
    )


def _over(job: JobRecord) -> Explanation:
    """Nothing keeps a job that has ended."""
    return Explanation(job.id, RunState.QUEUED)


def _shown(found: Explanation, sight: Sight, pool: Pool) -> Explanation:
    """The explanation without what the caller may not see."""
    jobs = pool.jobs()
    hold = found.hold
    return replace(
        found,
        reasons=tuple(sight.reason(reason, jobs) for reason in found.reasons),
        ahead=tuple(
            ahead if sight.sees(ahead.tenant) else replace(ahead, job="", user="", tenant="", queue="")
            for ahead in found.ahead
        ),
        hold=None if hold is None else replace(hold, victims=sight.visible(jobs, hold.victims)),
    )
