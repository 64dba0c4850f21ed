"""The sharing policy of B5 on small random clusters: nobody is worse off than alone, and the figures can tell."""

from __future__ import annotations

from benchmarks.completion import Cluster, fluid_srpt
from benchmarks.replay import Outcome, Replay
from benchmarks.service import Known
from benchmarks.sharing import anomalies, worst
from benchmarks.tenants import islands_run, quotas_of, shared_run, tenants_make
from benchmarks.traces import TraceJob
from hypothesis import given, settings
from hypothesis import strategies as st

rows = st.tuples(st.integers(0, 3000), st.integers(1, 2000), st.sampled_from((1, 2, 4, 8)), st.sampled_from("abc"))


def jobs_of(found: list[tuple[int, int, int, str]]) -> list[TraceJob]:
    return [TraceJob(f"j{number:03}", *row) for number, row in enumerate(sorted(found, key=lambda row: row[0]))]


@settings(max_examples=25, deadline=None)
@given(st.lists(rows, min_size=2, max_size=30))
def test_with_cards_of_one_size_nobody_waits_longer_than_alone(found: list[tuple[int, int, int, str]]) -> None:
    """All jobs take whole nodes, so that free cards are never in the wrong places: the argument holds in full."""
    jobs = [TraceJob(job.id, job.submit, job.duration, 8, job.team) for job in jobs_of(found)]
    tenants = tenants_make(jobs, quotas_of(jobs))
    islands, shared = islands_run(tenants), shared_run(tenants)
    assert anomalies(shared, islands) == []
    assert worst(shared, islands)[0] <= 1


def test_an_anomaly_is_seen() -> None:
    job = TraceJob("j", 0, 100, 1, "a")
    alone = Replay(8, 100, {"j": Outcome(job, first_start=0, end=100)})
    late = Replay(8, 100, {"j": Outcome(job, first_start=30, end=150)})
    assert anomalies(late, {"a": alone}) == ["j"]
    assert anomalies(late, {"a": alone}, slack=30) == []
    assert worst(late, {"a": alone}) == (1.5, 50)


def test_shortest_remaining_service_first_evicts_and_pays_for_starts() -> None:
    """64 cards: a long job runs, a short one of the same size takes its place and the long one comes back."""
    jobs = [
        *(TraceJob(f"long{number}", 0, 10_000, 8, kind="vgg16") for number in range(8)),
        TraceJob("short", 1000, 100, 8, kind="vgg16"),
    ]
    course = Cluster("test", jobs, Known()).run()
    assert course.evictions == 1
    assert min(course.spans) == 10 + 9 + 100, "the victim's leaving, the start, the work"
    assert course.makespan == 1000 + 10 + 9 + 100 + 9 + (10_000 - (1000 - 9))
    assert course.mean >= fluid_srpt(jobs)
