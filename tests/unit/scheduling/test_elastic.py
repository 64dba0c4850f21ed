"""Jobs of several sizes: largest that fits now, smallest that evicts; and shares over several models of cards."""

from __future__ import annotations

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, Rank
from millpond.scheduling.snapshot import Snapshot
from tests.builders import evicted, job, node, plan, pool, queue, running, snapshot, started, step


def checked(world: Snapshot) -> Plan:
    result = plan(world)
    assert check(world, result) == ()
    return result


def size(result: Plan, name: str) -> int:
    return next(sum(len(seat.cards) for seat in start.seats) for start in result.start if start.job == name)


def test_it_starts_at_the_largest_size_that_its_cap_leaves() -> None:
    world = snapshot(pool(1), [queue("t/batch", d=1, c=3)], [job("p", "t/batch", "1..4")])
    result = checked(world)
    assert size(result, "p") == 3
    assert result.start[0].rank is Rank.BORROWED_BATCH


def test_its_rank_is_that_of_its_present_size() -> None:
    """At 4 cards it borrows and may be reclaimed; at 2 it is deserved and may not."""
    queues = [queue("t/batch", d=2), queue("u/batch", d=8)]
    claim = job("c", "u/batch", 6)
    large = snapshot(pool(1), queues, [running("e", "t/batch", "n1", 4), claim])
    assert evicted(checked(large)) == ["e"]
    small = snapshot(pool(1), queues, [running("e", "t/batch", "n1", 2), running("f", "u/batch", "n1", 1), claim])
    assert evicted(checked(small)) == []


def test_only_its_minimum_evicts_and_it_starts_at_that_size() -> None:
    queues = [queue("t/prod", g=4), queue("u/besteffort")]
    victims = [running(f"v{card}", "u/besteffort", "n1", 1, cards=[card], age=100 + card) for card in range(8)]
    world = snapshot(pool(1), queues, [*victims, job("p", "t/prod", "2..4", preemptible=True)])
    result = checked(world)
    assert evicted(result) == ["v0", "v1"]
    assert [len(seat.cards) for hold in result.hold for seat in hold.seats] == [2]
    assert size(checked(step(world, result)), "p") == 2


def test_it_does_not_evict_for_more_where_some_is_free() -> None:
    queues = [queue("t/prod", g=4), queue("u/besteffort")]
    world = snapshot(pool(1), queues, [running("v", "u/besteffort", "n1", 5), job("p", "t/prod", "1..4")])
    result = checked(world)
    assert (evicted(result), size(result, "p")) == ([], 3)


def test_an_elastic_gang_takes_the_same_of_every_node() -> None:
    world = snapshot(
        pool(3),
        [queue("t/batch")],
        [running("a", "t/batch", "n1", 5), running("b", "t/batch", "n2", 7), job("p", "t/batch", "1..4", nodes=2)],
    )
    result = checked(world)
    assert sorted((seat.node, len(seat.cards)) for seat in result.start[0].seats) == [("n1", 3), ("n3", 3)]


def test_an_elastic_gang_evicts_for_its_minimum_on_each_node() -> None:
    queues = [queue("t/prod", g=8), queue("u/besteffort")]
    victims = [running(f"v{number}", "u/besteffort", f"n{number}", 8, age=100 * number) for number in (1, 2)]
    world = snapshot(pool(2), queues, [*victims, job("p", "t/prod", "2..4", nodes=2)])
    result = checked(world)
    assert evicted(result) == ["v1", "v2"]
    assert [len(seat.cards) for hold in result.hold for seat in hold.seats] == [2, 2]


def test_what_is_reserved_for_it_is_its_minimum() -> None:
    busy = [running("a", "t/batch", "n1", 6, age=100, max_duration=700), running("b", "t/batch", "n1", 2, cards=[6, 7])]
    result = checked(snapshot(pool(1), [queue("t/batch")], [*busy, job("p", "t/batch", "4..8")]))
    (found,) = result.reservations
    assert (found.job, found.time, len(found.seats[0].cards)) == ("p", 600, 4)


MODELS = (node("n1", 4, model="A100-40GB"), node("n2", 4, model="A800-80GB"))


def test_the_dominant_share_is_the_largest_over_all_models() -> None:
    """Leaf a uses 1 of 8 cards, but all its A100 are in use; b uses 3 of 8: so b goes first."""
    queues = [
        queue("a/batch", d={"A100-40GB": 1, "A800-80GB": 3}),
        queue("b/batch", d={"A100-40GB": 3, "A800-80GB": 1}),
    ]
    jobs = [
        running("r1", "a/batch", "n1", "A100:1", cards=[0]),
        running("r2", "b/batch", "n1", "A100:2", cards=[1, 2]),
        job("pa", "a/batch", "A800:1", submitted=-9),
        job("pb", "b/batch", "A800:1", submitted=-1),
    ]
    assert started(checked(snapshot(MODELS, queues, jobs))) == ["pb", "pa"]


def test_each_model_has_a_reservation_of_its_own() -> None:
    busy = [
        running("r1", "t/batch", "n1", 4, age=0, max_duration=500),
        running("r2", "t/batch", "n2", 4, age=0, max_duration=900),
    ]
    jobs = [
        job("either", "t/batch", "A100,A800:2", submitted=-9),
        job("a100", "t/batch", "A100:4", submitted=-8),
        job("a800", "t/batch", "A800:4", submitted=-7),
    ]
    result = checked(snapshot(MODELS, [queue("t/batch")], [*busy, *jobs]))
    assert [(found.job, found.model, found.time) for found in result.reservations] == [
        ("either", "A100-40GB", 500),
        ("a800", "A800-80GB", 900),
    ]
