"""Rank of running jobs and of claims."""

from __future__ import annotations

from millpond.scheduling.decisions import Rank
from millpond.scheduling.quota import Queue
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State
from tests.builders import pool, queue, running, snapshot

G, D, F, BP, BB, O = Rank  # noqa: E741


def ranks(queues: list[object], jobs: list[Job], tenant: str = "t") -> dict[str, Rank]:
    state = State(snapshot(pool(8), queues, jobs))  # type: ignore[arg-type]
    return state.walk(state.tree.queues[tenant]).ranks


def test_own_leaf_first() -> None:
    found = ranks(
        [queue("t/batch", g=8, d=16)],
        [running(f"r{i}", "t/batch", f"n{i}", age=100 - i) for i in range(1, 4)],
    )
    assert found == {"r1": G, "r2": D, "r3": BB}


def test_order_in_a_leaf() -> None:
    jobs = [
        running("old", "t/prod", "n1", age=100, preemptible=True),
        running("high", "t/prod", "n2", age=10, priority=90, preemptible=True),
        running("firm", "t/prod", "n3", age=1),
    ]
    assert ranks([queue("t/prod", g=8, d=16)], jobs) == {"firm": G, "high": D, "old": BP}


def test_smaller_later_jobs_still_fit() -> None:
    jobs = [running("big", "t/batch", "n1", age=9), running("small", "t/batch", "n2", 2, age=1)]
    assert ranks([queue("t/batch", d=4)], jobs) == {"big": BB, "small": D}


def test_family_uses_what_own_leaves_leave_idle() -> None:
    queues = [queue("t/prod", d=16), queue("t/batch", d=8), queue("u/batch", d=8)]
    jobs = [running(f"r{i}", "t/batch", f"n{i}", age=100 - i) for i in range(1, 5)]
    assert ranks(queues, jobs) == {"r1": D, "r2": F, "r3": F, "r4": BB}


def test_family_serves_prod_first() -> None:
    queues = [queue("t/prod", d=8), queue("t/batch", d=8), queue("t", d=24)]
    jobs = [
        running("b1", "t/batch", "n1", age=100),
        running("b2", "t/batch", "n2", age=99),
        running("p1", "t/prod", "n3", age=50, preemptible=True),
        running("p2", "t/prod", "n4", age=10, preemptible=True),
    ]
    assert ranks(queues, jobs) == {"b1": D, "p1": D, "p2": F, "b2": BB}


def test_family_of_the_project_comes_before_the_tenant() -> None:
    queues = [queue("t/x/prod", d=8), queue("t/x/batch"), queue("t/y/batch"), queue("t/batch"), queue("t", d=16)]
    jobs = [
        running("own", "t/x/batch", "n1", age=1),
        running("other", "t/y/batch", "n2", age=50),
        running("plain", "t/batch", "n3", age=20),
    ]
    assert ranks(queues, jobs) == {"own": F, "other": F, "plain": BB}


def test_opportunistic_and_no_cards() -> None:
    jobs = [running("e", "t/besteffort", "n1"), running("z", "t/batch", "n2", 0)]
    assert ranks([queue("t/besteffort"), queue("t/batch")], jobs) == {"e": O, "z": G}


def test_a_leaf_right_below_the_root_has_no_family() -> None:
    assert ranks([queue("batch", d=4), queue("prod", d=40)], [running("r", "batch", "n1")], "batch") == {"r": BB}


def test_claim_comes_last_whatever_its_priority() -> None:
    jobs = [running("r", "t/batch", "n1", priority=1)]
    state = State(snapshot(pool(8), [queue("t/batch", d=8)], jobs))
    leaf: Queue = state.tree.queues["t/batch"]
    dims = state.tree.dims_of("A800-80GB")
    assert state.claim_rank(leaf, 8_000, dims) is BB
    walk = state.walk_with((leaf, 8_000, dims), frozenset({"r"}))
    assert (walk.claim, walk.ranks) == (D, {})


def test_the_walk_with_a_claim_agrees_with_the_quick_rank() -> None:
    queues = [queue("t/prod", g=4, d=8), queue("t/x/batch", d=8), queue("t/besteffort"), queue("t", d=24)]
    jobs = [running(f"r{i}", "t/x/batch", f"n{i}", 4, age=100 - i) for i in range(1, 6)]
    state = State(snapshot(pool(8), queues, jobs))
    dims = state.tree.dims_of("A800-80GB")
    for name in ("t/prod", "t/x/batch", "t/besteffort"):
        leaf = state.tree.queues[name]
        for cards in range(0, 25_000, 1_000):
            with_claim = state.walk_with((leaf, cards, dims), frozenset()).claim
            assert state.claim_rank(leaf, cards, dims) is with_claim
