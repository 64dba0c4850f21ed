"""State machines, and what becomes of a job when an attempt ends."""

from __future__ import annotations

from itertools import product

import pytest

from millpond.domain.errors import IllegalTransition
from millpond.domain.jobs import (
    ATTEMPT_TRANSITIONS,
    JOB_LIVE,
    JOB_TERMINAL,
    JOB_TRANSITIONS,
    REQUEUE_REASONS,
    AttemptState,
    EndReason,
    JobSpec,
    JobState,
    JobType,
    QueueClass,
    RetryPolicy,
    attempt_outcome,
    attempt_step,
    job_step,
)


def spec(kind: JobType = JobType.TASK, **more: object) -> JobSpec:
    return JobSpec(kind, "x", ("true",), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("current", "wanted"), list(product(JobState, JobState)))
def test_job_steps(current: JobState, wanted: JobState) -> None:
    if wanted in JOB_TRANSITIONS[current]:
        assert job_step(current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition):
            job_step(current, wanted)


@pytest.mark.parametrize(("current", "wanted"), list(product(AttemptState, AttemptState)))
def test_attempt_steps(current: AttemptState, wanted: AttemptState) -> None:
    if wanted in ATTEMPT_TRANSITIONS[current]:
        assert attempt_step(current, wanted) is wanted
    else:
        with pytest.raises(IllegalTransition):
            attempt_step(current, wanted)


def test_terminal_states_are_final() -> None:
    assert all(not JOB_TRANSITIONS[state] for state in JOB_TERMINAL)
    assert all(JOB_TRANSITIONS[state] for state in JOB_LIVE)


@pytest.mark.parametrize("reason", sorted(REQUEUE_REASONS))
def test_evictions_and_losses_queue_again_without_a_retry(reason: EndReason) -> None:
    outcome = attempt_outcome(reason, 75, spec(), 0)
    assert (outcome.state, outcome.retry, outcome.wait) == (JobState.QUEUED, False, 0)


def test_ends() -> None:
    assert attempt_outcome(EndReason.COMPLETED, 0, spec(), 0).state is JobState.SUCCEEDED
    assert attempt_outcome(EndReason.FAILED, 1, spec(), 0).state is JobState.FAILED
    assert attempt_outcome(EndReason.MAX_DURATION, None, spec(), 0).state is JobState.FAILED
    assert attempt_outcome(EndReason.CANCELLED, None, spec(), 0).state is JobState.CANCELLED
    assert attempt_outcome(EndReason.PREEMPTED, None, spec(), 0, cancel=True).state is JobState.CANCELLED


def test_retries_are_spent_by_failures() -> None:
    tries = spec(retry=RetryPolicy(exits=frozenset({1}), limit=2))
    first = attempt_outcome(EndReason.FAILED, 1, tries, 0)
    assert (first.state, first.retry, first.wait) == (JobState.QUEUED, True, 10)
    assert attempt_outcome(EndReason.FAILED, 1, tries, 2).state is JobState.FAILED
    assert attempt_outcome(EndReason.FAILED, 2, tries, 0).state is JobState.FAILED
    assert attempt_outcome(EndReason.FAILED, None, tries, 0).state is JobState.FAILED
    every = spec(retry=RetryPolicy(any=True, limit=1))
    assert attempt_outcome(EndReason.FAILED, 99, every, 0).retry
    assert attempt_outcome(EndReason.FAILED, None, every, 0).retry


def test_failed_starts_are_tried_three_times() -> None:
    assert attempt_outcome(EndReason.START_FAILED, None, spec(), 2).retry
    assert attempt_outcome(EndReason.START_FAILED, None, spec(), 3).state is JobState.FAILED


def test_a_service_always_comes_back() -> None:
    for reason in (EndReason.COMPLETED, EndReason.FAILED):
        outcome = attempt_outcome(reason, 0, spec(JobType.SERVICE), 5)
        assert (outcome.state, outcome.retry, outcome.wait) == (JobState.QUEUED, True, 300)


def test_a_service_that_ran_once_is_not_given_up_for_failed_starts() -> None:
    service = spec(JobType.SERVICE)
    assert attempt_outcome(EndReason.START_FAILED, None, service, 3).state is JobState.FAILED
    outcome = attempt_outcome(EndReason.START_FAILED, None, service, 7, ran=True)
    assert (outcome.state, outcome.wait) == (JobState.QUEUED, 300)


def test_backoff_doubles_up_to_its_limit() -> None:
    policy = RetryPolicy(backoff_min=10, backoff_max=300)
    assert [policy.backoff(spent) for spent in (0, 1, 2, 5, 1000)] == [10, 20, 40, 300, 300]


@pytest.mark.parametrize(
    ("klass", "said", "expected"),
    [
        (QueueClass.PROD, None, False),
        (QueueClass.PROD, True, True),
        (QueueClass.BATCH, None, True),
        (QueueClass.BATCH, False, False),
        (QueueClass.BESTEFFORT, None, True),
    ],
)
def test_who_may_be_preempted(klass: QueueClass, said: bool | None, expected: bool) -> None:
    assert spec(queue=klass, preemptible=said).may_be_preempted is expected


def test_ranks() -> None:
    assert spec(nodes=2, processes_per_node=4).ranks == 8
