"""Metered card time: sums, the attempts of a job, and what the meter could not believe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict, cast

from millpond.sdk.group import Group, path_join


class UsageAmount(TypedDict):
    """Whole milli-card-seconds, and card-hours as text; ``measured`` is null where nothing has measured it."""

    milli_card_seconds: int
    lost_milli_card_seconds: int
    card_hours: str
    lost_card_hours: str
    attempts: int
    measured: str | None


UsageRow = TypedDict(
    "UsageRow",
    {
        "milli_card_seconds": int,
        "lost_milli_card_seconds": int,
        "card_hours": str,
        "lost_card_hours": str,
        "attempts": int,
        "measured": str | None,
        "tenant": str | None,
        "project": str | None,
        "user": str | None,
        "sku": str | None,
        "class": str | None,
        "job": str | None,
        "name": str | None,
        "day": str | None,
    },
)

UsageList = TypedDict(
    "UsageList",
    {
        "by": str,
        "from": str,
        "to": str,
        "zone": str,
        "counted_until": str | None,
        "alarms": int,
        "total": UsageAmount,
        "items": list[UsageRow],
        "next": str,
    },
)

UsageAttempt = TypedDict(
    "UsageAttempt",
    {
        "attempt": int,
        "sku": str,
        "class": str,
        "milli": int,
        "started_at": str,
        "ended_at": str | None,
        "reason": str | None,
        "lost": bool,
        "disputed": bool,
        "milli_card_seconds": int,
        "lost_milli_card_seconds": int,
        "card_hours": str,
        "lost_card_hours": str,
        "start_event": int,
        "end_event": int | None,
    },
)


class UsageOfJob(TypedDict):
    job: str
    name: str
    tenant: str
    project: str
    user: str
    counted_until: str | None
    total: UsageAmount
    attempts: list[UsageAttempt]


class UsageAlarm(TypedDict):
    id: str
    time: str
    code: str
    tenant: str
    job: str
    attempt: int
    card: str
    text: str
    raised_at: str


class Usage(Group):
    """``wish``: tenant, month, from, to, zone."""

    def sums(self, by: str = "project", **wish: object) -> UsageList:
        """All sums, page after page, with what the first page says of all."""
        params: dict[str, object] = {**wish, "by": by, "limit": 1000}
        whole = cast("UsageList", self._transport.get(path_join("usage"), params))
        following = whole["next"]
        while following:
            page = cast("UsageList", self._transport.get(path_join("usage"), {**params, "cursor": following}))
            whole["items"] += page["items"]
            following = page["next"]
        return {**whole, "next": ""}

    def csv(self, by: str = "project", **wish: object) -> Iterator[bytes]:
        """All sums as CSV, in pieces."""
        return self._transport.download(path_join("usage"), {**wish, "by": by, "format": "csv"})

    def attempts(self, job: str, **place: object) -> UsageOfJob:
        """A job by id, or by name with ``tenant`` and ``project``."""
        return cast("UsageOfJob", self._transport.get(path_join("usage", "jobs", job), place))

    def alarms(self, **wish: object) -> Iterator[UsageAlarm]:
        """The last first."""
        return self._transport.pages(path_join("usage", "alarms"), wish)
