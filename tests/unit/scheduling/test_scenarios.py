"""The golden scenarios of the scheduler, on the core."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from millpond.domain.reasons import Code, Reason
from millpond.scheduling.decisions import Plan, Rank, plan_bytes
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Hold, RunState, Seat, Snapshot
from tests.builders import codes, draining, evicted, job, node, pool, queue, running, snapshot, started, step

NIGHT_QUEUES = (
    queue("trade/prod", g=16, d=16),
    queue("factor/batch", d=40, c=40),
    queue("nlp/besteffort", c=24),
    queue("trade", c=64),
)


def reason(result: Plan, name: str, code: Code) -> Reason:
    return next(r for wait in result.wait if wait.job == name for r in wait.reasons if r.code is code)


def night(*more: object) -> Snapshot:
    factor = [running(f"f{i}", "factor/batch", f"n{i}", saved=120) for i in range(1, 6)]
    nlp = [running(f"l{i}", "nlp/besteffort", f"n{5 + i}", saved=100 * i) for i in range(1, 4)]
    return snapshot(pool(8), NIGHT_QUEUES, [*factor, *nlp, *more])  # type: ignore[list-item]


def test_s01_night_cap() -> None:
    result = plan(night(job("f6", "factor/batch", 8)))
    assert not result.start
    assert not result.evict
    assert codes(result, "f6") == ["QUEUE_CAP"]
    found = reason(result, "f6", Code.QUEUE_CAP)
    assert (found.limit, found.have, found.need) == (40000, 40000, 8000)


def test_s01_morning() -> None:
    before = night(job("t1", "trade/prod", 8, nodes=2, service=True))
    result = plan(before)
    assert sorted(evicted(result)) == ["l1", "l2"]
    assert [hold.job for hold in result.hold] == ["t1"]
    assert {seat.node for seat in result.hold[0].seats} == {"n6", "n7"}
    assert codes(result, "t1") == ["PREEMPTING"]
    assert result.hold[0].rank is Rank.GUARANTEED
    after = plan(step(before, result))
    assert started(after) == ["t1"]
    assert not after.evict
    assert after.start[0].seats == result.hold[0].seats


def test_s01_more_trade() -> None:
    trade = running("t1", "trade/prod", ["n6", "n7"])
    others = [j for j in night().jobs if j.id not in {"l1", "l2"}]
    base = snapshot(pool(8), NIGHT_QUEUES, [*others, trade])
    firm = plan(replace(base, jobs=(*base.jobs, job("t2", "trade/prod", 8))))
    assert codes(firm, "t2") == ["NEEDS_GUARANTEE"]
    assert not firm.evict
    soft = plan(replace(base, jobs=(*base.jobs, job("t2", "trade/prod", 8, preemptible=True))))
    assert evicted(soft) == ["l3"]
    assert soft.hold[0].rank is Rank.BORROWED_PROD


def test_s01_evening() -> None:
    jobs = [j for j in night().jobs if j.id not in {"l1", "l2"}]
    waiting = [job(f"l{i}", "nlp/besteffort", 8, submitted=-9000) for i in (1, 2)]
    result = plan(snapshot(pool(8), NIGHT_QUEUES, [*jobs, *waiting]))
    assert started(result) == ["l1", "l2"]


@pytest.mark.parametrize("leaf", ["x/batch", "x/besteffort"])
def test_s02_fragmented(leaf: str) -> None:
    busy = [running(f"b{i}", leaf, f"n{i}", 3) for i in range(1, 5)]
    result = plan(snapshot(pool(4), [queue("x/batch"), queue("x/besteffort")], [*busy, job("p", leaf, 8)]))
    assert codes(result, "p") == ["FRAGMENTED"]
    found = reason(result, "p", Code.FRAGMENTED)
    assert (found.need, found.have, found.free) == (8000, 5000, 20000)
    assert not result.evict


def test_s03_fraction_cap() -> None:
    jobs = [job("a", "x/batch", "0.1"), job("b", "x/batch", "0.2", submitted=1), job("c", "x/batch", "0.001")]
    jobs[2] = replace(jobs[2], submitted=2)
    result = plan(snapshot(pool(1, 1), [queue("x/batch", cap_milli=300)], jobs, now=5))
    assert started(result) == ["a", "b"]
    assert codes(result, "c") == ["QUEUE_CAP"]


def test_s04_only_the_besteffort_half() -> None:
    jobs = [
        running("e", "x/besteffort", "n1", "0.5", cards=[0]),
        running("d1", "y/batch", "n1", "0.5", cards=[0]),
        running("d2", "y/batch", "n1", 1, cards=[1]),
        job("p", "z/prod", "0.25"),
    ]
    queues = [queue("x/besteffort"), queue("y/batch", d=2), queue("z/prod", g=1)]
    result = plan(snapshot(pool(1, 2), queues, jobs))
    assert evicted(result) == ["e"]
    assert result.hold[0].seats == (Seat("n1", (0,), 250),)


def test_s05_least_lost_work() -> None:
    jobs = [
        running("j1", "x/besteffort", "n1", age=10_800, saved=120),
        running("j2", "x/besteffort", "n2", age=600),
        job("p", "z/prod", 8),
    ]
    result = plan(snapshot(pool(2), [queue("x/besteffort"), queue("z/prod", g=8)], jobs))
    assert [(e.job, e.lost, e.why) for e in result.evict] == [("j1", 960_000, "reclaim")]


def test_s06_whole_gang() -> None:
    jobs = [
        running("gang", "x/besteffort", ["n1", "n2"], saved=100),
        running("one", "x/besteffort", "n3", saved=625),
        job("p", "z/prod", 8),
    ]
    result = plan(snapshot(pool(3), [queue("x/besteffort"), queue("z/prod", g=8)], jobs))
    assert [(e.job, e.lost) for e in result.evict] == [("gang", 1_600_000)]
    assert [seat.node for seat in result.hold[0].seats] == ["n1"]


def test_s07_hold_keeps_cards() -> None:
    victim = draining(running("v", "x/besteffort", "n1"), until=20)
    jobs = [victim, job("p", "z/prod", 8), job("x", "x/besteffort", 1)]
    queues = [queue("x/besteffort"), queue("z/prod", g=8)]
    hold = Hold("p", (Seat("n1", tuple(range(8))),), 80, ("v",))
    before = snapshot(pool(1), queues, jobs, holds=[hold])
    result = plan(before)
    assert codes(result, "x") == ["RESERVED_FOR"]
    assert reason(result, "x", Code.RESERVED_FOR).jobs == ("p",)
    assert codes(result, "p") == ["PREEMPTING"]
    assert not result.drop_holds
    after = plan(step(before, result))
    assert started(after) == ["p"]
    assert after.drop_holds == ("p",)


def s09(jobs: list[object], now: int = 0) -> Snapshot:
    return snapshot(pool(8), [queue("a/batch", d=32), queue("b/batch", d=32)], jobs, now=now)  # type: ignore[arg-type]


def test_s09_reclaims_the_latest() -> None:
    mine = [running(f"b{i}", "b/batch", f"n{i}", age=1000 - i) for i in range(1, 9)]
    claims = [job(f"a{i}", "a/batch", 8) for i in range(1, 5)]
    result = plan(s09([*mine, *claims]))
    assert sorted(evicted(result)) == ["b5", "b6", "b7", "b8"]
    seats = [(Seat(f"n{index}", tuple(range(8))),) for index in range(5, 9)]
    theirs = [
        replace(claim, state=RunState.RUNNING, started=0, seats=at) for claim, at in zip(claims, seats, strict=True)
    ]
    fifth = plan(s09([*mine[:4], *theirs, job("a5", "a/batch", 8)]))
    assert codes(fifth, "a5") == ["INSUFFICIENT_CARDS"]
    assert fifth.wait[0].rank is Rank.BORROWED_BATCH
    assert not fifth.evict


def test_s10_no_ping_pong() -> None:
    world = s09([running("b", "b/batch", [f"n{i}" for i in range(1, 9)]), job("a", "a/batch", 8)])
    total = 0
    for _ in range(180):
        result = plan(world)
        total += len(result.evict)
        world = step(world, result)
    assert total == 1
    assert {j.id for j in world.jobs if j.state is RunState.RUNNING} == {"a"}


@pytest.mark.parametrize(("priority", "outcome"), [(50, ["PREEMPTING"]), (10, ["QUEUE_CAP"])])
def test_s11_priority_inside_a_leaf(priority: int, outcome: list[str]) -> None:
    jobs = [running("r", "x/batch", ["n1", "n2"], priority=10), job("p", "x/batch", 8, nodes=2, priority=priority)]
    result = plan(snapshot(pool(4), [queue("x/batch", d=16, c=16)], jobs))
    assert codes(result, "p") == outcome
    assert evicted(result) == (["r"] if priority == 50 else [])
    assert all(e.why == "preempt" for e in result.evict)


def test_s14_link_islands() -> None:
    island_node = node("n1", islands=((0, 1, 2, 3), (4, 5, 6, 7)))
    jobs = [running("r", "x/batch", "n1", 1, cards=[0]), job("two", "x/batch", 2), job("four", "x/batch", 4)]
    result = plan(snapshot([island_node], [queue("x/batch")], jobs))
    seats = {start.job: start.seats[0].cards for start in result.start}
    assert set(seats["two"]) < {1, 2, 3}
    assert seats["four"] == (4, 5, 6, 7)


def test_s18_card_hours() -> None:
    jobs = [running("r", "x/batch", "n1", 8, age=0, max_duration=5400), job("p", "x/batch", 8, max_duration=3600)]
    result = plan(snapshot(pool(4), [queue("x/batch", hours=(100, 82))], jobs))
    found = reason(result, "p", Code.CARD_HOURS_EXHAUSTED)
    assert (found.need, found.have) == (8000, 6000)
    assert codes(result, "p") == ["CARD_HOURS_EXHAUSTED"]


def test_s20_tenant_cap() -> None:
    jobs = [running("r", "x/prod", ["n1", "n2"]), job("p", "x/batch", 8)]
    queues = [queue("x", c=20), queue("x/prod", g=16), queue("x/batch", d=4)]
    result = plan(snapshot(pool(4), queues, jobs))
    assert codes(result, "p") == ["TENANT_CAP"]
    found = reason(result, "p", Code.TENANT_CAP)
    assert (found.limit, found.have, found.need) == (20000, 16000, 8000)


def test_s21_any_order_same_bytes() -> None:
    before = night(
        job("t1", "trade/prod", 8, nodes=2),
        *(job(f"x{i}", "nlp/besteffort", i % 3 + 1, submitted=-i % 5) for i in range(12)),
        *(job(f"y{i}", "factor/batch", 1, priority=i % 4) for i in range(12)),
    )
    expected = plan_bytes(plan(before))
    chance = random.Random(21)
    for _ in range(100):
        lists = [list(before.nodes), list(before.queues), list(before.jobs)]
        for items in lists:
            chance.shuffle(items)
        nodes, queues, jobs = lists
        shuffled = replace(before, nodes=tuple(nodes), queues=tuple(queues), jobs=tuple(jobs))  # type: ignore[arg-type]
        assert plan_bytes(plan(shuffled)) == expected


def test_s22_elastic() -> None:
    jobs = [running("r", "x/batch", "n1", 6), job("p", "x/batch", "1..4")]
    result = plan(snapshot(pool(1), [queue("x/batch")], jobs))
    assert result.start[0].seats == (Seat("n1", (6, 7)),)


def test_s23_heterogeneous() -> None:
    nodes = [node("n1", 2, model="A100-40GB"), node("n2", 2, model="A800-80GB")]
    base = [job("p", "x/batch", "A100,A800:2", priority=90)]
    only = [job("q", "x/batch", "A100:2")]
    result = plan(snapshot(nodes, [queue("x/batch")], base + only))
    assert {start.job: start.seats[0].node for start in result.start} == {"p": "n2", "q": "n1"}


def test_s24_fewer_lost_beats_fewer_jobs() -> None:
    jobs = [
        running("a1", "x/besteffort", "n1", 4, cards=range(4), saved=10),
        running("a2", "x/besteffort", "n1", 4, cards=range(4, 8), saved=10),
        running("b", "x/besteffort", "n2", 8, saved=7),
        job("p", "z/prod", 8),
    ]
    result = plan(snapshot(pool(2), [queue("x/besteffort"), queue("z/prod", g=8)], jobs))
    assert evicted(result) == ["b"]


@pytest.mark.parametrize("deserved", [0, 16])
def test_s25_lower_priority_first(deserved: int) -> None:
    jobs = [
        running("r1", "x/batch", "n1", priority=30, saved=60),
        running("r2", "x/batch", "n2", priority=20, age=300),
        job("p", "x/batch", 8, priority=31),
    ]
    result = plan(snapshot(pool(2), [queue("x/batch", d=deserved, c=16)], jobs))
    assert evicted(result) == ["r2"]


S26_QUEUES = (
    queue("a/prod", d=16),
    queue("a/batch", d=8),
    queue("b/batch", d=32),
    queue("c/batch", d=8),
)


def test_s26_family() -> None:
    mine = [running(f"a{i}", "a/batch", f"n{i}", age=100, saved=1) for i in range(1, 4)]
    theirs = [running(f"c{i}", "c/batch", f"n{3 + i}", age=100 - i, saved=50) for i in range(1, 6)]
    result = plan(snapshot(pool(8), S26_QUEUES, [*mine, *theirs, job("b1", "b/batch", 8)]))
    assert evicted(result)[0].startswith("c")
    held = [running(f"b{i}", "b/batch", f"n{4 + i}") for i in range(1, 5)]
    later = plan(snapshot(pool(8), S26_QUEUES, [*mine, theirs[0], *held, job("p", "a/prod", 8, preemptible=True)]))
    assert evicted(later) == ["a3"]
    assert later.hold[0].rank is Rank.DESERVED
