"""Moving guaranteed jobs for a guaranteed claim whose cards are scattered."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan
from millpond.scheduling.snapshot import Job, Snapshot
from tests.builders import codes, evicted, job, node, plan, pool, queue, running, snapshot, started, step

QUEUES = (queue("t/batch", g=8), queue("u/batch", g=8), queue("v/batch"))


def scattered(
    *jobs: Job, saved: int | None = 60, after: int | None = 600, claim: Job | None = None, **more: object
) -> Snapshot:
    """Two nodes of 8, on each 4 cards guaranteed to t and 4 that v borrows; u claims its 8."""
    seated = [
        *(running(f"t{n}", "t/batch", f"n{n}", 4, saved=saved, **more) for n in (1, 2)),
        *(running(f"v{n}", "v/batch", f"n{n}", 4, cards=range(4, 8)) for n in (1, 2)),
    ]
    claim = claim or job("h", "u/batch", 8, submitted=-600)
    world = snapshot(pool(2), QUEUES, [*seated, claim, *jobs])
    return replace(world, settings=replace(world.settings, regroup_after=after))


def checked(world: Snapshot) -> Plan:
    result = plan(world)
    assert check(world, result) == ()
    return result


def test_a_guaranteed_claim_has_a_guaranteed_job_of_others_moved() -> None:
    world = scattered()
    result = checked(world)
    assert [(one.job, one.claimant, one.why) for one in result.evict] == [
        ("v1", "h", "reclaim"),
        ("t1", "h", "consolidate"),
    ]
    assert codes(result, "h") == ["PREEMPTING"]
    world = step(world, result)
    result = checked(world)
    assert started(result) == ["h"]
    assert [(one.job, one.claimant, one.why) for one in result.evict] == [("v2", "t1", "reclaim")]
    world = step(world, result)
    assert started(checked(world)) == ["t1"]


def test_who_moves_to_free_cards_holds_them() -> None:
    """Without v's, t1 goes beside t2 and nobody need leave; x, which comes later in the pass, stays off these cards."""
    world = scattered(job("x", "v/batch", 1, submitted=-1))
    world = replace(world, jobs=tuple(one for one in world.jobs if one.id not in {"v1", "v2"}))
    result = checked(world)
    assert evicted(result) == ["t1"]
    assert [(hold.job, hold.victims) for hold in result.hold] == [("h", ("t1",)), ("t1", ("t1",))]
    assert [seat.node for seat in result.hold[1].seats] == ["n2"]
    assert started(result) == []
    assert started(checked(step(world, result))) == ["h", "t1"]


def test_who_moves_holds_nothing_that_is_reserved_for_another() -> None:
    """n2 is r's in a minute, who goes before h: t1 has no cards of its own then, and claims when it has left."""
    world = scattered(job("r", "w/prod", 8, submitted=-599), running("u1", "u/batch", "n3", 1))
    jobs = [
        replace(one, max_duration=3660) if one.id == "t2" else one for one in world.jobs if one.id not in {"v1", "v2"}
    ]
    queues = (QUEUES[0], queue("u/batch", g=9), queue("w/prod", g=8))
    world = replace(world, jobs=tuple(jobs), queues=queues, nodes=(*world.nodes, node("n3", 1)))
    result = checked(world)
    assert [(found.job, found.time) for found in result.reservations] == [("r", 60)]
    assert evicted(result) == ["t1"]
    assert [hold.job for hold in result.hold] == ["h"]


def test_the_one_that_loses_least_moves() -> None:
    world = scattered()
    late = [replace(one, checkpointed=-10) if one.id == "t2" else one for one in world.jobs]
    assert evicted(checked(replace(world, jobs=tuple(late)))) == ["v2", "t2"]


def test_the_checker_knows_a_bad_move() -> None:
    """The same plan where a rule does not allow it: no setting, no guarantee, no need, no place to go."""
    world, found = scattered(), plan(scattered())
    late = replace(world.settings, regroup_after=601)
    bad = [
        replace(world, settings=late),
        replace(world, queues=(QUEUES[0], queue("u/batch", d=8), QUEUES[2])),
        replace(world, queues=(queue("t/batch"), *QUEUES[1:])),
        replace(world, nodes=pool(3)),
        replace(world, nodes=(node("n1"), node("n2", cordoned=True))),
    ]
    assert check(world, found) == ()
    for other in bad:
        assert "eviction-forbidden" in {violation.rule for violation in check(other, found)}


def test_nobody_moves_where_evictions_alone_are_enough() -> None:
    extra = running("v3", "v/batch", "n3", 8)
    world = scattered(extra)
    assert evicted(checked(replace(world, nodes=pool(3)))) == ["v3"]


def test_it_waits_for_its_time_and_only_if_asked_to() -> None:
    assert evicted(checked(scattered(claim=job("h", "u/batch", 8, submitted=-599)))) == []
    assert evicted(checked(scattered(after=None))) == []


