"""Choosing among more victims than can be tried in every combination."""

from __future__ import annotations

import pytest

from millpond.scheduling.approach import Choice, approach, approach_each
from millpond.scheduling.fit import ask_make, ask_on
from millpond.scheduling.preempt import Attempt
from millpond.scheduling.snapshot import Job, Snapshot
from millpond.scheduling.state import State
from millpond.scheduling.victims import Victims
from tests.builders import evicted, job, plan, pool, queue, running, snapshot

QUEUES = [queue("a/prod", g=40), queue("c/besteffort"), queue("d/batch")]


def victims(before: Snapshot, claim: Job) -> Victims:
    """Everybody who may leave for a claim."""
    state = State(before)
    model = "A800-80GB"
    ask = ask_on(state.pool, ask_make(claim), model)
    attempt = Attempt(state, claim, ask, model, caps=True)
    views = state.soon(claim, model)
    return Victims(state, state.leaf(claim), ask, model, attempt.lacks, attempt.candidates(), views)


def own(count: int) -> tuple[Victims, int]:
    """So many of the claim's own leaf and of lower priority, one on each node of one card."""
    jobs = [running(f"r{number:02}", "d/batch", f"n{number}", 1, priority=10) for number in range(1, count + 1)]
    found = victims(snapshot(pool(count, 1), QUEUES, jobs), job("p", "d/batch", 1, priority=50))
    assert found.everybody == (1 << count) - 1
    return found, found.everybody


def selections(count: int) -> list[int]:
    """Of whom of its own leaf a claim asks whether exactly they may leave."""
    those, mask = own(count)
    asked: list[int] = []

    def permitted(chosen: int) -> int:
        asked.append(chosen)
        return 0

    assert approach_each(Choice(those, 1), mask, permitted) == []
    return asked


def test_of_few_of_its_own_leaf_every_selection_is_tried() -> None:
    assert sorted(selections(8)) == list(range(1 << 8))


@pytest.mark.parametrize(("count", "firsts"), [(9, [0, 1, 2, 4, 8]), (17, [0, 1, 2, 4, 8, 16])])
def test_of_many_of_its_own_leaf_more_and_more_are_tried(count: int, firsts: list[int]) -> None:
    assert selections(count) == [(1 << first) - 1 for first in (*firsts, count)]


def test_who_may_leave_and_can_be_spared_is_spared() -> None:
    """The claim wants one node: of all who are permitted one leaves, for each of the choices of who must."""
    those, mask = own(9)
    found = approach_each(Choice(those, 1), mask, lambda chosen: mask)
    assert found
    assert {one.bit_count() for one in found} == {1}


def test_where_those_who_may_stay_are_too_many_all_are_asked_and_spared() -> None:
    """Every set without the banned ones falls short: then it is one of those who were banned."""
    those, mask = own(9)
    (found,) = approach(Choice(those, 1), [mask])
    assert found.bit_count() == 1


def test_rooms_that_two_gangs_share_come_free_together() -> None:
    """Both gangs leave n1, n2 and n3 for less than any three others; neither frees n3 by itself."""
    half = {"gpu": 4, "saved": 5}
    gangs = [
        running("left", "c/besteffort", ["n1", "n3", "n20"], cards=range(4), **half),
        running("right", "c/besteffort", ["n2", "n3"], cards=range(4, 8), **half),
    ]
    more = running("more", "c/besteffort", "n20", 4, cards=range(4, 8), saved=90)
    singles = [running(f"e{number}", "c/besteffort", f"n{number}", saved=5) for number in range(4, 20)]
    jobs = [*gangs, more, *singles, job("p", "a/prod", 8, nodes=3)]
    assert sorted(evicted(plan(snapshot(pool(20), QUEUES, jobs)))) == ["left", "right"]
