"""Moving jobs together for one that has waited long enough."""

from __future__ import annotations

from dataclasses import replace

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.snapshot import Job, Settings, Snapshot
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
    assert [hold.job for hold in result.hold] == ["h"]
    assert codes(result, "h") == ["PREEMPTING"]
    after = step(world, result)
    again = checked(after)
    assert sorted(started(again)) == ["h", "r1"]


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
