"""Server-sent events: job changes and output."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse

from millpond.api.context import Deps, Ref, Who, secret_of, state_of
from millpond.api.following import Caller, LogPlace, LogWish, guarded, job_chunks, log_chunks, pool_chunks
from millpond.api.streams import offsets_parse, stream_response
from millpond.authz.actors import Actor
from millpond.services.jobs import job_view
from millpond.services.logs import engine_of, log_target
from millpond.services.planning import sight_of

router = APIRouter(tags=["streams"])
_TEXT = {"text/event-stream": {"schema": {"type": "string"}}}
_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": _TEXT, "description": "Events."}}


@router.get("/v1/stream", response_class=StreamingResponse, responses=_EVENTS)
def pool_stream(request: Request, actor: Who) -> StreamingResponse:
    """Changes of all jobs that the caller may see: event `job` (a JobChange without place and reasons), `reset` when
    some may have been missed.  Without end."""
    sight_of(actor)
    return _stream(request, actor, pool_chunks)


@router.get("/v1/jobs/{job}/stream", response_class=StreamingResponse, responses=_EVENTS)
def job_stream(request: Request, deps: Deps, actor: Who, ref: Ref) -> StreamingResponse:
    """Event `job` (a JobChange) now and after every change, until the job has ended."""
    found = job_view(deps, actor, ref)
    return _stream(request, actor, lambda caller: job_chunks(caller, ref, found.job.id))


@router.get("/v1/jobs/{job}/logs/stream", response_class=StreamingResponse, responses=_EVENTS)
def log_stream(
    request: Request,
    deps: Deps,
    actor: Who,
    ref: Ref,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Only this attempt.")] = None,
    rank: Annotated[int | None, Query(ge=0, le=1_000_000, description="Only this rank.")] = None,
    tail: Annotated[bool, Query(description="Only what comes from now on.")] = False,
    last_event_id: Annotated[str, Header(max_length=65_536, description="Go on after this event.")] = "",
) -> StreamingResponse:
    """Output of every rank, attempt after attempt: events `attempt`, `log` (a LogEvent), and `end` when nothing can
    follow."""
    engine_of(deps)
    target = log_target(deps, actor, ref, attempt)
    number, offsets = offsets_parse(last_event_id)
    place = LogPlace(number if 0 < number <= target.job.attempts else 0)
    if place.number:
        place.offsets.update(offsets)
    wish = LogWish(attempt, rank, tail and not place.number)
    return _stream(
        request, actor, lambda caller: log_chunks(caller, ref, target.job.id, wish, place, bool(place.number))
    )


def _stream(request: Request, actor: Actor, make: Callable[[Caller], AsyncIterator[bytes]]) -> StreamingResponse:
    caller = Caller(state_of(request), secret_of(request.headers), actor)
    return stream_response(guarded(caller, make))