def test_only_those_move_who_can_go_on_elsewhere() -> None:
    assert evicted(checked(scattered(saved=None))) == []
    assert evicted(checked(scattered(preemptible=False))) == []
    assert evicted(checked(scattered(age=599))) == []


def test_nobody_moves_without_other_cards() -> None:
    world = scattered()
    assert evicted(checked(replace(world, nodes=(node("n1"), node("n2", cordoned=True))))) == []


def test_nobody_moves_twice_at_one_instant() -> None:
    assert evicted(checked(scattered(after=0, age=0, saved=0))) == []
    assert evicted(checked(scattered(after=0, age=1, saved=0))) == ["v1", "t1"]


def test_who_moves_may_have_smaller_ones_moved_in_turn() -> None:
    """On n1 a job of 4; nowhere else are 4 free, until the single cards of n2 go together with those of n3."""
    queues = (queue("t/batch", g=16), queue("u/batch", g=8))
    seated = [
        running("t1", "t/batch", "n1", 4, saved=60),
        running("t2", "t/batch", "n2", 4, cards=range(4), saved=60),
        running("t3", "t/batch", "n2", 1, cards=[4], saved=60),
        running("t4", "t/batch", "n3", 5, cards=range(5), saved=60),
        running("t5", "t/batch", "n3", 1, cards=[5], saved=60),
    ]
    world = snapshot(pool(3), queues, [*seated, job("h", "u/batch", 8, submitted=-10)])
    world = replace(world, settings=replace(world.settings, regroup_after=0))
    result = checked(world)
    assert evicted(result) == ["t1"]
    world = step(world, result)
    result = checked(world)
    assert evicted(result) == ["t3"]
    for _ in range(2):
        world = step(world, result)
        result = checked(world)
    assert {one.id for one in step(world, result).jobs if one.seats} == {"h", "t1", "t2", "t3", "t4", "t5"}


def test_only_a_guaranteed_claim_moves_guaranteed_jobs() -> None:
    world = scattered()
    assert evicted(checked(replace(world, queues=(QUEUES[0], queue("u/batch", d=8), QUEUES[2])))) == []


def test_what_would_be_lost_must_be_less_than_what_is_gained() -> None:
    """8 cards would be free in 100 s anyway; 4 cards with as many seconds unsaved as twice that are not worth it."""
    assert evicted(checked(scattered(saved=199, max_duration=3700))) == ["v1", "t1"]
    assert evicted(checked(scattered(saved=201, max_duration=3700))) == []


def test_equals_do_not_move_each_other() -> None:
    """Both have 4 of 6 cards of a node; neither claim of 4 may push the other kind about."""
    queues = (queue("t/batch", g=4), queue("u/batch", g=4), queue("v/batch"))
    seated = [running("t1", "t/batch", "n1", 4, saved=60)]
    world = snapshot(pool(2, 6), queues, [*seated, job("h", "u/batch", 4, submitted=-900)])
    world = replace(world, nodes=(node("n1", 6), node("n2", 6, cordoned=True)))
    world = replace(world, settings=replace(world.settings, regroup_after=0))
    assert evicted(checked(world)) == []


SIZES = st.sampled_from([1, 1, 2, 4])


@given(st.lists(st.tuples(SIZES, st.integers(0, 3), st.booleans()), max_size=24), st.sampled_from([4, 8]))
def test_a_guaranteed_claim_starts_wherever_small_jobs_sit(seats: list[tuple[int, int, bool]], size: int) -> None:
    """Four nodes, three of them t's: whatever sits where, u gets its node, and everybody of t runs again."""
    queues = (queue("t/batch", g=24), queue("u/batch", g=8), queue("v/batch"))
    free = [8] * 4
    jobs: list[Job] = []
    owned = 24
    for number, (cards, at, guaranteed) in enumerate(seats):
        own = guaranteed and owned >= cards
        if free[at] >= cards:
            owned -= cards if own else 0
            begin = 8 - free[at]
            free[at] -= cards
            leaf = "t/batch" if own else "v/batch"
            spot = range(begin, begin + cards)
            jobs.append(running(f"r{number}", leaf, f"n{at + 1}", cards, cards=spot, saved=60 + number))
    world = snapshot(pool(4), queues, [*jobs, job("h", "u/batch", size, submitted=-10)])
    world = replace(world, settings=replace(world.settings, regroup_after=0))
    mine = {one.id for one in jobs if one.queue == "t/batch"} | {"h"}
    for _ in range(8):
        result = checked(world)
        world = step(world, result)
        if mine <= {one.id for one in world.jobs if one.seats}:
            return
    raise AssertionError(f"{mine - {one.id for one in world.jobs if one.seats}} still wait")
