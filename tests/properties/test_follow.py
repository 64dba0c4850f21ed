"""A planner that follows whole snapshots says what a fresh one says of the last, whatever lies between two of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.explain import Explainer
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Snapshot
from tests.properties.test_resident import EVENTS, Twins
from tests.properties.worlds import snapshots


def twisted(snapshot: Snapshot, data: st.DataObject) -> Snapshot:
    """What single events do not tell: other settings or queues, a clock that was set back, another mix or order."""
    match data.draw(st.sampled_from(["same", "same", "order", "settings", "queue", "queues", "back", "mix"])):
        case "order":
            return replace(snapshot, jobs=snapshot.jobs[::-1], nodes=snapshot.nodes[::-1], holds=snapshot.holds[::-1])
        case "settings":
            return replace(snapshot, settings=replace(snapshot.settings, cooldown=5, reserve_after=60))
        case "queue":  # one that jobs may still be in
            return replace(snapshot, queues=snapshot.queues[:-1])
        case "queues":
            return replace(snapshot, queues=tuple(replace(queue, cap=None) for queue in snapshot.queues))
        case "back":
            return replace(snapshot, now=snapshot.now - 1)
        case "mix":
            return replace(snapshot, mix={"1": 7, "4": 2})
        case _:
            return snapshot


@settings(max_examples=150, deadline=None)
@given(snapshots(), st.data())
def test_a_planner_that_follows_agrees_with_a_fresh_one(snapshot: Snapshot, data: st.DataObject) -> None:
    twins, follower = Twins(snapshot), Resident(snapshot)
    for _ in range(data.draw(st.integers(1, 4))):
        for what in data.draw(st.lists(st.sampled_from(EVENTS), max_size=6)):
            twins.happen(what, data)
        world = twisted(twins.resident.snapshot(), data)
        follower.follow(world)
        fresh, found = Explainer(world), Explainer(world, follower)
        assert plan_bytes(found.plan) == plan_bytes(fresh.plan) == plan_bytes(plan(world))
        assert found.plan == fresh.plan
        assert dict(found.ranks) == dict(fresh.ranks)
        for job in world.jobs:
            if job.submitted <= world.now:
                assert found.explain(job.id) == fresh.explain(job.id)
