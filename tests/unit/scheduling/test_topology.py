"""Which cards of a node, and which nodes, go together (scheduling §6, S14)."""

from __future__ import annotations

import pytest

from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.reasons import Code
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, Rank, Start
from millpond.scheduling.links import cards_pick, linked_fits
from millpond.scheduling.pool import Room, View, view_make
from millpond.scheduling.snapshot import NodeState, Seat, Snapshot
from tests.builders import job, node, plan, pool, queue, running, snapshot, started

QUEUES = [queue("t/batch"), queue("t/besteffort")]


def view(idle: str, model: str = "A800-80GB", islands: tuple[tuple[int, ...], ...] = ()) -> View:
    """A node whose idle cards are the digits of `idle`, of eight."""
    kind = CardKind(model, "nvidia", 81_920, 8, islands)
    room = Room(NodeState(NodeSpec("n1", cards=kind)), 0, {}, [])
    return view_make(room, [1000 if str(card) in idle else 0 for card in range(8)], 0, 0)


@pytest.mark.parametrize(
    ("idle", "whole", "cards"),
    [
        ("01234567", 1, "0"),
        ("1234567", 1, "1"),
        ("1234567", 2, "23"),
        ("1234567", 3, "123"),
        ("1234567", 4, "4567"),
        ("1234567", 5, "14567"),
        ("01234567", 6, "012345"),
        ("0356", 2, "03"),
        ("12567", 3, "567"),
        ("0246", 3, "024"),
    ],
)
def test_smallest_island_of_an_hgx_board(idle: str, whole: int, cards: str) -> None:
    assert cards_pick(view(idle), whole) == tuple(int(card) for card in cards)


def test_named_islands_count_and_all_is_one_where_nothing_is_known() -> None:
    halves = ((0, 2, 4, 6), (1, 3, 5, 7))
    assert cards_pick(view("1234567", islands=halves), 3) == (2, 4, 6)
    assert cards_pick(view("01234567", "X900"), 3) == (0, 1, 2)


@pytest.mark.parametrize(
    ("model", "level", "whole", "fits"),
    [
        ("A800-80GB", "nvlink", 8, True),
        ("A800-80GB", "pcie", 2, True),
        ("A800-80GB", "pcie", 3, False),
        ("A800-80GB", "numa", 4, True),
        ("H100-80GB", "pcie", 4, True),
        ("L40S-48GB", "nvlink", 2, False),
        ("L40S-48GB", "pcie", 4, True),
        ("L40S-48GB", "numa", 5, False),
        ("X900", "nvlink", 8, True),
    ],
)
def test_levels_inside_a_node(model: str, level: str, whole: int, fits: bool) -> None:
    assert linked_fits(view("01234567", model), whole, level) is fits


def test_a_required_level_holds_although_another_island_is_smaller() -> None:
    """Cards 1 and 2 are idle in one socket, 4 and 5 below one switch."""
    given = view("1245")
    assert cards_pick(given, 2) == (1, 2)
    assert cards_pick(given, 2, "pcie") == (4, 5)


def test_preferred_links_choose_the_node() -> None:
    busy = [running("a", "t/batch", "n1", 4, cards=[0, 1, 4, 5]), running("b", "t/batch", "n2", 1, cards=[0])]
    for wish, name in (({}, "n1"), ({"prefer": "numa"}, "n2"), ({"require": "numa"}, "n2")):
        done = plan(snapshot(pool(2), QUEUES, [*busy, job("p", "t/batch", 4, **wish)]))
        assert done.start[0].seats[0].node == name
    done = plan(snapshot(pool(1), QUEUES, [busy[0], job("p", "t/batch", 4, prefer="numa")]))
    assert started(done) == ["p"]


def racks(*counts: int, count: int = 8) -> list[NodeState]:
    """Racks of so many nodes each, two racks to a spine."""
    made: list[NodeState] = []
    for rack, size in enumerate(counts):
        labels = {"rack": f"r{rack}", "spine": f"s{rack // 2}"}
        made += [node(f"n{len(made) + index}", count, labels=labels) for index in range(1, size + 1)]
    return made


