"""Holds: what they keep, when they end, who may take them over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.scheduling.check import check
from millpond.scheduling.snapshot import Hold, Job, Seat, Snapshot
from tests.builders import codes, draining, evicted, job, node, plan, pool, queue, running, snapshot, started

QUEUES = [queue("a/prod", g=8), queue("b/batch", d=8), queue("c/besteffort"), queue("d/batch")]
WHOLE = tuple(range(8))


def world(*jobs: Job, hold: Hold | None = None, nodes: object = None, now: int = 0) -> Snapshot:
    kept = hold or Hold("p", (Seat("n1", WHOLE),), 80, ("v",))
    return snapshot(nodes or pool(1), QUEUES, jobs, holds=[kept], now=now)  # type: ignore[arg-type]


VICTIM = draining(running("v", "c/besteffort", "n1"), until=20)
CLAIM = job("p", "b/batch", 8)


def test_a_hold_stands_until_its_cards_are_free() -> None:
    waiting = plan(world(VICTIM, CLAIM))
    assert [hold.job for hold in waiting.hold] == ["p"]
    assert codes(waiting, "p") == ["PREEMPTING"]
    assert not waiting.drop_holds
    bound = plan(world(CLAIM))
    assert started(bound) == ["p"]
    assert bound.drop_holds == ("p",)


def test_victims_default_to_who_drains_on_the_cards() -> None:
    result = plan(world(VICTIM, CLAIM, hold=Hold("p", (Seat("n1", WHOLE),), 80)))
    assert result.hold[0].victims == ("v",)


@pytest.mark.parametrize(
    ("jobs", "nodes", "now"),
    [
        ((VICTIM, CLAIM), pool(1), 80),
        ((VICTIM, replace(CLAIM, blocked_by=(("HELD", ""),))), pool(1), 0),
        ((VICTIM,), pool(1), 0),
        ((VICTIM, CLAIM), pool(1, cordoned=True), 0),
        ((VICTIM, CLAIM), pool(1, bad=[2]), 0),
        ((VICTIM, CLAIM), [node("n9")], 0),
    ],
)
def test_a_hold_ends(jobs: tuple[Job, ...], nodes: object, now: int) -> None:
    result = plan(world(*jobs, nodes=nodes, now=now))
    assert result.drop_holds == ("p",)


def test_a_hold_over_its_cap_ends() -> None:
    jobs = [VICTIM, replace(CLAIM, queue="e/batch")]
    before = replace(world(*jobs), queues=(*QUEUES, queue("e/batch", c=4)))
    result = plan(before)
    assert result.drop_holds == ("p",)
    assert codes(result, "p") == ["QUEUE_CAP"]


def test_a_stronger_claim_takes_a_hold_over() -> None:
    borrowed = replace(CLAIM, queue="d/batch")
    result = plan(world(VICTIM, borrowed, job("q", "a/prod", 8)))
    assert result.drop_holds == ("p",)
    assert [hold.job for hold in result.hold] == ["q"]
    assert result.hold[0].victims == ("v",)
    assert not evicted(result)
    assert codes(result, "p") == ["RESERVED_FOR"]


def test_a_hold_is_taken_over_under_the_cap_of_both() -> None:
    """Its victims go on not to count: the new hold stands in their place."""
    queues = [queue("t", c=8), queue("t/prod", g=8), queue("t/batch"), queue("t/besteffort")]
    leaving = draining(running("v", "t/besteffort", "n1"), until=20)
    jobs = [leaving, job("p", "t/batch", 8), job("q", "t/prod", 8)]
    for nodes in (1, 2):
        before = replace(world(*jobs, nodes=pool(nodes)), queues=tuple(queues))
        result = plan(before)
        assert [(hold.job, hold.victims) for hold in result.hold] == [("q", ("v",))]
        assert codes(result, "p")[0] == "TENANT_CAP"
        assert check(before, result) == ()


def test_an_equal_claim_does_not() -> None:
    result = plan(world(VICTIM, CLAIM, job("q", "c/besteffort", 8)))
    assert [hold.job for hold in result.hold] == ["p"]
    assert codes(result, "q") == ["RESERVED_FOR"]


def test_the_hold_counts_as_usage_and_its_victims_do_not() -> None:
    queues = [queue("c/besteffort", c=8), queue("b/batch", d=8, c=8)]
    jobs = [VICTIM, CLAIM, job("x", "c/besteffort", 8), job("y", "b/batch", 8)]
    result = plan(replace(world(*jobs, nodes=pool(2)), queues=tuple(queues)))
    assert started(result) == ["x"]
    assert codes(result, "y") == ["QUEUE_CAP"]


def test_cards_beside_a_share_that_leaves_stay_free() -> None:
    leaving = draining(running("v", "c/besteffort", "n1", "0.5", cards=[0]), until=20)
    claim = job("p", "b/batch", "0.25")
    hold = Hold("p", (Seat("n1", (0,), 250),), 80, ("v",))
    result = plan(world(leaving, claim, job("x", "d/batch", "0.5"), hold=hold, nodes=pool(1, 1)))
    assert started(result) == ["x"]


@pytest.mark.parametrize("more", [{"cpu": 100_000}, {"memory": 2_000_000}])
def test_a_hold_waits_for_cpu_and_memory_too(more: dict[str, int]) -> None:
    leaving = draining(running("v", "c/besteffort", "n1", 0, **more), until=20)
    claim = replace(job("p", "b/batch", 1), **more)  # type: ignore[arg-type]
    hold = Hold("p", (Seat("n1", (0,)),), 80, ("other",))
    assert not started(plan(world(leaving, claim, hold=hold)))
    assert started(plan(world(claim, hold=hold))) == ["p"]
    fresh = plan(snapshot(pool(1), QUEUES, [leaving, claim]))
    assert fresh.hold[0].victims == ("v",)


@pytest.mark.parametrize(
    "late",
    [
        running("r", "c/besteffort", "n1", 1, cards=[0]),
        draining(running("r", "c/besteffort", "n1", 1, cards=[0]), until=20),
    ],
)
def test_a_hold_ends_where_somebody_else_has_taken_its_cards(late: Job) -> None:
    """It could not bind, and a plan that keeps it would give a card away twice.  The claim is judged anew."""
    before = world(late, CLAIM)
    result = plan(before)
    assert not result.drop_holds  # replaced by another hold on the same cards
    assert result.hold[0].victims == ("r",)
    assert check(before, result) == ()
    before = world(replace(late, queue="a/prod"), CLAIM)
    assert check(before, plan(before)) == ()


def test_a_hold_above_a_lowered_guarantee_ends() -> None:
    before = replace(world(VICTIM, job("p", "a/prod", 8)), queues=(queue("a/prod", g=4), queue("c/besteffort")))
    result = plan(before)
    assert result.drop_holds == ("p",)
    assert codes(result, "p") == ["NEEDS_GUARANTEE"]
    assert check(before, result) == ()


@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_holds_that_may_begin_beside_somebody_who_leaves_take_theirs_besides(kind: str) -> None:
    """The first hold waits for its victim alone, since 16 of 32 are enough; the second needs more than is left then."""
    nodes = pool(1, 4, cpu=32, ram=32)
    victim = running("v", "c/besteffort", "n1", 4)
    leaver = draining(running("u", "c/besteffort", "n1", 0, **{kind: 16}), until=90)
    first = job("p", "b/batch", 1, priority=60, **{kind: 16})
    second = job("q", "b/batch", 2, **{kind: 4})
    given = snapshot(nodes, QUEUES, [victim, leaver, first, second])
    result = plan(given)
    assert {hold.job: hold.victims for hold in result.hold} == {"p": ("v",), "q": ("u", "v")}
    assert check(given, result) == ()


def test_nobody_starts_on_the_cpu_that_a_hold_may_take_before_all_have_left() -> None:
    """Ten are left once the leaver is gone, but the hold does not wait for it."""
    shares = (("v", 2, 4), ("u", 0, 12))
    leavers = [draining(running(name, "c/besteffort", "n1", gpu, cpu=cpu), until=20) for name, gpu, cpu in shares]
    claim = job("p", "b/batch", 2, cpu=12)
    hold = Hold("p", (Seat("n1", (0, 1)),), 80, ("v",))
    given = snapshot(pool(1, cpu=32), QUEUES, [*leavers, claim, job("s", "d/batch", 1, cpu=10)], holds=[hold])
    assert started(plan(given)) == []
    assert started(plan(replace(given, jobs=tuple(job for job in given.jobs if job.id != "u")))) == ["s"]
