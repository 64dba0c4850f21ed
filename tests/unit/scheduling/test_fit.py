"""Filters, scoring, and the reasons given when something does not fit."""

from __future__ import annotations

import pytest

from millpond.domain.reasons import Reason
from millpond.scheduling.decisions import Plan
from millpond.scheduling.snapshot import Seat, Snapshot
from tests.builders import codes, draining, job, node, plan, pool, queue, running, snapshot, started

ISLANDS = ((0, 1, 2, 3), (4, 5, 6, 7))


def one(*jobs: object, nodes: object = None) -> Snapshot:
    return snapshot(nodes or pool(2), [queue("t/batch"), queue("t/besteffort")], jobs)  # type: ignore[arg-type]


def only(result: Plan, name: str = "p") -> Reason:
    (wait,) = [wait for wait in result.wait if wait.job == name]
    (found,) = wait.reasons
    return found


def seats(result: Plan, name: str = "p") -> tuple[Seat, ...]:
    return next(start.seats for start in result.start if start.job == name)


@pytest.mark.parametrize(
    ("gpu", "more", "nodes", "code", "numbers"),
    [
        ("H100:1", {}, pool(2), "NO_SUCH_CARD", (1000, 0)),
        ("amd:96GB..100GB:1", {}, pool(2), "NO_SUCH_CARD", (1000, 0)),
        ("mig-1g.5gb", {}, pool(2), "NO_SUCH_CARD", (None, None)),
        ("9", {}, pool(2), "TOO_LARGE", (9000, 8000)),
        ("0.5", {"cpu": 129_000}, pool(2), "TOO_LARGE", (129_000, 128_000)),
        ("1", {"memory": 3_000_000}, pool(2), "TOO_LARGE", (3_000_000, 2_097_152)),
        ("8", {"nodes": 3}, pool(2), "TOO_LARGE", (3, 2)),
        ("8", {}, pool(2, cordoned=True), "CORDONED", (8000, None)),
        ("8", {}, pool(2, draining=True), "CORDONED", (8000, None)),
        ("8", {}, pool(2, taints=("x",)), "CORDONED", (8000, None)),
        ("8", {}, pool(1, bad=[3]), "INSUFFICIENT_CARDS", (8000, 7000)),
        ("2", {"nodes": 2, "require": "rack"}, pool(2), "TOPOLOGY", (2, 2)),
        ("2", {"nodes": 2, "require": "node"}, pool(2), "TOPOLOGY", (2, 2)),
        ("6", {"require": "nvlink"}, pool(2, islands=ISLANDS), "TOPOLOGY", (6000, 4000)),
    ],
)
def test_what_can_not_be(gpu: str, more: dict[str, object], nodes: object, code: str, numbers: tuple[int, int]) -> None:
    result = plan(one(job("p", "t/batch", gpu, **more), nodes=nodes))
    found = only(result)
    assert (found.code.value, found.need, found.have) == (code, *numbers)


def test_cordoned_names_many_nodes_briefly() -> None:
    assert "…" in only(plan(one(job("p", "t/batch", 8), nodes=pool(7, cordoned=True)))).text


@pytest.mark.parametrize(
    ("busy", "ask", "code", "need", "have"),
    [
        ({"cpu": 100_000}, {"cpu": 30_000, "gpu": 1}, "INSUFFICIENT_CPU", 30_000, 28_000),
        ({"memory": 2_000_000}, {"memory": 100_000, "gpu": 1}, "INSUFFICIENT_MEMORY", 100_000, 97_152),
        ({}, {"gpu": 8}, "INSUFFICIENT_CARDS", 8000, 7000),
        ({}, {"gpu": 4, "nodes": 1, "require": "nvlink"}, None, None, None),
    ],
)
def test_what_is_short_now(
    busy: dict[str, int], ask: dict[str, object], code: str | None, need: int | None, have: int | None
) -> None:
    result = plan(one(running("r", "t/batch", "n1", 1, **busy), job("p", "t/batch", **ask), nodes=pool(1)))  # type: ignore[arg-type]
    if code is None:
        assert started(result) == ["p"]
    else:
        found = only(result)
        assert (found.code.value, found.need, found.have) == (code, need, have)


def test_a_gang_that_fits_only_across_models_is_told_so() -> None:
    """Two nodes of each model would do; one of each is free."""
    nodes = (*pool(2), node("m1", model="H100-80GB"), node("m2", model="H100-80GB"))
    busy = [running("r", "t/batch", "n1"), running("s", "t/batch", "m1")]
    found = only(plan(one(*busy, job("p", "t/batch", 8, nodes=2), nodes=nodes)))
    assert (found.code.value, found.need, found.have) == ("TOPOLOGY", 2, 1)
    assert found.text == "it needs 2 nodes with one card model, at most 1 of one model are free"


