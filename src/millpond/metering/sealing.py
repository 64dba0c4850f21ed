"""Sealed hours: what was billed stays; what is learnt later is booked in the hour that is open, and says for when.

The meter tells of open attempts as often as one likes and takes back what a late fact proves wrong.  A booking puts
each such piece into the hour in which it happened while that is open, and into the first open one afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from millpond.metering.facts import Shape
from millpond.metering.hours import Hours
from millpond.metering.meter import Span


class Booking(NamedTuple):
    """Milli-card-seconds of use, or less of it.

    ``hour`` is when it happened: its price counts.
    ``booked`` is the hour that carries it, a later one if it is a correction.
    """

    booked: int
    hour: int
    job: str
    attempt: int
    shape: Shape
    milli_seconds: int
    lost_milli_seconds: int

    @property
    def correction(self) -> bool:
        return self.booked != self.hour


def span_book(span: Span, hours: Hours, sealed_until: int) -> Iterator[Booking]:
    """Bookings of a span, one a clock hour; hours that begin before `sealed_until`, a full hour, are sealed."""
    rate = span.shape.milli * span.sign
    if not rate:
        return
    for hour, seconds in hours.cut(span.start, span.end):
        amount = rate * seconds
        booked = max(hour, sealed_until)
        yield Booking(booked, hour, span.job, span.attempt, span.shape, amount, amount if span.lost else 0)
