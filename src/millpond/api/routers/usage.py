"""Metered card time."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.responses import StreamingResponse

from millpond.api.context import PAGE, Cursor, Deps, Limit, Ref, Who
from millpond.api.schemas.base import Listing
from millpond.api.schemas.usage import UsageAlarm, UsageList, UsageOfJob
from millpond.metering.usage import UsageBy
from millpond.services import usage

router = APIRouter(tags=["usage"])


class UsageForm(StrEnum):
    """``csv`` is all of it, streamed; ``json`` comes in pages."""

    JSON = "json"
    CSV = "csv"


By = Annotated[UsageBy, Query(description="What card time is summed by.")]
Tenant = Annotated[str, Query(max_length=63, description="Only this tenant; empty: all that the caller may see.")]
Month = Annotated[str, Query(max_length=10, description="Such as 2026-11; empty: the one that is not over yet.")]
From = Annotated[str, Query(alias="from", max_length=40, description="A date or full hour, instead of a month.")]
To = Annotated[str, Query(max_length=40, description="First date or hour that is left out; empty: until now.")]
Zone = Annotated[str, Query(max_length=64, description="IANA zone of month and days; empty: the account's, or UTC.")]
Form = Annotated[UsageForm, Query(alias="format", description="`csv`: everything as a file.")]

_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "Sums; `format=csv`: as a file."}
}


@router.get("/v1/usage", response_model=UsageList, responses=_FILE)
def usage_list(
    deps: Deps,
    actor: Who,
    by: By = UsageBy.PROJECT,
    tenant: Tenant = "",
    month: Month = "",
    start: From = "",
    to: To = "",
    zone: Zone = "",
    form: Form = UsageForm.JSON,
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> UsageList | Response:
    """Card time by tenant, project, user, model, class, job or day; members see their own."""
    wish = usage.UsageWish(tenant, month, start, to, zone)
    if form is UsageForm.CSV:
        headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
        pieces = usage.usage_csv(deps, actor, by, wish)
        return StreamingResponse(pieces, media_type="text/csv; charset=utf-8", headers=headers)
    return UsageList.of(usage.usage_page(deps, actor, by, wish, cursor, limit))


@router.get("/v1/usage/alarms")
def usage_alarms(
    deps: Deps,
    actor: Who,
    tenant: Tenant = "",
    month: Month = "",
    start: From = "",
    to: To = "",
    zone: Zone = "",
    cursor: Cursor = "",
    limit: Limit = PAGE,
) -> Listing[UsageAlarm]:
    """Contradictions that the meter found; what they are about is not billed.  The last first."""
    page = usage.usage_alarms(deps, actor, usage.UsageWish(tenant, month, start, to, zone), cursor, limit)
    return Listing(items=[UsageAlarm.of(record) for record in page.items], next=page.next)


@router.get("/v1/usage/jobs/{job}")
def usage_attempts(deps: Deps, actor: Who, ref: Ref) -> UsageOfJob:
    """What a job has used, attempt by attempt."""
    return UsageOfJob.of(usage.usage_attempts(deps, actor, ref))
