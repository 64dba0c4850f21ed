"""Who leaves in a large pool, where bounds decide which nodes are looked at: the same as a look at all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan
from millpond.scheduling.fit import ask_make, ask_on
from millpond.scheduling.preempt import WIDE, Attempt, Eviction
from millpond.scheduling.snapshot import Job, PastEviction, Seat, Snapshot
from millpond.scheduling.state import State
from tests.builders import codes, evicted, job, plan, pool, queue, running, snapshot

QUEUES = [queue("a/prod", g=8), queue("b/batch", d=8), queue("c/besteffort"), queue("d/batch")]


def singles(count: int, **more: object) -> list[Job]:
    """One victim on each of n1, n2, …, the first loses most."""
    return [
        running(f"e{number}", "c/besteffort", f"n{number}", 1, saved=2000 - number, **more)  # type: ignore[arg-type]
        for number in range(1, count + 1)
    ]


def good(before: Snapshot) -> Plan:
    found = plan(before)
    assert check(before, found) == ()
    return found


def searched(state: State, claim: Job, *, wide: int) -> Eviction | None:
    ask = ask_on(state.pool, ask_make(claim), "A800-80GB")
    return Attempt(state, claim, ask, "A800-80GB", caps=True, wide=wide).find()


def both(state: State, claim: Job) -> list[str]:
    """Who leaves, which is the same by bounds and by a look at every node."""
    narrow, broad = searched(state, claim, wide=0), searched(state, claim, wide=10**6)
    assert narrow == broad
    return [] if narrow is None else sorted(victim.id for victim in narrow.victims)


def test_the_cheapest_of_more_than_a_thousand_leaves() -> None:
    """Two cards each: there are more seats too than room is made for at first."""
    count = 1030
    jobs = [
        running(f"e{number}", "c/besteffort", f"n{number}", 2, saved=2000 - number) for number in range(1, count + 1)
    ]
    found = plan(snapshot(pool(count, 2), QUEUES, [*jobs, job("p", "a/prod", 2)]))
    assert evicted(found) == [f"e{count}"]


def test_who_comes_where_another_has_gone_is_judged_by_his_own_loss() -> None:
    state = State(snapshot(pool(4, 1), QUEUES, singles(4)))
    claim = job("p", "a/prod", 1)
    assert both(state, claim) == ["e4"]
    state.job_gone("e4")
    state.job_put(running("x", "c/besteffort", "n4", 1, saved=3000))
    assert both(state, claim) == ["e3"]
    state.job_gone("x")
    state.job_gone("e3")
    state.job_put(running("y", "c/besteffort", "n4", 1, saved=5))
    state.job_put(running("z", "c/besteffort", "n3", 1, saved=9))
    assert both(state, claim) == ["y"]
    state.job_gone("y")
    assert both(state, claim) == []
    assert both(state, job("q", "a/prod", 1, nodes=2)) == ["z"]


def test_seats_on_nodes_and_cards_that_are_not_there_make_no_room() -> None:
    jobs = [
        replace(one, seats=(seat,))
        for one, seat in zip(singles(2), (Seat("gone", (0,)), Seat("n1", (7,))), strict=True)
    ]
    firm = [running(f"f{number}", "a/prod", f"n{number}", 1) for number in (1, 2)]
    state = State(snapshot(pool(2, 1), QUEUES, [*jobs, *firm]))
    assert both(state, job("p", "a/prod", 1)) == []
    state.job_put(running("e9", "c/besteffort", "n2", 1))
    state.job_gone("f2")
    assert both(state, job("p", "a/prod", 1)) == ["e9"]


def test_who_must_not_be_stopped_stays_where_the_claim_takes_what_it_borrows_of_its_family() -> None:
    """The firm one is family until the claim is there, and borrows then."""
    queues = [queue("t", d=2), queue("t/prod", g=1, d=2), queue("t/batch"), queue("c/besteffort")]
    firm = running("firm", "t/batch", "n1", 1, preemptible=False)
    soft = running("soft", "t/batch", "n2", 1)
    filler = running("r", "t/prod", "n3", 1)
    claim = job("p", "t/prod", 1, preemptible=True)
    state = State(snapshot(pool(3, 1), queues, [firm, soft, filler]))
    assert both(state, claim) == ["soft"]
    state.job_gone("soft")
    assert both(state, claim) == []


def test_what_is_held_since_this_pass_is_not_taken_in_it() -> None:
    """The guaranteed claim has its turn after the deserved one, since the head of its leaf borrows."""
    firm = [running(f"f{number}", "f/prod", f"n{number}", 1) for number in range(1, WIDE)]
    victim = running("e", "c/besteffort", f"n{WIDE}", 1)
    late = [
        job("head", "late/batch", 1, nodes=WIDE, priority=90, submitted=-9),
        job("claim", "late/batch", 1, submitted=-9),
    ]
    queues = [queue("f/prod", g=WIDE - 1), queue("late/batch", g=1, d=1), QUEUES[1], QUEUES[2]]
    before = snapshot(pool(WIDE, 1), queues, [*firm, victim, job("p", "b/batch", 1), *late])
    found = good(before)
    assert [(one.job, one.claimant) for one in found.evict] == [("e", "p")]
    assert [hold.job for hold in found.hold] == ["p"]
    assert codes(found, "claim") == ["RESERVED_FOR"]


def test_a_minimal_run_time_protects_in_a_large_pool_too() -> None:
    jobs = singles(WIDE, age=2100)
    fresh = [*jobs[:-1], replace(jobs[-1], started=-30, checkpointed=None)]
    for leaf, victim in (("d/batch", f"e{WIDE - 1}"), ("a/prod", f"e{WIDE}")):
        found = good(snapshot(pool(WIDE, 1), QUEUES, [*fresh, job("p", leaf, 1)], min_runtime=60))
        assert evicted(found) == [victim]


def test_a_cool_down_protects_in_a_large_pool_too() -> None:
    past = [PastEviction("d/batch", "c/besteffort", -59)]
    for leaf, victims in (("d/batch", []), ("a/prod", [f"e{WIDE}"])):
        found = good(snapshot(pool(WIDE, 1), QUEUES, [*singles(WIDE), job("p", leaf, 1)], evictions=past))
        assert evicted(found) == victims


def test_slices_are_not_summed_up_with_whole_cards() -> None:
    """The slice on n1 is cheapest, and all of its card is free when it has left."""
    kind = {"model": "A100-40GB", "memory": 40_960}
    slice_ = replace(
        running("s", "c/besteffort", "n1", "mig-1g.5gb", saved=1), seats=(Seat("n1", (0,), 119, "1g.5gb", 6),)
    )
    nodes = pool(WIDE, 1, **kind)
    found = good(snapshot(nodes, QUEUES, [slice_, *singles(WIDE)[1:], job("p", "a/prod", 1)]))
    assert evicted(found) == ["s"]
    beside = replace(slice_, id="z", preemptible=False, seats=(Seat("n1", (0,), 119, "1g.5gb", 0),))
    found = good(snapshot(nodes, QUEUES, [slice_, beside, *singles(WIDE)[1:], job("p", "a/prod", 1)]))
    assert evicted(found) == [f"e{WIDE}"]


def test_cards_that_are_reserved_are_no_way_in() -> None:
    """In a minute n1 is free, and the gang goes there and to the last node; who comes after it evicts elsewhere."""
    jobs = [
        running("r", "f/prod", "n1", 2, max_duration=3660),
        *(running(f"f{number}", "f/prod", f"n{number}", 2) for number in range(2, WIDE - 1)),
        running("f", "f/prod", f"n{WIDE - 1}", 1),
        running("e1", "c/besteffort", f"n{WIDE - 1}", 1, cards=[1], saved=100),
        running("e2", "c/besteffort", f"n{WIDE}", 2, saved=1),
        job("gang", "b/batch", 2, nodes=2, submitted=-90),
        job("p", "b/batch", 1, submitted=-9),
    ]
    queues = [queue("f/prod", g=2 * WIDE - 3), queue("b/batch", d=5), queue("c/besteffort")]
    found = good(snapshot(pool(WIDE, 2), queues, jobs))
    assert [(kept.job, kept.time) for kept in found.reservations] == [("gang", 60)]
    assert [(one.job, one.claimant) for one in found.evict] == [("e1", "p")]


def test_idle_cards_without_cpu_are_no_room() -> None:
    """The card of every node is idle, and somebody without cards has the CPU: on the first node he must leave."""
    jobs = [running(f"e{number}", "c/besteffort", f"n{number}", 0, cpu=128_000) for number in range(1, WIDE + 1)]
    found = good(snapshot(pool(WIDE, 1), QUEUES, [*jobs, job("p", "a/prod", 1, cpu=1000)]))
    assert evicted(found) == ["e1"]
    assert [hold.victims for hold in found.hold] == [("e1",)]


def test_nobody_leaves_where_cpu_would_lack_all_the_same() -> None:
    """The cards of every node could come free, but who must not be stopped has the CPU."""
    busy = [running(f"f{number}", "f/prod", f"n{number}", 0, cpu=128_000) for number in range(1, WIDE + 1)]
    queues = [*QUEUES, queue("f/prod")]
    found = good(snapshot(pool(WIDE, 1), queues, [*busy, *singles(WIDE), job("p", "a/prod", 1, cpu=1000)]))
    assert evicted(found) == []
    assert codes(found, "p") == ["INSUFFICIENT_CARDS", "INSUFFICIENT_CPU"]


@pytest.mark.parametrize("nodes", [1, 2])
def test_among_many_equals_those_leave_who_take_least(nodes: int) -> None:
    """On each node 80 card-seconds are lost; on the last ones, which are not looked at first, half the cards are idle.

    The bound knows lost work alone: a node that may cost as little must be looked at.
    """
    jobs: list[Job] = []
    for number in range(1, WIDE + 1):
        width, saved = (4, 20) if number > WIDE - 2 else (8, 10)
        jobs += [
            running(f"e{number}c{card}", "c/besteffort", f"n{number}", 1, cards=[card], saved=saved)
            for card in range(width)
        ]
    queues = [queue("a/prod", g=16), queue("c/besteffort")]
    found = good(snapshot(pool(WIDE), queues, [*jobs, job("p", "a/prod", 8, nodes=nodes)]))
    assert len(found.evict) == 4 * nodes
    assert {name.partition("c")[0] for name in evicted(found)} <= {f"e{WIDE - 1}", f"e{WIDE}"}
