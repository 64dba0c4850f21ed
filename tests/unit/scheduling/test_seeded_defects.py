"""Does the checker find a planner that is wrong?  Each defect is a planner with one rule taken out of its view, or the
real plan with one thing changed, on a world where the real plan has no violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from millpond.domain.queues import Dequeue, QueueConfig
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, Rank, Start, Wait
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Hold, Job, PastEviction, Seat, Snapshot
from tests.builders import draining, job, node, pool, queue, running, snapshot

Planner = Callable[[Snapshot], Plan]


@dataclass(frozen=True)
class Defect:
    """``wrong`` plans for ``world`` what breaks ``rule``."""

    name: str
    rule: str
    world: Snapshot
    wrong: Planner


# -- worlds

BATCH = (queue("a/prod", g=8, d=8), queue("a/batch", d=8), queue("b/batch", d=8), queue("b/besteffort"))


def world(jobs: Iterable[Job], *, queues: Iterable[QueueConfig] = BATCH, nodes: int = 1, **more: object) -> Snapshot:
    return snapshot(pool(nodes), queues, jobs, **more)  # type: ignore[arg-type]


BUSY = world([running("v", "b/besteffort", "n1", 4), job("w", "b/batch", 4), job("x", "b/besteffort", 2)])
CAPPED = world(
    [running("v", "a/batch", "n1", 4), job("w", "a/batch", 4)],
    queues=(queue("a", d=8, c=6), queue("a/batch", d=8), queue("b/batch")),
)
FIRM = world([job("w", "b/batch", 4, preemptible=False), job("x", "a/batch", 1)])
OUTSIDE = world([running("v", "b/batch", "n1"), job("w", "a/batch", 8)])
GUARANTEED = world(
    [running("v", "a/prod", "n1", preemptible=True), job("w", "b/batch", 8)],
    queues=(queue("a/prod", g=8, d=8), queue("b/batch", d=8)),
)
FAMILY = world(
    [running("v", "a/batch", "n1"), job("w", "b/batch", 8)],
    queues=(queue("a/prod", g=8, d=8), queue("a/batch"), queue("b/batch", d=8)),
)
GANG = world([job("w", "b/batch", 4, nodes=2), job("x", "b/besteffort", 1)], nodes=3)
HELD = world(
    [job("p", "a/prod", 8), draining(running("v", "b/besteffort", "n1", 4), 10), job("w", "b/batch", 2)],
    holds=[Hold("p", (Seat("n1", tuple(range(8))),), 70, ("v",))],
)
RESERVED = world(
    [
        running("r", "b/batch", "n1", 4, age=0, max_duration=3600),
        job("h", "b/batch", 8, submitted=-30, max_duration=600),
        job("s", "b/batch", 4, submitted=-20, max_duration=5000),
    ],
    queues=(queue("b/batch"),),
)
CLAIM = world(
    [running("v", "b/besteffort", "n1"), running("u", "b/besteffort", "n2", 4), job("w", "a/prod", 8)], nodes=2
)
YOUNG = world(
    [running("v", "b/besteffort", "n1", age=30), job("w", "a/batch", 8)],
    queues=(queue("a/batch"), queue("b/besteffort")),
    min_runtime=60,
)
COOLING = world(
    [running("v", "b/besteffort", "n1", age=300), job("w", "a/batch", 8)],
    queues=(queue("a/batch"), queue("b/besteffort")),
    evictions=[PastEviction("a/batch", "b/besteffort", -30)],
    cooldown=60,
)
SLICED = snapshot(
    [node("n1", 2, model="A100-40GB", memory=40_960)],
    BATCH,
    [job("w", "b/batch", "mig-3g.20gb"), job("x", "b/batch", "mig-1g.5gb"), job("y", "b/batch", "mig-2g.10gb")],
)
RACKS = snapshot(
    [node(f"n{number}", labels={"rack": f"r{number % 2}"}) for number in (1, 2, 3)],
    BATCH,
    [running("v", "b/besteffort", "n3", preemptible=False), job("w", "b/batch", 8, nodes=2, require="rack")],
)
LINKED = snapshot(
    [node("n1", islands=((0, 1, 2, 3), (4, 5, 6, 7)))],
    BATCH,
    [running("v", "b/batch", "n1", 4, cards=(0, 1, 4, 5)), job("w", "b/batch", 4, require="link")],
)
SPENT = world(
    [job("w", "b/batch", 8, max_duration=3600)],
    queues=(queue("b", hours=(10, 5)), queue("b/batch", d=8)),
)
SCATTERED = world(
    [
        running("v1", "b/besteffort", "n1", 4),
        running("v2", "b/besteffort", "n2", 4),
        running("v3", "b/besteffort", "n3", 4),
        job("w", "b/besteffort", 8, submitted=-900),
    ],
    nodes=3,
    consolidate_after=600,
)
FIFO = world(
    [
        job("h", "b/batch", 8, submitted=-30),
        job("w", "b/batch", 2, submitted=-20, max_duration=60),
        running("v", "a/batch", "n1", 4),
    ],
    queues=(queue("a/batch", d=8), queue("b/batch", fifo=True)),
)
EQUALS = world(
    [
        running("v", "b/batch", "n1", 4),
        job("first", "b/batch", 4, submitted=-30),
        job("second", "b/batch", 4, submitted=-20),
    ]
)
EQUAL_PRIORITY = world(
    [running("v", "b/batch", "n1", priority=50), job("w", "b/batch", 8, priority=50)],
    queues=(queue("b/batch", d=8, c=8),),
)
SICK = snapshot(
    [node("n1", lost=True), node("n2", cordoned=True), node("n3", bad=[0, 1, 2, 3, 4])],
    BATCH,
    [job("w", "b/batch", 8), job("x", "b/batch", 4)],
)
CROWDED = world(
    [replace(running("v", "b/batch", "n1", 1), cpu=100_000, memory=2_000_000),
     job("w", "b/batch", 1, cpu=64_000, memory=1_000_000)],
)  # fmt: skip
PINNED = world([running("v", "b/besteffort", "n1", preemptible=False), job("w", "a/batch", 8)])
MIXED = snapshot(
    [node("n1"), node("n2", model="H20-96GB", memory=98_304)],
    BATCH,
    [running("v", "b/batch", "n1"), job("w", "b/batch", "A800:4")],
)


# -- planners with one rule out of their view


def blind(change: Callable[[Snapshot], Snapshot]) -> Planner:
    """Plans for another world than the real one."""
    return lambda given: plan(change(given))


def without_job(name: str) -> Planner:
    return blind(lambda given: replace(given, jobs=tuple(one for one in given.jobs if one.id != name)))


def with_job(name: str, **more: object) -> Planner:
    """Takes one job for another than it is."""
    return blind(
        lambda given: replace(
            given,
            jobs=tuple(replace(one, **more) if one.id == name else one for one in given.jobs),  # type: ignore[arg-type]
        )
    )


def with_queue(name: str, **more: object) -> Planner:
    return blind(
        lambda given: replace(
            given,
            queues=tuple(replace(one, **more) if one.name == name else one for one in given.queues),  # type: ignore[arg-type]
        )
    )


def with_nodes(**more: object) -> Planner:
    return blind(
        lambda given: replace(given, nodes=tuple(replace(one, **more) for one in given.nodes))  # type: ignore[arg-type]
    )


def with_settings(**more: int) -> Planner:
    return blind(lambda given: replace(given, settings=replace(given.settings, **more)))


# -- the real plan with one thing changed


def seated(name: str, change: Callable[[tuple[Seat, ...]], tuple[Seat, ...]]) -> Planner:
    """Another placement for one job that starts."""

    def wrong(given: Snapshot) -> Plan:
        found = plan(given)
        starts = tuple(replace(one, seats=change(one.seats)) if one.job == name else one for one in found.start)
        return replace(found, start=starts)

    return wrong


def told(name: str, *reasons: Reason) -> Planner:
    """Other reasons for one job that waits."""

    def wrong(given: Snapshot) -> Plan:
        found = plan(given)
        return replace(
            found, wait=tuple(replace(one, reasons=reasons) if one.job == name else one for one in found.wait)
        )

    return wrong


def changed(change: Callable[[Plan], Plan]) -> Planner:
    return lambda given: change(plan(given))


def _begun(found: Plan, name: str, *cards: int) -> Plan:
    """A job that waits starts on cards of n1."""
    [wait] = [one for one in found.wait if one.job == name]
    start = Start(name, wait.rank or Rank.DESERVED, (Seat("n1", cards),))
    return replace(found, start=(start,), wait=tuple(one for one in found.wait if one.job != name))


def _start_held(found: Plan) -> Plan:
    return replace(_begun(found, "w", 6, 7), reservations=())


def _start_reserved(found: Plan) -> Plan:
    """`s` starts on the cards that are free until `h` needs them, and `h` is told a later time."""
    [reserved] = found.reservations
    return replace(_begun(found, "s", 4, 5, 6, 7), reservations=(replace(reserved, time=5000),))


def _kept_waiting(found: Plan) -> Plan:
    """The last start does not happen."""
    last = found.start[-1]
    why = Reason(Code.INSUFFICIENT_CARDS, "none", need=2000, have=0)
    return replace(found, start=found.start[:-1], wait=(*found.wait, Wait(last.job, 1, last.rank, (why,))))


def _one_more_victim(found: Plan) -> Plan:
    """`u`, which sits on other cards, is sent away too."""
    [first] = found.evict
    [hold] = found.hold
    return replace(
        found,
        evict=(first, replace(first, job="u" if first.job == "v" else "v")),
        hold=(replace(hold, victims=("u", "v")),),
    )


def _swapped(found: Plan) -> Plan:
    """The later one of two equal jobs goes first."""
    other = {"first": "second", "second": "first"}
    return replace(
        found,
        start=tuple(replace(one, job=other[one.job]) for one in found.start),
        wait=tuple(replace(one, job=other[one.job]) for one in found.wait),
    )


DEFECTS = (
    Defect("a taken card is given again", "card-overcommit", BUSY, without_job("v")),
    Defect("the cap of a tenant is not seen", "cap-exceeded", CAPPED, with_queue("a", cap=None)),
    Defect("what may not be stopped borrows", "needs-guarantee", FIRM, with_job("w", preemptible=True)),
    Defect("a victim of equal rank", "eviction-forbidden", OUTSIDE, with_queue("b/batch", deserved={"cards": 0})),
    Defect(
        "a guaranteed job is reclaimed", "eviction-forbidden", GUARANTEED,
        with_queue("a/prod", guarantee={"cards": 0}, deserved={"cards": 0}),
    ),
    Defect(
        "a stranger drives out a family job", "eviction-forbidden", FAMILY,
        with_queue("a/prod", guarantee={"cards": 0}, deserved={"cards": 0}),
    ),
    Defect("a job that may not be stopped is evicted", "eviction-forbidden", PINNED, with_job("v", preemptible=True)),
    Defect("equal priority preempts", "eviction-forbidden", EQUAL_PRIORITY, with_job("w", priority=51)),
    Defect("half a gang", "gang-broken", GANG, seated("w", lambda seats: seats[:1])),
    Defect("a gang on one node", "gang-broken", GANG, seated("w", lambda s: (s[0], replace(s[0], cards=(4, 5, 6, 7))))),
    Defect("fewer cards than asked for", "seat-wrong", GANG, with_job("w", gpu=job("g", "b/batch", 2).gpu)),
    Defect("held cards are given away", "hold-broken", HELD, changed(_start_held)),
    Defect(
        "a hold ends for no reason", "hold-lost", HELD,
        changed(lambda found: replace(found, drop_holds=("p",), hold=())),
    ),
    Defect("reserved cards are given away", "reservation-taken", RESERVED, changed(_start_reserved)),
    Defect("idle cards while a job waits", "work-conservation", BUSY, changed(_kept_waiting)),
    Defect(
        "a cap that nobody set", "reason-false", OUTSIDE,
        told("w", Reason(Code.QUEUE_CAP, "full", need=8000, have=0, limit=4000, queue="a/batch")),
    ),
    Defect(
        "a number that is not so", "reason-false", OUTSIDE,
        told("w", Reason(Code.INSUFFICIENT_CARDS, "none", need=9000, have=0)),
    ),
    Defect("no reason at all", "unexplained", OUTSIDE, told("w")),
    Defect("a lost node, a cordoned one", "unusable-place", SICK, with_nodes(lost=False, cordoned=False)),
    Defect("quarantined cards", "unusable-place", SICK, with_nodes(bad_cards=frozenset())),
    Defect("CPU is not counted", "cpu-overcommit", CROWDED, with_job("w", cpu=0, memory=0)),
    Defect("memory is not counted", "memory-overcommit", CROWDED, with_job("v", memory=0, cpu=0)),
    Defect("another model than asked for", "card-mismatch", MIXED, with_job("w", gpu=job("g", "b/batch", 4).gpu)),
    Defect("min_runtime is not seen", "eviction-forbidden", YOUNG, with_settings(min_runtime=0)),
    Defect("cool-down is not seen", "eviction-forbidden", COOLING, blind(lambda given: replace(given, evictions=()))),
    Defect("a victim that could be spared", "eviction-needless", CLAIM, changed(_one_more_victim)),
    Defect("a slice on a slot that it cannot have", "slice-wrong", SLICED,
           seated("w", lambda seats: (replace(seats[0], slot=2),))),
    Defect("slices on the same slots", "slot-overlap", SLICED,
           seated("y", lambda seats: (replace(seats[0], slot=4),))),
    Defect("nodes of two racks", "topology-broken", RACKS, with_job("w", require="")),
    Defect("cards of two islands", "topology-broken", LINKED, with_job("w", require="")),
    Defect("a budget is overdrawn", "budget-exceeded", SPENT, with_queue("b", card_hours=None)),
    Defect("evicted twice", "listed-twice", CLAIM, changed(lambda found: replace(found, evict=found.evict * 2))),
    Defect("somebody unknown is evicted", "unknown-name", CLAIM,
           changed(lambda found: replace(found, evict=(replace(found.evict[0], job="ghost"),)))),
    Defect("who leaves may take its time", "deadline-wrong", CLAIM,
           changed(lambda found: replace(found, evict=(replace(found.evict[0], deadline=3600),)))),
    Defect("lost work is made smaller", "lost-work-wrong", CLAIM,
           changed(lambda found: replace(found, evict=(replace(found.evict[0], lost=1),)))),
    Defect("moved without a checkpoint", "eviction-forbidden", SCATTERED,
           with_job("v1", checkpoint_every=300, checkpointed=-10)),
    Defect("first in, first out is not kept", "order-broken", FIFO, with_queue("b/batch", dequeue=Dequeue.TRAVERSE)),
    Defect("the later of two equal jobs first", "order-broken", EQUALS, changed(_swapped)),
)  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name.replace(" ", "-"))
def test_the_checker_finds_it(defect: Defect) -> None:
    right, wrong = plan(defect.world), defect.wrong(defect.world)
    assert check(defect.world, right) == ()
    assert wrong != right
    assert defect.rule in {violation.rule for violation in check(defect.world, wrong)}
