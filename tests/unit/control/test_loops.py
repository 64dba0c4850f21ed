"""The loops on a real database and the fake engine, in virtual time: one step at a time, crashes included."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from millpond.authz.actors import SYSTEM
from millpond.control.apply import apply_run
from millpond.control.drain import everybody_leave
from millpond.control.recover import reconcile_run
from millpond.control.runner import Runner
from millpond.db.leader import Fenced, Leader
from millpond.db.maintenance import check as database_check
from millpond.db.session import Database
from millpond.db.stores.attempts import attempts_live
from millpond.db.stores.events import chain_verify
from millpond.db.stores.holds import hold_list
from millpond.db.stores.nodes import node_mark
from millpond.db.stores.settings import settings_put
from millpond.domain.jobs import (
    AttemptState,
    CheckpointPolicy,
    EndReason,
    JobState,
    QueueClass,
    QueuedAs,
)
from millpond.engines.base import FactKind
from millpond.engines.fake import Behaviour, FakeEngine
from millpond.scheduling.check import SAFETY_RULES
from millpond.scheduling.decisions import Plan, Violation
from millpond.scheduling.snapshot import Snapshot
from tests.live import wait_for
from tests.unit.control.desk import FOREVER, START, Desk


def test_an_attempt_is_recorded_before_the_engine_hears_of_it(desk: Desk) -> None:
    desk.submit("j1", Behaviour(run_ms=1000))
    result = desk.schedule()
    assert result.began == 1
    assert [attempt.state for attempt in desk.attempts("j1")] == [AttemptState.PLANNED]
    assert desk.orders == []
    apply_run(desk.control, desk.epoch, desk.applier, result.untold[0])
    assert [order.attempt for order in desk.orders] == ["j1-1"]
    assert desk.attempts("j1")[0].state is AttemptState.STARTING
    desk.apply()
    assert len(desk.orders) == 1
    desk.observe()
    assert desk.job("j1").state is JobState.RUNNING
    desk.round(1)
    assert desk.job("j1").state is JobState.SUCCEEDED


def test_eviction_holds_the_cards_and_starts_the_claimant(desk: Desk) -> None:
    victim = desk.submit("jlow", Behaviour(run_ms=None, save_ms=3000), cards=8, queue=QueueClass.BESTEFFORT)
    desk.submit("jfill", FOREVER)
    desk.round()
    claim = desk.submit("jclaim", FOREVER, queue=QueueClass.PROD)
    desk.round(1)
    leaving = desk.attempts(victim)[0]
    assert (leaving.drain_reason, leaving.drain_for, leaving.deadline_at) == (
        EndReason.RECLAIMED,
        claim,
        desk.now + timedelta(seconds=10),
    )
    holds = desk.database.run("holds", lambda tx: hold_list(tx, SYSTEM))
    assert [(hold.job, hold.victims) for hold in holds] == [(claim, (victim,))]
    assert desk.job(victim).state is JobState.STOPPING
    desk.round(3)
    assert desk.job(claim).state is JobState.RUNNING
    assert desk.attempts(claim)[0].seats == leaving.seats
    assert desk.database.run("holds", lambda tx: hold_list(tx, SYSTEM)) == ()
    back = desk.job(victim)
    assert (back.state, back.retries_spent, back.submitted_at) == (JobState.QUEUED, 0, START)
    assert back.saves_on_signal
    assert desk.attempts(victim)[0].reason is EndReason.SAVED
    assert {"hold.put", "job.evicted", "attempt.draining", "job.requeued"} <= set(desk.kinds())


def test_a_moved_job_ends_as_moved_and_starts_where_its_cards_were_held(desk: Desk) -> None:
    desk.database.run("settings", lambda tx: settings_put(tx, SYSTEM, {"consolidate_after": 5}))
    every = CheckpointPolicy(every=60, grace=10)
    for name, run in (("j1", None), ("j2", 1500), ("j3", None)):
        desk.submit(name, Behaviour(run_ms=run), cards=4, queue=QueueClass.BESTEFFORT, checkpoint=every)
        desk.round(1)
    claim = desk.submit("jclaim", FOREVER, queue=QueueClass.BESTEFFORT)
    for _ in range(3):
        desk.round(3)
    (victim,) = [name for name in ("j1", "j3") if desk.job(name).state is JobState.STOPPING]
    leaving = desk.attempts(victim)[0]
    assert (leaving.drain_reason, leaving.drain_for) == (EndReason.MOVED, claim)
    desk.round(1)
    held = {hold.job: hold for hold in desk.database.run("holds", lambda tx: hold_list(tx, SYSTEM))}
    assert {name: hold.victims for name, hold in held.items()} == {claim: (victim,), victim: (victim,)}
    desk.submit("jlate", FOREVER, cards=4, queue=QueueClass.BESTEFFORT)
    for _ in range(3):
        desk.round(5)
    ended, again = sorted(desk.attempts(victim), key=lambda attempt: attempt.number)
    assert (ended.reason, again.seats) == (EndReason.MOVED, held[victim].seats)
    assert {desk.job(name).state for name in (claim, victim)} == {JobState.RUNNING}
    assert desk.database.run("holds", lambda tx: hold_list(tx, SYSTEM)) == ()


def test_a_stale_leader_changes_nothing(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.epoch -= 1
    with pytest.raises(Fenced):
        desk.schedule()
    assert desk.attempts("j1") == ()
    desk.epoch += 1
    desk.round()
    desk.epoch -= 1
    desk.engine.stop("j1-1", 0)
    with pytest.raises(Fenced):
        desk.observe()
    assert desk.job("j1").state is JobState.RUNNING


def test_a_plan_that_breaks_the_rules_is_refused_and_said_once(desk: Desk) -> None:
    broken = (Violation(min(SAFETY_RULES), "card 0 of n1 is used twice", ("n1",)),)
    desk.control = replace(desk.control, guard=lambda snapshot, plan: broken)
    desk.submit("j1", FOREVER)
    assert desk.schedule().refused
    assert desk.schedule().refused
    assert desk.attempts("j1") == ()
    assert desk.kinds().count("plan.refused") == 1


def test_a_refused_job_does_not_stop_the_others(desk: Desk) -> None:
    """The same finding is said once, the job waits, and whoever comes later starts."""

    def guard(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
        bad = any(start.job == "j1" for start in plan.start)
        return (Violation(min(SAFETY_RULES), "j1 is placed wrongly", ("j1",)),) if bad else ()

    desk.control = replace(desk.control, guard=guard)
    desk.submit("j1", FOREVER)
    desk.submit("j2", FOREVER)
    assert not desk.schedule().refused
    assert (len(desk.attempts("j1")), len(desk.attempts("j2"))) == (0, 1)
    desk.submit("j3", FOREVER)
    desk.schedule()
    assert (len(desk.attempts("j1")), len(desk.attempts("j3"))) == (0, 1)
    assert desk.kinds().count("plan.refused") == 1


def test_a_large_pool_is_looked_at_for_more_than_harm_once_the_plan_is_applied(desk: Desk) -> None:
    asked: list[int] = []

    def guard(snapshot: Snapshot, plan: Plan) -> tuple[Violation, ...]:
        asked.append(len(desk.attempts("j1")))
        return (Violation("work-conservation", "j1 could have started before", ("j1",)),)

    desk.control = replace(desk.control, guard=guard, policy=replace(desk.control.policy, large=0))
    desk.submit("j1", FOREVER)
    desk.memory.look_at = 0.0
    assert desk.schedule().began == 1
    assert asked == [1]
    desk.submit("j2", FOREVER)
    assert desk.schedule().began == 1
    assert asked == [1], "not so soon again"


def test_a_pass_leaves_what_it_has_judged_for_who_asks(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.schedule()
    left = desk.control.newest.get()
    assert left is not None
    assert [start.job for start in left.judged.plan.start] == ["j1"]
    assert [job.id for job in left.world.jobs] == ["j1"]


def test_an_order_that_the_engine_refuses_ends_the_attempt(desk: Desk) -> None:
    desk.submit("j1", Behaviour(refused="no such image"))
    desk.round()
    job = desk.job("j1")
    assert (job.queued_as, job.message, job.reason) == (QueuedAs.BACKOFF, "no such image", EndReason.START_FAILED)


def test_a_start_time_is_waited_for_and_the_pass_knows_when(desk: Desk) -> None:
    desk.submit("j1", FOREVER, start_at=START + timedelta(seconds=20))
    assert 0 < desk.schedule().pause <= 20
    desk.round(19)
    assert desk.job("j1").state is JobState.QUEUED
    assert 0 < desk.schedule().pause <= 1
    desk.round(1)
    assert desk.job("j1").state is JobState.RUNNING
    desk.observe()
    assert desk.schedule().pause >= 20  # nothing falls due


def test_an_engine_that_is_not_ready_is_asked_again(desk: Desk) -> None:
    desk.submit("j1", Behaviour(retries=2, run_ms=None))
    desk.round()
    assert desk.attempts("j1")[0].state is AttemptState.PLANNED
    desk.apply()
    desk.apply()
    desk.observe()
    assert desk.job("j1").state is JobState.RUNNING


def test_what_the_engine_lost_is_queued_again_and_forbidden(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.round()
    forgetful = FakeEngine(desk.engine.inventory().nodes, clock=lambda: 0)
    desk.control = replace(desk.control, engine=forgetful)
    assert reconcile_run(desk.control, desk.epoch)
    assert desk.attempts("j1")[0].reason is EndReason.LOST_LEASE
    assert (desk.job("j1").state, desk.job("j1").retries_spent) == (JobState.QUEUED, 0)
    desk.apply()
    desk.observe()
    assert desk.attempts("j1")[0].reason is EndReason.LOST_LEASE
    assert "attempt.lost" in desk.kinds()


def test_an_attempt_that_no_record_wants_is_killed(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.round()
    stranger = replace(desk.orders[0], attempt="jother-1")
    desk.engine.start(stranger)
    assert not reconcile_run(desk.control, desk.epoch)  # its start is still to be read
    desk.observe()
    assert reconcile_run(desk.control, desk.epoch)
    assert [status.attempt for status in desk.engine.recover()] == ["j1-1"]
    desk.observe()
    assert desk.job("j1").state is JobState.RUNNING


def test_everybody_leaves(desk: Desk) -> None:
    desk.submit("jsaves", Behaviour(run_ms=None, save_ms=0), cards=8)
    desk.submit("jdeaf", Behaviour(run_ms=None, stubborn=True), cards=8)
    desk.round()
    # The fake's clock stands still, so only a grace of nothing lets the deaf one end at once.
    assert everybody_leave(desk.control, desk.epoch, timedelta(0)) == 2
    assert {desk.job(name).state for name in ("jsaves", "jdeaf")} == {JobState.QUEUED}
    assert desk.database.run("live", lambda tx: attempts_live(tx, SYSTEM)) == ()


def test_a_node_that_was_lost_between_load_and_store(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.round()
    desk.engine.fault("n1", None)
    desk.engine.fault("n2", None)
    desk.observe()
    desk.round()
    assert desk.job("j1").state is JobState.QUEUED
    desk.database.run("repair", lambda tx: node_mark(tx, SYSTEM, "n2", lost=False))
    desk.round()
    assert desk.attempts("j1")[-1].seats[0].node == "n2"
    assert desk.job("j1").retries_spent == 0


@pytest.mark.parametrize("seed", range(5))
def test_any_interleaving_and_any_crash_keeps_every_job(desk: Desk, seed: int) -> None:
    """Passes, orders, facts, crashes, faults and stops in random order: nothing is lost, nothing runs twice."""
    dice = random.Random(seed)
    codes: dict[str, int] = {}
    for number in range(14):
        code = dice.choice((0, 0, 1, 3))
        run = Behaviour(
            run_ms=dice.choice((0, 500, 4000, 20_000)),
            code=code,
            save_ms=dice.choice((None, 0, 2000)),
            checkpoint_ms=dice.choice((0, 1500)),
            retries=dice.choice((0, 0, 1)),
        )
        queue = dice.choice(tuple(QueueClass))
        codes[desk.submit(f"j{number}", run, cards=dice.choice((1, 2, 4, 8)), queue=queue)] = code
    for _ in range(80):
        _random_step(desk, dice)
    for node in ("n1", "n2"):
        desk.database.run("repair", lambda tx, node=node: node_mark(tx, SYSTEM, node, lost=False))
    for _ in range(120):
        desk.round(3)
        assert reconcile_run(desk.control, desk.epoch) in (True, False)
    _all_ended_well(desk, codes)


def _random_step(desk: Desk, dice: random.Random) -> None:
    match dice.randrange(12):
        case 0 | 1 | 2:
            desk.schedule()
        case 3 | 4:
            desk.apply()
        case 5 | 6:
            desk.observe()
        case 7 | 8 | 9:
            desk.wait(dice.choice((0.1, 1, 5)))
        case 10:
            desk.lead()
        case _:
            node = dice.choice(("n1", "n2"))
            if dice.random() < 0.3:
                desk.engine.fault(node, None)
            else:
                desk.database.run("repair", lambda tx: node_mark(tx, SYSTEM, node, lost=False))


def _all_ended_well(desk: Desk, codes: dict[str, int]) -> None:
    for name, code in codes.items():
        job = desk.job(name)
        assert job.state is (JobState.SUCCEEDED if code == 0 else JobState.FAILED), (name, job)
        assert job.exit_code == code
        tries = [attempt for attempt in desk.attempts(name) if attempt.reason is EndReason.FAILED]
        assert len(tries) == {0: 0, 1: 2, 3: 1}[code]
        assert job.retries_spent == (1 if code == 1 else 0)
        assert [attempt.number for attempt in desk.attempts(name)] == list(range(1, job.attempts + 1))
    facts = Counter(fact.attempt for fact in desk.engine.observe(0).facts if fact.kind is FactKind.STARTED)
    assert not [name for name, count in facts.items() if count > 1]
    assert desk.database.run("chain", lambda tx: chain_verify(tx, SYSTEM)) == []
    assert database_check(desk.database.url) == []


def test_only_one_server_leads_and_the_other_takes_over(database: Database, tmp_path: Path) -> None:
    desk = Desk(database, tmp_path)
    desk.leader.release()
    engine = FakeEngine(desk.engine.inventory().nodes, lambda order: Behaviour(run_ms=20))
    control = replace(desk.control, engine=engine, clock=lambda: datetime.now(UTC))
    runners = [Runner(control, Leader(database)) for _ in range(2)]
    try:
        for runner in runners:
            runner.start()
        first = wait_for(lambda: next((runner for runner in runners if runner.leading), None), "a leader")
        second = next(runner for runner in runners if runner is not first)
        assert not second.leading
        desk.submit("j1", Behaviour())
        wait_for(lambda: desk.job("j1").state is JobState.SUCCEEDED, "the first job")
        first.stop()
        wait_for(lambda: second.leading, "the other to lead")
        desk.submit("j2", Behaviour())
        wait_for(lambda: desk.job("j2").state is JobState.SUCCEEDED, "the second job")
    finally:
        for runner in runners:
            runner.stop()


def test_a_plan_is_stored_in_as_many_statements_whatever_its_size(desk: Desk) -> None:
    counts = []
    for wave, size in enumerate((1, 2, 13)):  # the first one also makes the heads of the event log
        for number in range(size):
            desk.submit(f"w{wave}-{number}", FOREVER, cards=1)
        with desk.database.statements() as seen:
            assert desk.schedule().began == size
        counts.append(len(seen))
    assert counts[1] == counts[2]
    assert desk.database.run("chain", lambda tx: chain_verify(tx, SYSTEM)) == []
