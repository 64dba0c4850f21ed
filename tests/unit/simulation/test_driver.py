"""Virtual time: order at one instant, drain, resume, limits, holds, figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.scheduling.decisions import Plan, Rank, Start
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Job, Seat, Snapshot
from millpond.simulation.driver import Event, Simulation, Unsettled
from millpond.simulation.jobs import Work
from tests.builders import draining, job, pool, queue, running, snapshot

QUEUES = (queue("a/prod", g=8, d=8), queue("b/batch", d=8), queue("c/besteffort"))


def run(
    given: Snapshot, *, arrivals: tuple[Job, ...] = (), work: dict[str, Work] | None = None, until: int = 86_400
) -> list[Event]:
    return list(Simulation(given, plan, arrivals=arrivals, work=work, until=until).events())


def told(events: list[Event]) -> list[tuple[int, str, str]]:
    return [(event.time, event.kind, event.job) for event in events]


def world(*jobs: Job, nodes: int = 1, **more: int) -> Snapshot:
    return snapshot(pool(nodes), QUEUES, jobs, **more)


def test_end_and_arrival_at_one_instant_need_no_wait() -> None:
    events = run(
        world(running("x", "b/batch", "n1")),
        arrivals=(job("y", "b/batch", 8, submitted=100),),
        work={"x": Work(3700)},
    )
    assert told(events) == [(100, "end", "x"), (100, "arrive", "y"), (100, "start", "y")]


def test_drain_is_waited_for_and_bounded_by_the_grace() -> None:
    for drain, gone in ((0, 50), (7, 57), (900, 70)):
        events = run(
            world(running("v", "c/besteffort", "n1", checkpoint_every=600)),
            arrivals=(job("p", "a/prod", 8, submitted=50),),
            work={"v": Work(drain=drain)},
            until=100,
        )
        assert (gone, "start", "p") in told(events)


def test_victim_that_finishes_while_it_drains_has_ended() -> None:
    events = run(
        world(running("v", "c/besteffort", "n1")),
        arrivals=(job("p", "a/prod", 8, submitted=50),),
        work={"v": Work(3655, drain=15)},
        until=100,
    )
    assert (55, "end", "v") in told(events)
    assert (55, "start", "p") in told(events)
    assert not [event for event in events if event.kind == "requeue"]


@pytest.mark.parametrize(("saves", "kept"), [(False, 600), (True, 1000)])
def test_resume_at_the_last_saved_moment(saves: bool, kept: int) -> None:
    v = job("v", "c/besteffort", 8, checkpoint_every=300, saves_on_signal=saves)
    events = run(
        world(v),
        arrivals=(job("p", "a/prod", 8, submitted=1000),),
        work={"v": Work(2000, drain=10), "p": Work(500)},
    )
    again = [event for event in events if (event.kind, event.job) == ("start", "v")][1]
    saved = 900 if not saves else kept
    assert again.data["resumed_from"] == saved
    assert (again.time + 2000 - saved, "end", "v") in told(events)


def test_max_duration_ends_an_attempt() -> None:
    events = run(world(job("x", "b/batch", 8, max_duration=60)), work={"x": Work(100)})
    assert [(event.time, event.data["reason"]) for event in events if event.kind == "end"] == [(60, "max_duration")]


def test_draining_job_of_the_file_leaves_at_its_deadline() -> None:
    events = run(world(draining(running("v", "c/besteffort", "n1"), 12), job("p", "b/batch", 8)), until=60)
    assert (12, "requeue", "v") in told(events)
    assert (12, "start", "p") in told(events)


def test_nothing_is_planned_while_nothing_changes() -> None:
    simulation = Simulation(world(running("x", "b/batch", "n1", checkpoint_every=1)), plan, until=86_400)
    assert list(simulation.events()) == []
    summary = simulation.summary()
    assert (summary["passes"], summary["elapsed"], summary["utilisation"]) == (0, 86_400, 1.0)


def test_min_runtime_is_an_instant_of_its_own() -> None:
    queues = (queue("b/batch"), queue("c/besteffort"))
    given = snapshot(pool(1), queues, [job("v", "c/besteffort", 8)], min_runtime=100)
    events = run(given, arrivals=(job("p", "b/batch", 8, submitted=10),), until=500)
    assert (100, "evict", "v") in told(events)


def test_figures_of_queues() -> None:
    simulation = Simulation(
        world(job("x", "b/batch", 8), job("y", "b/batch", 4)), plan, work={"x": Work(100), "y": Work(50)}
    )
    list(simulation.events())
    summary = simulation.summary()
    queues = summary["queues"]
    assert isinstance(queues, dict)
    figures = queues["b/batch"]
    assert (figures["started"], figures["ended"], figures["card_seconds"]) == (2, 2, 1000)
    assert figures["wait_seconds"] == {"max": 100, "mean": 50, "p50": 0, "p95": 100}
    assert (summary["elapsed"], summary["utilisation"]) == (150, 0.8333)


def test_a_bad_plan_is_told() -> None:
    def twice(given: Snapshot) -> Plan:
        seats = (Seat("n1", (0,)),)
        return Plan(given.now, start=tuple(Start(j.id, Rank.DESERVED, seats) for j in given.jobs if not j.seats))

    simulation = Simulation(world(job("x", "b/batch", 1), job("y", "b/batch", 1)), twice, until=10)
    rules = [event.data["rule"] for event in simulation.events() if event.kind == "violation"]
    assert "card-overcommit" in rules


def test_a_planner_that_never_rests_is_stopped() -> None:
    def flighty(given: Snapshot) -> Plan:
        decided = plan(given)
        return replace(
            decided,
            start=tuple(Start(j.id, Rank.DESERVED, (Seat("n1", (0,)),)) for j in given.jobs if not j.seats),
            wait=(),
        )

    simulation = Simulation(world(job("x", "b/batch", 1)), flighty, work={"x": Work(0)}, until=10)
    assert told(list(simulation.events())) == [(0, "start", "x"), (0, "end", "x")]
    endless = Simulation(world(running("v", "c/besteffort", "n1"), job("p", "a/prod", 8)), _evicting, until=10)
    with pytest.raises(Unsettled):
        list(endless.events())


def _evicting(given: Snapshot) -> Plan:
    """Starts whoever waits where somebody just left, evicting the other: for ever."""
    decided = plan(given)
    runner = next((j for j in given.jobs if j.seats), None)
    waiting = next(j for j in given.jobs if not j.seats)
    if runner is None:
        return decided
    evict = replace(plan(_first(given)).evict[0], job=runner.id, claimant=waiting.id)
    return Plan(given.now, start=(Start(waiting.id, Rank.DESERVED, runner.seats),), evict=(evict,))


def _first(given: Snapshot) -> Snapshot:
    return world(running("v", "c/besteffort", "n1"), job("p", "a/prod", 8))


def test_who_has_run_long_enough_is_moved_at_that_very_moment() -> None:
    """h waits for 8 cards together, and x may be moved after a minute; nothing else happens then."""
    seated = (running("r", "b/batch", "n1", 4), running("x", "c/besteffort", "n2", 4, age=10, checkpoint_every=5))
    given = world(*seated, job("h", "c/besteffort", 8, submitted=-900), nodes=2, consolidate_after=60)
    for waits in (True, False):
        events = list(Simulation(given, until=400, waits=waits).events())
        assert [one for one in told(events) if one[1] in {"evict", "start"}] == [
            (50, "evict", "x"),
            (50, "start", "h"),
            (50, "start", "x"),
        ]
        assert not [event for event in events if event.kind == "violation"]


def test_nobody_is_looked_at_again_for_a_smaller_job() -> None:
    """Only h, as large as x, waits: that x has run for long enough is no moment of its own."""
    seated = (running("r", "b/batch", "n1", 6), running("x", "c/besteffort", "n2", 6, age=10, checkpoint_every=5))
    given = world(*seated, job("h", "c/besteffort", 6, submitted=-900), nodes=2, consolidate_after=60)
    simulation = Simulation(given, until=400, waits=False)
    list(simulation.events())
    assert simulation.summary()["passes"] == 1
