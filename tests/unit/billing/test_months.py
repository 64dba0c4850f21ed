"""The lines of a month: what was found late, what packs paid, tax inside the price, and hashes that are repeatable."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from millpond.billing.accounts import AccountRecord
from millpond.billing.documents import LineKind
from millpond.billing.months import Month, MonthBill
from millpond.billing.prices import PriceBook, versions_aligned, versions_ended
from millpond.metering.facts import Shape
from millpond.metering.hours import Hours, month_period
from millpond.metering.sealing import Booking
from millpond.zones import zone_find
from tests.unit.metering.builders import CNY, HOUR, SHANGHAI, at, price

OPENED = datetime(2026, 10, 31, 16, tzinfo=UTC)


def used(hour: str, hours: int = 1, booked: str = "", **owner: str) -> Booking:
    shape = Shape(0, owner.get("sku", "A800-80GB"), "prod", "alpha", "zhang3")
    return Booking(at(booked or hour), at(hour), owner.get("job", "j1"), 1, shape, hours * HOUR, 0)


def bill(*bookings: Booking, packed: dict[str, int] | None = None, **account: Any) -> MonthBill:
    record = AccountRecord("trade", CNY, "Asia/Shanghai", OPENED, OPENED, **account)
    book = PriceBook(
        [price("12.00", "v1", end="12-01 00:00")(SHANGHAI), price("10.50", "v2", start="12-01 00:00")(SHANGHAI)]
    )
    month = Month(record, month_period("2026-12", SHANGHAI), SHANGHAI, book)
    for booking in bookings:
        month.booking(booking)
    return month.bill(lambda _sku, _klass, _moment: None, packed)


def test_use_of_an_earlier_month_is_a_line_of_its_own_at_its_own_price() -> None:
    made = bill(used("12-02 10:00"), used("11-30 10:00", booked="12-01 00:00"), used("11-30 11:00", -1, "12-01 00:00"))
    assert [(line.kind, line.key.version, line.net.text()) for line in made.lines] == [(LineKind.USAGE, "v2", "10.50")]
    made = bill(used("12-02 10:00"), used("11-30 10:00", 2, "12-01 00:00"))
    late = made.lines[1]
    assert (late.kind, late.key.version, late.net.text()) == (LineKind.CORRECTION, "v1", "24.00")
    assert (late.start, late.end) == (at("11-30 10:00"), at("11-30 11:00"))


def test_what_was_used_before_the_account_was_opened_is_nobodys() -> None:
    assert not bill(used("10-31 23:00", booked="12-01 00:00")).lines


def test_packs_pay_the_first_lines_of_a_job_and_tax_adds_up() -> None:
    made = bill(
        used("12-02 10:00", 5), used("12-02 10:00", 2, job="j2"), packed={"j1": 2 * HOUR}, tax_rate=Decimal("0.06")
    )
    assert [(line.kind, line.billed // HOUR, line.net.text(), line.tax.text()) for line in made.lines] == [
        (LineKind.PACK, 2, "0.00", "0.00"),
        (LineKind.USAGE, 3, "31.50", "1.89"),
        (LineKind.USAGE, 2, "21.00", "1.26"),
    ]
    assert (made.net.text(), made.tax.text(), made.total.text()) == ("52.50", "3.15", "55.65")


def test_tax_inside_the_price_is_taken_out_of_the_sum() -> None:
    made = bill(used("12-02 10:00", 8), used("12-02 10:00", 8, job="j2"), tax_rate=Decimal("0.06"), inclusive=True)
    assert (made.net.text(), made.tax.text(), made.total.text()) == ("158.49", "9.51", "168.00")
    assert sum(line.net.amount for line in made.lines) == made.net.amount


def test_use_without_a_price_is_named_and_the_hash_tells_of_every_booking() -> None:
    made = bill(used("12-02 10:00", 3, sku="new"), used("12-02 11:00"))
    assert [(one.sku, one.milli_seconds) for one in made.unpriced] == [("new", 3 * HOUR)]
    assert made.source_hash == bill(used("12-02 10:00", 3, sku="new"), used("12-02 11:00")).source_hash
    assert made.source_hash != bill(used("12-02 10:00", 3, sku="new"), used("12-02 12:00")).source_hash


def test_versions_follow_each_other_and_begin_at_full_hours_of_the_zone() -> None:
    versions = [price("1.00", "a", start="11-01 00:00")(SHANGHAI), price("2.00", "b", start="12-01 00:00")(SHANGHAI)]
    ended = versions_ended(versions)
    assert [version.end for version in ended] == [at("12-01 00:00"), None]
    calcutta = versions_aligned(ended, Hours(zone_find("Asia/Kolkata")))
    assert [
        version.start - at(moment) for version, moment in zip(calcutta, ("11-01 00:00", "12-01 00:00"), strict=True)
    ] == [
        1800,
        1800,
    ]
