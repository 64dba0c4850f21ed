"""Facts of the engine become records."""

from __future__ import annotations

from dataclasses import replace

from millpond.control.observe import fact_time, observe_decide
from millpond.control.recover import difference_find
from millpond.domain.jobs import AttemptState, EndReason, JobState
from millpond.engines.base import Fact, FactKind
from tests.unit.control.builders import JOB, NOW, after, attempt, job

RUN = f"{JOB}-1"
T0 = round(NOW.timestamp() * 1000)


def fact(kind: FactKind, seconds: float = 1, **values: object) -> Fact:
    base = Fact(1, T0 + round(seconds * 1000), kind, attempt=RUN)
    return replace(base, **values)


def test_a_whole_life_in_one_batch() -> None:
    planned = attempt(AttemptState.PLANNED)
    facts = [
        fact(FactKind.STARTED, 1),
        fact(FactKind.READY, 2),
        fact(FactKind.CHECKPOINTED, 3, detail="step-1"),
        fact(FactKind.EXITED, 4.5, code=0),
    ]
    seen = observe_decide(facts, {JOB: job(JobState.STARTING)}, {RUN: planned}, lost_work_cap=3600, now=after(5))
    done, run = seen.jobs[JOB], seen.attempts[RUN]
    assert (done.state, done.finished_at, done.checkpointed) == (JobState.SUCCEEDED, after(4.5), True)
    assert (run.started_at, run.ready_at, run.checkpointed_at, run.ended_at) == (
        after(1),
        after(2),
        after(3),
        after(4.5),
    )
    assert seen.ended == 1
    assert [event.kind for event in seen.events] == [
        "attempt.started",
        "attempt.ready",
        "attempt.checkpointed",
        "attempt.ended",
        "job.succeeded",
    ]


def test_facts_of_strangers_are_passed_over() -> None:
    seen = observe_decide([fact(FactKind.EXITED, code=0)], {}, {}, lost_work_cap=3600, now=NOW)
    assert (seen.jobs, seen.attempts, seen.events) == ({}, {}, ())


def test_a_start_that_failed() -> None:
    failed = fact(FactKind.START_FAILED, detail="no such folder")
    seen = observe_decide(
        [failed], {JOB: job(JobState.STARTING)}, {RUN: attempt(AttemptState.STARTING)}, lost_work_cap=3600, now=NOW
    )
    assert seen.attempts[RUN].reason is EndReason.START_FAILED
    assert (seen.jobs[JOB].state, seen.jobs[JOB].message) == (JobState.QUEUED, "no such folder")


def test_a_lost_node_takes_its_attempts_along_and_spends_no_retry() -> None:
    facts = [
        fact(FactKind.NODE_LOST, 1, attempt="", node="n1"),
        fact(FactKind.EXITED, 2, code=137),
    ]
    seen = observe_decide(facts, {JOB: job(JobState.RUNNING)}, {RUN: attempt()}, lost_work_cap=3600, now=after(1))
    assert seen.lost_nodes == ("n1",)
    assert seen.attempts[RUN].reason is EndReason.NODE_LOST
    assert (seen.jobs[JOB].state, seen.jobs[JOB].retries_spent) == (JobState.QUEUED, 0)


def test_a_lost_node_outweighs_an_eviction_but_not_a_stop() -> None:
    lost = fact(FactKind.NODE_LOST, 101, attempt="", node="n1")
    stopping = job(JobState.STOPPING)
    for reason, found in ((EndReason.RECLAIMED, EndReason.NODE_LOST), (EndReason.CANCELLED, EndReason.CANCELLED)):
        leaving = attempt(AttemptState.DRAINING, drain_reason=reason)
        seen = observe_decide([lost], {JOB: stopping}, {RUN: leaving}, lost_work_cap=3600, now=after(101))
        assert seen.attempts[RUN].drain_reason is found
        assert seen.attempts[RUN].deadline_at == after(101)


def test_a_faulty_card_gives_grace_to_those_who_use_it() -> None:
    bad = fact(FactKind.CARD_FAULT, attempt="", node="n1", card=3, detail="xid 79")
    seen = observe_decide([bad], {JOB: job(JobState.RUNNING)}, {RUN: attempt()}, lost_work_cap=3600, now=after(1))
    assert seen.bad_cards == (("n1", 3, "xid 79"),)
    assert (seen.attempts[RUN].drain_reason, seen.attempts[RUN].deadline_at) == (EndReason.CARD_FAULT, after(21))
    assert seen.events[0].kind == "card.quarantined"


def test_fact_time_is_exact() -> None:
    assert fact_time(fact(FactKind.STARTED, 0.001)) == after(0.001)


def test_difference() -> None:
    run, fresh = attempt(), attempt(AttemptState.PLANNED, id=f"{JOB}-2")
    assert difference_find([run, fresh], [run, fresh], [RUN]).missing == ()
    assert difference_find([run, fresh], [run, fresh], []).missing == (RUN,)
    assert difference_find([run], [], []).missing == ()  # its end was stored meanwhile
    assert difference_find([], [run], []).missing == ()  # it was told meanwhile
    assert difference_find([run], [run], [RUN, "jx-1"]).orphans == ("jx-1",)
    assert difference_find([run], [], [RUN]).orphans == ()  # its end was stored after the engine was asked
    assert difference_find([], [], [RUN]).orphans == (RUN,)