def test_fragmented_fractions_and_gangs() -> None:
    halves = [running(f"r{i}", "t/batch", "n1", "0.5", cards=[i]) for i in range(2)]
    found = only(plan(one(*halves, job("p", "t/batch", "0.75"), nodes=pool(1, 2))))
    assert (found.code.value, found.need, found.have, found.free) == ("FRAGMENTED", 750, 500, 1000)
    gang = [running("r1", "t/batch", "n1", 2), job("p", "t/batch", 3, nodes=2)]
    found = only(plan(one(*gang, nodes=pool(3, 4, labels={"a": "b"})[:2])))
    assert (found.code.value, found.need, found.have, found.free) == ("FRAGMENTED", 6000, 3000, 6000)


def test_cpu_and_cards_free_on_different_nodes() -> None:
    jobs = [
        running("r1", "t/batch", "n1", 1, cpu=120_000),
        running("r2", "t/batch", "n2", 1, memory=2_000_000),
        job("p", "t/batch", 2, cpu=20_000, memory=200_000),
    ]
    found = only(plan(one(*jobs)))
    assert (found.code.value, found.need, found.have) == ("FRAGMENTED", 1, 0)


def test_link_islands_short_now() -> None:
    jobs = [running("a", "t/batch", "n1", 2, cards=[0, 4]), job("p", "t/batch", 4, require="nvlink")]
    found = only(plan(one(*jobs, nodes=pool(1, islands=ISLANDS))))
    assert found.code.value == "FRAGMENTED"


def test_tightest_node_then_natural_order() -> None:
    nodes = [node("n10"), node("n2"), node("n3")]
    assert seats(plan(one(job("p", "t/batch", 2), nodes=nodes)))[0].node == "n2"
    busy = running("r", "t/batch", "n10", 5)
    assert seats(plan(one(busy, job("p", "t/batch", 2), nodes=nodes)))[0].node == "n10"


def test_fractions_fill_the_fullest_card() -> None:
    jobs = [
        running("a", "t/batch", "n1", "0.3", cards=[0]),
        running("b", "t/batch", "n2", "0.6", cards=[3]),
        job("p", "t/batch", "0.25"),
    ]
    assert seats(plan(one(*jobs))) == (Seat("n2", (3,), 250),)


def test_no_cards_go_where_fewest_cards_are_idle() -> None:
    jobs = [running("a", "t/batch", "n2", 8), job("p", "t/batch", 0, cpu=1000)]
    assert seats(plan(one(*jobs))) == (Seat("n2"),)
    assert seats(plan(one(job("p", "t/batch", 0), nodes=[node("n1", 0)]))) == (Seat("n1"),)


def test_racks() -> None:
    nodes = [node(f"n{i}", labels={"rack": f"r{i % 2}"}) for i in range(1, 5)]
    busy = running("r", "t/batch", "n1", 8)
    required = plan(one(busy, job("p", "t/batch", 8, nodes=2, require="rack"), nodes=nodes))
    assert {seat.node for seat in seats(required)} == {"n2", "n4"}
    preferred = plan(one(busy, job("p", "t/batch", 8, nodes=3, prefer="rack"), nodes=nodes))
    assert {seat.node for seat in seats(preferred)} == {"n2", "n3", "n4"}
    together = plan(one(job("p", "t/batch", 8, nodes=2, prefer="rack"), nodes=nodes))
    assert {seat.node for seat in seats(together)} == {"n2", "n4"}
    short = plan(
        one(busy, running("s", "t/batch", "n2", 8), job("p", "t/batch", 8, nodes=2, require="rack"), nodes=nodes)
    )
    assert codes(short, "p") == ["TOPOLOGY"]


def test_one_node_is_always_one_node() -> None:
    assert started(plan(one(job("p", "t/batch", 8, require="node")))) == ["p"]


def test_cards_across_islands_take_as_few_as_possible() -> None:
    islands = ((0, 1), (2, 3), (4, 5))
    result = plan(one(job("p", "t/batch", 3), nodes=[node("n1", 8, islands=islands)]))
    assert seats(result)[0].cards == (0, 1, 6)
    busy = running("r", "t/batch", "n1", 6, cards=range(6))
    rest = plan(one(busy, job("p", "t/batch", 2), nodes=[node("n1", 8, islands=islands)]))
    assert seats(rest)[0].cards == (6, 7)


def test_seats_on_lost_nodes_and_cards_do_no_harm() -> None:
    jobs = [
        running("gone", "t/batch", "n9", 8),
        running("beyond", "t/batch", "n1", 1, cards=[12]),
        draining(running("late", "t/batch", "n2", 8, now=100), until=50),
        job("p", "t/batch", 8, submitted=100),
    ]
    assert seats(plan(snapshot(pool(2), [queue("t/batch")], jobs, now=100)))[0].node == "n1"


def test_later_arrivals_and_blocked_jobs() -> None:
    jobs = [
        job("later", "t/batch", 1, submitted=60),
        job("held", "t/batch", 1, blocked_by=(("HELD", ""), ("BACKOFF", "again at noon"))),
        job("p", "t/batch", 9),
    ]
    result = plan(one(*jobs))
    assert not result.start
    assert [wait.job for wait in result.wait] == ["p", "held"]
    assert codes(result, "held") == ["BACKOFF", "HELD"]
    assert result.wait[1].position == 2
