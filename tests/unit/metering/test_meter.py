"""Who pays for what: lost work, services, failed starts, and facts that contradict each other."""

from __future__ import annotations

import pytest

from millpond.domain.jobs import EndReason
from millpond.metering.facts import Shape
from millpond.metering.meter import FAILED_KEPT, FAULTS, LOSING, Meter
from millpond.metering.seen import SeenInMemory, facts_fresh
from tests.unit.metering.builders import Told, at, changed, ended, metered, saved, started

T = at("11-10 10:00")
MINUTE = 60_000
"""Milli-card-seconds of a minute on one card."""


@pytest.mark.parametrize("reason", sorted(LOSING))
def test_work_since_the_last_checkpoint_is_lost(reason: str) -> None:
    told = metered([started(T), saved(T + 600), saved(T + 1200), ended(T + 1800, reason)])
    assert (told.total, told.total_lost) == (30 * MINUTE, 10 * MINUTE)


@pytest.mark.parametrize("reason", sorted(set(EndReason) - LOSING - {EndReason.START_FAILED}))
def test_other_ends_lose_nothing(reason: str) -> None:
    told = metered([started(T), saved(T + 600), ended(T + 1800, reason)])
    assert (told.total, told.total_lost) == (30 * MINUTE, 0)


@pytest.mark.parametrize("reason", sorted(LOSING))
def test_a_job_that_never_checkpoints_pays_for_preemptions_but_not_for_faults(reason: str) -> None:
    told = metered([started(T), ended(T + 1800, reason)])
    assert (told.total, told.total_lost) == (30 * MINUTE, 30 * MINUTE if reason in FAULTS else 0)


def test_a_checkpoint_of_another_attempt_shows_that_the_job_checkpoints() -> None:
    first = [started(T), ended(T + 600, "preempted")]
    second = [started(T + 900, attempt=2), saved(T + 1200, attempt=2), ended(T + 1500, attempt=2)]
    assert metered(first).total_lost == 0
    told = metered([*first, *second])
    assert (told.total, told.total_lost) == (20 * MINUTE, 10 * MINUTE)
    third = [started(T + 2000, attempt=3), ended(T + 2600, "reclaimed", attempt=3)]
    requeued = [second[0], second[1], ended(T + 1500, "preempted", attempt=2), *third]
    told = metered([*first, *requeued])
    assert (told.total, told.total_lost) == (30 * MINUTE, 25 * MINUTE)


def test_services_lose_nothing() -> None:
    for reason in LOSING:
        told = metered([started(T, type="service"), saved(T + 60), ended(T + 600, reason)])
        assert (told.total, told.total_lost) == (10 * MINUTE, 0)


def test_a_start_that_failed_is_not_told_even_after_it_was_settled() -> None:
    told = Told()
    meter = Meter(told)
    for second in facts_fresh([started(T), ended(T + 600, "start_failed")], SeenInMemory()):
        meter.take(second)
        meter.settle(T + 300)
    assert (told.total, told.codes) == (0, [])


def test_an_attempt_that_is_open_is_told_until_the_end() -> None:
    assert metered([started(T)], T + 600).total == 10 * MINUTE
    assert metered([started(T)], T - 600).total == 0


def test_an_end_before_its_start_is_an_alarm_and_not_billed() -> None:
    told = metered([started(T), ended(T - 60), started(T, "j2"), ended(T + 60, job="j2")], T + 3600)
    assert told.codes == ["NEGATIVE"]
    assert "60 s before" in told.alarms[0].text
    assert told.total == MINUTE


def test_an_end_before_its_start_that_comes_late_takes_back_what_was_told() -> None:
    told = Told()
    meter = Meter(told)
    meter.take([started(T)])
    meter.settle(T + 600)
    meter.take([ended(T - 1)])
    assert (told.total, told.codes) == (0, ["NEGATIVE"])


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (ended(T + 60, job="other"), "has not started"),
        (saved(T + 60, "other"), "not running"),
        (saved(T - 60), "not running"),
        (saved(T + 1000), "not running"),
        (ended(T + 1000), "has not started"),
        (changed(T + 1000), "not running"),
    ],
)
def test_facts_outside_their_attempt_are_gaps_and_change_nothing(fact: object, text: str) -> None:
    told = metered([started(T), fact, ended(T + 600)])  # type: ignore[list-item]
    assert (told.codes, told.total) == (["GAP"], 10 * MINUTE)
    assert text in told.alarms[0].text


def test_a_second_start_under_another_id_is_an_alarm_and_the_first_counts() -> None:
    for second in (started(T + 60, id="again"), started(T + 6000, id="again")):
        told = metered([started(T), second, ended(T + 600)], T + 9000)
        assert (told.codes, told.total) == (["TWICE"], 10 * MINUTE)


