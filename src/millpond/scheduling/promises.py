"""Forecasts as stored promises, and stored promises as lessons: pure conversions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from millpond.domain.jobs import JobState
from millpond.domain.records import JobRecord, PromiseRecord
from millpond.scheduling.calibration import Eta, Score

SHIFT_MIN = timedelta(minutes=10)
"""A new promise differs much if its middle lies outside the interval of the old one, and by so much at least."""


def promise_make(job: JobRecord, now: datetime, raw: Eta, told: Eta) -> PromiseRecord | None:
    """A forecast for the next attempt of a job; None where its middle lies too far ahead to be told."""
    if raw.p10 is None or raw.p50 is None or told.p10 is None or told.p50 is None:
        return None
    return PromiseRecord(
        job=job.id,
        attempt=job.attempts + 1,
        made_at=now,
        tenant=job.tenant,
        queue=job.queue,
        p10=_moment(told.p10),
        p50=_moment(told.p50),
        p90=None if told.p90 is None else _moment(told.p90),
        raw_p10=_moment(raw.p10),
        raw_p50=_moment(raw.p50),
        raw_p90=None if raw.p90 is None else _moment(raw.p90),
    )


def promises_new(
    jobs: Mapping[str, JobRecord],
    raw: Mapping[str, Eta],
    told: Mapping[str, Eta],
    before: Mapping[str, PromiseRecord],
    now: datetime,
) -> list[PromiseRecord]:
    """What is to be promised to jobs that still wait and have no promise, or one that no longer stands."""
    found = []
    for name, eta in sorted(told.items()):
        job = jobs.get(name)
        if job is None or job.state is not JobState.QUEUED:
            continue
        promise = promise_make(job, now, raw[name], eta)
        if promise is not None and promise.raw_p50 > now and promise_differs(before.get(name), promise):
            found.append(promise)
    return found


def promise_differs(old: PromiseRecord | None, new: PromiseRecord) -> bool:
    """Whether a waiting job must be told anew: its middle left the old interval, and by more than a little."""
    if old is None:
        return True
    if old.made_at >= new.made_at:
        return False
    inside = old.p10 <= new.p50 and (old.p90 is None or new.p50 <= old.p90)
    return not inside and abs(new.p50 - old.p50) >= SHIFT_MIN


def score_make(promise: PromiseRecord, start: datetime, *, started: bool = True) -> Score:
    """A stored promise and the start it was about, as a calibration takes them; or how long it has been waited for."""
    made = promise.made_at
    p10, p50, late = (int((moment - made).total_seconds()) for moment in (promise.raw_p10, promise.raw_p50, start))
    p90 = int((promise.raw_p90 - made).total_seconds()) if promise.raw_p90 is not None else 2 * p50
    return Score(p10, p50, p90, max(0, late), started, int(made.timestamp()))


def scores_make(results: Iterable[tuple[PromiseRecord, datetime | None]], now: datetime) -> list[Score]:
    """Promises with the start of each, as a calibration takes them; without a start, the job waits still."""
    return [
        score_make(promise, now if start is None else start, started=start is not None) for promise, start in results
    ]


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
