"""Jobs that are equal are decided like jobs that differ in what no rule asks for (scheduling §5).

The planner judges equal waiting jobs once and passes the others.  The same jobs with memory requests of their own, all
far below what nodes have, form no group: each is judged by itself.  Both ways must say the same, and the checker must
find nothing in it: in crowds, jobs are often displaced by others of the same pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.scheduling.check import check
from millpond.scheduling.decisions import plan_bytes
from millpond.scheduling.resident import Resident
from millpond.scheduling.snapshot import Job, Snapshot
from tests.builders import job, plan, pool, queue, running, snapshot

LEAVES = ("a/batch", "a/prod", "b/batch", "b/besteffort", "c/batch")
SHAPES = ((250, 1), (1000, 1), (2000, 1), (4000, 2))
"""Milli-cards of a node, and nodes."""


@dataclass(frozen=True)
class Crowd:
    """So many equal jobs, submitted one after the other from a moment on; ``fall``: each of so much less priority."""

    leaf: str
    shape: tuple[int, int]
    priority: int
    count: int
    since: int
    fall: int

    def jobs(self, name: str) -> list[Job]:
        milli, nodes = self.shape
        return [
            job(
                f"{name}{index}",
                self.leaf,
                f"{milli / 1000:g}",
                nodes=nodes,
                priority=self.priority - index * self.fall,
                preemptible=True,
                submitted=self.since + 7 * index,
            )
            for index in range(self.count)
        ]


CROWDS = st.builds(
    Crowd,
    st.sampled_from(LEAVES),
    st.sampled_from(SHAPES),
    st.sampled_from((40, 50)),
    st.integers(1, 12),
    st.integers(-200, -100),
    st.sampled_from((0, 0, 1)),
)


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """A small pool, some of it in use, and crowds of equal jobs for it."""
    queues = [
        queue("a/prod", g=2, d=4, fifo=draw(st.booleans())),
        queue(
            "a/batch",
            g=draw(st.sampled_from((0, 0, 1))),
            d=draw(st.integers(1, 6)),
            c=draw(st.none() | st.integers(6, 9)),
            fifo=draw(st.booleans()),
        ),
        queue("b/batch", d=draw(st.integers(0, 6)), cap_milli=draw(st.none() | st.just(6500))),
        queue("b/besteffort"),
        queue("c/batch", d=draw(st.integers(0, 4))),
    ]
    crowds = draw(
        st.lists(
            CROWDS,
            min_size=1,
            max_size=6,
        )
    )
    busy = [
        running(
            f"r{node}",
            draw(st.sampled_from(LEAVES)),
            f"n{node}",
            draw(st.integers(1, 4)),
            preemptible=True,
            priority=draw(st.integers(30, 50)),
        )
        for node in range(1, draw(st.integers(1, 4)))
    ]
    waiting = [one for index, crowd in enumerate(crowds) for one in crowd.jobs(f"w{index}-")]
    return snapshot(pool(4, 4), queues, [*busy, *waiting])


def apart(before: Snapshot) -> Snapshot:
    """The same jobs, no two of them equal."""
    jobs = (replace(one, memory=1 + index) for index, one in enumerate(before.jobs))
    return replace(before, jobs=tuple(jobs))


@settings(max_examples=200, deadline=None)
@given(crowded())
def test_equal_jobs_are_decided_as_if_each_were_judged(before: Snapshot) -> None:
    together, alone = plan(before), plan(apart(before))
    assert plan_bytes(together) == plan_bytes(alone)
    assert check(before, together) == ()


@settings(max_examples=200, deadline=None)
@given(crowded(), st.lists(CROWDS, max_size=3), st.integers(0, 40))
def test_a_planner_that_stays_passes_equal_jobs_and_decides_the_same(
    before: Snapshot, more: list[Crowd], later: int
) -> None:
    resident = Resident(before)
    resident.adopt(resident.plan())
    resident.now_set(later)
    for index, crowd in enumerate(more):
        for one in crowd.jobs(f"m{index}-"):
            resident.job_put(one)
    brief = resident.plan(waits=False)
    alone = plan(apart(resident.snapshot()))
    assert plan_bytes(brief) == plan_bytes(replace(alone, wait=()))
