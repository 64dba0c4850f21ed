"""Who gets a reservation, when, and whom it keeps off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.domain.reasons import Code
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan
from millpond.scheduling.snapshot import Job, PastEviction, Settings, Snapshot
from tests.builders import codes, job, node, plan, pool, queue, running, snapshot, started

BUSY = running("busy", "u/batch", "n1", 4, age=1000, max_duration=4600)
"""Four of eight cards until 3600."""

H = job("h", "t/batch", 8, submitted=-9)
LEAVES = [queue("t/batch"), queue("u/batch"), queue("t/besteffort"), queue("d/batch", d=4)]


def world(*jobs: Job, busy: Job = BUSY, **settings: int) -> Snapshot:
    found = snapshot(pool(1), LEAVES, [busy, *jobs])
    return replace(found, settings=replace(Settings(), **settings))


def checked(found: Snapshot) -> Plan:
    result = plan(found)
    assert check(found, result) == ()
    return result


def reserved(result: Plan) -> list[tuple[str, int]]:
    return [(found.job, found.time) for found in result.reservations]


@pytest.mark.parametrize(
    ("age", "limit", "expected"),
    [(1000, 4600, 3600), (1000, None, 85_400), (86_400, None, 86_400), (200_000, None, 59_200), (50, 40, 1)],
)
def test_a_job_counts_as_ending_at_its_limit_or_at_a_multiple_of_the_assumed_one(
    age: int, limit: int | None, expected: int
) -> None:
    busy = running("busy", "u/batch", "n1", 4, age=age, max_duration=limit)
    assert reserved(checked(world(H, busy=busy))) == [("h", expected)]


@pytest.mark.parametrize(
    ("filler", "may"),
    [
        (job("f", "u/batch", 4, max_duration=3600), True),
        (job("f", "u/batch", 4, max_duration=3601), False),
        (job("f", "u/batch", 4), False),
        (job("f", "t/besteffort", 4), True),
        (job("f", "t/besteffort", 4, preemptible=False), False),
        (job("f", "d/batch", 4), True),
        (job("f", "t/batch", 4, priority=40), True),
        (job("f", "t/batch", 4, priority=50), False),
        (job("f", "u/batch", 0, cpu=4000), True),
    ],
)
def test_who_may_use_reserved_cards(filler: Job, may: bool) -> None:
    result = checked(world(H, filler))
    assert started(result) == (["f"] if may else [])
    if not may:
        reasons = [one for wait in result.wait if wait.job == "f" for one in wait.reasons]
        (reason,) = [one for one in reasons if one.code is Code.RESERVED_FOR]
        assert (reason.jobs, reason.until) == (("h",), 3600)


def test_min_runtime_and_cool_down_count_at_the_time_of_the_reservation() -> None:
    filler = job("f", "t/besteffort", 4)
    assert started(checked(world(H, filler, min_runtime=3600))) == ["f"]
    assert started(checked(world(H, filler, min_runtime=3601))) == []
    cooling = replace(world(H, filler, cooldown=4000), evictions=(PastEviction("t/batch", "t/besteffort", -300),))
    assert started(checked(cooling)) == []
    cooled = replace(cooling, evictions=(PastEviction("t/batch", "t/besteffort", -400),))
    assert started(checked(cooled)) == ["f"]


def test_who_is_protected_now_is_free_later() -> None:
    young = running("young", "t/besteffort", "n1", 4, age=10, cards=range(4, 8))
    result = checked(world(job("h", "t/batch", 4), young, min_runtime=60))
    assert reserved(result) == [("h", 50)]


def test_cpu_beside_reserved_cards_is_reserved_too() -> None:
    """Four of twelve cards are nobody's, but only 12 of 32 CPUs."""
    busy = running("busy", "u/batch", "n1", 6, age=1000, max_duration=4600)
    fillers = [job("f", "u/batch", 1, cpu=16_000, submitted=-2), job("g", "u/batch", 1, cpu=12_000, submitted=-1)]
    result = checked(snapshot((node("n1", 12, cpu=32_000),), LEAVES, [busy, replace(H, cpu=20_000), *fillers]))
    assert started(result) == ["g"]
    assert "RESERVED_FOR" in codes(result, "f")


@pytest.mark.parametrize("blocked", ["cap", "guarantee", "hours", "size"])
def test_who_does_not_only_lack_room_has_no_reservation(blocked: str) -> None:
    leaf = queue("x/batch", c=4 if blocked == "cap" else None, hours=(4, 4) if blocked == "hours" else None)
    nodes = 2 if blocked == "size" else 1
    claim = job("h", "x/batch", 8, nodes=nodes, preemptible=blocked != "guarantee")
    result = checked(snapshot(pool(1), [*LEAVES, leaf], [BUSY, claim]))
    assert reserved(result) == []
    assert codes(result, "h")


def test_the_second_blocked_job_of_a_model_has_none() -> None:
    result = checked(world(H, job("second", "u/batch", 6, submitted=-1)))
    assert [name for name, _ in reserved(result)] == ["h"]


def test_whoever_has_waited_reserve_after_counts_as_the_first_of_its_rank() -> None:
    hog = running("hog", "u/batch", "n2", 8, age=9000, max_duration=50_000)
    jobs = [BUSY, hog, H, job("old", "u/batch", 8, submitted=-5000)]
    found = snapshot(pool(2), LEAVES, jobs)
    assert [name for name, _ in reserved(checked(replace(found, settings=Settings(reserve_after=6000))))] == ["h"]
    assert [name for name, _ in reserved(checked(replace(found, settings=Settings(reserve_after=5000))))] == ["old"]


def test_an_elder_is_kept_from_smaller_jobs_before_it_and_not_from_equals() -> None:
    """Leaf u goes first by its share; the gang of t has waited long and takes its turn before smaller ones."""
    hog = running("hog", "t/batch", "n2", 8, age=9000, max_duration=50_000)
    old = job("old", "t/batch", 8, submitted=-5000)
    small = snapshot(pool(2), LEAVES, [hog, old, job("new", "u/batch", 2, submitted=-1)])
    assert started(checked(small)) == ["old"]
    equal = snapshot(pool(2), LEAVES, [hog, old, job("new", "u/batch", 8, submitted=-1)])
    assert started(checked(equal)) == ["new"]


def test_what_was_kept_for_an_elder_whom_a_cap_stops_since_is_reserved_for_the_next() -> None:
    """The short job fills half of the elder's cap; the wide one had its turn while the cards were still the elder's."""
    leaves = [queue("a/besteffort", c=8), queue("b/besteffort"), queue("c/besteffort")]
    busy = running("r", "c/besteffort", "n1", 4, age=0, max_duration=1000, priority=90)
    elder = job("elder", "a/besteffort", 8, submitted=-4000)
    short = job("short", "a/besteffort", 4, submitted=0, priority=60, max_duration=100)
    wide = job("wide", "b/besteffort", 8, submitted=0)
    given = snapshot(pool(1), leaves, [busy, elder, short, wide])
    result = plan(given)
    assert started(result) == ["short"]
    assert codes(result, "elder") == ["QUEUE_CAP", "INSUFFICIENT_CARDS"]
    assert [reserved.job for reserved in result.reservations] == ["wide"]
    assert check(given, result) == ()
