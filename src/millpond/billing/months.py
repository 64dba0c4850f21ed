"""A month of an account: what was booked, into the lines of its invoice.

Use of the month makes one line for each project, user, job, model, class and price version.  Use of an earlier month
that was found after it was closed makes lines of its own, with the time that they are about.  Every line is rounded
once; tax is taken once of all and split over the lines, so that it adds up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from fractions import Fraction
from typing import NamedTuple

from millpond.billing.accounts import AccountRecord
from millpond.billing.documents import LineKind
from millpond.billing.invoices import Totals, invoice_totals, tax_lines
from millpond.billing.money import Money, money_round, money_sum
from millpond.billing.prices import PriceBook
from millpond.billing.rating import LineKey, Lines, Rater, amount_of
from millpond.metering.buckets import SumKey, SumsInMemory
from millpond.metering.hours import Hours, Period, instant, month_period
from millpond.metering.meter import Ended
from millpond.metering.sealing import Booking


class MonthLine(NamedTuple):
    """``start`` and ``end``: the service period, instants.  ``list_price`` of a card-hour is beside a contract's."""

    kind: LineKind
    key: LineKey
    billed: int
    minimum: int
    price: Money
    list_price: Money | None
    net: Money
    tax: Money
    start: int
    end: int


class Unpriced(NamedTuple):
    """Use that has no price, by model and class."""

    sku: str
    klass: str
    milli_seconds: int
    lines: int


@dataclass(frozen=True, slots=True)
class MonthBill:
    """``source_hash``: SHA-256 of all bookings and of the price versions that the lines were made of."""

    lines: tuple[MonthLine, ...]
    unpriced: tuple[Unpriced, ...]
    net: Money
    tax: Money
    total: Money
    source_hash: str

    @property
    def milli_seconds(self) -> int:
        return sum(line.billed for line in self.lines)


