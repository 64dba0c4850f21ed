"""The exact evictions of B6: rules on cases made by hand, and the program against brute force on random ones."""

from __future__ import annotations

from itertools import islice

import pytest
from benchmarks.peers.eviction_cases import EXACT, LEAST, MOST, OWN, case_make, cases
from benchmarks.peers.eviction_milp import best_milp
from benchmarks.peers.evictions import Best, Case, Cost, best_brute

from millpond.domain.queues import QueueConfig
from millpond.scheduling.decisions import Rank
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Job, Snapshot
from tests.builders import job, pool, queue, running

LOWEST = Rank.OPPORTUNISTIC


def case(nodes: int, queues: list[QueueConfig], jobs: list[Job], claim: Job, cards: int = 8) -> Case:
    return Case(Snapshot(0, pool(nodes, cards), tuple(queues), (*jobs, claim)), claim)


def victims(found: Case, best: Best | None) -> list[str]:
    return sorted(found.candidates[number].job.id for number in best.gone) if best else []


def both(found: Case) -> Best | None:
    brute, milp = best_brute(found), best_milp(found)
    assert (brute and brute.cost) == (milp and milp.cost)
    return milp


QUEUES = [queue("a/prod", g=8, d=8), queue("b/besteffort"), queue("c/batch", d=8)]


def test_least_lost_work_goes() -> None:
    jobs = [running("j1", "b/besteffort", "n1", age=10_800, saved=120), running("j2", "b/besteffort", "n2", age=600)]
    found = case(2, QUEUES, jobs, job("p", "a/prod", 8))
    best = both(found)
    assert victims(found, best) == ["j1"]
    assert best is not None
    assert best.cost == (0, 0, 960_000, 8000, 1)


def test_two_small_ones_may_cost_more_than_a_large_one() -> None:
    jobs = [
        running("x1", "b/besteffort", "n1", 4, cards=range(4), age=10),
        running("x2", "b/besteffort", "n1", 4, cards=range(4, 8), age=10),
        running("y", "b/besteffort", "n2", 8, age=9),
    ]
    found = case(2, QUEUES, jobs, job("p", "a/prod", 8))
    assert victims(found, both(found)) == ["y"]


def test_lower_rank_goes_before_less_lost_work() -> None:
    jobs = [running("cheap", "c/batch", "n1", 8, age=1), running("dear", "b/besteffort", "n2", 8, age=3000)]
    found = case(2, QUEUES, jobs, job("p", "a/prod", 8))
    best = both(found)
    assert victims(found, best) == ["dear"]
    assert best is not None
    assert best.cost[0] == 0


def test_inversions_come_before_lost_work() -> None:
    leaf = [queue("b/batch", d=16, c=16)]
    jobs = [
        running("r1", "b/batch", "n1", 8, priority=30, age=60),
        running("r2", "b/batch", "n2", 8, priority=20, age=300),
    ]
    found = case(2, leaf, jobs, job("p", "b/batch", 8, priority=31))
    best = both(found)
    assert victims(found, best) == ["r2"]
    assert best is not None
    assert found.cost(frozenset(n for n, use in enumerate(found.candidates) if use.job.id == "r1")) == (
        LOWEST - Rank.DESERVED, 1, 480_000, 8000, 1,
    )  # fmt: skip


def test_a_cap_is_only_freed_from_below() -> None:
    queues = [queue("a/batch", d=8, c=8), queue("b/besteffort")]
    jobs = [
        running("mine", "a/batch", "n1", 8, priority=10, age=3000),
        running("other", "b/besteffort", "n2", 8, age=1),
    ]
    found = case(2, queues, jobs, job("p", "a/batch", 8, priority=50))
    assert victims(found, both(found)) == ["mine"]


def test_nobody_may_be_spared() -> None:
    jobs = [running("x", "b/besteffort", "n1", 8, age=5), running("y", "b/besteffort", "n2", 8, age=6)]
    found = case(2, QUEUES, jobs, job("p", "a/prod", 8))
    assert found.cost(frozenset({0, 1})) is None
    assert not found.minimal(frozenset())


def test_no_guarantee_no_eviction() -> None:
    jobs = [running("x", "b/besteffort", "n1", 8)]
    found = case(1, [queue("a/prod", g=4, d=8), queue("b/besteffort")], jobs, job("p", "a/prod", 8))
    assert both(found) is None


def test_a_gang_needs_distinct_nodes() -> None:
    jobs = [
        running("x", "b/besteffort", "n1", 8, age=1),
        running("y", "b/besteffort", "n2", 4, cards=range(4), age=2),
        running("z", "b/besteffort", "n2", 4, cards=range(4, 8), age=3),
    ]
    found = case(2, QUEUES, jobs, job("p", "a/prod", 4, nodes=2))
    assert victims(found, both(found)) == ["x", "y"]


@pytest.mark.parametrize("seed", [1, 500, 9000])
def test_program_and_brute_force_agree(seed: int) -> None:
    seen: set[Cost] = set()
    for _, found in islice(cases(seed), 12):
        if len(found.candidates) > 9:
            continue
        best = both(found)
        if best is not None:
            assert found.cost(best.gone) == best.cost
            seen.add(best.cost)
    assert len(seen) > 3


def test_cases_come_from_their_seed_alone() -> None:
    made = [(seed, found.snapshot) for seed, found in islice(cases(77), 5)]
    assert made == [(seed, found.snapshot) for seed, found in islice(cases(77), 5)]
    for number, _ in made:
        found = case_make(number)
        assert found is not None
        assert len(found.own) <= OWN
        assert LEAST <= len(found.candidates) <= MOST
        assert (len(found.candidates) > EXACT) == (number % 2 == 0)


@pytest.mark.parametrize("seed", [102_414, 103_648])
def test_the_planner_finds_a_set_where_only_few_selections_of_its_own_leaf_are_allowed(seed: int) -> None:
    found = case_make(seed)
    assert found is not None
    assert len(found.candidates) > EXACT
    gone = {evict.job for evict in plan(found.snapshot).evict}
    numbers = frozenset(number for number, use in enumerate(found.candidates) if use.job.id in gone)
    best = best_milp(found)
    cost = found.cost(numbers)
    assert best is not None
    assert cost is not None
    assert cost[0] == best.cost[0]
