"""Moving jobs together for one that has waited long enough."""

from __future__ import annotations

from dataclasses import replace

from millpond.scheduling.check import check
from millpond.scheduling.decisions import HoldFor, Plan, Rank, plan_bytes
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Hold, Job, RunState, Seat, Settings, Snapshot, job_requeued
from tests.builders import codes, evicted, job, plan, pool, queue, running, snapshot, started, step

AFTER = Settings(consolidate_after=600)


def scattered(*jobs: Job, settings: Settings = AFTER, saved: int | None = 60, limit: int = 90_000) -> Snapshot:
    """Two nodes of 8 with a job of 4 on each, and who else is named."""
    seated = [
        running(f"r{number}", "t/batch", f"n{number}", 4, age=3600, saved=saved, max_duration=limit)
        for number in (1, 2)
    ]
    return replace(snapshot(pool(2), [queue("t/batch"), queue("u/batch")], [*seated, *jobs]), settings=settings)


def checked(world: Snapshot) -> Plan:
    result = plan(world)
    assert check(world, result) == ()
    return result


def test_a_job_that_fits_nowhere_for_scatter_has_one_moved_for_it() -> None:
    world = scattered(job("h", "u/batch", 8, submitted=-600))
    result = checked(world)
    (evict,) = result.evict
    assert (evict.job, evict.claimant, evict.why, evict.lost) == ("r1", "h", "consolidate", 4000 * 60)
    assert [(hold.job, hold.victims) for hold in result.hold] == [("h", ("r1",)), ("r1", ("r1",))]
    assert codes(result, "h") == ["PREEMPTING"]
    after = step(world, result)
    again = checked(after)
    assert sorted(started(again)) == ["h", "r1"]


def moving(*more: Job) -> tuple[Snapshot, Plan]:
    """r1 has been asked to move for h, and others come while it leaves."""
    world = scattered(job("h", "u/batch", 8, submitted=-600))
    result = checked(world)
    jobs = [replace(one, state=RunState.DRAINING, until=20) if one.id == "r1" else one for one in world.jobs]
    holds = tuple(Hold(hold.job, hold.seats, hold.until, hold.victims) for hold in result.hold)
    queues = (*world.queues, queue("v/batch"), queue("w/prod", g=4))
    world = replace(world, now=5, jobs=(*jobs, *more), holds=holds, queues=queues)
    return world, checked(world)


def test_nobody_takes_the_new_place_of_who_moves() -> None:
    """The four cards of n2 are free while r1 still leaves n1."""
    world, result = moving(job("x", "t/batch", 4, submitted=1), job("y", "v/batch", 1, submitted=1))
    assert started(result) == []
    assert [hold.job for hold in result.hold] == ["h", "r1"]
    reasons = [reason for wait in result.wait if wait.job == "x" for reason in wait.reasons]
    assert [(reason.code.value, reason.jobs) for reason in reasons] == [("RESERVED_FOR", ("r1",))]
    gone = step(world, result, seconds=15)
    assert started(checked(gone)) == ["h", "r1"]


def test_a_claim_that_could_evict_who_moves_takes_its_new_place() -> None:
    world, result = moving(job("x", "w/prod", 4, submitted=1, preemptible=True))
    assert started(result) == ["x"]
    assert [hold.job for hold in result.hold] == ["h"]
    assert result.drop_holds == ("r1",)
    result = checked(step(world, result, seconds=15))
    assert started(result) == ["h"]
    assert codes(result, "r1") == ["INSUFFICIENT_CARDS"]


def test_who_has_ended_while_it_moved_holds_nothing() -> None:
    world, _ = moving()
    world = replace(world, now=20, jobs=tuple(one for one in world.jobs if one.id != "r1"))
    result = checked(world)
    assert started(result) == ["h"]
    assert result.drop_holds == ("h", "r1")


