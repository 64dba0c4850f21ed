"""Properties of every plan (scheduling §8), judged by the independent checker."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.scheduling.check import check
from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Snapshot
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work
from tests.properties.days import cyclic
from tests.properties.worlds import followups, snapshots


@settings(max_examples=200)
@given(snapshots())
def test_no_plan_breaks_a_rule(snapshot: Snapshot) -> None:
    assert check(snapshot, plan(snapshot)) == ()


@settings(max_examples=100)
@given(snapshots(), st.data())
def test_no_plan_after_plans_breaks_a_rule(snapshot: Snapshot, data: st.DataObject) -> None:
    """Holds half done, victims that stay too long, nodes that vanish: what a control plane sees in between."""
    for number in range(2):
        snapshot = data.draw(followups(snapshot, plan(snapshot), number))
        assert check(snapshot, plan(snapshot)) == ()


@settings(max_examples=200)
@given(snapshots(), st.integers(0, 2**32))
def test_order_of_lists_does_not_matter(snapshot: Snapshot, seed: int) -> None:
    chance = random.Random(seed)
    shuffled = replace(
        snapshot,
        nodes=tuple(chance.sample(snapshot.nodes, len(snapshot.nodes))),
        queues=tuple(chance.sample(snapshot.queues, len(snapshot.queues))),
        jobs=tuple(chance.sample(snapshot.jobs, len(snapshot.jobs))),
    )
    assert plan_bytes(plan(shuffled)) == plan_bytes(plan(snapshot))


@settings(max_examples=100)
@given(snapshots(), st.sampled_from([0, 7, 30]))
def test_an_hour_has_no_violation_and_no_cycle_of_evictions(snapshot: Snapshot, drain: int) -> None:
    """With a fixed set of jobs that never end, nobody is driven out by whom it drove out."""
    fixed = replace(snapshot, jobs=tuple(replace(job, max_duration=None) for job in snapshot.jobs))
    work = {job.id: Work(drain=drain) for job in fixed.jobs}
    events = list(Simulation(fixed, plan, work=work, until=3600).events())
    assert [event for event in events if event.kind == "violation"] == []
    drove_out: dict[str, set[str]] = {}
    for event in events:
        if event.kind == "evict":
            drove_out.setdefault(str(event.data["for"]), set()).add(event.job)
    assert not cyclic(drove_out)
