"""The checker: a good plan passes, and each rule catches the plan that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.domain.reasons import Code, Reason
from millpond.scheduling.check import SAFETY_RULES, check
from millpond.scheduling.decisions import Evict, HoldFor, Plan, Rank, Start, Wait
from millpond.scheduling.plan import plan
from millpond.scheduling.snapshot import Hold, Job, Seat, Snapshot
from tests.builders import draining, job, node, pool, queue, running, snapshot

QUEUES = (
    queue("a/prod", g=8, d=8),
    queue("a/batch", d=8, c=8),
    queue("b/batch", d=8),
    queue("b/besteffort"),
)
FULL = tuple(range(8))
WHY = (Reason(Code.INSUFFICIENT_CARDS, "none", need=8000, have=0),)


def world(*jobs: Job, nodes: int = 2, **more: object) -> Snapshot:
    return snapshot(pool(nodes), QUEUES, jobs, **more)  # type: ignore[arg-type]


def start(name: str, *seats: Seat, rank: Rank = Rank.DESERVED) -> Plan:
    return Plan(0, start=(Start(name, rank, seats),))


def wait(name: str, *reasons: Reason) -> Plan:
    return Plan(0, wait=(Wait(name, 1, Rank.DESERVED, reasons or WHY),))


def rules(given: Snapshot, decided: Plan) -> set[str]:
    return {violation.rule for violation in check(given, decided)}


def evict(
    victim: str,
    claim: str,
    why: str = "reclaim",
    node_name: str = "n1",
    cards: tuple[int, ...] = FULL,
    lost: int = 0,
) -> Plan:
    """`claim` holds cards of one node, from which `victim` goes."""
    return Plan(
        0,
        evict=(Evict(victim, claim, why, lost, 20),),
        hold=(HoldFor(claim, Rank.DESERVED, (Seat(node_name, cards),), 80, (victim,)),),
        wait=(Wait(claim, 1, Rank.DESERVED, (Reason(Code.PREEMPTING, "soon", jobs=(victim,)),)),),
    )


def test_a_good_plan_has_no_violation() -> None:
    given = world(job("p", "a/prod", 8), running("v", "b/besteffort", "n1"), job("w", "b/batch", 8), nodes=2)
    assert check(given, plan(given)) == ()


@pytest.mark.parametrize(
    ("decided", "rule"),
    [
        (start("ghost", Seat("n1")), "unknown-name"),
        (start("w", Seat("n9", FULL)), "unknown-name"),
        (wait("ghost"), "unknown-name"),
        (start("w", Seat("n1", (0,)), Seat("n2", (0,))), "gang-broken"),
        (start("w", Seat("n1", (0, 1))), "seat-wrong"),
        (start("w", Seat("n1", (0,) * 8)), "seat-wrong"),
        (start("w", Seat("n1", (1, 2, 3, 4, 5, 6, 7, 8))), "unusable-place"),
        (wait("w"), "work-conservation"),
        (Plan(0), "unexplained"),
        (Plan(0, wait=(Wait("w", 1, None, ()),)), "unexplained"),
        (wait("w", Reason(Code.INSUFFICIENT_CARDS, "x", need=1, have=2)), "reason-false"),
        (wait("w", Reason(Code.QUEUE_CAP, "x", need=1, have=2, limit=9)), "reason-false"),
        (wait("w", Reason(Code.BEHIND, "x")), "reason-false"),
        (wait("w", Reason(Code.BEHIND, "x", jobs=("ghost",))), "reason-false"),
        (Plan(0, evict=(Evict("w", "w", "reclaim", 0, 20),)), "wrong-state"),
        (Plan(0, wait=wait("w").wait * 2), "listed-twice"),
        (Plan(0, start=start("w", Seat("n1", FULL)).start, wait=wait("w").wait), "listed-twice"),
    ],
)
def test_one_waiting_job(decided: Plan, rule: str) -> None:
    assert rule in rules(world(job("w", "b/batch", 8)), decided)


def test_start_and_hold_of_one_job() -> None:
    both = replace(evict("v", "w"), start=start("w", Seat("n2", FULL)).start)
    assert "listed-twice" in rules(world(job("w", "b/batch", 8), running("v", "b/besteffort", "n1")), both)


def test_blocked_job_does_not_start() -> None:
    blocked = job("w", "b/batch", 8, blocked_by=(("HELD", "held"),))
    assert "wrong-state" in rules(world(blocked), start("w", Seat("n1", FULL)))


@pytest.mark.parametrize("trouble", ["cordoned", "draining", "lost"])
def test_closed_node(trouble: str) -> None:
    given = snapshot([node("n1", **{trouble: True})], QUEUES, [job("w", "b/batch", 8)])  # type: ignore[arg-type]
    assert rules(given, start("w", Seat("n1", FULL))) == {"unusable-place"}


def test_quarantined_card() -> None:
    given = snapshot([node("n1", bad=[3])], QUEUES, [job("w", "b/batch", 1)])
    assert rules(given, start("w", Seat("n1", (3,)))) == {"unusable-place"}


def test_wrong_model() -> None:
    given = world(job("w", "b/batch", "H100:1"))
    assert rules(given, start("w", Seat("n1", (0,)))) == {"card-mismatch"}


def test_taken_card() -> None:
    given = world(running("v", "b/besteffort", "n1"), job("w", "b/batch", 1))
    assert rules(given, start("w", Seat("n1", (0,)))) == {"card-overcommit"}


def test_fraction_beside_a_whole_card() -> None:
    given = world(running("v", "b/besteffort", "n1", 1), job("w", "b/batch", "0.25"))
    assert rules(given, start("w", Seat("n1", (0,), 250))) == {"card-overcommit"}


def test_held_cards_are_not_for_others() -> None:
    hold = Hold("p", (Seat("n1", FULL),), 60, ("v",))
    leaving = draining(running("v", "b/besteffort", "n1", 4), 10)
    given = world(job("p", "a/prod", 8), leaving, job("w", "b/batch", 1), holds=[hold])
    decided = Plan(
        0,
        start=(Start("w", Rank.DESERVED, (Seat("n1", (7,)),)),),
        wait=(Wait("p", 1, Rank.GUARANTEED, (Reason(Code.PREEMPTING, "soon", jobs=("v",)),)),),
    )
    assert rules(given, decided) == {"hold-broken"}


def test_processors_and_memory() -> None:
    busy = replace(running("v", "b/besteffort", "n1", 1), cpu=100_000, memory=2_000_000)
    given = world(busy, job("w", "b/batch", 1, cpu=64_000, memory=1_000_000))
    assert rules(given, start("w", Seat("n1", (1,)))) == {"cpu-overcommit", "memory-overcommit"}


def test_cap_of_a_leaf_and_of_an_ancestor() -> None:
    given = world(running("v", "a/batch", "n1"), job("w", "a/batch", 1))
    assert rules(given, start("w", Seat("n2", (0,)))) == {"cap-exceeded"}
    capped = replace(given, queues=(*QUEUES[:1], queue("a/batch"), queue("a", d=8, c=8), *QUEUES[2:]))
    assert rules(capped, start("w", Seat("n2", (0,)))) == {"cap-exceeded"}


def test_what_must_not_be_stopped_needs_a_guarantee() -> None:
    given = world(job("w", "b/batch", 1, preemptible=False))
    assert rules(given, start("w", Seat("n1", (0,)))) == {"needs-guarantee"}


def test_eviction_without_a_hold() -> None:
    given = world(running("v", "b/besteffort", "n1"), job("w", "b/batch", 8))
    decided = replace(evict("v", "w"), hold=())
    assert "eviction-without-hold" in rules(given, decided)


@pytest.mark.parametrize(
    ("victim", "claim", "why"),
    [
        (running("v", "a/prod", "n1"), job("w", "b/batch", 8), "reclaim"),
        (running("v", "b/besteffort", "n1", preemptible=False), job("w", "b/batch", 8), "reclaim"),
        (running("v", "b/besteffort", "n1"), job("w", "b/batch", 8), "preempt"),
        (running("v", "b/besteffort", "n1"), job("w", "b/besteffort", 8), "preempt"),
        (running("v", "b/batch", "n1"), job("w", "a/batch", 8), "reclaim"),
        (running("v", "a/prod", "n1", preemptible=True), job("w", "b/batch", 8), "reclaim"),
    ],
    ids=["guaranteed", "not-preemptible", "wrong-word", "equal-priority", "equal-rank", "guaranteed-preemptible"],
)
def test_forbidden_eviction(victim: Job, claim: Job, why: str) -> None:
    assert "eviction-forbidden" in rules(world(victim, claim, nodes=1), evict("v", "w", why))


def test_family_leaves_only_for_its_own_or_the_guaranteed() -> None:
    family = (
        queue("a/prod", g=8, d=8),
        queue("a/batch"),
        queue("b/batch", d=8),
        queue("b/prod", g=8, d=8),
    )
    victim = running("v", "a/batch", "n1")
    outsider = snapshot(pool(2), family, [victim, job("w", "b/batch", 8)])
    assert "eviction-forbidden" in rules(outsider, evict("v", "w"))
    guaranteed = snapshot(pool(2), family, [victim, job("w", "b/prod", 8)])
    assert "eviction-forbidden" not in rules(guaranteed, evict("v", "w"))


def test_min_runtime_and_cool_down_protect_from_borrowed_claims() -> None:
    queues = (queue("a/batch"), queue("b/besteffort"))
    jobs = (running("v", "b/besteffort", "n1", age=30), job("w", "a/batch", 8))
    plain = snapshot(pool(1), queues, jobs)
    assert rules(plain, evict("v", "w", lost=240_000)) == set()
    young = snapshot(pool(1), queues, jobs, min_runtime=60)
    assert rules(young, evict("v", "w", lost=240_000)) == {"eviction-forbidden"}


def test_needless_eviction() -> None:
    given = world(running("v", "b/besteffort", "n1"), job("w", "b/batch", 8))
    assert "eviction-needless" in rules(given, evict("v", "w", node_name="n2"))


def test_an_eviction_for_a_cap_is_not_needless_because_of_a_later_one() -> None:
    """The small one makes room under the cap for the first claim; that the large one goes is decided after that."""
    leaves = [queue("a", c=6), queue("a/batch", d=4), queue("a/besteffort")]
    small = running("small", "a/besteffort", "n1", 1)
    large = running("large", "a/besteffort", "n2", 3)
    first, second = job("first", "a/batch", 3, submitted=-2), job("second", "a/batch", 1, submitted=-1)
    given = snapshot(pool(3, 4), leaves, [small, large, first, second])
    decided = plan(given)
    assert {evict.job: evict.claimant for evict in decided.evict} == {"small": "first", "large": "second"}
    assert check(given, decided) == ()


def test_fifo_and_blocked_jobs_may_wait() -> None:
    queues = (queue("b/batch", d=8, fifo=True),)
    behind = Reason(Code.BEHIND, "first in, first out", jobs=("big",))
    given = snapshot(pool(1), queues, [job("big", "b/batch", 16), job("w", "b/batch", 1)])
    decided = Plan(
        0,
        wait=(
            Wait("big", 1, Rank.DESERVED, (Reason(Code.TOO_LARGE, "16 on a node"),)),
            Wait("w", 2, Rank.DESERVED, (behind,)),
        ),
    )
    assert rules(given, decided) == set()


def test_rules_that_stop_a_plan_are_named() -> None:
    assert "cap-exceeded" in SAFETY_RULES
    assert "work-conservation" not in SAFETY_RULES
