"""Bills for all facts: the order and repeats of facts change nothing, telling in pieces adds up, nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.billing.pipeline import Pipeline
from millpond.billing.prices import PriceBook
from millpond.billing.rating import Rater, Rules
from millpond.cli.offline.rate_output import rating_json
from millpond.domain.jobs import EndReason
from millpond.metering.alarms import AlarmCode
from millpond.metering.buckets import SumsInMemory
from millpond.metering.conservation import CardUse, Stretch, conservation
from millpond.metering.facts import Event, Fact
from millpond.metering.hours import Hours, month_period
from millpond.metering.meter import Meter
from millpond.metering.sealing import span_book
from millpond.metering.seen import SeenInMemory, facts_fresh
from tests.unit.metering.builders import (
    SHANGHAI,
    Told,
    at,
    billed,
    changed,
    ended,
    metered,
    price,
    saved,
    started,
)

BEGIN = at("11-30 22:00")
REASONS = st.sampled_from([reason.value for reason in EndReason])
PRICES = (
    price("12.00", "v1", klass="prod", end="12-01 00:00"),
    price("10.50", "v2", start="12-01 00:00"),
    price("3.21", "v3", klass="batch", start="11-01 00:00"),
)


@st.composite
def lives(draw: st.DrawFn, name: str) -> list[Fact]:
    """The attempts of a job, one after the other; the last may be open."""
    facts: list[Fact] = []
    time = BEGIN + draw(st.integers(0, 4000))
    kind = draw(st.sampled_from(["task", "service"]))
    klass = draw(st.sampled_from(["prod", "batch"]))
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        facts.append(started(time, name, attempt, draw(st.sampled_from([250, 1000, 8000])), klass=klass, type=kind))
        for _ in range(draw(st.integers(0, 3))):
            time += draw(st.integers(0, 3000))
            if draw(st.integers(0, 3)):
                facts.append(saved(time, name, attempt))
            else:
                shape = {"klass": klass, "type": kind}
                facts.append(changed(time, name, attempt, draw(st.sampled_from([500, 2000])), **shape))
        time += draw(st.integers(0, 4000))
        if attempt == 4 and draw(st.booleans()):
            break
        facts.append(ended(time, draw(REASONS), name, attempt))
        time += draw(st.integers(1, 2000))
    return facts


@st.composite
def days(draw: st.DrawFn) -> list[Fact]:
    """Some jobs, which may contradict themselves where `mess` is drawn."""
    facts = [fact for name in "abc" for fact in draw(lives(name))]
    facts = list({fact.id: fact for fact in facts}.values())
    if draw(st.booleans()):
        gone = draw(st.lists(st.integers(0, len(facts) - 1), max_size=2, unique=True))
        facts = [fact for index, fact in enumerate(facts) if index not in gone]
        for index in draw(st.lists(st.integers(0, len(facts) - 1), max_size=2, unique=True)) if facts else ():
            facts[index] = facts[index]._replace(time=facts[index].time + draw(st.integers(-3000, 3000)))
    return facts


def text(pipeline: Pipeline) -> str:
    return "\n".join(rating_json(pipeline))


@given(days(), st.randoms(use_true_random=False), st.booleans(), st.integers(0, 600))
@settings(max_examples=150)
def test_order_and_repeats_change_no_byte(facts: list[Fact], draw: random.Random, lost: bool, minimum: int) -> None:
    rules = Rules(minimum_seconds=minimum, bill_lost_work=lost)
    wanted = text(billed(facts, *PRICES, rules=rules))
    repeats = [fact._replace(time=fact.time + draw.randrange(0, 9000)) for fact in facts if draw.random() < 0.5]
    mixed = [*facts, *repeats, *draw.sample(facts, len(facts) // 2)]
    draw.shuffle(mixed)
    assert text(billed(mixed, *PRICES, rules=rules)) == wanted


def _settled(facts: Sequence[Fact], moments: Sequence[int], up_to: int) -> Told:
    """As `metered`, but told of open attempts at `moments` on the way."""
    told = Told()
    meter = Meter(told)
    waiting = sorted(moments)
    for second in facts_fresh(sorted(facts), SeenInMemory()):
        while waiting and waiting[0] <= second[0].time:
            meter.settle(waiting.pop(0))
        meter.take(second)
    meter.finish(up_to)
    return told


@given(days(), st.lists(st.integers(BEGIN, BEGIN + 20_000), max_size=12))
@settings(max_examples=150)
def test_telling_in_pieces_adds_up(facts: list[Fact], moments: list[int]) -> None:
    up_to = BEGIN + 30_000
    whole, pieces = metered(facts, up_to), _settled(facts, moments, up_to)
    assert (pieces.used, pieces.lost) == (whole.used, whole.lost)
    assert sorted(pieces.alarms) == sorted(whole.alarms)


@given(days(), st.lists(st.integers(BEGIN, BEGIN + 20_000), max_size=12))
@settings(max_examples=100)
def test_a_meter_that_is_stored_and_loaded_at_any_moment_goes_on(facts: list[Fact], moments: list[int]) -> None:
    """Killed after every second of facts: what it stored is enough, and it stores the same again."""
    up_to = BEGIN + 30_000
    told = Told()
    meter, waiting = Meter(told), sorted(moments)
    for second in facts_fresh(sorted(facts), SeenInMemory()):
        while waiting and waiting[0] <= second[0].time:
            meter.settle(waiting.pop(0))
        meter.take(second)
        state = meter.state()
        meter = Meter(told, state)
        assert meter.state() == state
    meter.finish(up_to)
    whole = metered(facts, up_to)
    assert (told.used, told.lost, sorted(told.alarms)) == (whole.used, whole.lost, sorted(whole.alarms))


@given(days(), st.lists(st.integers(0, 20_000), min_size=1, max_size=6), st.data())
@settings(max_examples=100)
def test_sealed_hours_and_corrections_sum_to_the_whole(
    facts: list[Fact], delays: list[int], data: st.DataObject
) -> None:
    """Ends arrive late, and hours are sealed meanwhile: no sealed hour is touched, and what was booked for an hour of
    use, wherever it was booked, is what all facts in order make of it."""
    up_to, ordered = BEGIN + 100_000, sorted(facts)
    late = {
        index: data.draw(st.sampled_from(delays))
        for index, fact in enumerate(ordered)
        # An engine tells its facts about one job in order.
        if fact.event is Event.ENDED and not _later_of_the_job(ordered, index) and data.draw(st.booleans())
    }
    # Facts of one second that come together are taken together: their order within it says nothing.
    arrivals: dict[tuple[int, int], list[Fact]] = {}
    for index, fact in enumerate(ordered):
        arrivals.setdefault((fact.time + late.get(index, 0), fact.time), []).append(fact)
    told, hours = Told(), Hours(SHANGHAI)
    books: dict[tuple[int, str], int] = {}
    lost: dict[tuple[int, str], int] = {}
    meter, sealed, count = Meter(told), 0, 0
    for now, time in [*sorted(arrivals), (up_to, None)]:
        if time is None:
            meter.finish(up_to)
        else:
            meter.settle(now)
            meter.take(arrivals[now, time])
        for span in told.spans[count:]:
            for booking in span_book(span, hours, sealed):
                assert booking.booked >= sealed
                assert booking.correction == (booking.hour < sealed)
                key = (booking.hour, booking.job)
                books[key] = books.get(key, 0) + booking.milli_seconds
                lost[key] = lost.get(key, 0) + booking.lost_milli_seconds
        count, sealed = len(told.spans), max(sealed, hours.around(now)[0])
    whole = metered(facts, up_to)
    for booked, wanted in ((books, whole.used), (lost, whole.lost)):
        sums: dict[tuple[int, str], int] = {}
        for (hour, job, _, _), amount in wanted.items():
            sums[hour, job] = sums.get((hour, job), 0) + amount
        assert {key: amount for key, amount in booked.items() if amount} == sums


def _later_of_the_job(facts: Sequence[Fact], index: int) -> bool:
    return any(fact.job == facts[index].job for fact in facts[index + 1 :])


@given(days())
def test_months_share_out_all_use(facts: list[Fact]) -> None:
    """What November and December bill is what the meter tells, each second once."""
    done = [fact for fact in facts if fact.event is not Event.STARTED or _ends(facts, fact)]
    november, december = (billed(done, *PRICES, period=month) for month in ("2026-11", "2026-12"))
    whole = metered(done)
    rows = [*november.buckets(), *december.buckets()]
    assert sum(row.milli_seconds for row in rows) == whole.total
    assert sum(row.lost_milli_seconds for row in rows) == whole.total_lost
    for bill in (november, december):
        lines = [*bill.lines(), *bill.unrated()]
        assert sum(line.billed for line in lines) == sum(
            row.milli_seconds - row.lost_milli_seconds for row in bill.buckets()
        )


def _ends(facts: Sequence[Fact], start: Fact) -> bool:
    same = [fact for fact in facts if (fact.job, fact.attempt) == (start.job, start.attempt)]
    return any(fact.event is Event.ENDED for fact in same)


@given(days(), st.booleans())
def test_bookings_are_rated_as_spans_are(facts: list[Fact], lost: bool) -> None:
    book, rules, hours = PriceBook(version(SHANGHAI) for version in PRICES), Rules(bill_lost_work=lost), Hours(SHANGHAI)
    told = metered(facts, BEGIN + 100_000)
    for month in ("2026-11", "2026-12"):
        period, sums = month_period(month, SHANGHAI), [SumsInMemory() for _ in range(4)]
        by_span, by_booking = Rater(period, book, rules, *sums[:2]), Rater(period, book, rules, *sums[2:])
        for span in told.spans:
            by_span.span(span)
            for booking in span_book(span, hours, sealed_until=0):
                by_booking.booking(booking)
        assert list(sums[2].rows()) == list(sums[0].rows())
        assert list(sums[3].rows()) == list(sums[1].rows())


@given(days())
def test_buckets_and_lines_agree_however_much_is_lost(facts: list[Fact]) -> None:
    bill = billed(facts, *PRICES, rules=Rules(bill_lost_work=True))
    assert sum(line.billed for line in [*bill.lines(), *bill.unrated()]) == sum(
        row.milli_seconds for row in bill.buckets()
    )
    for row in bill.buckets():
        assert 0 <= row.lost_milli_seconds <= row.milli_seconds


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90), st.integers(1, 40)), max_size=12))
@settings(max_examples=100)
def test_nobody_is_billed_for_a_card_that_two_have(runs: list[tuple[int, int, int]]) -> None:
    """Whole cards at random: an overlap is an alarm exactly where two attempts share a second of one card."""
    facts = [
        fact
        for number, (card, begin, length) in enumerate(runs)
        for fact in (
            started(BEGIN + begin, f"j{number}", cards=[f"c{card}"]),
            ended(BEGIN + begin + length, job=f"j{number}"),
        )
    ]
    clash = {
        number
        for number, (card, begin, length) in enumerate(runs)
        for other, (other_card, other_begin, other_length) in enumerate(runs)
        if number != other
        and card == other_card
        and max(begin, other_begin) < min(begin + length, other_begin + other_length)
    }
    told = metered(facts)
    assert {key[1] for key in told.used} == {f"j{number}" for number in range(len(runs))} - {f"j{n}" for n in clash}
    assert {alarm.code for alarm in told.alarms} == ({AlarmCode.OVERLAP} if clash else set())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(1, 50)), max_size=8), st.data())
def test_conservation_holds_exactly_when_every_second_is_accounted_for_once(
    busy: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    cards = {f"c{number}": (0, 100) for number in range(3)}
    seconds = {card: [0] * 100 for card in cards}
    stretches = []
    for number, begin, length in busy:
        stretches.append(Stretch(f"c{number}", begin, begin + length, CardUse.ALLOCATED))
        for second in range(begin, min(100, begin + length)):
            seconds[f"c{number}"][second] += 1
    for card, counts in seconds.items():
        for second, count in enumerate(counts):
            if not count and data.draw(st.integers(0, 40)):
                stretches.append(Stretch(card, second, second + 1, CardUse.IDLE))
                counts[second] = 1
    found = conservation(cards, stretches, 0, 100)
    assert found.holds == all(count == 1 for counts in seconds.values() for count in counts)


def test_accounts_differ_only_by_what_they_say() -> None:
    bill = billed([started(BEGIN), ended(BEGIN + 60)], *PRICES)
    assert replace(bill.account, name="other").currency == bill.account.currency
