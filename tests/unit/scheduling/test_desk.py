"""A desk judges like nobody who keeps anything, and one judgement answers while the next is made."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from millpond.scheduling.check import SAFETY_RULES, check
from millpond.scheduling.decisions import Plan, Violation
from millpond.scheduling.desk import Desk
from millpond.scheduling.explain import Explainer
from millpond.scheduling.snapshot import Snapshot
from tests.builders import job, pool, queue, snapshot


def crowd(count: int, *, now: int = 100) -> Snapshot:
    """Two cards, and more jobs than that."""
    jobs = [job(f"j{number}", "a/batch", submitted=number) for number in range(count)]
    return snapshot(pool(1, 2), [queue("a/batch")], jobs, now=now)


def explained(given: Snapshot) -> dict[str, object]:
    explainer = Explainer(given)
    return {one.id: explainer.explain(one.id) for one in given.jobs}


def test_every_judgement_is_a_fresh_one() -> None:
    desk = Desk(threading.Lock)
    for count in (5, 9, 3, 0, 7):
        given = crowd(count, now=100 + count)
        judged = desk.judge(given)
        assert {one.id: judged.explain(one.id) for one in given.jobs} == explained(given)
        assert judged.plan == Explainer(given).plan
        assert judged.guarded.plan == judged.plan


def test_the_last_judgement_answers_while_the_next_is_made_and_the_one_before_does_not() -> None:
    desk = Desk(threading.Lock)
    first, second = desk.judge(crowd(5)), desk.judge(crowd(6))
    assert first.explain("j4") is not None
    third = desk.judge(crowd(7))
    assert first.explain("j4") is None
    assert second.explain("j5") == explained(crowd(6))["j5"]
    assert third.explain("j6") == explained(crowd(7))["j6"]


def test_a_trial_leaves_the_last_judgement_and_the_next_one_alone() -> None:
    desk = Desk(threading.Lock)
    judged = desk.judge(crowd(5))
    for name in ("x", "y"):
        more = replace(crowd(5), jobs=(*crowd(5).jobs, job(name, "a/batch")))
        assert desk.trial(more).explain(name) == explained(more)[name]
    assert judged.explain("j4") == explained(crowd(5))["j4"]
    after = desk.judge(crowd(6))
    assert after.explain("j5") == explained(crowd(6))["j5"]
    assert judged.explain("j4") is not None


def test_who_is_set_aside_is_told_so_and_the_others_start() -> None:
    def guard(given: Snapshot, plan: Plan) -> tuple[Violation, ...]:
        bad = any(start.job == "j0" for start in plan.start)
        return (Violation(min(SAFETY_RULES), "j0 is placed wrongly", ("j0",)),) if bad else ()

    desk = Desk(threading.Lock)
    for _ in range(3):
        judged = desk.judge(crowd(3), guard)
        assert judged.guarded.aside == ("j0",)
        assert [start.job for start in judged.plan.start] == ["j1", "j2"]
        told = judged.explain("j0")
        assert told is not None
        assert [reason.code.value for reason in told.reasons] == ["ENGINE_REFUSED"]


def test_an_error_leaves_no_planner_that_is_half_told() -> None:
    def broken(given: Snapshot, plan: Plan) -> tuple[Violation, ...]:
        raise ValueError("the guard has a defect")

    desk = Desk(threading.Lock)
    judged = desk.judge(crowd(5))
    with pytest.raises(ValueError, match="defect"):
        desk.judge(crowd(6), broken)
    assert judged.explain("j4") is not None
    assert desk.judge(crowd(7), check).explain("j6") == explained(crowd(7))["j6"]
