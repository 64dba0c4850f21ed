"""The event log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from millpond.api.context import PAGE, Cursor, Deps, Limit, Who
from millpond.api.schemas.base import Listing
from millpond.api.schemas.events import Event
from millpond.services import events

router = APIRouter(tags=["events"])


@router.get("/v1/events")
def event_list(
    deps: Deps,
    actor: Who,
    cursor: Cursor = "",
    limit: Limit = PAGE,
    tenant: Annotated[str, Query(max_length=63, description="Only of this tenant.")] = "",
    job: Annotated[str, Query(max_length=64, description="Only of this job (its id).")] = "",
) -> Listing[Event]:
    """Events, the oldest first, for auditors."""
    page = events.event_page(deps, actor, cursor, limit, tenant, job)
    return Listing(items=[Event.of(record) for record in page.items], next=page.next)
