"""Days of random arrivals, ends and lost nodes: no rule is broken, nobody starves, and what is promised is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millpond.scheduling.snapshot import Settings
from tests.builders import job, pool, queue, snapshot
from tests.properties.days import Day, cyclic
from tests.properties.worlds import snapshots, waiting_jobs

WORK = st.sampled_from([60, 600, 1800, 5000])


class Days(RuleBasedStateMachine):
    """One pool for a day.  Each step checks every plan on the way (`Day.settle`)."""

    day: Day
    count: int = 0

    @initialize(first=snapshots(), work=st.lists(WORK, min_size=18, max_size=18), moved=st.sampled_from([None, 900]))
    def begin(self, first, work, moved) -> None:  # type: ignore[no-untyped-def]
        settings = replace(first.settings, reserve_after=1200, consolidate_after=moved, regroup_after=moved)
        self.day = Day(replace(first, settings=settings))
        self.day.work = {item.id: seconds + 100 for item, seconds in zip(first.jobs, work, strict=False)}
        self.begun = first.now
        self.leaves = tuple(config for config in first.queues if config.leaf)
        self.day.settle()

    @rule(data=st.data(), work=WORK)
    def arrive(self, data: st.DataObject, work: int) -> None:
        self.count += 1
        self.day.arrive(data.draw(waiting_jobs(f"a{self.count}", self.leaves)), work)

    @rule(seconds=st.sampled_from([1, 30, 300, 1800, 3600]))
    def pass_time(self, seconds: int) -> None:
        if self.day.now - self.begun < 86_400:
            self.day.pass_time(seconds)

    @precondition(lambda self: len(self.day.snapshot.nodes) > 1)
    @rule(index=st.integers(0, 3), trouble=st.sampled_from(["lost", "cordoned", ""]))
    def node_change(self, index: int, trouble: str) -> None:
        nodes = self.day.snapshot.nodes
        state = nodes[index % len(nodes)]
        self.day.node_put(replace(state, lost=trouble == "lost", cordoned=trouble == "cordoned"))

    @invariant()
    def no_cycle_of_evictions(self) -> None:
        if hasattr(self, "day"):
            assert not cyclic(self.day.evicted)


TestDays = Days.TestCase
TestDays.settings = settings(max_examples=10, stateful_step_count=10)


@pytest.mark.long
@pytest.mark.timeout(1800)
class TestLongDays(Days.TestCase):  # type: ignore[name-defined,misc]
    """The same for longer."""

    settings = settings(max_examples=30, stateful_step_count=20)


LIMITS = st.sampled_from([100, 300, 600])


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 120), st.sampled_from(["0.5", "1", "2", "4"]), LIMITS), max_size=25),
    st.integers(1, 3),
    st.sampled_from([2, 4]),
)
def test_no_stream_of_small_jobs_starves_a_gang(stream: list[tuple[int, str, int]], nodes: int, count: int) -> None:
    """S17 for every stream: in one leaf, whoever comes later is behind, so the first promise holds to the second."""
    day = Day(snapshot(pool(3, 4), [queue("team/batch")], []))
    for number, (gap, gpu, limit) in enumerate(stream[:8]):
        day.arrive(job(f"early{number}", "team/batch", gpu, max_duration=limit), work=limit)
        day.pass_time(gap)
    ahead = {item.id for item in day.waiting()}
    day.arrive(job("gang", "team/batch", count, nodes=nodes, max_duration=5000), work=900)
    promised = day.promised.get("gang")
    for number, (gap, gpu, limit) in enumerate(stream[8:]):
        day.arrive(job(f"late{number}", "team/batch", gpu, max_duration=limit), work=limit)
        day.pass_time(gap)
    day.pass_time(3600)
    assert "gang" in day.started
    if promised is not None and not ahead:
        assert day.started["gang"] <= promised


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["1", "2", "0.5"])), max_size=20), st.booleans())
def test_who_may_be_evicted_then_does_not_push_a_promise_back(stream: list[tuple[int, str]], limited: bool) -> None:
    """S13 for every stream: besteffort jobs without a limit fill in, and are gone when they must."""
    day = Day(snapshot(pool(2, 4), [queue("team/batch", d=8), queue("team/besteffort")], []))
    for number in range(6):
        day.arrive(job(f"busy{number}", "team/batch", 1, max_duration=200 * (number + 1)), work=5000)
    day.arrive(job("gang", "team/batch", 4, nodes=2, max_duration=5000), work=900)
    promised = day.promised["gang"]
    for number, (gap, gpu) in enumerate(stream):
        more = {"max_duration": 40} if limited else {}
        day.arrive(job(f"fill{number}", "team/besteffort", gpu, **more), work=40_000)
        day.pass_time(gap)
    day.pass_time(3600)
    assert day.started["gang"] <= promised + 20


def test_a_gang_that_others_always_overtake_has_its_turn_after_reserve_after() -> None:
    """Its leaf uses more than the crowd's, so the crowd goes first for ever; after an hour it counts as the first."""
    world = snapshot(pool(3, 4), [queue("hog/besteffort"), queue("crowd/besteffort")], [])
    day = Day(replace(world, settings=Settings(reserve_after=3600)))
    day.arrive(job("hog", "hog/besteffort", 4, nodes=2), work=90_000)
    for number in range(4):
        day.arrive(job(f"first{number}", "crowd/besteffort", 1, max_duration=600), work=600)
        day.pass_time(30)
    begun = day.now
    day.arrive(job("gang", "hog/besteffort", 4, max_duration=600), work=600)
    for number in range(60):
        day.arrive(job(f"crowd{number}", "crowd/besteffort", 1, max_duration=600), work=600)
        day.pass_time(120)
    assert 3600 < day.started["gang"] - begun <= 3600 + 600 + 120
