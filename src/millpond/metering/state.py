"""What a meter remembers, as values: a server stores it with what was told, and goes on from there after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from millpond.domain.jobs import EndReason
from millpond.metering.facts import Event, Fact, Shape


class RunState(NamedTuple):
    """An attempt.  ``told``: up to where its use was told; ``saved``: its last checkpoint, −1 for none.

    ``segments``: from when on it had which shape.  ``disputed``: it is part of an overlap, and nothing of it is told.
    """

    job: str
    attempt: int
    start: int
    told: int
    saved: int
    disputed: bool
    segments: tuple[tuple[int, Shape], ...]


class JobState(NamedTuple):
    """A job that is not over.  ``saved``: it has a checkpoint; ``since``: its last end, −1 while an attempt runs.

    ``full``: attempts, with their ends, that were evicted before any checkpoint, and told as not lost.
    """

    job: str
    saved: bool
    since: int
    failed: bool
    full: tuple[tuple[RunState, int], ...]


class MeterState(NamedTuple):
    """Open attempts, jobs that are not over, and ends whose start has not come; all sorted."""

    runs: tuple[RunState, ...] = ()
    jobs: tuple[JobState, ...] = ()
    orphans: tuple[Fact, ...] = ()


def state_rows(state: MeterState) -> dict[str, Any]:
    """Everything remembered as plain JSON by a name of its own, so that only what changed is written."""
    rows: dict[str, Any] = {f"run/{run.job}/{run.attempt}": _run_row(run) for run in state.runs}
    for job in state.jobs:
        rows[f"job/{job.job}"] = [
            job.job,
            job.saved,
            job.since,
            job.failed,
            [[_run_row(r), end] for r, end in job.full],
        ]
    for fact in state.orphans:
        reason = fact.reason.value if fact.reason is not None else None
        rows[f"end/{fact.job}/{fact.attempt}"] = [fact.time, fact.event.value, fact.id, fact.job, fact.attempt, reason]
    return rows


def state_read(rows: Mapping[str, Any]) -> MeterState:
    """What `state_rows` wrote."""
    runs = tuple(sorted(_run(row) for row in _named(rows, "run/")))
    jobs = tuple(
        sorted(
            JobState(job, saved, since, failed, tuple((_run(run), end) for run, end in full))
            for job, saved, since, failed, full in _named(rows, "job/")
        )
    )
    orphans = tuple(
        sorted(
            Fact(time, Event(event), key, job, attempt, EndReason(reason) if reason is not None else None)
            for time, event, key, job, attempt, reason in _named(rows, "end/")
        )
    )
    return MeterState(runs, jobs, orphans)


def shape_row(shape: Shape) -> list[Any]:
    """A shape as plain JSON."""
    return [*shape[:6], [list(card) for card in shape.cards], shape.tenant]


def shape_read(row: list[Any]) -> Shape:
    """What `shape_row` wrote."""
    milli, sku, klass, project, user, service, cards, tenant = row
    return Shape(milli, sku, klass, project, user, service, tuple((name, share) for name, share in cards), tenant)


def _named(rows: Mapping[str, Any], prefix: str) -> list[Any]:
    return [row for name, row in rows.items() if name.startswith(prefix)]


def _run_row(run: RunState) -> list[Any]:
    return [*run[:6], [[since, shape_row(shape)] for since, shape in run.segments]]


def _run(row: list[Any]) -> RunState:
    job, attempt, start, told, saved, disputed, segments = row
    return RunState(
        job, attempt, start, told, saved, disputed, tuple((since, shape_read(shape)) for since, shape in segments)
    )
