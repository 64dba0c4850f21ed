"""The invariants of metering and billing that the pure pipeline can show, each with its numbers."""

from __future__ import annotations

from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from millpond.billing.idle import idle_spread
from millpond.billing.invoices import invoice_totals, issue_check, tax_lines
from millpond.billing.money import decimal_round_text, money_parse, money_sum
from millpond.billing.prices import PriceBook
from millpond.billing.rating import Line, LineKey, Lines, Rater, Rules, amount_of, card_hours, rating_deltas
from millpond.domain.errors import Conflict, InvalidInput
from millpond.metering.buckets import SumsInMemory
from millpond.metering.clocks import skew_judge, time_align
from millpond.metering.conservation import CardUse, Stretch, conservation
from millpond.metering.facts import fact_id, share_of_memory
from millpond.metering.hours import Hours, month_period
from millpond.metering.meter import Meter, Span
from millpond.metering.sealing import span_book
from millpond.metering.seen import SeenInMemory, facts_fresh
from tests.unit.metering.builders import (
    CNY,
    HOUR,
    SHANGHAI,
    Told,
    at,
    billed,
    card_milli_seconds,
    changed,
    ended,
    metered,
    net,
    price,
    saved,
    started,
)

T = at("11-10 10:00")


def test_invariant_01_an_id_counts_once_for_ever() -> None:
    """A quarter of a card for an hour, told three times and again on day 40: 0.25 card-hours."""
    facts = [started(T, milli=250), ended(T + 3600)]
    seen, told = SeenInMemory(), Told()
    for _ in range(4):
        metered(facts, seen=seen, told=told)
    assert told.total == 250 * 3600
    day_40 = [facts[0]._replace(time=T + 40 * 86_400), facts[1]._replace(time=T + 40 * 86_400 + 3600)]
    assert metered([*facts, *day_40]).total == 250 * 3600


def test_invariant_02_a_claim_is_kept_with_what_was_made_of_it_or_not_at_all() -> None:
    """The first write fails; the retry counts 0.25, not 0."""
    facts = [started(T, milli=250), ended(T + 3600)]
    seen = SeenInMemory()
    with pytest.raises(OSError, match="disk"):
        _stored(facts, seen.copy(), fails=True)
    work = seen.copy()
    told = _stored(facts, work, fails=False)
    assert told.total == 250 * 3600
    assert _stored(facts, work.copy(), fails=False).total == 0


def _stored(facts: list, seen: SeenInMemory, *, fails: bool) -> Told:  # type: ignore[type-arg]
    told = metered(facts, seen=seen)
    if fails:
        raise OSError("disk full")
    return told


def test_invariant_03_ids_derive_from_the_fact() -> None:
    assert fact_id("local", "j1", 1, "started") == fact_id("local", "j1", 1, "started")
    ids = {
        fact_id(source, job, attempt, event, number)
        for source in ("local", "k8s")
        for job in ("j1", "j11")
        for attempt in (1, 11)
        for event in ("started", "checkpointed")
        for number in (0, 1)
    }
    assert len(ids) == 32
    log = [started(T, id=fact_id("local", "j1", 1, "started")), ended(T + 60)]
    assert metered(log).used == metered([*log, *log]).used


def test_invariant_04_a_restart_does_not_bill_twice() -> None:
    """Settled to 10:20, then 10:15–10:30 is replayed: the hour has 1800 s, not 2100."""
    log = [started(T), saved(T + 15 * 60), saved(T + 25 * 60), ended(T + 30 * 60)]
    told, seen = Told(), SeenInMemory()
    meter = Meter(told)
    for second in facts_fresh(log[:2], seen):
        meter.take(second)
    meter.settle(T + 20 * 60)
    assert told.total == 1200 * 1000
    for second in facts_fresh(log[1:], seen):
        meter.take(second)
    assert told.total == 1800 * 1000


def test_invariant_05_ticks_telescope() -> None:
    """Twelve ticks at odd moments over an hour sum to 3600."""
    ticks = [299, 601, 899, 1203, 1497, 1801, 2100, 2403, 2698, 3001, 3299, 3598]
    told = Told()
    meter = Meter(told)
    meter.take([started(T)])
    for tick in ticks:
        meter.settle(T + tick)
    meter.take([ended(T + 3600)])
    assert (told.total, len(told.spans)) == (3600 * 1000, 13)


