"""Jobs with their present attempt: what lists, streams and answers show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millpond.authz.actors import Actor
from millpond.db.session import Tx
from millpond.db.stores.attempts import attempts_get
from millpond.db.stores.jobs import jobs_get
from millpond.domain.jobs import AttemptState
from millpond.domain.names import attempt_id
from millpond.domain.records import AttemptRecord, JobRecord


@dataclass(frozen=True, slots=True)
class JobView:
    """A job and its present attempt; ``attempt`` is ``None`` while it waits and after it has ended."""

    job: JobRecord
    attempt: AttemptRecord | None


def views_of(tx: Tx, actor: Actor, jobs: Sequence[JobRecord]) -> tuple[JobView, ...]:
    """The views of jobs already read, in the same order, with one query for all attempts."""
    wanted = {job.id: attempt_id(job.id, job.attempts) for job in jobs if job.attempts and job.finished_at is None}
    found = attempts_get(tx, actor, sorted(wanted.values())) if wanted else {}
    live = {key: attempt for key, attempt in found.items() if attempt.state is not AttemptState.ENDED}
    return tuple(JobView(job, live.get(wanted.get(job.id, ""))) for job in jobs)


def views_read(tx: Tx, actor: Actor, ids: Sequence[str]) -> tuple[JobView, ...]:
    """The views of the jobs `ids` that exist and that `actor` may see, in that order."""
    found = jobs_get(tx, actor, ids)
    return views_of(tx, actor, [found[key] for key in ids if key in found])
