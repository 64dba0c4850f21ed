"""Moves of jobs and attempts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.control.transitions import (
    attempt_begin,
    attempt_checkpointed,
    attempt_drain,
    attempt_ended,
    attempt_ready,
    attempt_started,
    attempt_told,
    end_reason,
    work_lost,
)
from millpond.domain.errors import IllegalTransition
from millpond.domain.jobs import AttemptState, EndReason, JobState, JobType, QueuedAs
from millpond.domain.records import SeatRecord
from tests.unit.control.builders import NOW, after, attempt, job, spec

SEATS = (SeatRecord("n1", (0, 1)),)
CAP = 3600


def test_begin_plans_the_next_attempt_and_tells_nobody() -> None:
    moved = attempt_begin(job(attempts=1, message="old"), SEATS, 2000, "deserved", 3, NOW)
    assert (moved.job.state, moved.job.attempts, moved.job.message) == (JobState.STARTING, 2, "")
    assert (moved.attempt.id, moved.attempt.state, moved.attempt.applied) == (
        f"{moved.job.id}-2",
        AttemptState.PLANNED,
        None,
    )
    assert [event.kind for event in moved.events] == ["attempt.planned"]


def test_begin_of_a_running_job_is_a_bug() -> None:
    with pytest.raises(IllegalTransition):
        attempt_begin(job(JobState.RUNNING), SEATS, 2000, "deserved", 3, NOW)


def test_started_before_the_applier_noted_it() -> None:
    moved = attempt_started(job(JobState.STARTING), attempt(AttemptState.PLANNED), after(1))
    assert moved.job.state is JobState.RUNNING
    assert moved.attempt.state is AttemptState.RUNNING
    assert moved.attempt.applied is AttemptState.STARTING  # so that nobody starts it again
    assert attempt_told(moved.attempt, AttemptState.STARTING) == moved.attempt


def test_started_while_draining_keeps_draining_and_will_be_warned_not_forbidden() -> None:
    draining = attempt(AttemptState.DRAINING, applied=None, started_at=None)
    moved = attempt_started(job(JobState.STOPPING), draining, after(1))
    assert (moved.job.state, moved.attempt.state) == (JobState.STOPPING, AttemptState.DRAINING)
    assert moved.attempt.applied is AttemptState.STARTING


def test_ready_once() -> None:
    moved = attempt_ready(job(JobState.RUNNING), attempt(), after(2))
    assert moved.attempt.ready_at == after(2)
    again = attempt_ready(moved.job, moved.attempt, after(3))
    assert again.attempt.ready_at == after(2)
    assert again.events == ()


def test_checkpoint_after_the_warning_shows_saves_on_signal() -> None:
    before = attempt_checkpointed(job(JobState.RUNNING), attempt(), after(50), "a")
    assert before.job.checkpointed
    assert not before.job.saves_on_signal
    warned = attempt_checkpointed(job(JobState.STOPPING), attempt(AttemptState.DRAINING), after(101), "b")
    assert warned.job.saves_on_signal


def test_drain_twice_keeps_the_reason_and_the_earlier_deadline() -> None:
    first = attempt_drain(job(JobState.RUNNING), attempt(), EndReason.RECLAIMED, after(20), NOW, "jother")
    assert (first.job.state, first.attempt.drain_for) == (JobState.STOPPING, "jother")
    told = replace(first.attempt, applied=AttemptState.DRAINING)
    later = attempt_drain(first.job, told, EndReason.CANCELLED, after(30), after(1))
    assert later.attempt == told
    sooner = attempt_drain(first.job, told, EndReason.NODE_LOST, after(2), after(2))
    assert (sooner.attempt.drain_reason, sooner.attempt.deadline_at) == (EndReason.RECLAIMED, after(2))
    assert sooner.attempt.applied is AttemptState.STARTING  # the engine hears of the new deadline


@pytest.mark.parametrize(
    ("drained", "code", "natural", "kind", "reason"),
    [
        (None, 0, True, JobType.TASK, EndReason.COMPLETED),
        (None, 3, True, JobType.TASK, EndReason.FAILED),
        (None, None, True, JobType.TASK, EndReason.FAILED),
        (None, 75, True, JobType.TASK, EndReason.SAVED),
        (EndReason.RECLAIMED, 75, True, JobType.TASK, EndReason.SAVED),
        (EndReason.RECLAIMED, 0, True, JobType.TASK, EndReason.COMPLETED),
        (EndReason.RECLAIMED, 0, False, JobType.TASK, EndReason.RECLAIMED),
        (EndReason.RECLAIMED, 137, False, JobType.TASK, EndReason.RECLAIMED),
        (EndReason.PREEMPTED, 0, True, JobType.SERVICE, EndReason.PREEMPTED),
        (EndReason.MAX_DURATION, 75, True, JobType.TASK, EndReason.MAX_DURATION),
        (EndReason.MAX_DURATION, 0, True, JobType.TASK, EndReason.COMPLETED),
        (EndReason.CANCELLED, 75, True, JobType.TASK, EndReason.CANCELLED),
        (EndReason.NODE_LOST, 137, True, JobType.TASK, EndReason.NODE_LOST),
    ],
)
def test_end_reason(
    drained: EndReason | None, code: int | None, natural: bool, kind: JobType, reason: EndReason
) -> None:
    state = AttemptState.RUNNING if drained is None else AttemptState.DRAINING
    found = end_reason(job(JobState.RUNNING, spec=spec(type=kind)), attempt(state, drain_reason=drained), code, natural)
    assert found is reason


def test_eviction_requeues_with_submit_time_and_spends_no_retry() -> None:
    gone = attempt(AttemptState.DRAINING, drain_reason=EndReason.RECLAIMED, drain_for="jother")
    moved = attempt_ended(job(JobState.STOPPING), gone, EndReason.RECLAIMED, 137, after(120), CAP)
    assert (moved.job.state, moved.job.queued_as) == (JobState.QUEUED, QueuedAs.READY)
    assert (moved.job.retries_spent, moved.job.submitted_at) == (0, NOW)
    assert moved.attempt.lost_milli_seconds == 8000 * 120
    assert [event.kind for event in moved.events] == ["attempt.ended", "job.requeued"]
    assert moved.events[0].data["for"] == "jother"


def test_failure_spends_retries_with_backoff_then_fails() -> None:
    moved = attempt_ended(job(JobState.RUNNING), attempt(), EndReason.FAILED, 1, after(5), CAP)
    assert (moved.job.queued_as, moved.job.not_before) == (QueuedAs.BACKOFF, after(15))
    assert moved.job.retries_spent == 1
    spent = job(JobState.RUNNING, retries_spent=2)
    moved = attempt_ended(spent, attempt(), EndReason.FAILED, 1, after(5), CAP)
    assert (moved.job.state, moved.job.finished_at, moved.job.exit_code) == (JobState.FAILED, after(5), 1)
    assert moved.job.message == "exit code 1"


def test_a_service_that_ran_long_begins_its_backoff_anew() -> None:
    service = job(JobState.RUNNING, spec=spec(type=JobType.SERVICE), retries_spent=5)
    soon = attempt_ended(service, attempt(), EndReason.FAILED, 1, after(20), CAP).job
    assert (soon.retries_spent, soon.not_before) == (6, after(20 + 300))
    late = attempt_ended(service, attempt(), EndReason.FAILED, 1, after(300), CAP).job
    assert (late.retries_spent, late.not_before) == (1, after(300 + 10))
    task = attempt_ended(job(JobState.RUNNING, retries_spent=1), attempt(), EndReason.FAILED, 1, after(9000), CAP).job
    assert task.retries_spent == 2


def test_a_job_that_only_saves_does_not_spin() -> None:
    first = attempt_ended(job(JobState.RUNNING), attempt(), EndReason.SAVED, 75, after(1), CAP).job
    assert (first.queued_as, first.not_before) == (QueuedAs.READY, None)
    again = replace(first, state=JobState.RUNNING)
    second = attempt_ended(again, attempt(), EndReason.SAVED, 75, after(2), CAP).job
    assert (second.queued_as, second.not_before, second.retries_spent) == (QueuedAs.BACKOFF, after(12), 0)
    later = attempt_ended(again, attempt(), EndReason.SAVED, 75, after(60), CAP).job
    assert later.queued_as is QueuedAs.READY
    evicted = attempt_ended(again, attempt(AttemptState.DRAINING), EndReason.SAVED, 75, after(102), CAP).job
    assert evicted.queued_as is QueuedAs.READY


def test_cancelled_wins_over_every_reason() -> None:
    moved = attempt_ended(job(JobState.STOPPING, cancel=True), attempt(), EndReason.SAVED, 75, after(5), CAP)
    assert moved.job.state is JobState.CANCELLED


def test_held_job_is_requeued_as_held() -> None:
    moved = attempt_ended(job(JobState.STOPPING, held=True), attempt(), EndReason.PREEMPTED, 137, after(5), CAP)
    assert moved.job.queued_as is QueuedAs.HELD


def test_ended_stays_ended() -> None:
    moved = attempt_ended(job(JobState.RUNNING), attempt(), EndReason.COMPLETED, 0, after(5), CAP)
    again = attempt_ended(moved.job, moved.attempt, EndReason.FAILED, 1, after(6), CAP)
    assert (again.job, again.attempt, again.events) == (moved.job, moved.attempt, ())
    assert attempt_started(moved.job, moved.attempt, after(7)).attempt == moved.attempt
    assert attempt_told(moved.attempt, AttemptState.DRAINING) == moved.attempt


def test_a_lost_attempt_must_still_be_forbidden() -> None:
    moved = attempt_ended(job(JobState.RUNNING), attempt(), EndReason.LOST_LEASE, None, after(5), CAP, told=False)
    assert moved.attempt.applied is AttemptState.STARTING
    assert attempt_told(moved.attempt, AttemptState.ENDED).applied is AttemptState.ENDED


def test_lost_work_counts_from_the_checkpoint_and_is_capped() -> None:
    running = attempt(checkpointed_at=after(90))
    assert work_lost(running, EndReason.PREEMPTED, after(100), CAP) == 80_000
    assert work_lost(running, EndReason.COMPLETED, after(100), CAP) == 0
    assert work_lost(attempt(), EndReason.NODE_LOST, after(9000), CAP) == 8000 * CAP
    draining = attempt(AttemptState.DRAINING)
    assert work_lost(draining, EndReason.SAVED, after(103), CAP) == 24_000
    assert work_lost(attempt(), EndReason.SAVED, after(103), CAP) == 0


MOVES = st.lists(st.sampled_from(["told", "started", "ready", "saved", "drain", "hasten", "end"]), max_size=12)


@given(MOVES, st.sampled_from([0, 1, 3, 75, 137, None]), st.booleans())
def test_any_order_of_moves_keeps_the_machines(moves: list[str], code: int | None, cancel: bool) -> None:
    """Facts and orders may interleave in any way: nothing raises, nothing leaves the end, times never run backwards."""
    begun = attempt_begin(job(), SEATS, 2000, "deserved", 3, NOW)
    here, run = replace(begun.job, cancel=cancel), begun.attempt
    for index, move in enumerate(moves, 1):
        before = run
        match move:
            case "told":
                run = attempt_told(run, AttemptState.STARTING)
                moved = None
            case "started":
                moved = attempt_started(here, run, after(index))
            case "ready":
                moved = attempt_ready(here, run, after(index))
            case "saved":
                moved = attempt_checkpointed(here, run, after(index), "c")
            case "end":
                moved = attempt_ended(here, run, end_reason(here, run, code, True), code, after(index), CAP)
            case _:
                if run.state is AttemptState.ENDED:
                    continue
                deadline = after(index + (20 if move == "drain" else 0))
                moved = attempt_drain(here, run, EndReason.RECLAIMED, deadline, after(index))
        if moved is not None:
            here, run = moved.job, moved.attempt
        if before.state is AttemptState.ENDED:
            assert run.state is AttemptState.ENDED
            assert run.ended_at == before.ended_at
        if run.state is AttemptState.ENDED:
            assert here.state in (JobState.QUEUED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
            assert run.lost_milli_seconds >= 0
        else:
            assert here.state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING)
            assert (here.state is JobState.STOPPING) == (run.state is AttemptState.DRAINING)
