"""The planner that stays, where its world changes shape: nodes and queues come and go, and it says what a fresh one
would."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.pool import HOLD, LEAVE, RUN, Pool
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Hold, Seat, Snapshot
from tests.builders import draining, job, node, pool, queue, running, snapshot

LEAF = queue("a/batch", d=8)


def same(resident: Resident, world: Snapshot) -> None:
    assert plan_bytes(resident.plan()) == plan_bytes(plan(world))


def world() -> Snapshot:
    return snapshot(pool(2), [LEAF], [running("r", "a/batch", "n1"), job("w", "a/batch", 8), job("v", "a/batch", 8)])


def test_a_node_comes_and_goes() -> None:
    resident, given = Resident(world()), world()
    same(resident, given)
    resident.node_put(node("n3"))
    given = replace(given, nodes=(*given.nodes, node("n3")))
    same(resident, given)
    resident.node_put(node("n3"))
    same(resident, given)
    resident.node_gone("n3")
    resident.node_gone("n4")
    same(resident, world())


def test_another_state_of_a_node_costs_one_node() -> None:
    resident, given = Resident(world()), world()
    same(resident, given)
    state, first = resident._state, given.nodes[0]
    for after in (replace(first, cordoned=True), replace(first, bad_cards=frozenset({1})), first):
        resident.now_set(resident.now)  # takes back the plan that nobody adopted
        logged = len(state.pool.changes)
        resident.node_put(after)
        assert state.pool.changes[logged:] == [state.pool.by_name[first.spec.name].index]
        same(resident, replace(given, nodes=(after, *given.nodes[1:])))
    assert resident._state is state


def test_a_job_of_a_queue_that_nobody_configured_waits_at_a_closed_one() -> None:
    resident = Resident(world())
    stray = job("x", "b/batch", 1)
    resident.job_put(stray)
    given = world()
    same(resident, replace(given, jobs=(*given.jobs, stray)))
    resident.job_gone("x")
    resident.job_gone("nobody")
    same(resident, given)


def test_a_job_that_saves_stays_where_it_is() -> None:
    resident, given = Resident(replace(world(), now=100)), replace(world(), now=100)
    before = given.jobs[0]
    for after in (replace(before, checkpointed=50), replace(before, saves_on_signal=True), replace(before, priority=9)):
        resident.job_put(after)
        same(resident, replace(given, jobs=(after, *given.jobs[1:])))


A100 = {"model": "A100-40GB", "memory": 40_960}


@pytest.mark.parametrize(("other", "free"), [(0, False), (1, True)])
def test_slots_of_layers(other: int, free: bool) -> None:
    [room] = Pool(pool(1, 1, **A100)).rooms
    seat = Seat("n1", (0,), 119, "1g.5gb", 0)
    assert room.slots_free(seat, RUN, LEAVE)
    room.slice_put(replace(seat, slot=other), RUN, 1)
    room.cards[RUN][0] += 1000
    assert room.slots_free(seat, RUN, LEAVE) is free
    assert room.slots_free(seat, LEAVE, HOLD)
    room.slice_put(replace(seat, slot=other), RUN, -1)
    assert not room.slots_free(seat, RUN)


@pytest.mark.parametrize(("until", "starts"), [(30, []), (None, ["w"])])
def test_a_held_slice_starts_when_its_slots_are_free(until: int | None, starts: list[str]) -> None:
    seat = Seat("n1", (0,), 119, "1g.5gb", 0)
    waiting = job("w", "a/batch", "A100:mig-1g.5gb")
    victim = replace(job("v", "a/batch", "A100:mig-1g.5gb"), seats=(seat,), started=0)
    jobs = [waiting] if until is None else [waiting, draining(victim, until)]
    hold = Hold("w", (seat,), 90, () if until is None else ("v",))
    given = snapshot(pool(1, 1, **A100), [LEAF], jobs, now=10, holds=[hold])
    assert [start.job for start in plan(given).start] == starts
    same(Resident(given), given)