def nodes_of(done: Plan) -> list[str]:
    return [seat.node for seat in done.start[0].seats]


def given(there: list[NodeState], **wish: object) -> Snapshot:
    return snapshot(there, QUEUES, [job("p", "t/batch", 8, **wish)])


def test_required_label_and_the_smallest_group_that_holds_it() -> None:
    assert nodes_of(plan(given(racks(4, 2, 3), nodes=2, require="rack"))) == ["n5", "n6"]
    refused = plan(given(racks(4, 2), nodes=5, require="rack"))
    assert refused.wait[0].reasons[0].code.value == "TOPOLOGY"


def test_preferred_label_takes_as_few_groups_as_possible() -> None:
    assert nodes_of(plan(given(racks(3, 4, 2), nodes=4, prefer="rack"))) == ["n4", "n5", "n6", "n7"]
    assert nodes_of(plan(given(racks(3, 4, 2), nodes=6, prefer="rack"))) == ["n4", "n5", "n6", "n7", "n8", "n9"]
    bare = [*racks(1), node("x1"), node("x2")]
    assert nodes_of(plan(given(bare, nodes=3, prefer="rack"))) == ["n1", "x1", "x2"]


def test_a_preference_inside_a_requirement() -> None:
    """Both spines hold three nodes; only the second has them in one rack."""
    assert nodes_of(plan(given(racks(2, 2, 3, 1), nodes=3, require="spine", prefer="rack"))) == ["n5", "n6", "n7"]


def test_slices_and_gangs_keep_to_their_rack() -> None:
    nodes = [
        node(name, 1, model="A100-40GB", memory=40_960, labels={"rack": rack})
        for name, rack in (("n1", "a"), ("n2", "b"), ("n3", "b"))
    ]
    gang = job("p", "t/batch", "mig-3g.20gb x2", nodes=2, require="rack")
    done = plan(snapshot(nodes, QUEUES, [gang]))
    assert nodes_of(done) == ["n2", "n2", "n3", "n3"]


@pytest.mark.parametrize(
    ("wish", "seats"),
    [
        ({"require": "rack", "nodes": 2}, (Seat("n1", tuple(range(8))), Seat("n3", tuple(range(8))))),
        ({"require": "rack", "nodes": 2}, (Seat("n1", tuple(range(8))), Seat("x1", tuple(range(8))))),
        ({"require": "node", "nodes": 2}, (Seat("n1", tuple(range(8))), Seat("n2", tuple(range(8))))),
        ({"require": "numa", "gpu": 4}, (Seat("n1", (2, 3, 4, 5)),)),
        ({"require": "pcie", "gpu": 2}, (Seat("n1", (1, 2)),)),
    ],
)
def test_the_checker_sees_broken_topology(wish: dict[str, object], seats: tuple[Seat, ...]) -> None:
    gpu = wish.pop("gpu", 8)
    world = snapshot([*racks(2, 2), node("x1")], QUEUES, [job("p", "t/batch", str(gpu), **wish)])
    found = check(world, Plan(0, start=(Start("p", Rank.BORROWED_BATCH, seats),)))
    assert "topology-broken" in {violation.rule for violation in found}


def test_cards_that_are_free_in_the_wrong_islands_are_not_counted_as_enough() -> None:
    """Four cards are free on a node, two in each island: a job of four linked ones reads that it finds two."""
    given = snapshot(
        [node("n1", islands=((0, 1, 2, 3), (4, 5, 6, 7)))],
        [queue("a/batch", d=8)],
        [running("v", "a/batch", "n1", 4, cards=(0, 1, 4, 5)), job("w", "a/batch", 4, require="link")],
    )
    decided = plan(given)
    assert check(given, decided) == ()
    [wait] = decided.wait
    assert [(reason.code, reason.need, reason.have) for reason in wait.reasons] == [(Code.FRAGMENTED, 4000, 2000)]