def test_invariant_06_a_change_of_shape_splits_the_hour() -> None:
    """30 min × 4 cards + 20 min × 1 = 2.3333 card-hours; the other way round 1.8333."""
    for first, second, hours in ((4000, 1000, "2.3333"), (1000, 4000, "1.8333")):
        facts = [started(T, milli=first), changed(T + 1800, milli=second), ended(T + 3000)]
        assert decimal_round_text(card_hours(metered(facts).total), 4) == hours


def test_invariant_07_fractions_add_up() -> None:
    """Four pods with a quarter each for an hour are one card-hour."""
    pods = [[started(T, f"j{n}", milli=250, cards=["GPU-a"]), ended(T + 3600, job=f"j{n}")] for n in range(4)]
    told = metered([fact for pod in pods for fact in pod])
    assert (told.total, told.codes) == (HOUR, [])


def test_invariant_08_a_slice_counts_what_its_card_reports() -> None:
    """9728 of 81920 MiB = 0.11875, at milli-cards 0.119; unknown is held, not billed as 1."""
    assert share_of_memory(9728, 81_920) == 119
    assert share_of_memory(10, 80) == 125
    assert share_of_memory(0, 81_920) is None
    assert share_of_memory(90_000, 81_920) is None


def test_invariant_09_conservation() -> None:
    """64 cards × 24 h = 1536 = 1100 allocated + 396 idle + 40 down; a gap or overlap is an alarm."""
    day = 86_400
    cards = {f"c{number:02d}": (T, T + day) for number in range(64)}
    stretches = []
    for number, card in enumerate(cards):
        down = 40 * 3600 // 2 if number < 2 else 0  # two cards, 20 h each
        allocated = 1100 * 3600 // 62 if number >= 2 else 0
        allocated += 1 if 2 <= number < 2 + 1100 * 3600 % 62 else 0
        stretches += [
            Stretch(card, T, T + down, CardUse.DOWN),
            Stretch(card, T + down, T + down + allocated, CardUse.ALLOCATED),
            Stretch(card, T + down + allocated, T + day, CardUse.IDLE),
        ]
    whole = conservation(cards, stretches, T, T + day)
    hours = {use: amount // (3600 * 1_000_000) for use, amount in whole.by_use.items() if amount}
    assert hours == {CardUse.ALLOCATED: 1100, CardUse.IDLE: 396, CardUse.DOWN: 40}
    assert whole.holds
    assert whole.installed == 1536 * 3600 * 1_000_000
    gap = conservation(cards, [item for item in stretches if item.use is not CardUse.DOWN], T, T + day)
    assert [alarm.code for alarm in gap.alarms] == ["GAP", "GAP"]
    assert "72000 s" in gap.alarms[0].text
    double = conservation(cards, [*stretches, Stretch("c05", T, T + 60, CardUse.ALLOCATED, 250_000)], T, T + day)
    assert [(alarm.code, alarm.card, alarm.time) for alarm in double.alarms] == [("OVERLAP", "c05", T)]
    assert not double.holds


def test_invariant_10_idle_is_spread_by_weight_and_survives_zero_weight() -> None:
    hundred = money_parse("100.00", CNY)
    parts, idle = idle_spread(hundred, {"A": 50, "B": 30})
    assert ({name: part.text() for name, part in parts.items()}, idle.text()) == (
        {"A": "62.50", "B": "37.50"},
        "0.00",
    )
    parts, idle = idle_spread(hundred, {"A": 0, "B": 0})
    assert ([part.text() for part in parts.values()], idle.text()) == (["0.00", "0.00"], "100.00")


NIGHT = [started(at("11-30 14:20"), milli=8000), ended(at("12-01 02:20"))]
TWELVE = price("12.00", "v1", end="12-01 00:00")
TEN_50 = price("10.50", "v2", start="12-01 00:00")


def test_invariant_11_the_price_of_the_moment_of_use() -> None:
    """928.00 in November + 196.00 in December = 1,124.00; neither 1,152 nor 1,008."""
    assert net(billed(NIGHT, TWELVE, TEN_50)) == "928.00"
    assert net(billed(NIGHT, TWELVE, TEN_50, period="2026-12")) == "196.00"


def test_invariant_12_a_closed_month_stays_when_prices_change() -> None:
    before = list(billed(NIGHT, TWELVE, TEN_50).lines())
    dearer = price("99.00", "v3", klass="prod", start="12-01 00:00")
    assert list(billed(NIGHT, TWELVE, TEN_50, dearer).lines()) == before
    book = PriceBook([TWELVE(SHANGHAI)])
    with pytest.raises(Conflict) as caught:
        book.add(price("1.00", "v9", klass="prod", start="11-01 00:00")(SHANGHAI), closed_until=at("12-01 00:00"))
    assert caught.value.reason == "CLOSED_PERIOD"
    assert "credit note" in caught.value.hint


def test_invariant_13_unpriced_use_is_unrated_and_can_be_priced_later() -> None:
    """5 card-hours without a price: not 0, and the invoice is not issued."""
    facts = [started(T), ended(T + 5 * 3600)]
    bill = billed(facts, price("12.00", sku="H800"))
    assert [(line.billed, line.key.version) for line in bill.unrated()] == [(5 * HOUR, "")]
    assert list(bill.lines()) == []
    with pytest.raises(Conflict, match="no price"):
        issue_check(len(list(bill.unrated())))
    priced = billed(facts, price("12.00", sku="H800"), price("2.40"))
    assert (net(priced), list(priced.unrated())) == ("12.00", [])
    issue_check(0)


def test_invariant_14_rerating_books_deltas() -> None:
    """15 at 10 = 150 billed; the 16th unit makes it 16 at 5 = 80: −150, +80."""
    key = LineKey("alpha", "zhang3", "j1", "A800-80GB", "prod", "list")
    ten, five = money_parse("10", CNY), money_parse("5", CNY)
    other = Line(key._replace(job="j2"), HOUR, 0, ten)
    before = {key: Line(key, 15 * HOUR, 0, amount_of(15 * HOUR, ten)), other.key: other}
    volume = key._replace(version="volume-16")
    after = {volume: Line(volume, 16 * HOUR, 0, amount_of(16 * HOUR, five)), other.key: other}
    deltas = rating_deltas(before, after)
    assert [delta.amount.text() for delta in deltas] == ["-150.00", "80.00"]
    assert sum(delta.billed for delta in deltas) == HOUR
    assert rating_deltas(after, after) == []


def test_invariant_15_a_preemption_bills_running_seconds_only() -> None:
    """Four spot cards at 4.00, 10:00:00–10:42:30 and 11:05–11:30: 4050 s, 4.5 card-hours, 18.00."""
    facts = [
        started(T, milli=4000, klass="spot"),
        ended(T + 42 * 60 + 30, "preempted"),
        started(T + 65 * 60, attempt=2, milli=4000, klass="spot"),
        ended(T + 90 * 60, attempt=2),
    ]
    bill = billed(facts, price("4.00"))
    assert card_milli_seconds(bill) == 4 * 4050 * 1000
    assert net(bill) == "18.00"


def test_invariant_16_a_minimum_is_per_start_and_visible() -> None:
    """20 s at 2.40 an hour: 0.04 with a minimum of 60 s, 0.01 without."""
    facts = [started(T), ended(T + 20)]
    assert net(billed(facts, price("2.40"))) == "0.01"
    bill = billed(facts, price("2.40"), rules=Rules(minimum_seconds=60))
    assert net(bill) == "0.04"
    assert [(line.billed, line.minimum) for line in bill.lines()] == [(60_000, 40_000)]
    twice = [*facts, started(T + 100, attempt=2), ended(T + 120, attempt=2)]
    assert card_milli_seconds(billed(twice, price("2.40"), rules=Rules(minimum_seconds=60))) == 120_000
    minutes = billed([started(T), ended(T + 61)], price("2.40"), rules=Rules(increment_seconds=60))
    assert [(line.billed, line.minimum) for line in minutes.lines()] == [(120_000, 59_000)]


def test_invariant_17_never_usable_is_never_billed() -> None:
    facts = [
        started(T),
        ended(T + 300, "start_failed"),
        started(T + 400, attempt=2),
        ended(T + 460, "node_lost", attempt=2),
    ]
    bill = billed(facts, price("12.00"), rules=Rules(minimum_seconds=60))
    assert (net(bill), list(bill.lines()), bill.alarms()) == ("0.00", [], [])


def test_invariant_18_one_clock_for_start_and_end() -> None:
    """The node's clock is 7 s ahead: without care 3593 s are counted, with it 3600."""
    begin = time_align(T + 7, engine_now=T + 67, server_now=T + 60)
    assert metered([started(begin), ended(T + 3600)]).total == 3600 * 1000
    alarm = skew_judge("node n1", T + 67, T + 60)
    assert alarm is not None
    assert (alarm.code, "7 s" in alarm.text) == ("SKEW", True)
    assert skew_judge("node n1", T + 62, T + 60) is None
    assert metered([started(T), ended(T - 1)]).codes == ["NEGATIVE"]


def test_invariant_19_late_use_is_a_correction_in_the_open_hour() -> None:
    """The end of 10:40 arrives after 10:00–11:00 was sealed: the total is that of all facts."""
    told = Told()
    meter = Meter(told)
    meter.take([started(T, milli=4000)])
    meter.settle(T + 3600)
    hours = Hours(SHANGHAI)
    bookings = [booking for span in told.spans for booking in span_book(span, hours, sealed_until=0)]
    assert [(booking.hour, booking.milli_seconds) for booking in bookings] == [(T, 4 * HOUR)]
    sealed, count = T + 3600, len(told.spans)
    meter.settle(T + 2 * 3600)
    meter.take([ended(T + 40 * 60)])
    late = [booking for span in told.spans[count:] for booking in span_book(span, hours, sealed)]
    corrections = [(booking.booked, booking.hour, booking.milli_seconds) for booking in late if booking.correction]
    assert corrections == [(sealed, T, -4 * 1200 * 1000)]
    assert sum(booking.milli_seconds for booking in (*bookings, *late)) == 4 * 2400 * 1000


def test_invariant_19_a_correction_has_the_price_of_when_it_happened() -> None:
    """An hour too much in November, learnt in December: −12.00 on December's bill, not −10.50."""
    told = Told()
    meter, hours = Meter(told), Hours(SHANGHAI)
    december = month_period("2026-12", SHANGHAI)
    meter.take([started(at("11-30 20:00"))])
    meter.settle(december.start)
    count = len(told.spans)
    meter.take([ended(at("11-30 23:00"))])
    book = PriceBook([TWELVE(SHANGHAI), TEN_50(SHANGHAI)])
    priced, unpriced = SumsInMemory(), SumsInMemory()
    rater = Rater(december, book, Rules(), priced, unpriced)
    for span in told.spans[count:]:
        for booking in span_book(span, hours, sealed_until=december.start):
            rater.booking(booking)
    lines = Lines(book, CNY, priced, unpriced)
    assert [(line.key.version, line.amount.text()) for line in lines.lines()] == [("v1", "-12.00")]
    assert lines.net().text() == "-12.00"


def test_invariant_20_half_open_months_in_the_accounts_zone() -> None:
    """Shanghai's November 2026 = [10-31T16:00Z, 11-30T16:00Z); 11-30T16:30Z is December."""
    november = month_period("2026-11", SHANGHAI)
    assert (november.start, november.end) == (at("2026-10-31T16:00:00+00:00"), at("2026-11-30T16:00:00+00:00"))
    begin = at("2026-11-30T16:30:00+00:00")
    facts = [started(begin), ended(begin + 60)]
    assert list(billed(facts, price("60.00")).lines()) == []
    assert net(billed(facts, price("60.00"), period="2026-12")) == "1.00"
    edge = [started(november.end - 60), ended(november.end + 60)]
    assert net(billed(edge, price("60.00"))) == net(billed(edge, price("60.00"), period="2026-12")) == "1.00"


@pytest.mark.parametrize(
    ("zone", "day", "hours", "amount"),
    [("America/New_York", "2026-11-01", 25, "60.00"), ("Europe/Berlin", "2027-03-28", 23, "55.20")],
)
def test_invariant_21_days_have_their_real_length(zone: str, day: str, hours: int, amount: str) -> None:
    """25 card-hours × 2.40 = 60.00 when New York puts its clock back; Berlin's short day has 23."""
    place = ZoneInfo(zone)
    begin = at(f"{day}T00:00:00", place)
    end = at(f"{day[:-2]}{int(day[-2:]) + 1:02d}T00:00:00", place)
    bill = billed([started(begin), ended(end)], price("2.40"), period=day[:7], zone=place)
    assert card_milli_seconds(bill) == hours * HOUR
    assert net(bill) == amount
    buckets = list(bill.buckets())
    assert (len(buckets), {bucket.milli_seconds for bucket in buckets}) == (hours, {HOUR})
    assert len({bill.hours.text(bucket.hour) for bucket in buckets}) == hours


def test_invariant_22_rounding_is_half_up_and_once_per_line() -> None:
    """A quarter for 3990 s at 2.40 = 0.665 → 0.67; an eighth at 2.99 for 720 h = 269.10, by the hour 266.40."""
    assert net(billed([started(T, milli=250), ended(T + 3990)], price("2.40"))) == "0.67"
    month = at("11-01 00:00")
    bill = billed([started(month, milli=125), ended(month + 720 * 3600)], price("2.99"))
    assert (net(bill), len(list(bill.lines())), len(list(bill.buckets()))) == ("269.10", 1, 720)


def test_invariant_23_tax_by_line_sums_to_the_tax() -> None:
    amounts = [money_parse(text, CNY) for text in ("68.33", "68.33", "57.50", "85.00")]
    totals = invoice_totals(amounts, money_parse("0.20", CNY).amount, CNY)
    assert (totals.net.text(), totals.tax.text(), totals.total.text()) == ("279.16", "55.83", "334.99")
    lines = tax_lines(amounts, totals.tax)
    assert [line.text() for line in lines] == ["13.67", "13.66", "11.50", "17.00"]
    mixed = [*amounts, money_parse("-57.50", CNY)]
    totals = invoice_totals(mixed, money_parse("0.20", CNY).amount, CNY)
    assert money_sum(tax_lines(mixed, totals.tax), CNY) == totals.tax
    with pytest.raises(InvalidInput, match=r"0\.06"):
        invoice_totals(amounts, money_parse("6", CNY).amount, CNY)


def test_invariant_30_the_owner_is_a_snapshot() -> None:
    """The user changes teams on the 15th: earlier hours stay with the old team, also those of a running attempt."""
    facts = [
        started(at("11-14 22:00"), project="old"),
        changed(at("11-15 00:00"), project="new"),
        ended(at("11-15 03:00")),
        started(at("11-16 00:00"), "j2", project="new"),
        ended(at("11-16 01:00"), job="j2"),
    ]
    lines = list(billed(facts, price("1.00")).lines())
    assert [(line.key.project, line.key.job, line.amount.text()) for line in lines] == [
        ("new", "j1", "3.00"),
        ("new", "j2", "1.00"),
        ("old", "j1", "2.00"),
    ]


def test_invariant_31_lines_reconcile_with_the_invoice() -> None:
    facts = [
        fact
        for number in range(40)
        for fact in (
            started(T + 7 * number, f"j{number}", milli=125 * (number % 8 + 1), user=f"u{number % 3}"),
            ended(T + 997 * (number + 1), job=f"j{number}"),
        )
    ]
    bill = billed(facts, price("2.99"), tax="0.06")
    totals, lines = bill.totals(), list(bill.lines())
    assert money_sum((line.amount for line in lines), CNY) == totals.net
    assert totals.net + money_sum(tax_lines([line.amount for line in lines], totals.tax), CNY) == totals.total
    used = sum(bucket.milli_seconds - bucket.lost_milli_seconds for bucket in bill.buckets())
    assert sum(line.billed for line in lines) == used
    assert all(Fraction(line.amount.amount) >= 0 for line in lines)


def test_a_span_of_nothing_is_booked_as_nothing() -> None:
    shape = started(T, milli=0).shape
    assert shape is not None
    assert list(span_book(Span("j1", 1, shape, T, T + 60), Hours(SHANGHAI), 0)) == []