def test_the_planner_that_stays_keeps_the_new_place() -> None:
    """The same plans as from a snapshot: when it moves, while it leaves, and once it has left."""
    world = scattered(job("h", "u/batch", 8, submitted=-600))
    resident = Resident(world)
    resident.adopt(resident.plan())
    resident.now_set(5)
    late = job("x", "t/batch", 4, submitted=1)
    resident.job_put(late)
    before = resident.snapshot()
    assert [one.job for one in before.holds] == ["h", "r1"]
    assert plan_bytes(resident.plan()) == plan_bytes(checked(before))
    resident.adopt(resident.plan())
    resident.job_put(job_requeued(next(one for one in before.jobs if one.id == "r1")))
    found = resident.plan()
    assert plan_bytes(found) == plan_bytes(checked(resident.snapshot()))
    assert started(found) == ["h", "r1"]


def test_the_checker_knows_moves_without_a_place_and_places_without_a_move() -> None:
    world = scattered(job("h", "u/batch", 8, submitted=-600))
    good = checked(world)
    nowhere = replace(good, hold=good.hold[:1])
    assert {found.rule for found in check(world, nowhere)} == {"eviction-forbidden"}
    spot = (Seat("n2", (4, 5, 6, 7)),)
    other = replace(good, hold=(*good.hold[:1], HoldFor("r2", Rank.BORROWED_BATCH, spot, 80, ("r2",))))
    assert "wrong-state" in {found.rule for found in check(world, other)}


def test_it_waits_for_its_time_and_only_if_asked_to() -> None:
    assert evicted(checked(scattered(job("h", "u/batch", 8, submitted=-599)))) == []
    assert evicted(checked(scattered(job("h", "u/batch", 8, submitted=-9000), settings=Settings()))) == []


def test_jobs_without_a_checkpoint_stay() -> None:
    assert evicted(checked(scattered(job("h", "u/batch", 8, submitted=-900), saved=None))) == []


def test_what_would_be_lost_must_be_less_than_what_is_gained() -> None:
    """It would start in 100 s anyway: 8 cards for 100 s are gained, 4 cards for 300 s would be lost."""
    claim = job("h", "u/batch", 8, submitted=-900)
    assert evicted(checked(scattered(claim, saved=300, limit=3700))) == []
    assert evicted(checked(scattered(claim, saved=199, limit=3700))) == ["r1"]


def test_who_moves_must_fit_elsewhere_at_once() -> None:
    filler = running("f", "u/batch", "n2", 1, age=100, max_duration=90_000)
    filler = replace(filler, seats=(replace(filler.seats[0], cards=(4,)),))
    assert evicted(checked(scattered(filler, job("h", "u/batch", 8, submitted=-900)))) == []


def test_nobody_of_higher_rank_moves() -> None:
    world = scattered(job("h", "u/batch", 8, submitted=-900))
    world = replace(world, queues=(queue("t/batch", d=8), queue("u/batch")))
    result = checked(world)
    assert evicted(result) == []
    assert next(wait.rank for wait in result.wait if wait.job == "h") is Rank.BORROWED_BATCH


def test_a_gang_takes_the_idle_node_beside_the_one_that_is_cleared() -> None:
    world = scattered(job("h", "u/batch", 8, nodes=2, submitted=-600))
    result = checked(replace(world, nodes=pool(3)))
    assert evicted(result) == ["r1"]
    assert [[seat.node for seat in hold.seats] for hold in result.hold] == [["n1", "n3"], ["n2"]]


def test_nobody_of_its_own_leaf_moves_who_stands_before_it() -> None:
    claim = job("h", "t/batch", 8, submitted=-600)
    for priority, moved in ((60, []), (50, ["r1"])):
        world = scattered(claim)
        jobs = [replace(one, priority=priority) if one.seats else one for one in world.jobs]
        assert evicted(checked(replace(world, jobs=tuple(jobs)))) == moved


def test_nobody_moves_to_cards_without_the_cpu_that_he_needs() -> None:
    for cpu, moved in ((100_000, []), (64_000, ["r1"])):
        world = scattered(job("h", "u/batch", 8, submitted=-600))
        jobs = [replace(one, cpu=cpu) if one.seats else one for one in world.jobs]
        assert evicted(checked(replace(world, jobs=tuple(jobs)))) == moved
