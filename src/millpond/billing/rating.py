"""Rating: spans of use become sums per line, at the price of the moment of use.

A sum is exact: milli-card-seconds under one price version.  Money is made of it once, when the line is written
(`invoices`).  Use without a price is unrated: it is shown, never free, and can be rated when a price is added.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, cast

from millpond.billing.currencies import Currency
from millpond.billing.money import Money, money_of_minor
from millpond.billing.prices import MILLI_SECONDS_PER_CARD_HOUR, PriceBook, PriceVersion
from millpond.domain.errors import InvalidInput
from millpond.metering.buckets import Sums
from millpond.metering.facts import Shape
from millpond.metering.hours import Period
from millpond.metering.meter import Ended, Span
from millpond.metering.sealing import Booking


@dataclass(frozen=True, slots=True)
class Rules:
    """Per start at least ``minimum_seconds``, and whole steps of ``increment_seconds``; both show on the line.

    Neither counts for an attempt that lost work, nor for one that never started.
    """

    minimum_seconds: int = 0
    increment_seconds: int = 1
    bill_lost_work: bool = False

    def __post_init__(self) -> None:
        if self.minimum_seconds < 0 or self.increment_seconds < 1:
            raise InvalidInput("a minimum is at least 0 s and an increment at least 1 s")

    def beyond(self, seconds: int) -> int:
        """Seconds that are charged beyond `seconds` of running."""
        step = self.increment_seconds
        return max(self.minimum_seconds, -(-seconds // step) * step) - seconds


class LineKey(NamedTuple):
    """There is one line for each."""

    project: str
    user: str
    job: str
    sku: str
    klass: str
    version: str


class Line(NamedTuple):
    """``billed`` milli-card-seconds, of which ``minimum`` were charged without running; ``amount`` is rounded."""

    key: LineKey
    billed: int
    minimum: int
    amount: Money


class Unrated(NamedTuple):
    """Use without a price."""

    key: LineKey
    billed: int
    minimum: int


class Rater:
    """Spans of one period, into sums by line.  ``priced`` and ``unpriced`` are kept apart, by what has a price."""

    def __init__(self, period: Period, book: PriceBook, rules: Rules, priced: Sums, unpriced: Sums) -> None:
        self._start = period.start
        self._end = period.end
        self._book = book
        self._rules = rules
        self._exact = rules.minimum_seconds == 0 and rules.increment_seconds == 1
        self._priced = priced
        self._unpriced = unpriced

    def span(self, span: Span) -> None:
        if span.lost and not self._rules.bill_lost_work:
            return
        shape, start, end = span.shape, span.start, span.end
        if start < self._start:
            start = self._start
        if end > self._end:
            end = self._end
        rate = shape.milli * span.sign
        if start >= end or not rate:
            return
        moments, versions = self._book.line(shape.sku, shape.klass)
        index = bisect_right(moments, start)
        while start < end:
            until = end if index == len(moments) or moments[index] > end else moments[index]
            self._add(span.job, shape, versions[index], rate * (until - start), 0)
            start, index = until, index + 1

    def booking(self, booking: Booking) -> None:
        """The same from what was booked by the hour: in the period that carries it, at the price of when it happened.

        For a span and for its bookings the sums are the same, since prices change at full hours.
        """
        shape = booking.shape
        amount = booking.milli_seconds - (0 if self._rules.bill_lost_work else booking.lost_milli_seconds)
        if amount and self._start <= booking.booked < self._end:
            self._add(booking.job, shape, self._book.at(shape.sku, shape.klass, booking.hour), amount, 0)

    def ended(self, ended: Ended) -> None:
        """The minimum of an attempt, in the period and at the price of the moment at which it ends."""
        if self._exact or ended.lost or not ended.shape.milli:
            return
        extra = self._rules.beyond(ended.end - ended.start)
        moment = max(ended.start, ended.end - 1)
        if extra > 0 and self._start <= moment < self._end:
            amount = ended.shape.milli * extra * ended.sign
            self._add(ended.job, ended.shape, self._book.at(ended.shape.sku, ended.shape.klass, moment), amount, amount)

    def _add(self, job: str, shape: Shape, version: PriceVersion | None, billed: int, minimum: int) -> None:
        sums = self._unpriced if version is None else self._priced
        name = "" if version is None else version.version
        sums.add((shape.project, shape.user, job, shape.sku, shape.klass, name), billed, minimum)


class Lines:
    """The lines of what a `Rater` has summed, as often as they are asked for."""

    def __init__(self, book: PriceBook, currency: Currency, priced: Sums, unpriced: Sums) -> None:
        self._book = book
        self._currency = currency
        self._priced = priced
        self._unpriced = unpriced

    def lines(self) -> Iterator[Line]:
        """Sorted by project, user, job, model, class and version; each rounded half-up, once."""
        for key, billed, minimum, minor in self._rounded():
            yield Line(key, billed, minimum, money_of_minor(minor, self._currency))

    def net(self) -> Money:
        """The lines together."""
        return money_of_minor(sum(minor for _, _, _, minor in self._rounded()), self._currency)

    def _rounded(self) -> Iterator[tuple[LineKey, int, int, int]]:
        """Lines with their amounts in smallest units: integers, since there may be millions of them."""
        scales: dict[tuple[str, str, str], tuple[int, int]] = {}
        for parts, billed, minimum in self._priced.rows():
            key = LineKey(*cast("tuple[str, str, str, str, str, str]", parts))
            place = (key.version, key.sku, key.klass)
            scale = scales.get(place)
            if scale is None:
                scale = scales[place] = minor_scale(self._price(*place))
            yield key, billed, minimum, minor_round(billed, scale)

    def unrated(self) -> Iterator[Unrated]:
        for key, billed, minimum in self._unpriced.rows():
            yield Unrated(LineKey(*cast("tuple[str, str, str, str, str, str]", key)), billed, minimum)

    def _price(self, version: str, sku: str, klass: str) -> Money:
        found = [item for item in self._book.versions if item.version == version and item.covers(sku, klass)]
        return max(found, key=lambda item: item.names).price


def minor_scale(price: Money) -> tuple[int, int]:
    """Smallest units that a milli-card-second costs, as a fraction."""
    exact = price.share(10**price.currency.minor_units, MILLI_SECONDS_PER_CARD_HOUR)
    return exact.numerator, exact.denominator


def minor_round(milli_seconds: int, scale: tuple[int, int]) -> int:
    """What so many milli-card-seconds cost in smallest units, rounded half-up (halves away from zero)."""
    numerator, denominator = scale
    minor = (2 * abs(milli_seconds) * numerator + denominator) // (2 * denominator)
    return -minor if milli_seconds < 0 else minor


def amount_of(milli_seconds: int, price: Money) -> Money:
    """What so many milli-card-seconds cost, rounded half-up to the smallest unit."""
    return money_of_minor(minor_round(milli_seconds, minor_scale(price)), price.currency)


def card_hours(milli_seconds: int) -> Fraction:
    return Fraction(milli_seconds, MILLI_SECONDS_PER_CARD_HOUR)


class Delta(NamedTuple):
    """A row that re-rating books: −1 times what stood, or what stands now."""

    key: LineKey
    billed: int
    amount: Money


def rating_deltas(before: Mapping[LineKey, Line], after: Mapping[LineKey, Line]) -> list[Delta]:
    """What has to be booked so that `after` stands where `before` stood; what is equal is left alone.

    A line that changed is taken back whole and booked anew, so that every row shows a price that was in force.
    """
    deltas = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if old is not None:
            deltas.append(Delta(key, -old.billed, -old.amount))
        if new is not None:
            deltas.append(Delta(key, new.billed, new.amount))
    return deltas
