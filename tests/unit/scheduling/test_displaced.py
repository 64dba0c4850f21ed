"""Jobs that lose the place that they had got in the same pass, and those who come after them (scheduling §3, §5)."""

from __future__ import annotations

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Job, Snapshot
from tests.builders import codes, evicted, job, pool, queue, running, snapshot, started

LATE = queue("late/batch", g=2, d=2)
"""Its head borrows, so that its guaranteed claims have their turn after the deserved ones of others."""


def late(gpu: int) -> list[Job]:
    """A head too large for its guarantee, and a guaranteed claim behind it."""
    return [
        job("head", "late/batch", 8, nodes=2, priority=90, submitted=-9),
        job("claim", "late/batch", gpu, submitted=-9),
    ]


def crowd(leaf: str, *amounts: str | int) -> list[Job]:
    """Jobs of so many cards, the first submitted first."""
    return [job(f"w{index}", leaf, gpu, submitted=index - 100) for index, gpu in enumerate(amounts, 1)]


def good(before: Snapshot) -> Plan:
    """The plan, in which the checker finds nothing."""
    found = plan(before)
    assert check(before, found) == ()
    return found


def test_the_last_of_equals_gives_up_its_place() -> None:
    found = good(snapshot(pool(1, 4), [queue("a/batch", d=4), LATE], [*crowd("a/batch", 1, 1, 1, 1), *late(1)]))
    assert sorted(started(found)) == ["claim", "w1", "w2", "w3"]


def test_who_wants_a_little_more_room_beside_his_cards_is_judged_like_an_equal() -> None:
    jobs = [*crowd("a/batch", 1, 1, 1), job("w4", "a/batch", 1, memory=7, submitted=-50)]
    found = good(snapshot(pool(1, 4), [queue("a/batch", d=4), LATE], [*jobs, *late(1)]))
    assert sorted(started(found)) == ["claim", "w1", "w2", "w3"]


def test_nobody_passes_who_lost_his_place_where_the_first_goes_first() -> None:
    leaf = queue("a/batch", d=4, fifo=True)
    found = good(snapshot(pool(1, 4), [leaf, LATE], [*crowd("a/batch", 3, 1), *late(2)]))
    assert started(found) == ["claim"]
    assert codes(found, "w2") == ["BEHIND"]


def test_others_of_the_leaf_keep_their_place_where_they_may_pass() -> None:
    found = good(snapshot(pool(1, 4), [queue("a/batch", d=4), LATE], [*crowd("a/batch", 3, 1), *late(2)]))
    assert sorted(started(found)) == ["claim", "w2"]


def test_what_is_held_for_the_last_of_equals_is_held_for_the_first() -> None:
    nodes = (*pool(1, 2), *pool(2, 1)[1:])
    jobs = [running("r", "x/besteffort", "n2", 1), *crowd("a/batch", 1, 1, 1), *late(1)]
    found = good(snapshot(nodes, [queue("a/batch", d=3), LATE, queue("x/besteffort")], jobs))
    assert sorted(started(found)) == ["claim", "w2"]
    assert [(evict.job, evict.claimant) for evict in found.evict] == [("r", "w1")]
    assert [(hold.job, hold.victims) for hold in found.hold] == [("w1", ("r",))]
    assert evicted(found) == ["r"]


def test_who_was_kept_off_for_an_elder_whom_he_may_push_out_is_judged_again() -> None:
    jobs = [
        job("elder", "a/batch", 2, priority=40, submitted=-900),
        job("young", "a/batch", 1, priority=50, submitted=-9),
    ]
    before = snapshot(pool(1, 2), [queue("a/batch", d=0)], jobs, reserve_after=150)
    assert started(good(before)) == ["young"]


def test_cards_that_are_no_longer_reserved_are_given_away() -> None:
    """The reservation moves to other nodes because somebody above it starts where it was."""
    jobs = [
        running("r1", "b/batch", "n1", 3, preemptible=False),
        running("r2", "x/batch", "n2", 4, preemptible=False, age=600),
        job("gang", "c/batch", 4, nodes=2, submitted=-200, max_duration=600),
        job("large", "b/batch", 4, submitted=-150),
        *crowd("b/batch", 1, 1, 1),
    ]
    queues = [queue("b/batch", g=3, d=5), queue("x/batch", g=4, d=4), queue("c/batch")]
    found = good(snapshot(pool(3, 4), queues, jobs))
    assert sorted(started(found)) == ["w1", "w2", "w3"]


def test_room_that_came_in_between_is_for_the_first_of_equals() -> None:
    jobs = [
        job("large", "c/batch", 4, submitted=-200),
        job("first", "a/batch", 2, submitted=-100),
        job("small", "a/batch", 1, submitted=-90),
        job("second", "a/batch", 2, submitted=-80),
    ]
    found = good(snapshot(pool(1, 4), [queue("a/batch", d=1), queue("c/batch")], jobs))
    assert sorted(started(found)) == ["first", "small"]


def test_what_was_reserved_for_one_who_starts_after_all_is_reserved_for_the_next() -> None:
    jobs = [
        job("large", "c/batch", 4, submitted=-200),
        job("first", "a/batch", 2, submitted=-100),
        job("small", "a/batch", 1, submitted=-90),
    ]
    found = good(snapshot(pool(1, 4), [queue("a/batch", d=1), queue("c/batch")], jobs))
    assert sorted(started(found)) == ["first", "small"]
    assert [reservation.job for reservation in found.reservations] == ["large"]
