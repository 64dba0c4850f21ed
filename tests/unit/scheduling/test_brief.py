"""Brief passes: they leave out who waits, and judge of equal jobs only the first.  What starts is the same.

Each case says what starts, so that neither way alone decides what is right.
"""

from __future__ import annotations

from dataclasses import replace

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Snapshot
from tests.builders import codes, evicted, job, pool, queue, running, snapshot, started


def brief(before: Snapshot) -> Plan:
    """The plan, in which the checker finds nothing, and which a brief pass makes too."""
    found = plan(before)
    assert check(before, found) == ()
    short = Resident(before).plan(waits=False)
    assert plan_bytes(short) == plan_bytes(replace(found, wait=()))
    return found


def test_who_was_kept_off_starts_once_the_reservation_is_anothers() -> None:
    """Cards are reserved for the wide one when the small one has its turn; when all have had theirs, for the gang.

    That has waited longest and may evict the small one when its time comes, so that this one has no reason to wait.
    """
    queues = [queue("a/batch", d=6), queue("b/batch", d=1), queue("b/besteffort"), queue("c/batch", d=2)]
    jobs = [
        running("r", "a/batch", "n2", 4, priority=30, max_duration=3610),
        job("wide", "c/batch", 2, nodes=2, submitted=-153),
        job("full", "b/batch", 4, priority=49, submitted=-187),
        job("small", "b/besteffort", 3, submitted=-187),
        job("gang", "b/batch", 1, nodes=3, priority=40, submitted=-200),
    ]
    found = brief(snapshot(pool(3, 4), queues, jobs, min_runtime=60, reserve_after=100))
    assert started(found) == ["full", "small"]
    assert [kept.job for kept in found.reservations] == ["gang"]


def test_a_first_in_first_out_leaf_goes_on_once_what_bound_its_head_is_free() -> None:
    """The head is kept off what is reserved for the large one; what that leaves is counted anew at the end."""
    queues = [queue("a/batch", d=3), queue("b/batch", d=4, fifo=True), queue("b/besteffort"), queue("c/batch", d=4)]
    jobs = [
        running("firm", "b/besteffort", "n1", 1, preemptible=False),
        running("r", "a/batch", "n2", 2),
        job("large", "c/batch", 4, priority=40, submitted=-194),
        job("next", "c/batch", 2, priority=40, submitted=-180),
        job("head", "b/batch", 2, priority=40, submitted=-134),
        job("second", "b/batch", 1, priority=40, submitted=-130),
    ]
    found = brief(snapshot(pool(2, 4), queues, jobs))
    assert sorted(started(found)) == ["head", "next", "second"]
    assert codes(found, "large") == ["INSUFFICIENT_CARDS"]


def test_an_elder_has_its_turn_behind_a_crowd_that_is_passed() -> None:
    """It has waited longest of its rank, and cards are kept for it; before it in its leaf are many that fit nowhere."""
    large = [
        job(f"large{number}", "b/batch", 4, nodes=2, preemptible=False, submitted=-number) for number in range(1, 8)
    ]
    small = [
        job("elder", "b/batch", 2, priority=40, submitted=-190),
        job("x", "a/prod", "0.25", preemptible=True, submitted=-117),
    ]
    queues = [queue("a/prod", d=4), queue("b/batch", d=6)]
    found = brief(snapshot(pool(1, 4), queues, [*large, *small], reserve_after=150))
    assert sorted(started(found)) == ["elder", "x"]
    assert {tuple(codes(found, one.id)) for one in large} == {("TOO_LARGE",)}


def test_who_loses_its_place_is_the_head_of_its_leaf_again() -> None:
    """The first starts, the second waits and closes the leaf; then another tenant's claim takes cards of the first."""
    jobs = [
        job("first", "a/prod", 4, nodes=2, preemptible=True, priority=39, submitted=-180),
        job("second", "a/prod", 4, nodes=2, preemptible=True, priority=38, submitted=-173),
        job("small", "c/batch", 2, priority=40, submitted=-112),
        job("gang", "c/batch", 4, nodes=2, priority=40, submitted=-147),
    ]
    queues = [queue("a/prod", d=4, fifo=True), queue("c/batch", d=4)]
    found = brief(snapshot(pool(2, 4), queues, jobs))
    assert (started(found), evicted(found)) == (["small"], [])
    assert codes(found, "first") == ["INSUFFICIENT_CARDS"]
    behind = [reason.jobs for wait in found.wait if wait.job == "second" for reason in wait.reasons]
    assert behind == [(), ("first",)]


def test_a_hold_is_not_handed_to_one_who_lacks_room_beside_his_cards() -> None:
    """The later gang comes first in its leaf, but wants memory that somebody else has on the node."""
    jobs = [
        running("r", "b/besteffort", "n3", 2),
        job("one", "a/prod", 2, nodes=2, preemptible=True, priority=40, submitted=-138),
        job("two", "a/prod", 2, nodes=2, preemptible=True, priority=39, submitted=-131),
        job("other", "a/batch", 3, priority=40, submitted=-121),
        *(
            job(name, "a/prod", 2, nodes=2, preemptible=True, priority=40, memory=90, submitted=when)
            for name, when in (("broad", -118), ("late", -111))
        ),
    ]
    queues = [queue("a/prod", d=4), queue("a/batch", d=5), queue("b/besteffort")]
    found = brief(snapshot(pool(4, 4, ram=100), queues, jobs))
    assert sorted(started(found)) == ["broad", "one", "other"]
    assert [(hold.job, hold.victims) for hold in found.hold] == [("two", ("r",))]


def test_an_elder_who_was_judged_in_vain_inherits_a_hold() -> None:
    """The last one evicts and holds; the one before it in the leaf gets that and waits for the same victim."""
    jobs = [
        running("r1", "b/besteffort", "n1", 2),
        running("r3", "a/batch", "n3", 3, max_duration=6000),
        *(
            job(name, "a/prod", 2, nodes=2, preemptible=True, priority=priority, submitted=when)
            for name, priority, when in (("g0", 40, -121), ("g1", 39, -114))
        ),
        job("s0", "a/prod", 2, preemptible=True, priority=40, submitted=-105),
        job("s1", "a/prod", 2, preemptible=True, priority=39, submitted=-98, max_duration=3000),
        job("s2", "a/prod", 2, preemptible=True, priority=38, submitted=-91, max_duration=3000),
    ]
    queues = [queue("a/prod", d=4), queue("a/batch", d=4), queue("b/besteffort")]
    found = brief(snapshot(pool(3, 4), queues, jobs))
    assert sorted(started(found)) == ["g0", "s0"]
    assert [(hold.job, hold.victims) for hold in found.hold] == [("s1", ("r1",))]
    assert codes(found, "s2") == ["RESERVED_FOR"]
