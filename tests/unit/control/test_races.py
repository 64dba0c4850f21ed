"""What may happen between two steps of a loop: new leaders, changes of mind, clocks that jump."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millpond.authz.actors import SYSTEM
from millpond.control.apply import apply_run
from millpond.control.drain import everybody_leave
from millpond.control.runner import Runner
from millpond.control.transitions import attempt_drain
from millpond.db.leader import Leader
from millpond.db.session import Database, Tx
from millpond.db.stores.attempts import attempts_lock, attempts_save
from millpond.db.stores.holds import hold_list
from millpond.db.stores.jobs import jobs_lock, jobs_save
from millpond.domain.jobs import AttemptState, CheckpointPolicy, EndReason, JobState, QueueClass
from millpond.engines.base import Retry, StartOrder
from millpond.engines.fake import Behaviour, FakeEngine
from millpond.scheduling.decisions import Plan, Violation
from millpond.scheduling.snapshot import Snapshot
from tests.live import wait_for
from tests.unit.control.desk import FOREVER, START, Desk


def test_a_plan_of_the_last_leader_starts_beside_those_of_the_next(desk: Desk) -> None:
    """The engine is fenced by who gives an order, not by who once planned it."""
    desk.submit("jold", FOREVER)
    desk.schedule()
    desk.lead()
    desk.submit("jnew", FOREVER)
    fresh = desk.schedule().untold
    apply_run(desk.control, desk.epoch, desk.applier, fresh[0])
    desk.apply()
    desk.observe()
    assert [desk.job(name).state for name in ("jold", "jnew")] == [JobState.RUNNING] * 2
    assert [desk.job(name).retries_spent for name in ("jold", "jnew")] == [0, 0]


def test_a_deadline_that_was_hastened_while_the_engine_was_told_is_told_again(desk: Desk) -> None:
    name = desk.submit("j1", Behaviour(run_ms=None, stubborn=True))
    desk.round()
    _drain(desk, name, seconds=100)
    told = desk.engine.signal

    def signal(attempt: str, what: str, deadline_ms: int | None = None) -> None:
        told(attempt, what, deadline_ms)
        if desk.attempts(name)[0].deadline_at == START + timedelta(seconds=100):
            _drain(desk, name, seconds=10)

    desk.engine.signal = signal  # type: ignore[method-assign]
    desk.apply()
    desk.apply()
    desk.wait(11)
    desk.observe()
    assert desk.attempts(name)[0].state is AttemptState.ENDED


def _drain(desk: Desk, name: str, seconds: float) -> None:
    def work(tx: Tx) -> None:
        jobs, attempts = jobs_lock(tx, SYSTEM, [name]), attempts_lock(tx, SYSTEM, [f"{name}-1"])
        deadline = desk.now + timedelta(seconds=seconds)
        moved = attempt_drain(jobs[name], attempts[f"{name}-1"], EndReason.CANCELLED, deadline, desk.now)
        jobs_save(tx, SYSTEM, [moved.job])
        attempts_save(tx, SYSTEM, [moved.attempt])

    desk.database.run("drain", work)


def test_emptying_the_pool_hastens_who_was_leaving_slowly(desk: Desk) -> None:
    name = desk.submit("j1", Behaviour(run_ms=None, stubborn=True), checkpoint=CheckpointPolicy(grace=600))
    desk.round()
    _drain(desk, name, seconds=600)
    desk.apply()
    everybody_leave(desk.control, desk.epoch, timedelta(0))
    assert desk.attempts(name)[0].state is AttemptState.ENDED


@pytest.mark.parametrize(
    "change", [{"cancel": True, "state": JobState.CANCELLED, "finished_at": START}, {"held": True}]
)
def test_nobody_is_evicted_for_a_claimant_that_changed_its_mind(desk: Desk, change: dict[str, object]) -> None:
    victim = desk.submit("jlow", FOREVER, queue=QueueClass.BESTEFFORT)
    desk.submit("jfill", FOREVER)
    desk.round()
    claim = desk.submit("jclaim", FOREVER, queue=QueueClass.PROD)
    guard = desk.control.guard

    def meanwhile(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
        def work(tx: Tx) -> None:
            job = jobs_lock(tx, SYSTEM, [claim])[claim]
            jobs_save(tx, SYSTEM, [replace(job, **change)])  # type: ignore[arg-type]

        if plan.evict:
            desk.database.run("mind", work)
        return guard(snapshot, plan)

    desk.control = replace(desk.control, guard=meanwhile)
    desk.round(1)
    assert desk.job(victim).state is JobState.RUNNING
    assert desk.database.run("holds", lambda tx: hold_list(tx, SYSTEM)) == ()


def test_a_start_time_that_has_passed_calls_for_no_pass(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.submit("j2", FOREVER)
    desk.round()
    desk.submit("j3", FOREVER, start_at=START + timedelta(seconds=5))
    desk.round(10)
    assert desk.job("j3").state is JobState.QUEUED
    assert desk.schedule().pause >= 5


def test_a_clock_that_goes_back_stops_nobody(desk: Desk) -> None:
    desk.submit("jends", Behaviour(run_ms=1000))
    desk.submit("jstays", FOREVER, queue=QueueClass.BESTEFFORT)
    desk.round()
    desk.submit("jwaits", FOREVER)
    desk.wait(-3600)
    claim = desk.submit("jclaim", FOREVER, queue=QueueClass.PROD)
    desk.round()
    desk.round()
    for _ in range(30):
        desk.round(2)
    assert desk.job("jstays").retries_spent == 0
    assert desk.job(claim).state is JobState.RUNNING
    desk.engine.stop("jends-1", 0)
    desk.round(1)
    desk.round(1)
    assert desk.job("jwaits").state is JobState.RUNNING
    assert all(attempt.lost_milli_seconds >= 0 for attempt in (*desk.attempts("jends"), *desk.attempts("jstays")))


class _Slow(FakeEngine):
    """Puts the first order off, and meanwhile lets the next be planned."""

    desk: Desk
    put_off = False

    def start(self, order: StartOrder) -> None:
        if not self.put_off:
            self.put_off = True
            self.desk.submit("j2", Behaviour())
            wait_for(lambda: self.desk.attempts("j2"), "the next to be planned")
            raise Retry("not now")
        super().start(order)


def test_what_was_put_off_does_not_wait_behind_what_is_new(database: Database, tmp_path: Path) -> None:
    desk = Desk(database, tmp_path)
    desk.leader.release()
    engine = _Slow(desk.engine.inventory().nodes, lambda order: Behaviour(run_ms=20))
    engine.desk = desk
    runner = Runner(replace(desk.control, engine=engine, clock=lambda: datetime.now(UTC)), Leader(database))
    try:
        runner.start()
        desk.submit("j1", Behaviour())
        wait_for(lambda: desk.job("j1").state is JobState.SUCCEEDED, "the first job", 10.0)
    finally:
        runner.stop()


def test_a_new_leader_is_newer_than_what_the_engine_has_seen(database: Database, tmp_path: Path) -> None:
    """As after a restore: the database knows an older epoch than the engine."""
    desk = Desk(database, tmp_path)
    desk.leader.release()
    engine = FakeEngine(desk.engine.inventory().nodes, lambda order: Behaviour(run_ms=20))
    desk.submit("jseen", Behaviour())
    desk.round()
    engine.start(replace(desk.orders[0], attempt="jother-1", epoch=1000))
    runner = Runner(replace(desk.control, engine=engine, clock=lambda: datetime.now(UTC)), Leader(database))
    try:
        runner.start()
        desk.submit("j1", Behaviour())
        wait_for(lambda: desk.job("j1").state is JobState.SUCCEEDED, "the job", 10.0)
        assert desk.job("j1").attempts == 1
    finally:
        runner.stop()


def test_a_victim_that_will_not_die_costs_nobody_his_place(desk: Desk) -> None:
    """Its cards stay taken, an alarm is raised once, and the claimant finds other cards when its hold has lapsed."""
    first = desk.submit("jdeaf", FOREVER, queue=QueueClass.BESTEFFORT)
    desk.submit("jother", Behaviour(run_ms=None, save_ms=0), queue=QueueClass.BESTEFFORT)
    desk.round()
    claim = desk.submit("jclaim", FOREVER, queue=QueueClass.PROD)
    desk.engine.signal, told = lambda *_: None, desk.engine.signal  # type: ignore[method-assign, assignment]
    desk.round()
    assert desk.attempts(first)[0].state is AttemptState.DRAINING
    desk.engine.signal = told  # type: ignore[method-assign]
    for _ in range(60):
        desk.round(2)
    deaf = desk.attempts(first)[0]
    assert deaf.state is AttemptState.DRAINING
    assert desk.kinds().count("attempt.overdue") == 1
    assert desk.job(claim).state is JobState.RUNNING
    assert desk.attempts(claim)[0].seats != deaf.seats


def test_an_order_that_breaks_something_holds_up_no_other(desk: Desk) -> None:
    desk.submit("jbad", FOREVER)
    desk.submit("jgood", FOREVER)
    taken = desk.engine.start

    def start(order: StartOrder) -> None:
        if order.attempt == "jbad-1" and desk.now < START + timedelta(seconds=5):
            raise KeyError("a defect")
        taken(order)

    desk.engine.start = start  # type: ignore[method-assign]
    desk.round()
    assert [desk.job(name).state for name in ("jbad", "jgood")] == [JobState.STARTING, JobState.RUNNING]
    desk.round(5)
    assert desk.job("jbad").state is JobState.RUNNING
    assert desk.control.metrics.live._value.get() == 2
