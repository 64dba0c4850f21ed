"""The whole way of a bill: facts → buckets → lines → invoice, for one account and one month."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal

from millpond.billing.currencies import Currency
from millpond.billing.invoices import Totals, invoice_totals
from millpond.billing.prices import PriceBook
from millpond.billing.rating import Line, Lines, Rater, Rules, Unrated
from millpond.metering.alarms import Alarm
from millpond.metering.buckets import Bucket, Buckets, Sums, SumsInMemory
from millpond.metering.facts import Fact
from millpond.metering.hours import Hours, Period
from millpond.metering.meter import Ended, Meter, Span
from millpond.metering.seen import Seen, SeenInMemory, facts_fresh


@dataclass(frozen=True, slots=True)
class Account:
    """Who is billed.  ``tax_rate`` of 0.06 is 6 %; prices are net of tax."""

    name: str
    zone: tzinfo
    currency: Currency
    tax_rate: Decimal = Decimal(0)


class Pipeline:
    """Takes facts of any time and bills those of ``period``.  ``sums`` makes the memories of sums."""

    def __init__(
        self,
        account: Account,
        period: Period,
        book: PriceBook,
        rules: Rules,
        sums: Callable[[], Sums] = SumsInMemory,
    ) -> None:
        self.account = account
        self.period = period
        self.hours = Hours(account.zone)
        self._alarms: list[Alarm] = []
        self._buckets = Buckets(period, self.hours, sums())
        priced, unpriced = sums(), sums()
        self._rater = Rater(period, book, rules, priced, unpriced)
        self._lines = Lines(book, account.currency, priced, unpriced)
        self._meter = Meter(self)

    def span(self, span: Span) -> None:
        self._buckets.span(span)
        self._rater.span(span)

    def ended(self, ended: Ended) -> None:
        self._rater.ended(ended)

    def alarm(self, alarm: Alarm) -> None:
        self._alarms.append(alarm)

    def run(self, facts: Iterable[Fact], seen: Seen | None = None) -> None:
        """Take all facts, sorted by time, and close the period."""
        take = self._meter.take
        for second in facts_fresh(facts, seen or SeenInMemory()):
            take(second)
        self._meter.finish(self.period.end)
        self._alarms.sort()

    def alarms(self) -> list[Alarm]:
        return self._alarms

    def buckets(self) -> Iterator[Bucket]:
        return self._buckets.rows()

    def lines(self) -> Iterator[Line]:
        return self._lines.lines()

    def unrated(self) -> Iterator[Unrated]:
        return self._lines.unrated()

    def totals(self) -> Totals:
        """What the invoice would say; one with unrated use must not be issued."""
        return invoice_totals([self._lines.net()], self.account.tax_rate, self.account.currency)
