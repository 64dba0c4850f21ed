"""Holding back as a setting of the planner: a few jobs wait although they fit, and the plan says so."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.domain.reasons import Code
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, plan_bytes
from millpond.scheduling.explain import explain
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, Settings, Snapshot
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work
from tests.builders import codes, job, plan, pool, queue, running, snapshot, started
from tests.properties.worlds import snapshots

MIX = {"0.6": 10, "0.4": 10, "0.3": 1}
"""0.3 leaves 0.1 of a card where it sits beside 0.6, and 0.7 alone: it wastes what it leaves."""

QUEUES = (
    queue("t/batch", d=2),
    queue("u/besteffort"),
    queue("v/prod", g=2),
    queue("w/batch", g=2),
    queue("f/batch", fifo=True),
)


def pond(*jobs: Job, back: int = 2, seconds: int = 600, now: int = 0) -> Snapshot:
    """One node of two cards, on one of them 0.6."""
    seated = running("r", "u/besteffort", "n1", "0.6", age=10)
    world = snapshot(pool(1, 2), QUEUES, [seated, *jobs], now=now, hold_back=back, hold_back_for=seconds)
    return replace(world, mix=MIX)


def checked(world: Snapshot) -> Plan:
    result = plan(world)
    assert check(world, result) == ()
    return result


def small(name: str, leaf: str = "t/batch", **more: object) -> Job:
    return job(name, leaf, "0.3", **more)


def test_who_would_waste_cards_waits_and_is_told_until_when() -> None:
    result = checked(pond(small("a", submitted=-100)))
    (wait,) = result.wait
    (reason,) = wait.reasons
    assert (reason.code, reason.until) == (Code.HELD_BACK, 500)
    assert "for 8m20s more at most" in reason.text
    assert started(checked(pond(small("a", submitted=-100), back=0))) == ["a"]


def test_who_wastes_nothing_goes_first() -> None:
    result = checked(pond(small("a", submitted=-100), job("b", "t/batch", "0.4", submitted=-1)))
    assert started(result) == ["b"]
    assert codes(result, "a") == ["HELD_BACK"]


def test_nobody_is_held_back_for_longer_than_allowed() -> None:
    assert codes(checked(pond(small("a", submitted=-599))), "a") == ["HELD_BACK"]
    assert started(checked(pond(small("a", submitted=-600)))) == ["a"]
    assert started(checked(pond(small("a", submitted=-60), seconds=60))) == ["a"]


def test_only_so_many_are_held_back() -> None:
    result = checked(pond(*(small(f"a{n}", submitted=n - 100) for n in range(4))))
    assert len(started(result)) == 2
    assert sum(codes(result, f"a{n}") == ["HELD_BACK"] for n in range(4)) == 2


def test_production_and_guaranteed_claims_never_wait() -> None:
    for leaf in ("v/prod", "w/batch", "f/batch"):
        assert started(checked(pond(small("a", leaf)))) == ["a"]
    assert started(checked(pond(small("a", "v/prod", preemptible=True)))) == ["a"]


def test_who_no_longer_fits_is_judged_as_anybody() -> None:
    """a and b are held back, c takes the empty card: now b has one of its own emptied, and a goes beside c."""
    world = pond(small("a", submitted=-100), job("b", "t/batch", 1), job("c", "t/batch", "0.4"))
    result = checked(replace(world, queues=(queue("t/batch", d=2), *QUEUES[1:])))
    assert "HELD_BACK" not in codes(result, "b")
    assert [(one.job, one.claimant) for one in result.evict] == [("r", "b")]
    assert "c" in started(result)


def test_why_says_it_and_counts_on_its_end() -> None:
    found = explain(pond(small("a", submitted=-100)), "a")
    assert [(reason.code, reason.until) for reason in found.reasons] == [(Code.HELD_BACK, 500)]
    assert (found.starts_now, found.eta) == (False, 500)


def test_it_goes_when_its_place_has_become_good() -> None:
    """Beside 0.7 it wastes nothing."""
    world = pond(small("a", submitted=-100))
    assert codes(checked(world), "a") == ["HELD_BACK"]
    late = running("x", "u/besteffort", "n1", "0.7", cards=[1], age=1)
    assert started(checked(replace(world, jobs=(*world.jobs, late)))) == ["a"]


def test_the_planner_that_stays_says_the_same() -> None:
    resident = Resident(pond(small("a", submitted=-100), job("b", "t/batch", "0.4", submitted=-1)))
    for now in (0, 100, 500):
        resident.now_set(now)
        world = resident.snapshot()
        found = resident.plan(waits=now == 0)
        assert started(found) == started(checked(world))
        assert now > 0 or plan_bytes(found) == plan_bytes(plan(world))
        resident.adopt(found)


def test_the_checker_knows_who_may_not_be_held_back() -> None:
    world = pond(small("a", submitted=-100))
    good = checked(world)
    bad = [
        replace(world, settings=Settings()),
        replace(world, settings=replace(world.settings, hold_back_for=100)),
        replace(world, settings=replace(world.settings, hold_back_for=700)),
        replace(world, queues=(queue("t/batch", g=2), *QUEUES[1:])),
        replace(world, queues=(queue("t/batch", d=2, fifo=True), *QUEUES[1:])),
        replace(world, jobs=(*world.jobs, running("x", "u/besteffort", "n1", 1, cards=[1]), *full())),
    ]
    assert check(world, good) == ()
    for other in bad:
        assert "held-back-wrong" in {found.rule for found in check(other, good)}


def full() -> tuple[Job, ...]:
    return (running("y", "u/besteffort", "n1", "0.4", cards=[0]),)


def test_a_production_job_said_to_be_held_back_is_wrong() -> None:
    world = pond(small("a", submitted=-100))
    moved = tuple(replace(one, queue="v/prod") if one.id == "a" else one for one in world.jobs)
    assert "held-back-wrong" in {found.rule for found in check(replace(world, jobs=moved), plan(world))}


@given(snapshots(), st.integers(0, 3000))
def test_off_it_changes_nothing(world: Snapshot, seconds: int) -> None:
    off = replace(world, settings=replace(world.settings, hold_back=0, hold_back_for=seconds))
    assert plan_bytes(plan(off)) == plan_bytes(plan(world))


SIZES = st.sampled_from(["0.3", "0.4", "0.6", "0.7", "1", "2"])
ROWS = st.lists(st.tuples(SIZES, st.sampled_from(["t/batch", "u/besteffort"]), st.integers(0, 60)), max_size=15)


@settings(max_examples=8)
@given(ROWS, st.integers(1, 4), st.sampled_from([30, 300]))
def test_on_it_keeps_all_rules_and_nobody_longer_than_allowed(
    rows: list[tuple[str, str, int]], back: int, seconds: int
) -> None:
    arrivals, time = [], 0
    for number, (gpu, leaf, after) in enumerate(rows):
        time += after
        arrivals.append(job(f"j{number}", leaf, gpu, submitted=time))
    world = snapshot(
        pool(2, 2), (queue("t/batch", d=4), queue("u/besteffort")), [], hold_back=back, hold_back_for=seconds
    )
    work = {one.id: Work(200) for one in arrivals}
    held: dict[str, int] = {}
    for event in Simulation(replace(world, mix=MIX), arrivals=tuple(arrivals), work=work).events():
        assert event.kind != "violation", event
        if event.kind in {"wait", "start"}:
            since = held.pop(event.job, None)
            assert since is None or event.time <= since + seconds
        if event.kind == "wait" and "HELD_BACK" in event.data["codes"]:
            held[event.job] = arrivals[int(event.job[1:])].submitted
    assert not held
