from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.overrun import Overrun, Runway, Step, overrun_decide, paid_until
from tests.unit.billing.books import at

RUNWAY = Runway(paid_until=at(10), grace=60, notice=300)


def before(seconds: int) -> datetime:
    return at(10) - timedelta(seconds=seconds)


def steps(runway: Runway, moments: list[datetime], *, may_extend: bool = False) -> list[tuple[datetime, Step]]:
    """What happens to a job that is looked at in these moments, until it stops or is extended; RUN is left out."""
    found: list[tuple[datetime, Step]] = []
    for now in moments:
        overrun = overrun_decide(runway, now, may_extend=may_extend)
        if overrun.step is not Step.RUN:
            found.append((now, overrun.step))
        if overrun.step is Step.WARN:
            runway = replace(runway, warned_at=now)
        elif overrun.step is Step.SAVE:
            runway = replace(runway, saving_at=now)
        elif overrun.step in {Step.STOP, Step.EXTEND}:
            break
    return found


def test_warned_then_told_to_save_then_stopped() -> None:
    looks = [before(seconds) for seconds in range(600, -120, -15)]
    assert steps(RUNWAY, looks) == [(before(360), Step.WARN), (before(60), Step.SAVE), (before(0), Step.STOP)]


def test_the_next_look_is_when_something_is_due() -> None:
    now, found = at(1), []
    runway = RUNWAY
    while (overrun := overrun_decide(runway, now, may_extend=False)).step is not Step.STOP:
        assert overrun.look_at is not None
        found.append(overrun.step)
        runway = replace(runway, warned_at=now) if overrun.step is Step.WARN else runway
        runway = replace(runway, saving_at=now) if overrun.step is Step.SAVE else runway
        now = overrun.look_at
    assert found == [Step.RUN, Step.WARN, Step.SAVE]
    assert now == at(10)


def test_money_that_arrives_before_saving_keeps_it_running() -> None:
    assert overrun_decide(RUNWAY, before(361), may_extend=True) == Overrun(Step.RUN, before(360))
    assert overrun_decide(RUNWAY, before(360), may_extend=True).step is Step.EXTEND
    warned = replace(RUNWAY, warned_at=before(360))
    assert overrun_decide(warned, before(61), may_extend=True).step is Step.EXTEND
    saving = replace(warned, saving_at=before(60))
    assert overrun_decide(saving, before(30), may_extend=True).step is Step.RUN
    assert overrun_decide(saving, before(0), may_extend=True).step is Step.STOP


def test_a_late_look_still_gives_the_whole_grace() -> None:
    late = at(10, 5)
    overrun = overrun_decide(RUNWAY, late, may_extend=False)
    assert overrun == Overrun(Step.SAVE, late + timedelta(seconds=60), late + timedelta(seconds=60))


def test_paid_until_counts_seconds_that_are_paid_in_full() -> None:
    assert paid_until(at(0), 4 * 3600 * 250, 250) == at(4)
    assert paid_until(at(0), 999, 250) == at(0) + timedelta(seconds=3)
    assert paid_until(at(0), 0, 0) == at(0)


@given(
    st.integers(0, 600),
    st.integers(0, 600),
    st.lists(st.integers(-2000, 2000), min_size=1, max_size=40).map(sorted),
)
def test_no_job_stops_without_its_whole_grace(grace: int, notice: int, looks: list[int]) -> None:
    runway = Runway(at(10), grace, notice)
    found = steps(runway, [at(10) + timedelta(seconds=look) for look in looks])
    order = [step for _, step in found]
    assert order == sorted(order, key=[Step.WARN, Step.SAVE, Step.STOP].index)
    assert len(order) == len(set(order))
    done = {step: moment for moment, step in found}
    if Step.STOP in done:
        assert done[Step.STOP] >= max(at(10), done[Step.SAVE] + timedelta(seconds=grace))
