"""Card time as people ask for it: summed by something, over booked hours; and what the meter could not believe."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from millpond.metering.alarms import AlarmCode


class UsageBy(StrEnum):
    """What card time is summed by."""

    TENANT = "tenant"
    PROJECT = "project"
    USER = "user"
    SKU = "sku"
    CLASS = "class"
    JOB = "job"
    DAY = "day"


USAGE_KEYS: dict[UsageBy, tuple[str, ...]] = {
    UsageBy.TENANT: ("tenant",),
    UsageBy.PROJECT: ("tenant", "project"),
    UsageBy.USER: ("tenant", "user"),
    UsageBy.SKU: ("sku",),
    UsageBy.CLASS: ("class",),
    UsageBy.JOB: ("tenant", "job", "project", "user", "sku", "class"),
    UsageBy.DAY: ("day",),
}
"""What tells one sum from another, in the order that sums come in."""


@dataclass(frozen=True, slots=True)
class UsageSpan:
    """Hours that are booked in [start, end); ``zone`` cuts them into days.  ``tenant`` empty: all in sight."""

    tenant: str
    start: datetime
    end: datetime
    zone: str


@dataclass(frozen=True, slots=True)
class UsageSum:
    """``keys`` as in `USAGE_KEYS`; milli-card-seconds, the lost ones included; attempts that used any of it.

    ``name``: of the job, where it is one job's and the job is still known.
    """

    keys: tuple[str | date, ...]
    milli_seconds: int
    lost_milli_seconds: int
    attempts: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class AlarmRecord:
    """Something that the meter could not believe.  ``time``: of the fact; ``raised``: when it was read."""

    id: str
    time: datetime
    code: AlarmCode
    tenant: str
    job: str
    attempt: int
    card: str
    text: str
    raised: datetime
