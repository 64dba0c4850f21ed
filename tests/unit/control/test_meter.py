"""The meter's loop on a real database: every event counts once, whoever stops it when."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountRecord
from millpond.billing.currencies import currency_find
from millpond.control import meter as module
from millpond.control.meter import MeterMemory, facts_of, meter_run
from millpond.db.leader import Fenced
from millpond.db.session import Tx
from millpond.db.stores.accounts import account_add, account_save
from millpond.db.stores.events import NewEvent, event_list, events_append
from millpond.db.stores.meter import meter_mark, meter_state_read
from millpond.db.stores.usage import attempt_list, booking_list
from millpond.db.stores.usage_sums import alarm_list
from millpond.domain.jobs import EndReason, QueueClass
from millpond.engines.fake import Behaviour
from millpond.metering.attempts import AttemptUsage
from millpond.metering.hours import instant
from millpond.metering.meter import Meter, Span
from millpond.metering.sealing import Booking
from millpond.metering.usage import UsageSpan
from tests.unit.control.desk import FOREVER, START, Desk

HOUR = 3600


def metered(desk: Desk, memory: MeterMemory | None = None) -> MeterMemory:
    memory = memory or MeterMemory()
    while meter_run(desk.control, desk.epoch, memory).more:
        pass
    return memory


def bookings(desk: Desk) -> list[Booking]:
    return desk.database.run("usage", lambda tx: list(booking_list(tx, SYSTEM, "alpha", 0, 2**36)))


def used(desk: Desk) -> int:
    return sum(booking.milli_seconds for booking in bookings(desk))


def attempts(desk: Desk, job: str) -> list[AttemptUsage]:
    return desk.database.run("attempts", lambda tx: attempt_list(tx, SYSTEM, "alpha", job))


def test_an_attempt_is_metered_by_clock_hours_and_names_its_owner(desk: Desk) -> None:
    desk.now = START + timedelta(minutes=50)
    desk.submit("j1", Behaviour(run_ms=30 * 60_000))
    desk.round()
    desk.round(30 * 60)
    metered(desk)
    begin = instant(START)
    rows = [
        (b.hour, b.milli_seconds, b.lost_milli_seconds, b.shape.user, b.shape.sku, b.shape.klass)
        for b in bookings(desk)
    ]
    assert rows == [
        (begin, 8000 * 600, 0, "ann", "A800-80GB", "batch"),
        (begin + HOUR, 8000 * 1200, 0, "ann", "A800-80GB", "batch"),
    ]
    (attempt,) = attempts(desk, "j1")
    assert (attempt.milli_seconds, attempt.reason, attempt.lost) == (8000 * 1800, EndReason.COMPLETED, False)
    kinds = {
        event.sequence: event.kind for event in desk.database.run("e", lambda tx: event_list(tx, SYSTEM, 0, 1000)).items
    }
    assert kinds[attempt.start_event] == "attempt.started"
    assert attempt.end_event is not None
    assert kinds[attempt.end_event] == "attempt.ended"


def test_running_attempts_are_counted_every_minute_and_the_sum_stays_that_of_the_whole(desk: Desk) -> None:
    desk.submit("j1", Behaviour(run_ms=3_600_000))
    desk.round()
    memory = metered(desk)
    for step in (30, 31, 61, 600, 7):
        desk.wait(step)
        metered(desk, memory)
    assert used(desk) == 8000 * 722
    assert attempts(desk, "j1")[0].milli_seconds == 8000 * 722
    desk.round(3_600 - 729)
    metered(desk, memory)
    assert used(desk) == 8000 * 3600


def test_whoever_goes_on_after_a_crash_counts_nothing_twice(desk: Desk) -> None:
    draw = random.Random(7)
    for number in range(4):
        desk.submit(f"j{number}", Behaviour(run_ms=draw.randint(1, 900) * 1000), cards=4)
    memory = MeterMemory()
    for _ in range(60):
        desk.round(draw.randint(1, 40))
        if draw.random() < 0.4:
            memory = MeterMemory()
        metered(desk, memory)
    ended = [attempts(desk, f"j{number}")[0] for number in range(4)]
    assert [one.reason for one in ended] == [EndReason.COMPLETED] * 4
    spans = [one.ended - one.started for one in ended if one.ended is not None]
    assert used(desk) == sum(4000 * (span // timedelta(seconds=1)) for span in spans)
    assert desk.database.run("state", lambda tx: meter_state_read(tx, SYSTEM)) == {}, (
        "nothing is remembered of what is over"
    )


def test_a_step_that_fails_stores_nothing_and_is_done_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.submit("j1", Behaviour(run_ms=100_000))
    desk.round()
    memory = metered(desk)
    before = desk.database.run("mark", lambda tx: meter_mark(tx, SYSTEM))
    desk.round(100)

    def broken(*_: object) -> None:
        raise RuntimeError("the power fails")

    with monkeypatch.context() as patch:
        patch.setattr(module, "meter_mark_set", broken)
        with pytest.raises(RuntimeError):
            meter_run(desk.control, desk.epoch, memory)
    assert desk.database.run("mark", lambda tx: meter_mark(tx, SYSTEM)) == before
    assert used(desk) == 0
    metered(desk, memory)
    assert used(desk) == 8000 * 100


def test_a_stale_leader_meters_nothing(desk: Desk) -> None:
    desk.submit("j1", Behaviour(run_ms=1000))
    desk.round()
    desk.round(1)
    stale = desk.epoch
    desk.leader.release()
    desk.lead()
    with pytest.raises(Fenced):
        meter_run(desk.control, stale, MeterMemory())
    assert bookings(desk) == []


def test_invariant_15_a_preempted_job_pays_its_running_seconds(desk: Desk) -> None:
    victim = desk.submit("jlow", Behaviour(run_ms=None, save_ms=1000), queue=QueueClass.BESTEFFORT)
    desk.submit("jfill", FOREVER)
    desk.round()
    desk.submit("jclaim", FOREVER, queue=QueueClass.PROD)
    desk.round(120)
    desk.round(20)
    metered(desk)
    (first,) = attempts(desk, victim)
    assert first.ended is not None
    assert first.milli_seconds == 8000 * ((first.ended - first.started) // timedelta(seconds=1))
    assert "meter.alarm" not in desk.kinds()


def test_invariant_17_what_was_never_usable_is_never_billed(desk: Desk) -> None:
    desk.submit("jbad", Behaviour(start_error="no such image"))
    for _ in range(3):
        desk.round(20)
        metered(desk)
    assert "attempt.ended" in desk.kinds()
    assert (used(desk), attempts(desk, "jbad")) == (0, [])
    assert "meter.alarm" not in desk.kinds()


def test_invariant_19_what_is_known_too_late_for_a_sealed_month_is_a_correction(desk: Desk) -> None:
    desk.submit("j1", Behaviour(run_ms=60_000))
    desk.round()
    desk.round(60)
    opened = START - timedelta(days=30)
    account = AccountRecord("alpha", currency_find("CNY"), "Asia/Shanghai", opened, opened)
    sealed = START + timedelta(hours=1)

    def seal(tx: Tx) -> None:
        account_add(tx, SYSTEM, account)
        account_save(tx, SYSTEM, replace(account, sealed_until=sealed))

    desk.database.run("seal", seal)
    metered(desk)
    (booking,) = bookings(desk)
    assert (booking.hour, booking.booked) == (instant(START), instant(sealed))
    assert booking.milli_seconds == 8000 * 60


def test_events_that_do_not_say_who_pays_are_metered_by_their_rows(desk: Desk) -> None:
    desk.submit("j1", FOREVER)
    desk.round()
    page = desk.database.run("events", lambda tx: event_list(tx, SYSTEM, 0, 1000))
    started = next(event for event in page.items if event.kind == "attempt.started")
    from_rows = desk.database.run(
        "known", lambda tx: facts_of([replace(started, data={})], module.attempts_known(tx, SYSTEM, ["j1-1"]))
    )
    (told,) = facts_of([started], {})
    assert told.shape is not None
    assert from_rows[0].shape == told.shape._replace(cards=())


def test_two_attempts_on_one_card_raise_an_alarm_once_and_bill_neither(desk: Desk) -> None:
    usage = {"milli": 1000, "sku": "A", "class": "batch", "project": "", "user": "ann", "service": False,
             "cards": [["n1/0", 1_000_000]]}  # fmt: skip

    def told(kind: str, job: str, second: int, **data: object) -> NewEvent:
        return NewEvent(kind, START + timedelta(seconds=second), "control", "alpha", job, f"{job}-1", data)

    events = [
        told("attempt.started", "ja", 0, usage=usage),
        told("attempt.started", "jb", 10, usage=usage),
        told("attempt.ended", "ja", 20, reason="completed", ran=True),
        told("attempt.ended", "jb", 30, reason="completed", ran=True),
    ]
    desk.database.run("write", lambda tx: events_append(tx, "control", events))
    metered(desk)
    metered(desk)
    assert used(desk) == 0
    assert [attempts(desk, job)[0].disputed for job in ("ja", "jb")] == [True, True]
    assert Counter(desk.kinds())["meter.alarm"] == 1


ONE = {"milli": 1000, "sku": "A", "class": "batch", "project": "", "user": "ann", "service": False,
       "cards": [["n1/0", 1_000_000]]}  # fmt: skip


def put(desk: Desk, *told: tuple[str, str, int, dict[str, object]]) -> None:
    """Events of kind, job and second, with data."""
    events = [
        NewEvent(f"attempt.{kind}", START + timedelta(seconds=second), "control", "alpha", job, f"{job}-1", data)
        for kind, job, second, data in told
    ]
    desk.database.run("write", lambda tx: events_append(tx, "control", events))


def alarmed(desk: Desk) -> list[tuple[str, str, str]]:
    span = UsageSpan("", START, START + timedelta(days=1), "UTC")
    alarms = desk.database.run("alarms", lambda tx: alarm_list(tx, SYSTEM, span))
    return [(alarm.code.value, alarm.tenant, alarm.job) for alarm in alarms]


def test_an_alarm_names_its_tenant_also_when_the_start_was_read_before(desk: Desk) -> None:
    put(desk, ("started", "ja", 0, {"usage": ONE}))
    metered(desk)
    put(desk, ("started", "jb", 10, {"usage": ONE}))
    metered(desk)
    assert alarmed(desk) == [("OVERLAP", "alpha", "ja")]


@pytest.mark.parametrize("together", [True, False])
def test_where_a_step_ends_does_not_matter_when_a_card_changes_hands_by_a_clock_that_is_behind(
    desk: Desk, together: bool
) -> None:
    end: dict[str, object] = {"reason": "completed", "ran": True}
    told: list[tuple[str, str, int, dict[str, object]]] = [
        ("started", "ja", 0, {"usage": ONE}), ("ended", "ja", 100, end), ("started", "jb", 99, {"usage": ONE}),
        ("ended", "jb", 200, end),
    ]  # fmt: skip
    for some in [told] if together else [[one] for one in told]:
        put(desk, *some)
        metered(desk)
    assert (used(desk), alarmed(desk)) == (1000 * 201, [])


def test_a_start_that_nothing_is_known_of_is_an_alarm(desk: Desk) -> None:
    put(desk, ("started", "jx", 0, {}))
    metered(desk)
    assert (used(desk), alarmed(desk)) == (0, [("GAP", "alpha", "jx")])


def test_a_start_that_fails_after_all_is_closed_and_costs_nothing(desk: Desk) -> None:
    put(desk, ("started", "jx", 0, {"usage": ONE}))
    memory = metered(desk)
    desk.wait(61)
    metered(desk, memory)
    put(desk, ("ended", "jx", 70, {"reason": "start_failed", "ran": True}))
    metered(desk, memory)
    assert used(desk) == 0
    assert desk.database.run("state", lambda tx: meter_state_read(tx, SYSTEM)) == {}


def test_the_loop_says_the_same_as_the_meter_on_the_whole_log(desk: Desk) -> None:
    draw = random.Random(11)
    for number in range(12):
        behaviour = Behaviour(run_ms=draw.randint(5, 400) * 1000, save_ms=draw.choice((500, 2000)))
        desk.submit(f"j{number:02}", behaviour, cards=draw.choice((1, 2, 4, 8)), queue=draw.choice(list(QueueClass)))
    memory = MeterMemory()
    for _ in range(80):
        desk.round(draw.randint(1, 30))
        metered(desk, memory if draw.random() < 0.7 else None)
    desk.wait(61)
    metered(desk)
    page = desk.database.run("events", lambda tx: event_list(tx, SYSTEM, 0, 1000))
    facts = facts_of([e for e in page.items if e.kind in module._EVENTS], {})
    told = Sums()
    whole = Meter(told)
    for fact in facts:
        whole.take([fact])
    whole.finish(instant(desk.now))
    sums: Counter[str] = Counter()
    for booking in bookings(desk):
        sums[booking.job] += booking.milli_seconds
    assert sums == told.sums


class Sums:
    """What a meter tells, by job."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()

    def span(self, span: Span) -> None:
        self.sums[span.job] += span.shape.milli * (span.end - span.start) * span.sign

    def ended(self, ended: object) -> None:
        pass

    def alarm(self, alarm: object) -> None:
        raise AssertionError(alarm)
