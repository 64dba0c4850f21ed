"""Submitting a job: understand it, check what the server knows, store it once."""

from __future__ import annotations

from collections.abc import Callable

from millpond.authz.actions import Action
from millpond.authz.actors import Actor
from millpond.db.session import WORK_CHANNEL, Tx, notify
from millpond.db.stores.jobs import job_get, job_get_by_name, job_insert
from millpond.domain.errors import NotFound, Refused
from millpond.domain.jobs import JobSpec, JobState, QueuedAs
from millpond.domain.names import id_make, id_valid
from millpond.domain.records import JobRecord
from millpond.files.jobs import job_spec_parse
from millpond.files.tree import tree_from_json
from millpond.services.deps import Services
from millpond.services.happenings import event_write
from millpond.services.idempotency import Once, Reply, once_run
from millpond.services.places import leaf_resolve, project_check, tenant_resolve
from millpond.services.views import JobView

_FAILED = frozenset({JobState.FAILED, JobState.CANCELLED})


def spec_read(body: object) -> JobSpec:
    """The job in a JSON body.  `InvalidInput` with the key path of what is wrong."""
    return job_spec_parse(tree_from_json(body, "body"), None)


def job_submit(deps: Services, actor: Actor, body: object, once: Once, render: Callable[[JobView], object]) -> Reply:
    """Store a job, queued.  Raises `InvalidInput`, `NotFound`, `Forbidden`, `Refused` and `Conflict`; then nothing
    was stored."""
    spec = spec_read(body)

    def work(tx: Tx) -> JobView:
        record = job_prepare(deps, tx, actor, spec)
        job_insert(tx, actor, record)
        event_write(deps, tx, actor, "job.submitted", tenant=record.tenant, job=record.id, data=_submitted(record))
        notify(tx, WORK_CHANNEL, "schedule")
        return JobView(record, None)

    return once_run(deps, "job_submit", actor, once, work, render)


def job_prepare(deps: Services, tx: Tx, actor: Actor, spec: JobSpec) -> JobRecord:
    """Everything that is checked before a job is stored, or an offer made."""
    tenant = tenant_resolve(tx, actor, spec.tenant, Action.JOB_SUBMIT)
    project_check(tx, actor, tenant, spec.project)
    queue = leaf_resolve(tx, actor, spec, tenant)
    blocked = _dependencies(tx, actor, spec, tenant)
    now = deps.clock()
    record = JobRecord(
        id=id_make("j", int(now.timestamp() * 1000), deps.random(10)),
        tenant=tenant,
        project=spec.project,
        user=actor.user,
        queue=queue,
        spec=spec,
        state=JobState.QUEUED,
        queued_as=QueuedAs.READY,
        submitted_at=now,
        blocked=blocked,
    )
    deps.empty_pool.check(tx, record)
    return record


def _dependencies(tx: Tx, actor: Actor, spec: JobSpec, tenant: str) -> tuple[str, ...]:
    """Ids of the jobs that must still succeed.  `Refused` for one that does not exist or can no longer succeed."""
    waiting: list[str] = []
    for name in spec.depends_on:
        try:
            other = job_get(tx, actor, name) if id_valid(name, "j") else None
            other = other or job_get_by_name(tx, actor, tenant, spec.project, name)
        except NotFound as error:
            raise Refused(
                f"it depends on {name}, which does not exist",
                code="NO_SUCH_JOB",
                hint="submit that job first, or name it by its id",
                details={"job": name},
            ) from error
        if other.tenant != tenant:
            raise Refused(f"it depends on {name}, a job of another tenant", code="NO_SUCH_JOB")
        if other.state in _FAILED:
            raise Refused(
                f"it depends on {name}, which has {other.state.value}",
                code="DEPENDENCY",
                hint="submit that job again first",
                details={"job": other.id, "state": other.state.value},
            )
        if other.state is not JobState.SUCCEEDED:
            waiting.append(other.id)
    return tuple(dict.fromkeys(waiting))


def _submitted(record: JobRecord) -> dict[str, object]:
    """What the event says: never values of variables, nor commands, which may hold secrets."""
    spec = record.spec
    return {
        "name": spec.name,
        "project": record.project,
        "queue": record.queue,
        "type": spec.type.value,
        "gpu": str(spec.resources.gpu),
        "nodes": spec.nodes,
        "priority": spec.priority,
        "blocked": list(record.blocked),
    }
