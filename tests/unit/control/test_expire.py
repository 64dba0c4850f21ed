"""What time and trouble ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.control.expire import dependencies_wanted, expire_decide, moment_next
from millpond.control.steps import Begin, Drain, Finish, Stale, Unblock, steps_apply
from millpond.domain.jobs import AttemptState, EndReason, JobState, QueuedAs
from millpond.domain.records import HoldRecord, SeatRecord
from tests.unit.control.builders import JOB, NOW, after, attempt, job, node, spec, world

RUNNING = job(JobState.RUNNING, attempts=1)


def test_nothing_due() -> None:
    quiet = world((RUNNING,), (attempt(),))
    assert expire_decide(quiet, {}, after(10)) == ()
    assert moment_next(quiet, after(10)) is None


def test_max_duration_counts_from_the_start() -> None:
    limited = replace(RUNNING, spec=spec(max_duration=60))
    here = world((limited,), (attempt(started_at=after(5)),))
    assert expire_decide(here, {}, after(64)) == ()
    assert moment_next(here, after(64)) == after(65)
    assert expire_decide(here, {}, after(65)) == (Drain(JOB, f"{JOB}-1", EndReason.MAX_DURATION, after(85)),)


def test_stop_on_request() -> None:
    asked = replace(RUNNING, cancel=True)
    assert expire_decide(world((asked,), (attempt(),)), {}, NOW) == (
        Drain(JOB, f"{JOB}-1", EndReason.CANCELLED, after(20)),
    )
    draining = attempt(AttemptState.DRAINING, drain_reason=EndReason.RECLAIMED)
    assert expire_decide(world((replace(asked, state=JobState.STOPPING),), (draining,)), {}, after(101)) == ()
    waiting = job(cancel=True)
    assert expire_decide(world((waiting,)), {}, NOW) == (Finish(JOB, JobState.CANCELLED, "stopped on request"),)


@pytest.mark.parametrize(
    ("changes", "reason", "grace"),
    [
        ({"lost": True}, EndReason.NODE_LOST, 0),
        ({"bad_cards": {3: "xid 79"}}, EndReason.CARD_FAULT, 20),
        ({"draining": True}, EndReason.PREEMPTED, 20),
    ],
)
def test_trouble_of_a_node(changes: dict[str, object], reason: EndReason, grace: int) -> None:
    here = world((RUNNING,), (attempt(),), (node(**changes),))
    assert expire_decide(here, {}, NOW) == (Drain(JOB, f"{JOB}-1", reason, after(grace)),)


def test_other_cards_and_cordons_disturb_nobody() -> None:
    seated = attempt(seats=(SeatRecord("n1", (0, 1)),))
    here = world((RUNNING,), (seated,), (node(bad_cards={3: "x"}, cordoned=True), node("n2", lost=True)))
    assert expire_decide(here, {}, NOW) == ()


def test_a_lost_node_hastens_a_drain_once() -> None:
    draining = attempt(AttemptState.DRAINING, drain_reason=EndReason.RECLAIMED)
    stopping = replace(RUNNING, state=JobState.STOPPING)
    lost = node(lost=True)
    assert len(expire_decide(world((stopping,), (draining,), (lost,)), {}, after(101))) == 1
    hastened = replace(draining, deadline_at=after(101))
    assert expire_decide(world((stopping,), (hastened,), (lost,)), {}, after(102)) == ()


def test_backoff_ends_and_wakes() -> None:
    waiting = job(queued_as=QueuedAs.BACKOFF, not_before=after(10))
    assert expire_decide(world((waiting,)), {}, after(9)) == ()
    assert moment_next(world((waiting,)), after(9)) == after(10)
    assert expire_decide(world((waiting,)), {}, after(10)) == (Unblock(JOB, ()),)
    done = steps_apply([Unblock(JOB, ())], {JOB: waiting}, {}, 1, after(10))
    assert (done.jobs[JOB].queued_as, done.jobs[JOB].not_before) == (QueuedAs.READY, None)


def test_dependencies() -> None:
    live = job(id="j2", spec=spec(name="other"))
    waiting = job(blocked=("j1", "j2"))
    here = world((live, waiting))
    assert dependencies_wanted(here) == {"j1"}
    succeeded = job(JobState.SUCCEEDED, id="j1", spec=spec(name="first"))
    assert expire_decide(here, {"j1": succeeded}, NOW) == (Unblock(JOB, ("j2",)),)
    failed = replace(succeeded, state=JobState.FAILED)
    assert expire_decide(here, {"j1": failed}, NOW) == (
        Finish(JOB, JobState.CANCELLED, "depends on first, which is failed"),
    )
    assert expire_decide(here, {}, NOW)[0] == Finish(JOB, JobState.CANCELLED, "depends on j1, which is gone")


def test_a_hold_falls_due() -> None:
    held = replace(world(), holds=(HoldRecord("j1", (), after(30), ()),))
    assert moment_next(held, NOW) == after(30)
    assert moment_next(held, after(40)) == after(40)


@pytest.mark.parametrize(
    "changes",
    [{"held": True}, {"cancel": True}, {"blocked": ("j1",)}, {"attempts": 5}, {"state": JobState.STARTING}],
)
def test_a_start_that_no_longer_fits_is_stale(changes: dict[str, object]) -> None:
    step = Begin(JOB, 1, (SeatRecord("n1", (0,)),), 1000, "deserved")
    with pytest.raises(Stale):
        steps_apply([step], {JOB: replace(job(), **changes)}, {}, 1, NOW)
    with pytest.raises(Stale):
        steps_apply([step], {}, {}, 1, NOW)


def test_a_victim_that_left_makes_the_plan_stale() -> None:
    drain = Drain(JOB, f"{JOB}-1", EndReason.RECLAIMED, after(20), "jother", True, 5)
    run = attempt()
    done = steps_apply([drain], {JOB: RUNNING}, {run.id: run}, 1, NOW)
    assert [event.kind for event in done.events] == ["attempt.draining", "job.evicted"]
    assert done.attempts[run.id].borrowed
    leaving = attempt(AttemptState.DRAINING)
    with pytest.raises(Stale):
        steps_apply([drain], {JOB: replace(RUNNING, state=JobState.STOPPING)}, {run.id: leaving}, 1, NOW)
    with pytest.raises(Stale):
        steps_apply([drain], {JOB: RUNNING}, {}, 1, NOW)
