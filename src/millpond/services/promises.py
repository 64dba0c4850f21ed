"""Promised starts: how earlier ones did, and one for a job that is not submitted yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from millpond.authz.actors import SYSTEM, Actor
from millpond.db.session import Tx
from millpond.db.stores.promises import promise_accuracy, promise_results, run_list
from millpond.domain.records import AccuracyRecord, JobRecord, PromiseRecord
from millpond.scheduling.calibration import HORIZON, Calibration, calibration_make
from millpond.scheduling.forecast import Forecast
from millpond.scheduling.history import RunTimes, times_make
from millpond.scheduling.promises import promise_make, scores_make
from millpond.scheduling.snapshot import Snapshot
from millpond.services.deps import Services

WINDOW = timedelta(days=30)
"""Promises older than this are forgotten."""

_HORIZON = timedelta(seconds=HORIZON)

_SIZE = 1_000
"""Jobs and nodes up to which an offer looks ahead while its caller waits."""

_PASSES, _SCENARIOS = 150, 5


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How the promises since ``since`` did, by leaf."""

    now: datetime
    since: datetime
    queues: tuple[AccuracyRecord, ...]


def accuracy_read(deps: Services, actor: Actor) -> Accuracy:
    """How often promised starts lay in their interval, of the queues that the caller may see."""
    now = deps.clock()
    since = now - WINDOW
    found = deps.database.run("promise_accuracy", lambda tx: promise_accuracy(tx, actor, now, since, _HORIZON))
    return Accuracy(now, since, tuple(found))


def offer_promise(deps: Services, snapshot: Snapshot, job: JobRecord) -> PromiseRecord | None:
    """When `job`, which waits in `snapshot`, would start; None on a pool too large to look ahead while somebody waits.

    The same forecast that waiting jobs get, with fewer scenarios.
    """
    if len(snapshot.jobs) + len(snapshot.nodes) > _SIZE:
        return None

    now = deps.clock()

    def learn(tx: Tx) -> tuple[RunTimes, Calibration]:
        results = promise_results(tx, SYSTEM)
        return times_make(run_list(tx, SYSTEM, now)), calibration_make(scores_make(results, now))

    times, calibration = deps.database.run("offer_promise", learn)
    rolled = Forecast(snapshot, times, scenarios=_SCENARIOS)
    for _ in range(_PASSES):
        if not rolled.step():
            break
    own = rolled.raw().get(job.id)
    if own is None:
        return None
    eta = calibration.correct(own, snapshot.now)
    return promise_make(job, now.replace(microsecond=0), own, eta)
