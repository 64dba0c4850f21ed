"""Hourly buckets: integer milli-card-seconds by clock hour, job, attempt and card model; and how sums are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

from millpond.metering.hours import Hours, Period
from millpond.metering.meter import Span

SumKey: TypeAlias = tuple[str | int, ...]
"""What is summed under: of one length and with the same types in each place, so that keys can be sorted."""


class Sums(Protocol):
    """Two sums under each key.  In memory here; streams keep theirs in a file."""

    def add(self, key: SumKey, first: int, second: int) -> None:
        """Add to both sums of `key`."""

    def rows(self) -> Iterator[tuple[SumKey, int, int]]:
        """Every key with its sums, sorted, as often as it is asked for; keys with nothing are left out."""


class SumsInMemory:
    """Sums of as many keys as there is memory for."""

    def __init__(self) -> None:
        self._sums: dict[SumKey, tuple[int, int]] = {}

    def add(self, key: SumKey, first: int, second: int) -> None:
        had = self._sums.get(key)
        self._sums[key] = (first, second) if had is None else (had[0] + first, had[1] + second)

    def rows(self) -> Iterator[tuple[SumKey, int, int]]:
        for key in sorted(self._sums):
            first, second = self._sums[key]
            if first or second:
                yield key, first, second


class Bucket(NamedTuple):
    """``hour``: instant at which its clock hour begins.  ``milli_seconds`` counts all use, the lost part included."""

    hour: int
    job: str
    attempt: int
    sku: str
    milli_seconds: int
    lost_milli_seconds: int


class Buckets:
    """Spans of one period, cut at the clock hours of the account's zone."""

    def __init__(self, period: Period, hours: Hours, sums: Sums) -> None:
        self._start = period.start
        self._end = period.end
        self._hours = hours
        self._sums = sums

    def span(self, span: Span) -> None:
        job, attempt, shape, start, end, lost, sign = span
        rate = shape.milli * sign
        if not rate:
            return
        if start < self._start:
            start = self._start
        if end > self._end:
            end = self._end
        sku, add, around = shape.sku, self._sums.add, self._hours.around
        while start < end:
            hour, until = around(start)
            if until > end:
                until = end
            amount = rate * (until - start)
            add((hour, job, attempt, sku), amount, amount if lost else 0)
            start = until

    def rows(self) -> Iterator[Bucket]:
        """Sorted by hour, job, attempt, model."""
        for (hour, job, attempt, sku), total, lost in self._sums.rows():
            assert isinstance(hour, int)  # noqa: S101
            assert isinstance(attempt, int)  # noqa: S101
            yield Bucket(hour, str(job), attempt, str(sku), total, lost)
