"""The forecast: now and then the planner is rolled forward, and what it says of waiting jobs is promised to them.

It shares the machine with the loop that starts jobs, so it goes in small steps and rests between them for longer than
they took.  A promise is written when a job is first given one, and when the next one differs much; what was promised
stays, and is judged when the job starts (`millpond.db.stores.promises`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from millpond.authz.actors import SYSTEM
from millpond.control.context import Control
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.jobs import jobs_get, jobs_recent
from millpond.db.stores.promises import promise_list, promise_results, promises_add, promises_prune, run_list
from millpond.db.stores.world import world_load
from millpond.domain.jobs import JobState
from millpond.scheduling.calibration import Calibration, Eta, calibration_make
from millpond.scheduling.forecast import WINDOW, Forecast
from millpond.scheduling.history import RunTimes, times_make
from millpond.scheduling.promises import promises_new, scores_make
from millpond.scheduling.world import job_make, snapshot_make

EVERY = 30.0
"""Seconds between two forecasts, at least."""

SLICE = 0.05
"""Seconds of work at a time; then it rests `CALM` times as long."""

CALM = 4
REST = 20
"""A forecast that took s seconds of work is followed by REST times s of rest."""

LEARN_EVERY = timedelta(minutes=10)
KEEP = timedelta(days=30)


@dataclass(slots=True)
class ForecastMemory:
    """The forecast in the making, and what the past has taught."""

    rolling: Forecast | None = None
    made_at: datetime | None = None
    spent: float = 0.0
    times: RunTimes = field(default_factory=RunTimes)
    calibration: Calibration = field(default_factory=Calibration)
    learnt: datetime | None = None


def forecast_run(control: Control, epoch: int, memory: ForecastMemory) -> float:
    """A slice of work; returns the seconds to rest."""
    if memory.rolling is None or memory.made_at is None:
        return _begin(control, epoch, memory)
    began = time.perf_counter()
    more = True
    while more and time.perf_counter() - began < SLICE:
        more = memory.rolling.step()
    spent = time.perf_counter() - began
    memory.spent += spent
    if more:
        return CALM * spent
    raw, rolled = memory.rolling.raw(), memory.rolling
    memory.rolling = None
    told = rolled.etas(memory.calibration)
    control.database.run("promises", partial(_store, epoch=epoch, raw=raw, told=told, now=memory.made_at))
    return max(EVERY, REST * memory.spent)


def _begin(control: Control, epoch: int, memory: ForecastMemory) -> float:
    now = control.clock()
    if memory.learnt is None or now - memory.learnt >= LEARN_EVERY:
        control.database.run("promises_learn", partial(_learn, epoch=epoch, memory=memory, now=now))
        memory.learnt = now
    since = now - timedelta(seconds=WINDOW)
    world, recent = control.database.run(
        "forecast", lambda tx: (world_load(tx, SYSTEM), jobs_recent(tx, SYSTEM, since)), snapshot=True
    )
    if not any(job.state is JobState.QUEUED for job in world.jobs):
        return EVERY
    at = int(now.timestamp())
    arrivals = [replace(job_make(job, at), blocked_by=()) for job in recent]
    memory.rolling = Forecast(snapshot_make(world, at), memory.times, arrivals=arrivals)
    memory.made_at, memory.spent = now.replace(microsecond=0), 0.0
    return 0.01


def _learn(tx: Tx, epoch: int, memory: ForecastMemory, now: datetime) -> None:
    fence(tx, epoch)
    promises_prune(tx, SYSTEM, now - KEEP)
    memory.times = times_make(run_list(tx, SYSTEM, now))
    memory.calibration = calibration_make(scores_make(promise_results(tx, SYSTEM), now))


def _store(tx: Tx, epoch: int, raw: Mapping[str, Eta], told: Mapping[str, Eta], now: datetime) -> None:
    fence(tx, epoch)
    before = promise_list(tx, SYSTEM)
    jobs = jobs_get(tx, SYSTEM, sorted(told))
    promises_add(tx, SYSTEM, promises_new(jobs, raw, told, before, now))
