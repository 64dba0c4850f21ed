"""Properties of plans with slices: the vendor's slots, no overlap, nothing idle for nothing, whatever came and went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.domain.cards import card_request_parse
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.domain.slices import SLICE_TABLES, slice_table
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.pool import Pool, Room
from millpond.scheduling.slices import slice_capacity, slice_seats
from millpond.scheduling.snapshot import Hold, Job, NodeState, RunState, Seat, Snapshot
from millpond.simulation.driver import Simulation
from millpond.simulation.jobs import Work
from tests.properties.worlds import NOW, queue_configs, waiting_jobs

MODELS = {"A100-40GB": 40_960, "A30-24GB": 24_576, "A800-80GB": 81_920}
REQUESTS = (
    "mig-1g.5gb", "mig-1g.5gb", "mig-2g.10gb", "mig-3g.20gb", "mig-4g.20gb", "mig-7g.40gb", "mig-1g.5gb x3",
    "mig-1g.5gb+me", "mig-1g.10gb", "A100-40GB:mig-1g.10gb x2", "mig-1g.6gb", "mig-2g.12gb+me", "0.25", "1", "2",
)  # fmt: skip


@st.composite
def worlds(draw: Callable[..., object]) -> Snapshot:
    """Small pools of cards that divide, with waiting jobs only."""
    count = draw(st.integers(1, 3))
    states = []
    for index in range(1, count + 1):
        model = draw(st.sampled_from(["A100-40GB", "A100-40GB", *sorted(MODELS)]))
        kind = CardKind(str(model), "nvidia", MODELS[str(model)], draw(st.integers(1, 3)))
        bad = draw(st.sampled_from([frozenset(), frozenset(), frozenset({0})]))
        states.append(NodeState(NodeSpec(f"n{index}", 32_000, 262_144, kind), bad_cards=bad))
    pool: dict[str, int] = {}
    for state in states:
        if state.spec.cards is not None:
            pool[state.spec.cards.model] = pool.get(state.spec.cards.model, 0) + state.spec.cards.count * 1000
    queues = draw(queue_configs(pool))
    base = Snapshot(NOW, tuple(states), queues)
    return replace(base, jobs=tuple(_more(draw, base, "w", 10)))


def _more(draw: Callable[..., object], base: Snapshot, prefix: str, most: int) -> list[Job]:
    leaves = tuple(queue for queue in base.queues if queue.leaf)
    jobs = []
    for index in range(draw(st.integers(0, most))):
        job = draw(waiting_jobs(f"{prefix}{index}", leaves))
        assert isinstance(job, Job)
        gpu = card_request_parse(str(draw(st.sampled_from(REQUESTS))))
        jobs.append(replace(job, gpu=gpu, nodes=draw(st.sampled_from([1, 1, 1, 2]))))
    return jobs


def _after(draw: Callable[..., object], before: Snapshot, done: Plan, number: int) -> Snapshot:
    """The world 30 seconds later: some have ended, victims have left or drag on, others have come."""
    seats = {start.job: start.seats for start in done.start}
    deadlines = {evict.job: evict.deadline for evict in done.evict}
    jobs: list[Job] = []
    for job in before.jobs:
        if job.id in seats:
            jobs.append(replace(job, state=RunState.RUNNING, seats=seats[job.id], started=before.now))
        elif job.id in deadlines and draw(st.booleans()):
            jobs.append(replace(job, state=RunState.DRAINING, until=deadlines[job.id]))
        elif job.id in deadlines or (job.state is RunState.DRAINING and draw(st.booleans())):
            jobs.append(replace(job, state=RunState.QUEUED, seats=(), started=None, until=None))
        elif job.state is not RunState.RUNNING or draw(st.integers(0, 2)):
            jobs.append(job)
    there = {job.id for job in jobs if job.state is RunState.DRAINING}
    named = {job.id for job in jobs}
    holds = tuple(
        Hold(hold.job, hold.seats, hold.until, tuple(victim for victim in hold.victims if victim in there))
        for hold in done.hold
        if hold.job in named
    )
    later = replace(before, now=before.now + 30, holds=holds)
    return replace(later, jobs=(*jobs, *_more(draw, later, f"x{number}-", 4)))


@settings(max_examples=80)
@given(worlds(), st.data())
def test_no_plan_with_slices_breaks_a_rule(snapshot: Snapshot, data: st.DataObject) -> None:
    for number in range(3):
        done = plan(snapshot)
        assert check(snapshot, done) == ()
        assert plan_bytes(plan(replace(snapshot, jobs=snapshot.jobs[::-1]))) == plan_bytes(done)
        snapshot = _after(data.draw, snapshot, done, number)


@settings(max_examples=40)
@given(worlds())
def test_a_simulated_hour_with_slices_breaks_no_rule(snapshot: Snapshot) -> None:
    work = {job.id: Work(duration=600 + 60 * index, drain=7) for index, job in enumerate(snapshot.jobs)}
    events = Simulation(snapshot, plan, work=work, until=3600).events()
    assert [event for event in events if event.kind == "violation"] == []


@settings(max_examples=80)
@given(st.sampled_from(SLICE_TABLES), st.lists(st.integers(0, 6), max_size=12), st.data())
def test_slices_fill_a_card_without_overlap(table: object, picks: list[int], data: st.DataObject) -> None:
    """Taken one by one, with some leaving in between, slices keep to the vendor's placements."""
    cards = next(t for t in SLICE_TABLES if t is table)
    room, pool = _card(f"{cards.models[0]}-{cards.memory // 1024}GB", cards.memory)
    seated: list[Seat] = []
    for pick in picks:
        profile = cards.profiles[pick % len(cards.profiles)]
        if not slice_capacity(room.now, profile.name):
            continue
        (seat,) = slice_seats(room.now, profile.name, 1)
        assert seat.slot in profile.starts
        assert not any(room.mask(seat) & room.mask(other) for other in seated)
        pool.put(Job("j", "q"), (seat,), 0)
        seated.append(seat)
        if data.draw(st.integers(0, 3)) == 0:
            gone = seated.pop(data.draw(st.integers(0, len(seated) - 1)))
            pool.put(Job("j", "q"), (gone,), 0, -1)
        assert sum(seat.milli for seat in seated) <= 1000
        assert (room.now.idle == 1) == (not seated)


def _card(model: str, memory: int) -> tuple[Room, Pool]:
    assert slice_table(model, memory) is not None
    pool = Pool([NodeState(NodeSpec("n1", cards=CardKind(model, "nvidia", memory, 1)))])
    return pool.rooms[0], pool
