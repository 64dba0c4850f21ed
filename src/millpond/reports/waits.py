"""How long jobs waited, and why others still do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

from millpond.reports.tables import Fact, Field, Kind, Report, Section, rows_of

QUEUE_FIELDS = (
    Field("queue"),
    Field("jobs", Kind.COUNT, sums=True),
    Field("started", Kind.COUNT, sums=True),
    Field("waiting", Kind.COUNT, sums=True),
    Field("wait_p50", Kind.SECONDS),
    Field("wait_p95", Kind.SECONDS),
    Field("wait_max", Kind.SECONDS),
)
REASON_FIELDS = (Field("code"), Field("jobs", Kind.COUNT, sums=True), Field("milli", Kind.MILLI, sums=True))


@dataclass(frozen=True, slots=True)
class Waits:
    """Of the jobs of a leaf that were submitted in the period; seconds from there to the first start (nearest rank)."""

    queue: str
    jobs: int
    started: int
    waiting: int
    p50: int | None
    p95: int | None
    longest: int | None


@dataclass(frozen=True, slots=True)
class Blocked:
    """Jobs that wait now for one reason, and the milli-cards that they ask for."""

    code: str
    jobs: int
    milli: int


def waits_report(period: tuple[Fact, ...], zone: tzinfo, waits: Sequence[Waits], blocked: Sequence[Blocked]) -> Report:
    """By leaf, and by reason for those that wait now."""
    rows = [(item.queue, item.jobs, item.started, item.waiting, item.p50, item.p95, item.longest) for item in waits]
    return Report(
        "waits", zone, period,
        (
            Section("waits_queues", QUEUE_FIELDS, rows_of(rows)),
            Section("waiting_now", REASON_FIELDS, rows_of((item.code, item.jobs, item.milli) for item in blocked)),
        ),
        ("waits",),
    )  # fmt: skip
