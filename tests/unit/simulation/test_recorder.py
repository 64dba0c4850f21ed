"""The recorder adds up what the driver adds up, in bounded memory, and measures fragmentation as counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.scheduling.snapshot import Job, Snapshot
from millpond.simulation.comparison import difference_text, figure_text, run_figures, tenant_figures
from millpond.simulation.driver import Event, Simulation
from millpond.simulation.figures import waits_json
from millpond.simulation.jobs import Work
from millpond.simulation.outcome import Outcome
from millpond.simulation.recorder import MAX_POINTS, SERIES, Record, Recorder
from tests.builders import job, pool, queue, running, snapshot

QUEUES = (queue("a/prod", g=8, d=8), queue("b/batch", d=8), queue("c/besteffort"))


def recorded(
    given: Snapshot, arrivals: tuple[Job, ...], work: dict[str, Work], until: int
) -> tuple[Record, Simulation]:
    simulation = Simulation(given, arrivals=arrivals, work=work, until=until)
    recorder = Recorder(given, arrivals)
    for event in simulation.events():
        recorder.see(event)
    return recorder.close(simulation.time), simulation


entries = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.integers(0, 4000),
        st.sampled_from([0.25, 0.5, 1, 2, 4, 8]),
        st.sampled_from(["a/prod", "b/batch", "c/besteffort"]),
    ),
    max_size=25,
)


@given(entries, st.integers(1, 20_000))
def test_it_agrees_with_the_driver(rows: list[tuple[int, int, float, str]], until: int) -> None:
    given = snapshot(pool(2), QUEUES, [running("r", "c/besteffort", "n1", gpu=4)])
    arrivals = tuple(
        job(f"j{n}", leaf, gpu, submitted=at + 1, checkpoint_every=300) for n, (at, _, gpu, leaf) in enumerate(rows)
    )
    record, simulation = recorded(given, arrivals, {f"j{n}": Work(row[1]) for n, row in enumerate(rows)}, until)
    summary = simulation.summary()
    queues = summary["queues"]
    assert isinstance(queues, dict)
    assert record.elapsed == summary["elapsed"]
    assert record.total("used") // 1000 == summary["card_seconds"]
    assert (record.total("evictions"), record.total("lost")) == (summary["evictions"], summary["lost_milli_seconds"])
    for tenant, figures in record.tenants.items():
        (leaf,) = (each for name, each in queues.items() if name.startswith(f"{tenant}/"))
        for key in ("arrived", "ended", "running", "waiting", "evicted", "card_seconds", "lost_milli_seconds"):
            assert figures[key] == leaf[key], (tenant, key)
    assert all(len(record.series[name]) <= MAX_POINTS for name in SERIES)
    assert all(value >= 0 for name in SERIES for value in record.series[name])


def test_memory_is_bounded_and_nothing_is_lost_by_merging() -> None:
    given = snapshot(pool(1), QUEUES, [])
    recorder = Recorder(given, tuple(job(f"j{n}", "b/batch", 8, submitted=n * 977) for n in range(1, 3001)))
    for n in range(1, 3001):
        recorder.see(Event(n * 977, "arrive", f"j{n}", {"queue": "b/batch"}))
        placement = [{"node": "n1", "cards": list(range(8)), "milli": 8000}]
        recorder.see(Event(n * 977, "start", f"j{n}", {"placement": placement}))
        recorder.see(Event(n * 977 + 400, "end", f"j{n}", {"reason": "completed"}))
    record = recorder.close(3001 * 977)
    assert MAX_POINTS // 2 <= len(record.series["used"]) <= MAX_POINTS
    assert (record.total("used"), record.total("ended")) == (3000 * 400 * 8000, 3000)
    assert record.width * len(record.series["used"]) >= record.elapsed


def test_fragmentation_is_what_the_usual_job_cannot_use() -> None:
    """Half of the jobs want a whole node, half a quarter of a card; one quarter runs on an empty node for 100 s."""
    given = snapshot(pool(1), QUEUES, [])
    arrivals = (job("q", "b/batch", 0.25, submitted=1), job("w", "b/batch", 8, submitted=200))
    record, _ = recorded(given, arrivals, {"q": Work(99), "w": Work(50)}, 300)
    # While q runs, all 7.75 free cards are of no use to the one, and of full use to the other.
    assert record.weight == 2
    assert record.total("stranded") == 7750 * 99
    assert record.fragmentation() == 7750 * 99 // (2 * record.elapsed)


def test_a_job_that_never_started_counts_with_its_wait_so_far() -> None:
    given = snapshot(pool(1), QUEUES, [running("r", "b/batch", "n1")])
    record, _ = recorded(given, (job("w", "b/batch", 8, submitted=100),), {}, 1100)
    assert record.waits == {"mean": 1000, "p50": 1000, "p95": 1000, "max": 1000}
    assert record.tenants["b"]["waiting"] == 1


def test_violations_are_counted() -> None:
    recorder = Recorder(snapshot(pool(1), QUEUES, []))
    recorder.see(Event(0, "violation", "x", {"rule": "r", "text": "t"}))
    assert recorder.close(10).violations == 1


@pytest.mark.parametrize(
    ("waits", "expected"),
    [([], (0, 0, 0, 0)), ([7], (7, 7, 7, 7)), ([0, 100], (50, 0, 100, 100)), (list(range(1, 101)), (50, 50, 95, 100))],
)
def test_waits_by_nearest_rank(waits: list[int], expected: tuple[int, ...]) -> None:
    assert tuple(waits_json(waits).values()) == expected


def test_differences_are_those_of_the_numbers_that_are_shown() -> None:
    assert (figure_text("utilisation", 741), difference_text("utilisation", -32)) == ("74.1 %", "-3.2")
    assert (figure_text("lost_hours", 12), difference_text("lost_hours", 12)) == ("1.2", "+1.2")
    assert (figure_text("wait_p50", 192), difference_text("wait_p50", -192)) == ("3m12s", "-3m12s")
    assert (figure_text("evicted", 3), difference_text("evicted", 0)) == ("3", "=")


def test_a_tenant_that_a_run_does_not_have_has_done_nothing() -> None:
    given = snapshot(pool(1), QUEUES, [])
    record, simulation = recorded(given, (), {}, 10)
    outcome = Outcome("baseline", (), simulation.summary(), record)
    assert set(tenant_figures(outcome, "nobody").values()) == {0}
    assert run_figures(outcome)["utilisation"] == 0
    assert outcome.json()["run"] == "baseline"
