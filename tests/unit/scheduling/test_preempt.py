"""Who is chosen to leave, and who is safe."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from millpond.scheduling.decisions import Rank
from millpond.scheduling.fit import ask_make
from millpond.scheduling.preempt import eviction_find
from millpond.scheduling.snapshot import Job, PastEviction, Seat
from millpond.scheduling.state import State
from tests.builders import codes, draining, evicted, job, node, plan, pool, queue, running, snapshot, started

QUEUES = [queue("a/prod", g=8), queue("b/batch", d=8), queue("c/besteffort"), queue("d/batch", c=8)]


def test_guaranteed_work_of_others_is_safe() -> None:
    jobs = [running("r", "a/prod", "n1", preemptible=True), job("p", "b/batch", 8)]
    assert codes(plan(snapshot(pool(1), QUEUES, jobs)), "p") == ["INSUFFICIENT_CARDS"]


def test_the_non_preemptible_is_safe() -> None:
    jobs = [running("r", "c/besteffort", "n1", preemptible=False), job("p", "a/prod", 8)]
    assert not plan(snapshot(pool(1), QUEUES, jobs)).evict


def test_nobody_is_touched_when_it_would_not_fit_anyway() -> None:
    jobs = [
        running("e", "c/besteffort", "n1", 4, cards=range(4)),
        running("f", "a/prod", "n1", 1, cards=[7]),
        job("p", "b/batch", 8),
    ]
    assert not plan(snapshot(pool(1), QUEUES, jobs)).evict


def test_cpu_alone_may_be_the_reason() -> None:
    jobs = [running("e", "c/besteffort", "n1", 0, cpu=128_000), job("p", "a/prod", 1, cpu=1000)]
    result = plan(snapshot(pool(1), QUEUES, jobs))
    assert evicted(result) == ["e"]
    assert result.hold[0].victims == ("e",)


def test_a_cap_needs_victims_under_it() -> None:
    jobs = [
        running("own", "d/batch", "n1", priority=10),
        running("e", "c/besteffort", "n2"),
        job("p", "d/batch", 8, priority=50),
    ]
    assert evicted(plan(snapshot(pool(2), QUEUES, jobs))) == ["own"]
    free = plan(snapshot(pool(3), QUEUES, jobs))
    assert evicted(free) == ["own"]
    assert codes(free, "p") == ["PREEMPTING"]


def test_min_runtime_and_cooldown_bind_borrowed_claims_only() -> None:
    borrowed = [running("e", "c/besteffort", "n1", age=30), job("p", "d/batch", 8)]
    assert not plan(snapshot(pool(1), QUEUES, borrowed, min_runtime=60)).evict
    assert evicted(plan(snapshot(pool(1), QUEUES, borrowed, min_runtime=30))) == ["e"]
    past = [PastEviction("d/batch", "c/besteffort", -59)]
    assert not plan(snapshot(pool(1), QUEUES, borrowed, evictions=past)).evict
    old = [PastEviction("d/batch", "c/besteffort", -60)]
    assert evicted(plan(snapshot(pool(1), QUEUES, borrowed, evictions=old))) == ["e"]
    firm = [running("e", "c/besteffort", "n1", age=30), job("p", "a/prod", 8)]
    assert evicted(plan(snapshot(pool(1), QUEUES, firm, min_runtime=60, evictions=past))) == ["e"]


def test_cooldown_holds_within_a_pass() -> None:
    jobs = [running(f"e{i}", "c/besteffort", f"n{i}") for i in (1, 2)]
    claims = [job(f"p{i}", "d/batch", 4) for i in (1, 2)]
    result = plan(snapshot(pool(2), [queue("c/besteffort"), queue("d/batch")], [*jobs, *claims]))
    assert len(result.evict) == 1
    assert result.evict[0].borrowed


def test_lost_work_counts_drain_time_for_who_saves_on_signal_and_is_capped() -> None:
    jobs = [
        running("saves", "c/besteffort", "n1", age=9000, saves_on_signal=True, grace=20),
        running("not", "c/besteffort", "n2", age=9000, saved=30),
        job("p", "a/prod", 8),
    ]
    assert [(e.job, e.lost) for e in plan(snapshot(pool(2), QUEUES, jobs)).evict] == [("saves", 160_000)]
    only = [running("old", "c/besteffort", "n1", age=9000), job("p", "a/prod", 8)]
    assert plan(snapshot(pool(1), QUEUES, only, lost_work_cap=100)).evict[0].lost == 800_000


def test_a_prod_claim_shortens_the_grace() -> None:
    for leaf, deadline in (("a/prod", 20), ("b/batch", 120)):
        jobs = [running("e", "c/besteffort", "n1", grace=120), job("p", leaf, 8)]
        result = plan(snapshot(pool(1), QUEUES, jobs))
        assert result.evict[0].deadline == deadline
        assert result.hold[0].until == deadline + 60


def test_who_leaves_already_makes_room_first() -> None:
    jobs = [
        draining(running("gone", "c/besteffort", "n1"), until=5),
        running("e", "c/besteffort", "n2"),
        job("p", "a/prod", 8),
    ]
    result = plan(snapshot(pool(2), QUEUES, jobs))
    assert not result.evict
    assert result.hold[0].victims == ("gone",)
    assert codes(result, "p") == ["PREEMPTING"]


def test_inversions_weigh_more_than_lost_work() -> None:
    jobs = [
        running("high", "d/batch", "n1", 4, cards=range(4), priority=40, saved=1),
        running("low1", "d/batch", "n1", 2, cards=[4, 5], priority=20, age=300),
        running("low2", "d/batch", "n1", 2, cards=[6, 7], priority=20, age=300),
        job("p", "d/batch", 4, priority=50),
    ]
    assert sorted(evicted(plan(snapshot(pool(1), QUEUES, jobs)))) == ["low1", "low2"]


def test_a_job_placed_earlier_in_the_pass_may_give_way() -> None:
    queues = [queue("a/batch", d=8), queue("b/batch", d=16)]
    jobs = [
        running("r", "b/batch", ["n1", "n2"], 8, priority=1),
        job("x", "a/batch", 1, submitted=-5),
        job("p", "b/batch", 8, nodes=3, priority=90),
    ]
    result = plan(snapshot(pool(3), queues, jobs))
    assert started(result) or result.evict


def gang_choice(seed: int, count: int) -> tuple[list[Job], Job]:
    chance = random.Random(seed)
    jobs = [running(f"e{i}", "c/besteffort", f"n{i}", saved=chance.randint(1, 500)) for i in range(1, count + 1)]
    return jobs, job("p", "a/prod", 8, nodes=3)


@pytest.mark.parametrize("count", [8, 24])
@pytest.mark.parametrize("seed", range(5))
def test_gangs_take_the_cheapest_nodes(seed: int, count: int) -> None:
    jobs, claim = gang_choice(seed, count)
    result = plan(snapshot(pool(count), [queue("a/prod", g=24), queue("c/besteffort")], [*jobs, claim]))
    expected = sorted(jobs, key=lambda victim: -(victim.checkpointed or 0))[:3]
    assert sum(e.lost for e in result.evict) == sum(8000 * -(victim.checkpointed or 0) for victim in expected)


@pytest.mark.parametrize("seed", range(20))
def test_exact_up_to_sixteen_candidates(seed: int) -> None:
    """Against every subset: no cheaper one makes room."""
    chance = random.Random(seed)
    victims: list[Job] = []
    for name in ("n1", "n2"):
        card = 0
        while card < 4:
            size = min(chance.choice([1, 1, 2]), 4 - card)
            cards = range(card, card + size)
            saved = chance.randint(1, 90)
            victims.append(running(f"{name}c{card}", "c/besteffort", name, size, cards=cards, saved=saved))
            card += size
    claim = job("p", "a/prod", chance.choice([2, 3, 4]), nodes=chance.choice([1, 2]))
    state = State(snapshot(pool(2, 4), [queue("a/prod", g=8), queue("c/besteffort")], [*victims, claim]))
    found = eviction_find(state, claim, ask_make(claim))
    assert found is not None
    best = min(_cost(chosen) for chosen in _subsets(victims) if _room(victims, chosen, claim))
    assert sum(state.lost(task) for task in found.victims) == best


def _subsets(victims: list[Job]) -> list[tuple[Job, ...]]:
    return [chosen for size in range(len(victims) + 1) for chosen in combinations(victims, size)]


def _cost(chosen: tuple[Job, ...]) -> int:
    return sum(victim.gpu.milli * -(victim.checkpointed or 0) for victim in chosen)


def _room(victims: list[Job], chosen: tuple[Job, ...], claim: Job) -> bool:
    free = dict.fromkeys(("n1", "n2"), 4)
    for victim in victims:
        if victim not in chosen:
            free[victim.seats[0].node] -= victim.gpu.milli // 1000
    return sum(1 for cards in free.values() if cards * 1000 >= claim.gpu.milli) >= claim.nodes


@pytest.mark.parametrize("gpu", ["0.5", "1", "2"])
def test_crowded_nodes(gpu: str) -> None:
    """More small victims than are tried exactly: still a set from which nobody could be spared."""
    shares = [
        running(f"e{card}x{part}", "c/besteffort", "n1", "0.1", cards=[card], saved=10 * card + part + 1)
        for card in range(4)
        for part in range(10)
    ]
    result = plan(snapshot(pool(1, 4), QUEUES, [*shares, job("p", "a/prod", gpu)]))
    need = {"0.5": 5, "1": 10, "2": 20}[gpu]
    assert len(result.evict) == need
    assert {name[1] for name in evicted(result)} <= {"0", "1"}


@pytest.mark.parametrize("seed", range(6))
def test_sixteen_on_one_card_are_chosen_exactly(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.randint(30, 70) for _ in range(chance.randint(13, 16))]
    shares = [
        running(f"e{i}", "c/besteffort", "n1", f"0.0{size}", cards=[0], saved=chance.randint(1, 9))
        for i, size in enumerate(sizes)
    ]
    claim = job("p", "a/prod", "0.6")
    state = State(snapshot(pool(1, 1), [queue("a/prod", g=1), queue("c/besteffort")], [*shares, claim]))
    found = eviction_find(state, claim, ask_make(claim))
    assert found is not None
    need = 600 - (1000 - sum(sizes))
    least = {0: 0}  # milli-cards freed, up to what is needed -> least lost work
    for victim in shares:
        milli, lost = victim.gpu.milli, _cost((victim,))
        for have, cost in sorted(least.items(), reverse=True):
            total = min(need, have + milli)
            least[total] = min(least.get(total, cost + lost), cost + lost)
    assert sum(state.lost(task) for task in found.victims) == least[need]


def test_many_candidates_under_a_cap() -> None:
    mine = [running(f"r{i}", "d/batch", f"n{i}", 1, priority=10, saved=i) for i in range(1, 21)]
    queues = [queue("d/batch", c=20)]
    result = plan(snapshot(pool(22), queues, [*mine, job("p", "d/batch", 4, priority=50)]))
    assert sorted(evicted(result)) == ["r1", "r2", "r3", "r4"]


def test_many_candidates_exchange_for_a_gang() -> None:
    singles = [running(f"e{i}", "c/besteffort", f"n{i}", saved=30) for i in range(1, 19)]
    gang = running("gang", "c/besteffort", ["n19", "n20"], saved=20)
    jobs = [*singles, gang, job("p", "a/prod", 8, nodes=2)]
    result = plan(snapshot(pool(20), [queue("a/prod", g=16), queue("c/besteffort")], jobs))
    assert evicted(result) == ["gang"]


def test_labels_bind_evictions() -> None:
    nodes = [node(f"n{i}", labels={"rack": "r1" if i < 3 else "r2"}) for i in range(1, 5)]
    jobs = [running(f"e{i}", "c/besteffort", f"n{i}", saved=(1, 90, 20, 20)[i - 1]) for i in range(1, 5)]
    claim = job("p", "a/prod", 8, nodes=2, require="rack")
    result = plan(snapshot(nodes, [queue("a/prod", g=16), queue("c/besteffort")], [*jobs, claim]))
    assert sorted(evicted(result)) == ["e3", "e4"]


def test_rank_of_the_claim_counts_its_own_victims_out() -> None:
    jobs = [running("r", "b/batch", "n1", priority=10), job("p", "b/batch", 8, priority=50)]
    result = plan(snapshot(pool(1), QUEUES, jobs))
    assert result.hold[0].rank is Rank.DESERVED
    assert result.hold[0].seats == (Seat("n1", tuple(range(8))),)
