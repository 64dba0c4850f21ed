"""Forecasts: certain where runs are, spread where they are not, the same every time, corrected by the past."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.domain.jobs import JobSpec, JobState, JobType, QueuedAs
from millpond.domain.records import JobRecord, PromiseRecord, RunRecord
from millpond.scheduling.calibration import HORIZON, HOUR, Calibration, Eta, Lesson, Score, calibration_make
from millpond.scheduling.forecast import SCENARIOS, forecast, share_of
from millpond.scheduling.history import ANY_SIZE, RUNS_MAX, SHARES, RunTimes, Span, span_of, survival_points, times_make
from millpond.scheduling.promises import promise_differs, promises_new, score_make
from millpond.scheduling.snapshot import Hold, Settings, Snapshot
from tests.builders import draining, job, pool, queue, running, snapshot

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def certain(seconds: int) -> RunTimes:
    return RunTimes({("", "", ANY_SIZE): (seconds,) * len(SHARES)})


def world(*more: object) -> Snapshot:
    jobs = [running("r", "a/batch", "n1", 8, age=HOUR), *more]
    return snapshot(pool(1), [queue("a/batch")], jobs)  # type: ignore[arg-type]


def test_certain_runs_give_certain_starts() -> None:
    found = forecast(world(job("p", "a/batch", 8, submitted=-9), job("q", "a/batch", 8)), certain(2 * HOUR))
    assert found == {"p": Eta(HOUR, HOUR, HOUR), "q": Eta(3 * HOUR, 3 * HOUR, 3 * HOUR)}


def test_unknown_runs_give_intervals_and_always_the_same() -> None:
    before = world(job("p", "a/batch", 8))
    found = forecast(before)["p"]
    assert found.p10 is not None
    assert found.p50 is not None
    assert found.p90 is not None
    assert 0 < found.p10 < found.p50 < found.p90 <= before.settings.assumed_limit
    assert forecast(before) == forecast(before)


def test_a_service_never_ends() -> None:
    before = snapshot(
        pool(1), [queue("a/batch")], [running("r", "a/batch", "n1", 8, service=True), job("p", "a/batch", 8)]
    )
    assert forecast(before)["p"] == Eta(None, None, None)


def test_a_victim_waits_again_and_its_claimant_starts_after_the_grace() -> None:
    jobs = [running("r", "b/besteffort", "n1", 8, grace=15, age=60), job("p", "a/prod", 8)]
    before = snapshot(pool(1), [queue("a/prod", g=8), queue("b/besteffort")], jobs)
    assert forecast(before, certain(HOUR)) == {"p": Eta(15, 15, 15)}


def test_jobs_that_may_not_start_have_no_forecast() -> None:
    blocked = job("p", "a/batch", 8, blocked_by=(("HELD", "held"),))
    assert forecast(world(blocked, job("later", "a/batch", 1, submitted=60))) == {}


def test_every_share_is_dealt_to_every_job_once() -> None:
    for name in ("j1", "j2", "another"):
        shares = sorted(share_of(name, number, SCENARIOS) for number in range(SCENARIOS))
        assert shares == [(2 * part + 1) * 1000 // (2 * SCENARIOS) for part in range(SCENARIOS)]


@pytest.mark.parametrize(("ran", "share", "limit", "expected"), [
    (0, 0, None, 1), (0, 500, None, 500), (500, 0, None, 501), (500, 500, None, 750), (900, 1000, 950, 950),
    (2000, 500, None, 3000), (2000, 500, 2400, 2400),
])  # fmt: skip
def test_what_has_run_already_counts(ran: int, share: int, limit: int | None, expected: int) -> None:
    assert Span(SHARES).after(ran, share, limit) == expected


def test_what_is_known_of_a_run() -> None:
    groups = {("ann", "t", 8000): (60,) * 11, ("ann", "", 8000): (70,) * 11, ("", "", ANY_SIZE): (90,) * 11}
    times = RunTimes(groups)
    mine = replace(job("p", "a/batch", 8, user="ann"), name="t")
    assert times.of(mine) == (60,) * 11
    assert times.of(replace(mine, name="u")) == (70,) * 11
    assert times.of(job("p", "a/batch", 4, user="bob")) == (90,) * 11
    limited = span_of(replace(mine, max_duration=30), times, Settings())
    assert limited == Span((30,) * 11)
    alone = span_of(job("p", "a/batch", 8, max_duration=1000), RunTimes(), Settings())
    assert alone is not None
    assert (alone.at(500), alone.at(1000)) == (500, 1000)
    unknown = span_of(job("p", "a/batch", 8), RunTimes(), Settings())
    assert unknown is not None
    assert (unknown.at(0), unknown.at(1000)) == (10, 86_400)


def hourly(count: int, *score: int, started: bool = True) -> list[Score]:
    """The same promise in so many hours, and what came of it."""
    return [Score(*score, started=started, made=HOUR * number) for number in range(count)]


def test_past_promises_correct_new_ones() -> None:
    assert calibration_make(hourly(5, 10, 20, 30, 25)) == Calibration()
    late = [Score(1000, 2000, 3000, 2000 + 100 * number, made=HOUR * number) for number in range(41)]
    learnt = calibration_make(late)
    assert learnt == Calibration((Lesson(400, 2000, 3600),) * 5)
    assert learnt.correct(Eta(1000, 2000, 3000), 0) == Eta(2400, 4000, 5600)
    assert learnt.correct(Eta(None, None, None), 0) == Eta(None, None, None)
    assert learnt.correct(Eta(1000, HORIZON - 10, None), 0) == Eta(None, None, None)


def test_each_horizon_has_its_own_lesson() -> None:
    """Near ones come in time, far ones twice as late: nobody pays for the others."""
    near, far = hourly(30, 50, 100, 150, 100), hourly(30, 20_000, 30_000, 40_000, 50_000)
    learnt = calibration_make(near + far)
    assert learnt.correct(Eta(50, 100, 200), 0) == Eta(100, 100, 100)
    assert learnt.correct(Eta(20_000, 30_000, 40_000), 0) == Eta(50_000, 50_000, 50_000)


def test_who_still_waits_counts_as_late_by_so_much_at_least() -> None:
    quick, waiting = hourly(30, 500, 1000, 1500, 1000), hourly(30, 500, 1000, 1500, 1400, started=False)
    alone, both = calibration_make(quick), calibration_make(quick + waiting)
    assert alone.correct(Eta(500, 1000, 1500), 0).p90 == 1000
    assert both.correct(Eta(500, 1000, 1500), 0).p90 == 1400


def test_a_crowd_of_one_hour_counts_as_a_few() -> None:
    """A thousand jobs behind one late queue do not outvote thirty hours in which starts came as told."""
    sound = hourly(30, 500, 1000, 1500, 1000)
    crowd = [Score(500, 1000, 1500, 4000 + number, made=HOUR * 99) for number in range(1000)]
    learnt = calibration_make([*crowd, *sound]).correct(Eta(500, 1000, 1500), 0)
    assert learnt.p50 == 1000
    assert learnt.p90 is not None
    assert 4000 < learnt.p90 < 5000
    assert calibration_make(crowd) == Calibration()


def test_old_runs_do_not_outvote_new_ones() -> None:
    new = [RunRecord("ann", "t", 1000, 60, ended=True)] * RUNS_MAX
    old = [RunRecord("ann", "t", 1000, 9000, ended=True)] * 1000
    assert times_make([*new, *old]).groups["ann", "t", 1000] == (60,) * 11


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), min_size=1, max_size=30))
def test_runs_cut_short_never_make_runs_look_shorter(seen: list[tuple[int, bool]]) -> None:
    """Exact ones alone give plain quantiles; what is cut short lies beyond, so the estimate is no lower."""
    found = survival_points(seen, SHARES)
    assert list(found) == sorted(found)
    plain = survival_points([(value, True) for value, _ in seen], SHARES)
    ordered = sorted(value for value, _ in seen)
    count = len(ordered)
    assert plain == tuple(ordered[max(0, -(-share * count // 1000) - 1)] for share in SHARES)
    assert all(low <= high for low, high in zip(plain, found, strict=True))


def test_groups_need_five_ended_runs() -> None:
    runs = [RunRecord("ann", "t", 1000, 100 * number, ended=number < 6) for number in range(1, 9)]
    found = times_make([*runs, RunRecord("bob", "t", 1000, 7, ended=True)])
    assert found.groups["ann", "t", 1000] == (100, 100, 200, 300, 400, 400, 500, 800, 800, 800, 800)
    assert not any(user == "bob" for user, _, _ in found.groups)


def test_who_is_told_what() -> None:
    record = JobRecord(
        "j1", "a", "", "ann", "a/batch", JobSpec(JobType.TASK, "t", ("true",)), JobState.QUEUED, QueuedAs.READY, NOW
    )
    at = int(NOW.timestamp())
    eta, soon = Eta(at + 60, at + 600, None), Eta(at, at, at)
    (made,) = promises_new({"j1": record}, {"j1": eta, "gone": eta}, {"j1": eta, "gone": eta}, {}, NOW)
    assert (made.attempt, made.p50, made.p90) == (1, NOW + timedelta(seconds=600), None)
    assert promises_new({"j1": record}, {"j1": soon}, {"j1": soon}, {}, NOW) == []
    assert score_make(made, NOW + timedelta(seconds=700)) == Score(60, 600, 1200, 700, made=int(NOW.timestamp()))
    later = NOW + timedelta(seconds=30)
    assert not promise_differs(made, _moved(made, later, 900))  # still inside
    assert promise_differs(_moved(made, NOW, 0, late=60), _moved(made, later, 1000))


def _moved(promise: PromiseRecord, made: datetime, seconds: int, late: int | None = None) -> PromiseRecord:
    middle = promise.p50 + timedelta(seconds=seconds)
    end = None if late is None else middle + timedelta(seconds=late)
    return PromiseRecord(promise.job, 1, made, "a", "a/batch", promise.p10, middle, end, promise.p10, middle, end)


def test_what_came_yesterday_comes_again_and_may_go_first() -> None:
    before = world(job("p", "a/batch", 8))
    alone = forecast(before, certain(2 * HOUR))["p"]
    yesterday = [job(f"y{n}", "a/batch", 8, priority=90, submitted=-n * 1800) for n in range(1, 45)]
    crowded = forecast(before, certain(2 * HOUR), arrivals=yesterday)["p"]
    assert alone.p90 is not None
    assert crowded.p90 is None or crowded.p90 > alone.p90


def test_a_hold_starts_when_who_leaves_has_left() -> None:
    leaving = draining(running("r", "a/batch", "n1", 8, age=HOUR), 30)
    seats = leaving.seats
    before = snapshot(
        pool(1), [queue("a/batch")], [leaving, job("p", "a/batch", 8)], holds=[Hold("p", seats, 90, ("r",))]
    )
    assert forecast(before, certain(2 * HOUR))["p"] == Eta(30, 30, 30)
