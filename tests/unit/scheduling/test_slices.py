"""Slices of cards in the planner: slots, quotas, evictions, reasons (scheduling §6, S15)."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from millpond.domain.reasons import Code, Reason
from millpond.scheduling.check import check
from millpond.scheduling.decisions import HoldFor, Plan, Rank, Reshape, Start, Wait, plan_json
from millpond.scheduling.snapshot import Hold, Job, NodeState, Seat, Snapshot
from tests.builders import draining, evicted, job, node, plan, queue, running, snapshot, started

QUEUES = (queue("a/prod", g=1, d=1), queue("a/batch", d=1), queue("b/besteffort"))


def cards(count: int = 1, nodes: int = 1, **more: object) -> tuple[NodeState, ...]:
    return tuple(
        node(f"n{index}", count, model="A100-40GB", memory=40_960, **more)  # type: ignore[arg-type]
        for index in range(1, nodes + 1)
    )


def world(*jobs: Job, nodes: tuple[NodeState, ...] = (), queues: object = QUEUES, **more: object) -> Snapshot:
    return snapshot(nodes or cards(), queues, jobs, **more)  # type: ignore[arg-type]


def slices(*profiles: str, leaf: str = "b/besteffort") -> list[Job]:
    return [
        job(f"j{index:02}", leaf, f"mig-{profile}", submitted=index - 100) for index, profile in enumerate(profiles)
    ]


def sliced(name: str, leaf: str, profile: str, slot: int, *, card: int = 0, milli: int = 119, **more: object) -> Job:
    seat = Seat("n1", (card,), milli, profile, slot)
    return replace(running(name, leaf, "n1", f"mig-{profile}", **more), seats=(seat,))  # type: ignore[arg-type]


def good(given: Snapshot) -> Plan:
    done = plan(given)
    assert check(given, done) == ()
    return done


def spots(result: Plan) -> list[tuple[str, int, int | None]]:
    return [(seat.node, seat.cards[0], seat.slot) for start in result.start for seat in start.seats]


def only(result: Plan, name: str) -> Reason:
    return next(wait for wait in result.wait if wait.job == name).reasons[0]


def test_s15_seven_on_one_card_and_one_on_the_other() -> None:
    result = good(world(*slices(*["1g.5gb"] * 8), nodes=cards(1, nodes=2)))
    nodes = [place[0] for place in spots(result)]
    assert (nodes.count("n1"), nodes.count("n2")) == (7, 1)


@pytest.mark.parametrize("profiles", sorted(set(permutations(["3g.20gb", *["1g.5gb"] * 4]))))
def test_s15_a_3g_and_four_1g_share_a_card_in_any_order(profiles: tuple[str, ...]) -> None:
    result = good(world(*slices(*profiles, "1g.5gb")))
    assert started(result) == [f"j{index:02}" for index in range(5)]
    assert [slot for _, _, slot in spots(result)][profiles.index("3g.20gb")] == 4
    found = only(result, "j05")
    assert (found.code.value, found.need, found.have) == ("INSUFFICIENT_CARDS", 119, 0)


def test_s15_without_others_in_sight_a_3g_goes_to_slot_4_and_leaves_four_1g() -> None:
    assert spots(good(world(*slices("3g.20gb")))) == [("n1", 0, 4)]
    given = world(sliced("r", "b/besteffort", "3g.20gb", 4, milli=488), *slices(*["1g.5gb"] * 5))
    assert len(good(given).start) == 4


@pytest.mark.parametrize(
    "profiles", [["3g.20gb"] * 2, *sorted(set(permutations(["1g.5gb", *["2g.10gb"] * 3]))), ["7g.40gb"], ["4g.20gb"]]
)
def test_s15_what_fits_a_card_fits_it_in_any_order(profiles: list[str]) -> None:
    assert len(good(world(*slices(*profiles))).start) == len(profiles)


def test_slices_keep_whole_cards_whole() -> None:
    nodes = cards(4, nodes=2)
    given = world(sliced("r", "b/besteffort", "1g.5gb", 6, card=2), *slices("2g.10gb", "1g.5gb"), nodes=nodes)
    assert {place[:2] for place in spots(good(given))} == {("n1", 2)}
    others = [job("w", "b/besteffort", 1), job("f", "b/besteffort", "0.1")]
    whole = world(sliced("r", "b/besteffort", "1g.5gb", 6), *others)
    assert started(good(whole)) == []
    assert only(plan(whole), "w").have == 0


def test_several_slices_a_node_share_its_cpu_and_a_gang_has_distinct_nodes() -> None:
    gang = job("g", "b/besteffort", "mig-3g.20gb x3", nodes=2, cpu=100_000, memory=2_000_000)
    result = good(world(gang, nodes=cards(2, nodes=2)))
    assert [(seat.node, seat.cards, seat.slot) for seat in result.start[0].seats] == [
        ("n1", (0,), 0), ("n1", (0,), 4), ("n1", (1,), 4), ("n2", (0,), 0), ("n2", (0,), 4), ("n2", (1,), 4),
    ]  # fmt: skip
    too_many = plan(world(job("g", "b/besteffort", "mig-3g.20gb x5"), nodes=cards(2)))
    assert (only(too_many, "g").code.value, only(too_many, "g").need, only(too_many, "g").have) == ("TOO_LARGE", 5, 4)


def test_one_slice_of_a_card_has_the_media_engines() -> None:
    result = good(world(*slices("1g.5gb+me", "1g.5gb+me", "1g.5gb")))
    assert started(result) == ["j00", "j02"]
    assert only(result, "j01").code.value == "FRAGMENTED"


def test_quotas_count_the_share_of_the_memory() -> None:
    queues = (queue("t/batch", d=0, cap_milli=240), queue("t/prod", g=1, d=1))
    result = good(world(*slices("1g.5gb", "1g.5gb", "1g.5gb", leaf="t/batch"), queues=queues))
    assert started(result) == ["j00", "j01"]
    found = only(result, "j02")
    assert (found.code.value, found.need, found.have, found.limit) == ("QUEUE_CAP", 119, 238, 240)
    firm = [job(f"p{index}", "t/prod", "mig-3g.20gb", preemptible=False, submitted=index - 100) for index in range(3)]
    result = good(world(*firm, queues=queues, nodes=cards(2)))
    assert [(start.job, start.rank) for start in result.start] == [("p0", Rank.GUARANTEED), ("p1", Rank.GUARANTEED)]
    found = only(result, "p2")
    assert (found.code.value, found.need, found.have, found.limit) == ("NEEDS_GUARANTEE", 488, 976, 1000)


def test_slices_make_room_for_slices_and_for_whole_cards() -> None:
    jobs = [
        sliced("low", "b/besteffort", "1g.5gb", 0, saved=10),
        sliced("high", "b/besteffort", "1g.5gb", 1, saved=900),
        sliced("rest", "a/batch", "3g.20gb", 4, milli=488),
    ]
    claim = job("c", "a/prod", "mig-2g.10gb", preemptible=False)
    result = good(world(*jobs, sliced("mid", "b/besteffort", "2g.10gb", 2, milli=241, saved=500), claim))
    assert evicted(result) == ["high", "low"]  # 119 x 910 s are less than 241 x 500 s
    assert result.hold[0].seats == (Seat("n1", (0,), 241, "2g.10gb", 0),)
    whole = good(world(*jobs, job("w", "a/prod", 1, preemptible=False)))
    assert evicted(whole) == ["high", "low", "rest"]
    assert whole.hold[0].seats == (Seat("n1", (0,)),)


def test_a_hold_of_slots_keeps_only_those() -> None:
    leaving = sliced("v", "b/besteffort", "3g.20gb", 4, milli=488)
    hold = Hold("c", (Seat("n1", (0,), 488, "3g.20gb", 4),), 80, ("v",))
    given = world(
        draining(leaving, 10),
        job("c", "a/prod", "mig-3g.20gb", preemptible=False),
        *slices("2g.10gb", "3g.20gb"),
        holds=(hold,),
    )
    result = good(given)
    assert [(start.job, start.seats[0].slot) for start in result.start] == [("j00", 0)]
    assert [held.job for held in result.hold] == ["c"]
    assert only(result, "j01").code.value in {"RESERVED_FOR", "FRAGMENTED"}


def test_cards_that_do_not_divide_are_no_such_cards() -> None:
    result = plan(world(job("j", "b/besteffort", "mig-1g.5gb"), nodes=(node("n1", 8),)))
    assert only(result, "j").code.value == "NO_SUCH_CARD"
    assert "divide into mig-1g.5gb" in only(result, "j").text


def test_cards_of_a_driver_divide_if_it_says_so() -> None:
    found = cards()[0]
    kind = found.spec.cards
    assert kind is not None
    for mig, count in ((False, 0), (True, 1)):
        real = replace(found, spec=replace(found.spec, cards=replace(kind, uuids=("GPU-1",), mig=mig)))
        assert len(good(world(*slices("1g.5gb"), nodes=(real,))).start) == count


SEAT = Seat("n1", (0,), 119, "1g.5gb", 0)


@pytest.mark.parametrize(
    ("seats", "rule"),
    [
        ((Seat("n1", (0,), 119, "1g.5gb", 7),), "slice-wrong"),
        ((Seat("n1", (0,), 119, "1g.5gb", None),), "slice-wrong"),
        ((Seat("n1", (0,), 1000, "1g.5gb", 0),), "slice-wrong"),
        ((Seat("n1", (0,), 119, "1g.9gb", 0),), "slice-wrong"),
        ((SEAT, Seat("n1", (0,), 119, "1g.5gb", 1)), "gang-broken"),
        ((Seat("n1", (0,), 119, "1g.5gb", 5),), "slot-overlap"),
        ((Seat("n1", (1,), 119, "1g.5gb", 5),), "slot-overlap"),
    ],
)
def test_the_checker_sees_bad_slices(seats: tuple[Seat, ...], rule: str) -> None:
    given = world(
        job("p", "b/besteffort", "mig-1g.5gb"),
        sliced("r", "b/besteffort", "3g.20gb", 4, milli=488),
        running("f", "b/besteffort", "n1", "0.5", cards=[1]),
        nodes=cards(2),
    )
    found = {violation.rule for violation in check(given, Plan(0, start=(Start("p", Rank.OPPORTUNISTIC, seats),)))}
    assert {rule, "reshape-wrong"} <= found


def test_the_checker_sees_slices_that_wait_for_nothing() -> None:
    given = world(job("p", "b/besteffort", "mig-1g.5gb"), sliced("r", "b/besteffort", "3g.20gb", 4, milli=488))
    why = Reason(Code.FRAGMENTED, "so it says", need=119, have=0)
    found = check(given, Plan(0, wait=(Wait("p", 1, Rank.OPPORTUNISTIC, (why,)),)))
    assert "work-conservation" in {violation.rule for violation in found}


def test_the_checker_sees_a_hold_on_taken_slots() -> None:
    given = world(
        job("c", "a/prod", "mig-3g.20gb", preemptible=False), sliced("r", "b/besteffort", "3g.20gb", 4, milli=488)
    )
    hold = HoldFor("c", Rank.GUARANTEED, (Seat("n1", (0,), 488, "3g.20gb", 4),), 80, ())
    found = {violation.rule for violation in check(given, Plan(0, hold=(hold,), wait=good(given).wait))}
    assert "slot-overlap" in found


def test_a_plan_says_how_to_divide_the_cards_that_it_uses() -> None:
    r = sliced("r", "b/besteffort", "3g.20gb", 4, milli=488)
    result = good(world(r, *slices("1g.5gb", "1g.5gb", "7g.40gb"), nodes=cards(2)))
    assert result.reshape == (
        Reshape("n1", 0, (("1g.5gb", 0), ("1g.5gb", 1), ("3g.20gb", 4))),
        Reshape("n1", 1, (("7g.40gb", 0),)),
    )
    assert plan_json(result)["reshape"] == [
        {
            "node": "n1",
            "card": 0,
            "geometry": [{"slice": name, "slot": slot} for name, slot in result.reshape[0].geometry],
        },
        {"node": "n1", "card": 1, "geometry": [{"slice": "7g.40gb", "slot": 0}]},
    ]
    assert good(world(r)).reshape == ()


def test_no_slice_goes_beside_another_on_a_card_that_is_reserved_whole() -> None:
    """The card is divided until t=600 and then somebody's: a slice that would stay longer may not begin beside."""
    limited = {"age": 0, "max_duration": 600, "preemptible": False}
    given = snapshot(
        cards(2),
        (queue("b/prod", g=8, d=8),),
        [
            sliced("now", "b/prod", "3g.20gb", 4, milli=488, **limited),
            running("busy", "b/prod", "n1", 1, cards=[1], **limited),  # type: ignore[arg-type]
            job("big", "b/prod", 2, submitted=-30, max_duration=600, preemptible=True),
            job("late", "b/prod", "mig-3g.20gb", submitted=-20, max_duration=5000, preemptible=True),
            job("soon", "b/prod", "mig-3g.20gb", submitted=-10, max_duration=500, preemptible=True),
        ],
    )
    decided = plan(given)
    assert check(given, decided) == ()
    assert started(decided) == ["soon"]
    late = next(wait for wait in decided.wait if wait.job == "late")
    assert late.reasons[0].code is Code.RESERVED_FOR
