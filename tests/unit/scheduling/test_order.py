"""Who goes first, and who waits behind whom."""

from __future__ import annotations

from millpond.domain.reasons import Code
from millpond.scheduling.check import check
from millpond.scheduling.order import Order
from millpond.scheduling.state import State
from tests.builders import codes, draining, job, plan, pool, queue, running, snapshot, started


def test_leaf_order() -> None:
    jobs = [
        job("late", "t/batch", 1, submitted=-1),
        job("b", "t/batch", 1, submitted=-5),
        job("a", "t/batch", 1, submitted=-5),
        job("high", "t/batch", 1, priority=90),
    ]
    assert started(plan(snapshot(pool(1), [queue("t/batch")], jobs))) == ["high", "a", "b", "late"]


def test_rank_then_share_then_time() -> None:
    queues = [queue("a/prod", g=2), queue("b/batch", d=4), queue("c/batch", d=4), queue("d/besteffort")]
    jobs = [
        job("d1", "d/besteffort", 1, submitted=-90),
        job("b1", "b/batch", 1, submitted=-50),
        job("b2", "b/batch", 1, submitted=-50),
        job("c1", "c/batch", 1, submitted=-10),
        job("c2", "c/batch", 1, submitted=-10),
        job("a1", "a/prod", 1),
    ]
    assert started(plan(snapshot(pool(1), queues, jobs))) == ["a1", "b1", "c1", "b2", "c2", "d1"]


def test_fifo_lets_nobody_pass() -> None:
    brief = {"max_duration": 600}  # so that what is reserved for `big` is open to it
    jobs = [
        job("big", "t/batch", 8, submitted=-9),
        job("small", "t/batch", 1, **brief),
        job("other", "u/batch", 1, **brief),
    ]
    busy = running("r", "u/batch", "n1", 2)
    result = plan(snapshot(pool(1), [queue("t/batch", fifo=True), queue("u/batch")], [busy, *jobs]))
    assert started(result) == ["other"]
    assert codes(result, "small") == ["BEHIND"]
    (wait,) = [wait for wait in result.wait if wait.job == "small"]
    assert wait.reasons[0].jobs == ("big",)
    traverse = plan(snapshot(pool(1), [queue("t/batch"), queue("u/batch")], [busy, *jobs]))
    assert sorted(started(traverse)) == ["other", "small"]


def test_positions() -> None:
    jobs = [job(f"p{i}", "t/batch", 8, submitted=-i, priority=10 * i) for i in range(1, 4)]
    result = plan(snapshot(pool(1), [queue("t/batch")], jobs))
    assert started(result) == ["p3"]
    assert [(wait.job, wait.position) for wait in result.wait] == [("p2", 1), ("p1", 2)]


def test_jobs_put_back_keep_their_order() -> None:
    jobs = [job(name, "t/batch", 1, submitted=when) for name, when in (("a", -3), ("b", -3), ("c", -2))]
    other = job("x", "u/batch", 1, submitted=-9)
    state = State(snapshot(pool(1), [queue("t/batch"), queue("u/batch")], [*jobs, other]))
    order = Order(state)
    first = [waiting for _ in range(2) if (waiting := order.take()) is not None]
    for waiting in first:
        order.back(waiting)
    taken = []
    while (waiting_next := order.take()) is not None:
        taken.append(waiting_next.id)
    assert [waiting.id for waiting in first] == ["x", "a"]
    assert taken == ["x", "a", "b", "c"]


def test_a_queue_that_is_gone_takes_nothing() -> None:
    jobs = [job("p", "gone/weird", 1), job("q", "gone/prod", 1)]
    result = plan(snapshot(pool(1), [], jobs))
    assert codes(result, "p") == [Code.QUEUE_CAP]
    assert codes(result, "q") == [Code.QUEUE_CAP, Code.NEEDS_GUARANTEE]


def test_budgets_of_jobs_without_a_limit() -> None:
    queues = [queue("t/batch", hours=(10, 10)), queue("u/batch", hours=(10, 9))]
    jobs = [job("p", "t/batch", 1), job("q", "u/batch", 1), job("z", "t/batch", 0)]
    result = plan(snapshot(pool(1), queues, jobs))
    assert sorted(started(result)) == ["q", "z"]
    assert codes(result, "p") == ["CARD_HOURS_EXHAUSTED"]


def test_an_elastic_gang_shrinks_to_its_cap_and_its_room() -> None:
    jobs = [job("p", "t/batch", "1..4", nodes=2)]
    result = plan(snapshot(pool(2), [queue("t/batch", c=6)], jobs))
    assert [len(seat.cards) for seat in result.start[0].seats] == [3, 3]


def test_what_a_job_leaves_that_loses_its_place_goes_to_the_first_who_waits() -> None:
    """The firm one takes half of what the wide one had; the rest is for the next of the queue, not for the least."""
    wide = job("wide", "a/prod", 4, preemptible=True, submitted=-200)
    following = job("next", "a/prod", 2, preemptible=True, submitted=-100)
    firm = job("firm", "a/prod", 2, priority=10, preemptible=False)
    least = job("least", "b/besteffort", 2)
    given = snapshot(pool(1, 4), [queue("a/prod", g=2), queue("b/besteffort")], [wide, following, firm, least])
    result = plan(given)
    assert sorted(started(result)) == ["firm", "next"]
    assert check(given, result) == ()


def test_who_was_too_much_for_a_guarantee_is_judged_again_when_somebody_no_longer_counts() -> None:
    """The one who leaves fills the guarantee until a hold counts in its place, which may be stopped."""
    leaver = draining(running("r", "a/prod", "n1", 2), until=10)
    victim = running("v", "b/besteffort", "n1", 2, cards=(2, 3))
    firm, soft = job("firm", "a/prod", 1), job("soft", "a/prod", 2, priority=10, preemptible=True)
    given = snapshot(pool(1, 4), [queue("a/prod", g=2), queue("b/besteffort")], [leaver, victim, firm, soft])
    result = plan(given)
    assert {hold.job: hold.victims for hold in result.hold} == {"firm": ("v",), "soft": ("r",)}
    assert check(given, result) == ()
