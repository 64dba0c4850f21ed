"""What happens when the checker finds a plan harmful: the rest goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millpond.scheduling.check import check
from millpond.scheduling.decisions import Plan, Violation
from millpond.scheduling.guarded import plan_guarded, plan_without
from millpond.scheduling.snapshot import Hold, Seat, Snapshot
from tests.builders import codes, draining, evicted, job, plan, pool, queue, running, snapshot, started

QUEUES = [queue("a/prod", g=8), queue("b/batch", d=16), queue("c/besteffort")]


class Finder:
    """A guard that dislikes every plan which starts or holds for one of `names`, and says so with `subjects`."""

    def __init__(self, *names: str, subjects: tuple[str, ...] = (), rule: str = "card-overcommit") -> None:
        self.names, self.subjects, self.rule = set(names), subjects, rule
        self.asked = 0

    def __call__(self, given: Snapshot, decided: Plan) -> tuple[Violation, ...]:
        self.asked += 1
        found = self.names & {*started(decided), *(hold.job for hold in decided.hold)}
        return (Violation(self.rule, "no", self.subjects or tuple(sorted(found))),) if found else ()


def test_a_good_plan_is_just_the_plan() -> None:
    given = snapshot(pool(1), QUEUES, [job("x", "b/batch", 8)])
    found = plan_guarded(given)
    assert (found.plan, found.refused, found.aside) == (plan(given), (), ())


def test_a_weak_plan_is_kept() -> None:
    given = snapshot(pool(1), QUEUES, [job("x", "b/batch", 8)])
    found = plan_guarded(given, Finder("x", rule="work-conservation"))
    assert found.plan == plan(given)
    assert [violation.rule for violation in found.weak] == ["work-conservation"]
    assert not found.refused


def test_whom_the_finding_names_waits_and_the_others_start() -> None:
    given = snapshot(pool(2), QUEUES, [job("x", "b/batch", 8), job("y", "b/batch", 8)])
    found = plan_guarded(given, Finder("x"))
    assert found.plan is not None
    assert (started(found.plan), found.aside) == (["y"], ("x",))
    assert codes(found.plan, "x") == ["ENGINE_REFUSED"]
    assert [violation.subjects for violation in found.refused] == [("x",)]
    assert check(given, found.plan) == ()


@pytest.mark.parametrize("subjects", [("v",), ("p",), ("n1",), ("v", "p", "n1"), ("nobody",)])
def test_a_victim_or_node_stands_for_its_claimant(subjects: tuple[str, ...]) -> None:
    given = snapshot(pool(1), QUEUES, [running("v", "c/besteffort", "n1"), job("p", "a/prod", 8)])
    found = plan_guarded(given, Finder("p", subjects=subjects))
    assert found.plan is not None
    assert (evicted(found.plan), found.aside) == ([], ("p",))


def test_a_hold_of_whom_is_set_aside_ends() -> None:
    leaving = draining(running("v", "c/besteffort", "n1"), until=20)
    hold = Hold("p", (Seat("n1", tuple(range(8))),), 80, ("v",))
    given = snapshot(pool(2), QUEUES, [leaving, job("p", "a/prod", 8), job("y", "b/batch", 8)], holds=[hold])
    found = plan_guarded(given, Finder("p"))
    assert found.plan is not None
    assert (started(found.plan), found.plan.drop_holds) == (["y"], ("p",))


def test_one_after_the_other_is_set_aside() -> None:
    given = snapshot(pool(1), QUEUES, [job(name, "b/batch", 8, submitted=n - 9) for n, name in enumerate("uvwxyz")])
    found = plan_guarded(given, Finder("u", "v"))
    assert found.plan is not None
    assert (started(found.plan), found.aside) == (["w"], ("u", "v"))


def test_it_gives_up_on_a_guard_that_likes_nothing() -> None:
    given = snapshot(pool(1), QUEUES, [job("x", "b/batch", 8), running("r", "b/batch", "n1")])
    broken = (Violation("card-overcommit", "no", ("r",)),)
    found = plan_without(given, plan(given), broken, lambda _, __: broken)
    assert (found.plan, found.refused) == (None, broken)


def test_nothing_depends_on_the_order_of_lists() -> None:
    jobs = [job(name, "b/batch", 8) for name in "uvwxyz"]
    given = snapshot(pool(2), QUEUES, jobs)
    other = replace(given, jobs=tuple(reversed(given.jobs)))
    assert plan_guarded(given, Finder("u", "w")) == plan_guarded(other, Finder("u", "w"))
