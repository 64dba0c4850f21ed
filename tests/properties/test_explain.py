"""A counterfactual is never false (scheduling §7): submitted instead, the changed job starts when it is said to."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.scheduling.changes import ladders
from millpond.scheduling.explain import Explainer
from millpond.scheduling.limits import Limits
from millpond.scheduling.options import Options
from millpond.scheduling.plan import Pass, plan
from millpond.scheduling.snapshot import RunState, Snapshot
from millpond.scheduling.state import State
from millpond.scheduling.trial import Trials, Verdict, verdict_plan
from tests.builders import draining, job, node, pool, queue, running
from tests.builders import snapshot as build
from tests.properties.worlds import snapshots

CASES = int(os.environ.get("MILLPOND_CASES", "4000"))
"""Worlds of the long test: two to three minutes; ten thousand take six."""


def settle(snapshot: Snapshot) -> Snapshot:
    """The world when the plan's starts run and nobody was evicted: what a pool looks like between two events."""
    for _ in range(3):
        seats = {start.job: start.seats for start in plan(snapshot).start}
        if not seats:
            break
        jobs = (
            replace(job, state=RunState.RUNNING, seats=seats[job.id], started=snapshot.now) if job.id in seats else job
            for job in snapshot.jobs
        )
        snapshot = replace(snapshot, jobs=tuple(jobs))
    return snapshot


def counterfactuals_check(snapshot: Snapshot) -> int:
    """Every counterfactual of every waiting job against the planner; how many there were."""
    explainer = Explainer(snapshot)
    result = explainer.plan
    jobs = {job.id: job for job in snapshot.jobs}
    held = {hold.job for hold in result.hold}
    count = 0
    for wait in result.wait:
        if wait.job in held:
            continue
        for change, verdict in explainer.tried(jobs[wait.job], wait.reasons):
            assert verdict_plan(snapshot, jobs[wait.job], change.job) == verdict, (wait.job, change)
            count += 1
    return count


def quick_check(snapshot: Snapshot) -> None:
    """What is found without running the planner is what the planner says, yes or no."""
    state = State(snapshot)
    options = Options(state)
    ranks = {name: rank for tenant in state.tree.root.children for name, rank in state.walk(tenant).ranks.items()}
    result = Pass(state, options, Limits(state, options)).run()
    trials = Trials(snapshot, result, state, options, ranks, runs=0)
    jobs = {job.id: job for job in snapshot.jobs}
    held = {hold.job for hold in result.hold}
    times = [reserved.time for reserved in result.reservations]
    for wait in result.wait:
        job = jobs[wait.job]
        if wait.job in held or wait.rank is None:
            continue
        for ladder in ladders(snapshot, job, wait.reasons, times):
            for change in ladder[:3]:
                fits = trials.fits(change.job)
                found = trials.start(job, change.job) if fits else trials.evict(job, change.job)
                if found is not None:
                    assert verdict_plan(snapshot, job, change.job) == found, (wait.job, change)


@settings(max_examples=150)
@given(snapshots(), st.booleans())
def test_counterfactuals_are_true(snapshot: Snapshot, settled: bool) -> None:
    counterfactuals_check(settle(snapshot) if settled else snapshot)


@settings(max_examples=150)
@given(snapshots())
def test_the_quick_way_agrees_with_the_planner(snapshot: Snapshot) -> None:
    quick_check(settle(snapshot))


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=CASES)
@given(snapshots())
def test_counterfactuals_are_true_in_many_worlds(snapshot: Snapshot) -> None:
    settled = settle(snapshot)
    counterfactuals_check(settled)
    quick_check(settled)


def test_the_quick_way_waits_for_those_who_leave_for_a_cap() -> None:
    """The seat waits for one who leaves it at once; the cap waits longer, for one who sits elsewhere."""
    leaver = draining(running("r", "a/prod", "n1", 1, cards=(1,)), 10)
    mate = running("m", "b/prod", "n2", 1, age=0, priority=10, grace=20, preemptible=True)
    others = [
        running(f"f{index}", "a/prod", at, "0.25", cards=(0,) if at == "n1" else (1,))
        for index, at in enumerate(["n1"] * 4 + ["n2"] * 2)
    ]
    waiter = job("w", "b/prod", 1, nodes=2, preemptible=True)
    queues = [queue("a/prod"), queue("b/prod", d=1, c=1)]
    quick_check(build(pool(3, 2), queues, [leaver, mate, *others, waiter], min_runtime=0))


def test_a_reservation_of_somebody_judged_later_bars_nobody_before() -> None:
    """The reserved card is free to the changed job when it is its turn: it starts, and evicts nobody."""
    nodes = [node("n1", 1, cpu=32_000), node("n2", 2, model="H20-96GB", memory=98_304, cpu=32_000)]
    sitters = [
        running("r", "a/besteffort", "n1", 1, priority=10, grace=0),
        running("m", "a/besteffort", "n2", 1, cards=(1,), priority=90, grace=0),
    ]
    stopped = job("w", "a/besteffort", "0.333", priority=50, preemptible=False)
    gang = job("g", "a/besteffort", "H20:2", priority=10)
    world = build(nodes, [queue("a/besteffort")], [*sitters, stopped, gang], min_runtime=0)
    assert [reserved.job for reserved in plan(world).reservations] == ["g"]
    quick_check(world)
    counterfactuals_check(world)


def test_whom_a_job_evicts_is_not_told_by_the_reservations_of_later_ones() -> None:
    """With one node less it would evict the cheapest, who sits where cards are reserved for one judged after it."""
    sitters = [
        running("cheap", "a/besteffort", "n1", 1, priority=10, grace=0, age=0, max_duration=600),
        running("dear", "a/besteffort", "n2", 1, priority=10, grace=60),
    ]
    first, second = (job(name, "a/besteffort", 1, nodes=n, priority=p) for name, n, p in (("u", 3, 50), ("w", 1, 10)))
    world = build(pool(2, 1), [queue("a/besteffort")], [*sitters, first, second], min_runtime=0)
    assert [reserved.job for reserved in plan(world).reservations] == ["w"]
    quick_check(world)


def test_reservations_do_not_silence_the_quick_way() -> None:
    """The last of its leaf harms nobody wherever it sits, so no planner need be run for one that has waited long."""
    nodes = [node("n1", 2), node("n2", 3, model="H20-96GB", memory=98_304)]
    sitters = [
        running("r", "a/batch", "n1", 2, age=0, max_duration=500),
        running("m", "a/batch", "n2", 2, cards=(0, 1), age=0, max_duration=1000),
    ]
    waiters = [job(f"w{number}", "a/batch", 2, submitted=-9000 + number) for number in range(3)]
    world = build(nodes, [queue("a/batch")], [*sitters, *waiters])
    state = State(world)
    options = Options(state)
    ranks = {name: rank for tenant in state.tree.root.children for name, rank in state.walk(tenant).ranks.items()}
    result = Pass(state, options, Limits(state, options)).run()
    assert {reserved.job for reserved in result.reservations} == {"w0"}
    changed = job("w2", "a/batch", 1, submitted=-8998)
    quick = Trials(world, result, state, options, ranks, runs=0)
    assert quick.fits(changed)
    assert quick.start(waiters[2], changed) == verdict_plan(world, waiters[2], changed) == Verdict(True, 0)
