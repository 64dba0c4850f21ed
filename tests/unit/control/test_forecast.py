"""The loop that looks ahead promises a start once, and again only when it has moved."""

from __future__ import annotations

from millpond.authz.actors import SYSTEM
from millpond.control.forecast import EVERY, ForecastMemory, forecast_run
from millpond.db.stores.promises import promise_list, promise_results
from millpond.domain.records import PromiseRecord
from tests.unit.control.desk import FOREVER, Desk

HOUR = 3600


def look(desk: Desk, memory: ForecastMemory) -> float:
    """One whole forecast; the rest that it asks for."""
    rest = forecast_run(desk.control, desk.epoch, memory)
    while memory.rolling is not None:
        rest = forecast_run(desk.control, desk.epoch, memory)
    return rest


def promises(desk: Desk) -> dict[str, PromiseRecord]:
    return desk.database.run("promises", lambda tx: promise_list(tx, SYSTEM))


def test_a_waiting_job_is_promised_a_start_and_judged_by_it(desk: Desk) -> None:
    for name in ("j1", "j2", "j3"):
        desk.submit(name, FOREVER, max_duration=HOUR)
    desk.round()
    desk.round()
    memory = ForecastMemory()
    assert look(desk, memory) >= EVERY
    (promise,) = promises(desk).values()
    assert (promise.job, promise.attempt, promise.queue) == ("j3", 1, "alpha/batch")
    assert promise.p90 is not None
    assert desk.now < promise.p10 <= promise.p50 <= promise.p90
    assert (promise.p90 - desk.now).total_seconds() <= HOUR + 60
    desk.wait(60)
    look(desk, memory)
    assert promises(desk) == {"j3": promise}  # nothing has changed, so nothing new is promised
    desk.round(HOUR)
    desk.round(30)
    assert promises(desk) == {}
    ((judged, start),) = desk.database.run("results", lambda tx: promise_results(tx, SYSTEM))
    assert judged == promise
    assert start > promise.p10


def test_nobody_waits(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.round()
    desk.round()
    assert look(desk, ForecastMemory()) == EVERY
    assert promises(desk) == {}
