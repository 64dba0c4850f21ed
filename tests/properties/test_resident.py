"""The planner that stays says what a fresh one says of the same world, whatever has happened (byte for byte)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import NodeState, RunState, Snapshot
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work
from tests.properties.worlds import snapshots, waiting_jobs

EVENTS = (
    "plan", "adopt", "adopt", "arrive", "arrive", "end", "gone", "save", "node", "node", "pool", "time", "unhold",
    "leave",
)  # fmt: skip


class Twins:
    """A resident planner and the events for it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.resident = Resident(snapshot)
        self.leaves = tuple(queue for queue in snapshot.queues if queue.leaf)
        self.count = 0

    def agree(self, *, adopt: bool, waits: bool) -> None:
        world = self.resident.snapshot()
        fresh = plan(world)
        found = self.resident.plan(waits=waits)
        if not waits:
            fresh = replace(fresh, wait=())
        assert plan_bytes(found) == plan_bytes(fresh)
        assert found == fresh
        if adopt:
            self.resident.adopt(found)

    def happen(self, what: str, data: st.DataObject) -> None:
        resident, world = self.resident, self.resident.snapshot()
        if what in {"plan", "adopt"}:
            self.agree(adopt=what == "adopt", waits=data.draw(st.booleans()))
        elif what == "time":
            resident.now_set(world.now + data.draw(st.sampled_from([1, 15, 60, 600])))
        elif what == "arrive":
            self.count += 1
            job = data.draw(waiting_jobs(f"x{self.count}", self.leaves))
            resident.job_put(replace(job, submitted=world.now + data.draw(st.sampled_from([0, -5, -4000, 30]))))
        elif what == "node":
            resident.node_put(self._node(data.draw(st.sampled_from(world.nodes)), data))
        elif what == "pool":
            self._pool(data.draw(st.sampled_from(world.nodes)), data)
        elif what == "unhold" and world.holds:
            resident.hold_gone(data.draw(st.sampled_from(sorted(hold.job for hold in world.holds))))
        elif what in {"end", "gone", "save", "leave"}:
            self._runner(what, data)

    def _node(self, node: NodeState, data: st.DataObject) -> NodeState:
        """The node in another state."""
        match data.draw(st.sampled_from(["cordoned", "draining", "lost", "card", "spec", "taint"])):
            case "card":
                card = data.draw(st.integers(0, 8))
                return replace(node, bad_cards=node.bad_cards ^ {card})
            case "spec":
                cpu = data.draw(st.sampled_from([0, 4000, node.spec.cpu + 8000]))
                rack = data.draw(st.sampled_from(["r1", "r2"]))
                return replace(node, spec=replace(node.spec, cpu=cpu, labels=(("rack", rack),)))
            case "taint":
                return replace(node, spec=replace(node.spec, taints=() if node.spec.taints else ("broken",)))
            case word:
                return replace(node, **{word: not getattr(node, word)})

    def _pool(self, node: NodeState, data: st.DataObject) -> None:
        """A node more or less, or other cards in one."""
        what = data.draw(st.sampled_from(["more", "less", "cards"]))
        if what == "more":
            self.resident.node_put(replace(node, spec=replace(node.spec, name="n0")))
        elif what == "less" and len(self.resident.snapshot().nodes) > 1:
            self.resident.node_gone(node.spec.name)
        elif node.spec.cards is not None:
            fewer = replace(node.spec.cards, count=max(1, node.spec.cards.count - 1), islands=())
            self.resident.node_put(replace(node, spec=replace(node.spec, cards=fewer)))

    def _runner(self, what: str, data: st.DataObject) -> None:
        """Something happens to a job: it ends, is back in its queue, saves its work, begins to leave."""
        resident, world = self.resident, self.resident.snapshot()
        if not world.jobs:
            return
        job = data.draw(st.sampled_from(sorted(world.jobs, key=lambda job: job.id)))
        running = job.state is RunState.RUNNING
        if what == "save" and running:
            resident.job_put(replace(job, checkpointed=world.now))
        elif what == "leave" and running:
            resident.job_put(replace(job, state=RunState.DRAINING, until=world.now + 20))
        elif what in {"end", "gone"}:
            for hold in world.holds:
                if job.id in hold.victims:
                    resident.hold_put(replace(hold, victims=tuple(v for v in hold.victims if v != job.id)))
            if what == "end":
                resident.job_gone(job.id)
            elif job.state is not RunState.QUEUED:
                resident.job_put(
                    replace(job, state=RunState.QUEUED, seats=(), started=None, checkpointed=None, until=None)
                )


@settings(max_examples=150, deadline=None)
@given(snapshots(), st.data())
def test_a_resident_planner_agrees_with_a_fresh_one(snapshot: Snapshot, data: st.DataObject) -> None:
    twins = Twins(snapshot)
    for what in data.draw(st.lists(st.sampled_from(EVENTS), max_size=14)):
        twins.happen(what, data)
    twins.agree(adopt=True, waits=True)
    twins.agree(adopt=False, waits=True)


@settings(max_examples=60, deadline=None)
@given(snapshots(), st.sampled_from([0, 7, 30]), st.sampled_from([None, 0, 600]), st.sampled_from([0, 2]), st.data())
def test_a_simulation_does_not_depend_on_who_plans(
    snapshot: Snapshot, drain: int, moved: int | None, back: int, data: st.DataObject
) -> None:
    wanted = replace(snapshot.settings, consolidate_after=moved, regroup_after=moved, hold_back=back)
    snapshot = replace(snapshot, settings=wanted)
    work = {job.id: Work(data.draw(st.sampled_from([None, 300, 4000]), label=job.id), drain) for job in snapshot.jobs}
    fresh = Simulation(snapshot, plan, work=work, until=7200)
    stays = Simulation(snapshot, work=work, until=7200)
    told = [event.json() for event in fresh.events()]
    assert [event.json() for event in stays.events()] == told
    assert stays.summary() == fresh.summary()
    silent = Simulation(snapshot, work=work, until=7200, checked=False, waits=False)
    assert [event.json() for event in silent.events()] == [event for event in told if event["event"] != "wait"]
