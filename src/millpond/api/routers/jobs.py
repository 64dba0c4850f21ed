"""Jobs: submit, look, stop, explain, read output."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from millpond.api.bodies import body_schema
from millpond.api.context import PAGE, Cursor, Deps, JsonBody, Limit, OnceKey, Plans, Ref, Who, reply_response
from millpond.api.schemas.base import Listing
from millpond.api.schemas.events import Event
from millpond.api.schemas.explanations import Explanation
from millpond.api.schemas.jobs import Attempt, Job, JobStop, JobSubmit, LogText
from millpond.api.shapes import attempt_shape, explanation_shape, job_json, job_shape
from millpond.domain.amounts import MAX_AMOUNT
from millpond.domain.jobs import JobState
from millpond.services import explanations, jobs, logs, submissions

router = APIRouter(tags=["jobs"])

States = Annotated[list[JobState] | None, Query(max_length=16, description="Only in these states.")]


@router.post("/v1/jobs", status_code=201, response_model=Job, openapi_extra=body_schema(JobSubmit))
def job_submit(deps: Deps, actor: Who, once: OnceKey, body: JsonBody) -> Response:
    """Submit a job: the keys and the grammar of a job file, as JSON."""
    return reply_response(submissions.job_submit(deps, actor, body, once, job_json))


@router.get("/v1/jobs")
def job_list(
    deps: Deps,
    actor: Who,
    state: States = None,
    tenant: Annotated[str, Query(max_length=63, description="Only of this tenant.")] = "",
    project: Annotated[str, Query(max_length=63, description="Only of this project.")] = "",
    user: Annotated[str, Query(max_length=128, description="Only of this user.")] = "",
    queue: Annotated[str, Query(max_length=200, description="Only in this leaf.")] = "",
    name: Annotated[str, Query(max_length=63, description="Only of this name.")] = "",
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> Listing[Job]:
    """Jobs that the caller may see, the latest submitted first."""
    wanted = jobs.JobFilter(tenant, project, user, tuple(state or ()), queue, name)
    page = jobs.job_page(deps, actor, wanted, cursor, limit)
    return Listing(items=[job_shape(view) for view in page.items], next=page.next)


@router.get("/v1/jobs/{job}")
def job_get(deps: Deps, actor: Who, ref: Ref) -> Job:
    """One job."""
    return job_shape(jobs.job_view(deps, actor, ref))


@router.get("/v1/jobs/{job}/attempts")
def attempt_list(deps: Deps, actor: Who, ref: Ref) -> Listing[Attempt]:
    """Every attempt of a job, the first first."""
    return Listing(items=[attempt_shape(view) for view in jobs.job_attempts(deps, actor, ref)])


@router.get("/v1/jobs/{job}/events")
def job_event_list(deps: Deps, actor: Who, ref: Ref, cursor: Cursor = "", limit: Limit = PAGE) -> Listing[Event]:
    """Events of a job, the oldest first."""
    page = jobs.job_events(deps, actor, ref, cursor, limit)
    return Listing(items=[Event.of(record) for record in page.items], next=page.next)


@router.get("/v1/jobs/{job}/why")
def job_why(deps: Deps, plans: Plans, actor: Who, ref: Ref) -> Explanation:
    """Everything that keeps the job from starting now, judged on the pool as it is at this moment."""
    return explanation_shape(explanations.job_why(deps, plans, actor, ref))


@router.post("/v1/jobs/{job}/stop")
def job_stop(deps: Deps, actor: Who, ref: Ref, body: JobStop | None = None) -> Job:
    """Cancel a job: at once while it waits, else with its grace.  One that has ended stays as it is."""
    return job_shape(jobs.job_stop(deps, actor, ref, body.grace if body is not None else None))


@router.post("/v1/jobs/{job}/hold")
def job_hold(deps: Deps, actor: Who, ref: Ref) -> Job:
    """Keep a waiting job from starting until it is released."""
    return job_shape(jobs.job_hold(deps, actor, ref))


@router.post("/v1/jobs/{job}/release")
def job_release(deps: Deps, actor: Who, ref: Ref) -> Job:
    """Let a held job wait on, in its place."""
    return job_shape(jobs.job_release(deps, actor, ref))


@router.get("/v1/jobs/{job}/logs")
def log_get(
    deps: Deps,
    actor: Who,
    ref: Ref,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Number; absent: the latest.")] = None,
    rank: Annotated[int, Query(ge=0, le=1_000_000, description="Rank.")] = 0,
    offset: Annotated[int, Query(ge=0, le=MAX_AMOUNT, description="First byte wanted.")] = 0,
    limit: Annotated[int, Query(ge=4, le=1_048_576, description="Most bytes.")] = logs.PIECE,
) -> LogText:
    """Output of one rank from byte `offset` on."""
    piece = logs.log_read(deps, actor, ref, attempt, rank, offset, limit)
    return LogText(attempt=piece.attempt, rank=piece.rank, offset=piece.offset, text=piece.text, end=piece.end)


@router.post("/v1/offers", tags=["offers"], openapi_extra=body_schema(JobSubmit))
def offer_create(deps: Deps, plans: Plans, actor: Who, body: JsonBody) -> Explanation:
    """What would happen to this job if it were submitted now.  Nothing is stored."""
    return explanation_shape(explanations.offer_make(deps, plans, actor, body))