def test_all_who_overlap_on_a_card_are_alarms_and_not_billed() -> None:
    facts = [
        started(T, "j1", cards=["GPU-a"]),
        started(T + 60, "j2", cards=["GPU-a"]),
        started(T, "j3", cards=["GPU-b"]),
        ended(T + 600, job="j1"),
        ended(T + 600, job="j2"),
        ended(T + 600, job="j3"),
    ]
    told = metered(facts)
    assert told.codes == ["OVERLAP"]
    assert (told.alarms[0].card, told.alarms[0].others) == ("GPU-a", (("j2", 1),))
    assert {key[1] for key in told.used} == {"j3"}


def test_an_overlap_takes_back_what_was_settled() -> None:
    told = Told()
    meter = Meter(told)
    meter.take([started(T, "j1", cards=["GPU-a"])])
    meter.settle(T + 60)
    meter.take([started(T + 60, "j2", milli=250, cards=["GPU-a"])])
    meter.settle(T + 120)
    meter.take([ended(T + 600, job="j1")])
    meter.finish(T + 600)
    assert (told.total, told.codes) == (0, ["OVERLAP"])


def test_shares_that_fill_a_card_and_hand_overs_within_a_second_are_no_overlap() -> None:
    thirds = [started(T, f"j{number}", milli=333, cards=["GPU-a"]) for number in range(3)]
    hand_over = [
        started(T, "k1", cards=["GPU-b"]),
        ended(T + 60, job="k1"),
        started(T + 60, "k2", cards=["GPU-b"]),
        started(T + 60, "k3", cards=["GPU-b"]),
        ended(T + 60, job="k3"),
    ]
    told = metered([*thirds, *hand_over], T + 600)
    assert told.codes == []
    assert metered([*thirds, started(T, "j4", milli=2, cards=["GPU-a"])], T + 600).codes == ["OVERLAP"]


def test_a_list_that_names_fewer_cards_than_are_taken_is_no_overlap_with_itself() -> None:
    assert metered([started(T, milli=8000, cards=["GPU-a"])], T + 60).codes == []


def test_a_change_moves_the_attempt_to_other_cards() -> None:
    facts = [
        started(T, "j1", milli=2000, cards=["a", "b"]),
        changed(T + 60, "j1", milli=1000),
        started(T + 60, "j2", cards=["b"]),
    ]
    told = metered(facts, T + 120)
    assert (told.codes, told.total) == ([], 2 * MINUTE + MINUTE + MINUTE)


def test_a_late_change_corrects_what_was_told() -> None:
    told = Told()
    meter = Meter(told)
    meter.take([started(T, milli=4000)])
    meter.settle(T + 600)
    meter.take([changed(T + 300, milli=1000)])
    assert told.total == 25 * MINUTE
    meter.take([changed(T + 200, milli=2000)])
    assert told.codes == ["GAP"]
    meter.take([ended(T + 450)])
    assert told.total == 20 * MINUTE + 2 * MINUTE + MINUTE // 2


def test_memory_is_bounded_by_what_is_not_over() -> None:
    told = Told()
    meter = Meter(told)
    for number in range(500):
        begin, job = T + number * 10, f"j{number}"
        reason = ("completed", "failed", "preempted", "cancelled")[number % 4]
        facts = [started(begin, job), saved(begin + 2, job), ended(begin + 4, reason, job)]
        if reason == "preempted":
            facts += [started(begin + 5, job, 2), ended(begin + 6, "completed", job, 2)]
        for fact in facts:
            meter.take([fact])
    assert (meter.open, meter.remembered) == (0, 125)
    meter.take([started(T + FAILED_KEPT + 6000, "later")])
    assert meter.remembered == 1


def test_a_job_that_failed_long_ago_and_runs_again_is_remembered() -> None:
    meter = Meter(Told())
    for fact in (started(T), saved(T + 1), ended(T + 2, "failed"), started(T + 3, attempt=2)):
        meter.take([fact])
    meter.take([started(T + 2 * FAILED_KEPT, "later")])
    assert meter.remembered == 3


def test_attempts_of_one_job_at_a_time_do_not_confuse_what_is_remembered() -> None:
    """An engine says nonsense: the second attempt starts before the first has ended."""
    for first, second in (("failed", "completed"), ("preempted", "failed"), ("failed", "preempted")):
        meter = Meter(Told())
        begin = [started(T), saved(T + 1), started(T + 2, attempt=2)]
        for fact in (*begin, ended(T + 3, first), ended(T + 4, second, attempt=2)):
            meter.take([fact])
        assert meter.remembered == (0 if second == "completed" else 1)
        for later in (1, 100):
            meter.take([started(T + later * FAILED_KEPT + 9_999, f"later{later}")])
        assert meter.remembered == 2


def test_evictions_that_are_over_leave_nothing() -> None:
    meter = Meter(Told())
    for number in range(200):
        begin = T + number * 10
        for fact in (
            started(begin, attempt=number),
            saved(begin + 1, attempt=number),
            ended(begin + 2, "preempted", attempt=number),
        ):
            meter.take([fact])
    assert (meter.remembered, len(meter._waiting)) == (1, 1)


def test_a_shape_keeps_texts_only() -> None:
    shape = started(T, milli=1000, cards=["a"]).shape
    assert shape == Shape(1000, "A800-80GB", "prod", "alpha", "zhang3", False, (("a", 1_000_000),))
