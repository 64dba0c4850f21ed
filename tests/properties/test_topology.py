"""Properties of plans with topology wishes: what is required is had, nothing idle waits for it, nobody breaks an island
that need not be broken."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.domain.links import link_levels
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.scheduling.check import check
from millpond.scheduling.links import cards_pick, idle_mask, islands_at, linked_fits
from millpond.scheduling.plan import plan
from millpond.scheduling.pool import Room, View, view_make
from millpond.scheduling.snapshot import NodeState, Snapshot
from tests.properties.worlds import followups, snapshots

LEVELS = ("", "", "rack", "rack", "spine", "node", "nvlink", "pcie", "numa")
LABELS = ((), (("rack", "a"), ("spine", "x")), (("rack", "b"), ("spine", "x")), (("rack", "c"), ("spine", "y")))


@settings(max_examples=150)
@given(snapshots(), st.data())
def test_no_plan_with_topology_breaks_a_rule(snapshot: Snapshot, data: st.DataObject) -> None:
    def wish() -> str:
        return data.draw(st.sampled_from(LEVELS))

    nodes = [
        replace(state, spec=replace(state.spec, labels=data.draw(st.sampled_from(LABELS)))) for state in snapshot.nodes
    ]
    waiting = [job if job.seats else replace(job, require=wish(), prefer=wish()) for job in snapshot.jobs]
    snapshot = replace(snapshot, nodes=tuple(nodes), jobs=tuple(waiting))
    done = plan(snapshot)
    assert check(snapshot, done) == ()
    later = data.draw(followups(snapshot, done, 1))
    assert check(later, plan(later)) == ()


@st.composite
def views(draw: st.DrawFn) -> View:
    model = draw(st.sampled_from(["A800-80GB", "H100-80GB", "A30-24GB", "L40S-48GB", "X900"]))
    count = draw(st.sampled_from([2, 4, 8]))
    halves = (tuple(range(0, count, 2)), tuple(range(1, count, 2)))
    kind = CardKind(model, "nvidia", 81_920, count, draw(st.sampled_from([(), (), halves])))
    room = Room(NodeState(NodeSpec("n1", cards=kind)), 0, {}, [])
    return view_make(room, draw(st.lists(st.sampled_from([0, 500, 1000]), min_size=count, max_size=count)), 0, 0)


@settings(max_examples=300)
@given(views(), st.integers(1, 8), st.sampled_from(["", "nvlink", "pcie", "numa"]))
def test_cards_are_idle_and_as_close_as_they_can_be(view: View, whole: int, level: str) -> None:
    if view.idle < whole:
        return
    cards = cards_pick(view, whole, level)
    taken = sum(1 << card for card in cards)
    idle = idle_mask(view)
    assert len(cards) == whole
    assert taken & ~idle == 0
    if level and linked_fits(view, whole, level):
        assert any(taken & ~mask == 0 for mask in islands_at(view.room.kind, level))
    islands = [sum(1 << card for card in island) for one in link_levels(view.room.kind) for island in one.islands]
    holding = [mask & idle for mask in islands if (mask & idle).bit_count() >= whole]
    if holding and not level:
        least = min(mask.bit_count() for mask in holding)
        assert any(taken & ~mask == 0 for mask in holding if mask.bit_count() == least)