class _DatedSums(SumsInMemory):
    """Sums that remember the first and the last hour of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = 0
        self.spans: dict[SumKey, tuple[int, int]] = {}

    def add(self, key: SumKey, first: int, second: int) -> None:
        super().add(key, first, second)
        moment = self.moment
        span = self.spans.get(key)
        if span is None:
            self.spans[key] = (moment, moment)
        elif moment < span[0]:
            self.spans[key] = (moment, span[1])
        elif moment > span[1]:
            self.spans[key] = (span[0], moment)


class _Part:
    """What was used in one month, as far as this invoice carries it."""

    def __init__(self, period: Period, book: PriceBook, account: AccountRecord) -> None:
        self.priced = _DatedSums()
        self.unpriced = _DatedSums()
        self.rater = Rater(period, book, account.rules, self.priced, self.unpriced)
        self.lines = Lines(book, account.currency, self.priced, self.unpriced)

    def at(self, moment: int) -> Rater:
        self.priced.moment = self.unpriced.moment = moment
        return self.rater


class Month:
    """Takes all bookings of an account that ``period`` carries, in order of job and hour, and then gives its bill."""

    def __init__(self, account: AccountRecord, period: Period, zone: tzinfo, book: PriceBook) -> None:
        self._account = account
        self._period = period
        self._zone = zone
        self._book = book
        self._hours = Hours(zone)
        self._opened = self._hours.around(instant(account.opened_at))[0]
        self._own = _Part(period, book, account)
        self._earlier: dict[int, _Part] = {}
        self._months: list[Period] = []
        self._digest = hashlib.sha256()

    def booking(self, booking: Booking) -> None:
        """Use before the account was opened is nobody's to pay."""
        hour = booking.hour
        if hour < self._opened:
            return
        booked, _, job, attempt, shape, milli_seconds, lost = booking
        self._digest.update(
            f"{booked} {hour} {job} {attempt} {shape.sku} {shape.klass} {shape.project} {shape.user} {milli_seconds}"
            f" {lost}\n".encode()
        )
        part = self._own if hour >= self._period.start else self._month(hour)
        part.at(hour).booking(booking)

    def ended(self, ended: Ended) -> None:
        """What a start costs at least, and its steps."""
        hour = self._hours.around(max(ended.start, ended.end - 1))[0]
        if hour < self._opened:
            return
        self._digest.update(f"end {ended.job} {ended.attempt} {ended.start} {ended.end} {ended.sign}\n".encode())
        self._own.at(hour).ended(ended)

    def bill(
        self, list_price: Callable[[str, str, int], Money | None], packed: Mapping[str, int] | None = None
    ) -> MonthBill:
        """All lines and their sums.  ``list_price``: what the list says of a model and class at an instant.

        ``packed``: job → milli-card-seconds of the month that packs of card time have paid.  They are lines of their
        own, without money.
        """
        account = self._account
        found = [*_unpacked(self._lines(self._own, LineKind.USAGE), packed or {})]
        for start in sorted(self._earlier):
            found += self._lines(self._earlier[start], LineKind.CORRECTION)
        amounts = [line.net for line in found]
        totals, taxes = totals_and_taxes(amounts, account)
        lines = tuple(_taxed(line, tax, list_price, account) for line, tax in zip(found, taxes, strict=True))
        for version in sorted({(line.key.version, line.key.sku, line.key.klass, line.price.text()) for line in lines}):
            self._digest.update(f"price {' '.join(version)} {account.currency}\n".encode())
        return MonthBill(lines, self._unpriced(), totals.net, totals.tax, totals.total, self._digest.hexdigest())

    def _month(self, hour: int) -> _Part:
        for month in self._months:
            if month.start <= hour < month.end:
                return self._earlier[month.start]
        local = datetime.fromtimestamp(hour, self._zone)
        month = month_period(f"{local.year:04}-{local.month:02}", self._zone)
        self._months.append(month)
        self._earlier[month.start] = _Part(self._period, self._book, self._account)
        return self._earlier[month.start]

    def _lines(self, part: _Part, kind: LineKind) -> Iterator[MonthLine]:
        nothing = money_sum((), self._account.currency)
        for key, billed, minimum, amount in part.lines.lines():
            first, last = part.priced.spans[tuple(key)]
            price = self._price(key, first)
            yield MonthLine(
                kind, key, billed, minimum, price, None, amount, nothing, first, self._hours.around(last)[1]
            )

    def _price(self, key: LineKey, moment: int) -> Money:
        version = self._book.at(key.sku, key.klass, moment)
        assert version is not None  # noqa: S101  the line was made with it
        return version.price

    def _unpriced(self) -> tuple[Unpriced, ...]:
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        for part in (self._own, *self._earlier.values()):
            for row in part.lines.unrated():
                place = (row.key.sku, row.key.klass)
                had = sums.get(place, (0, 0))
                sums[place] = (had[0] + row.billed, had[1] + 1)
        return tuple(Unpriced(*place, *sums[place]) for place in sorted(sums))


def _unpacked(lines: Iterator[MonthLine], packed: Mapping[str, int]) -> Iterator[MonthLine]:
    """Lines with what packs paid taken out, the first lines of a job first, as packs are burnt before money."""
    left = dict(packed)
    for line in lines:
        paid = min(left.get(line.key.job, 0), line.billed)
        if paid <= 0:
            yield line
            continue
        left[line.key.job] -= paid
        nothing = line.net - line.net
        yield line._replace(kind=LineKind.PACK, billed=paid, minimum=0, net=nothing)
        rest = line.billed - paid
        if rest:
            yield line._replace(billed=rest, minimum=min(line.minimum, rest), net=amount_of(rest, line.price))


def totals_and_taxes(amounts: Sequence[Money], account: AccountRecord) -> tuple[Totals, tuple[Money, ...]]:
    """The sums of lines, and the tax of each.  Where prices contain the tax, it is taken out of the sum once."""
    if not account.inclusive:
        totals = invoice_totals(amounts, account.tax_rate, account.currency)
        return totals, tax_lines(amounts, totals.tax)
    gross = money_sum(amounts, account.currency)
    rate = Fraction(account.tax_rate)
    net = money_round(Fraction(gross.amount) / (1 + rate), account.currency)
    totals = Totals(net, gross - net, gross, account.currency)
    return totals, tax_lines(amounts, totals.tax)


def _taxed(
    line: MonthLine, tax: Money, list_price: Callable[[str, str, int], Money | None], account: AccountRecord
) -> MonthLine:
    listed = list_price(line.key.sku, line.key.klass, line.start)
    net = line.net - tax if account.inclusive else line.net
    return line._replace(net=net, tax=tax, list_price=None if listed == line.price else listed)
