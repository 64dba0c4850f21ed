"""Facts, meters and bills in a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

from millpond.billing.currencies import currency_find
from millpond.billing.money import Money
from millpond.billing.pipeline import Account, Pipeline
from millpond.billing.prices import PriceBook, PriceVersion
from millpond.billing.rating import Rules
from millpond.domain.jobs import EndReason
from millpond.metering.alarms import Alarm
from millpond.metering.facts import Event, Fact, Shape, shares_even
from millpond.metering.hours import Hours, instant, month_period
from millpond.metering.meter import Ended, Meter, Span
from millpond.metering.seen import Seen, SeenInMemory, facts_fresh

SHANGHAI = ZoneInfo("Asia/Shanghai")
CNY = currency_find("CNY")
HOUR = 3_600_000
"""Milli-card-seconds of a card-hour."""


def at(text: str, zone: tzinfo = SHANGHAI) -> int:
    """``11-30 14:20`` or ``2026-11-30T14:20:00`` in `zone`; an offset in the text wins."""
    time = datetime.fromisoformat(text if len(text) > 14 else f"2026-{text}")
    return instant(time if time.tzinfo else time.replace(tzinfo=zone))


def started(
    time: int,
    job: str = "j1",
    attempt: int = 1,
    milli: int = 1000,
    cards: Iterable[str] = (),
    id: str = "",  # noqa: A002
    **owner: str,
) -> Fact:
    """``owner``: sku, klass, project, user, type."""
    shape = Shape(
        milli,
        owner.get("sku", "A800-80GB"),
        owner.get("klass", "prod"),
        owner.get("project", "alpha"),
        owner.get("user", "zhang3"),
        owner.get("type") == "service",
        shares_even(tuple(cards), milli),
    )
    event = Event.CHANGED if owner.get("event") == "changed" else Event.STARTED
    return Fact(time, event, id or f"{job}-{attempt}-{event.name}-{time}", job, attempt, None, shape)


def changed(time: int, job: str = "j1", attempt: int = 1, milli: int = 1000, **owner: str) -> Fact:
    return started(time, job, attempt, milli, **{**owner, "event": "changed"})


def saved(time: int, job: str = "j1", attempt: int = 1) -> Fact:
    return Fact(time, Event.CHECKPOINTED, f"{job}-{attempt}-saved-{time}", job, attempt)


def ended(time: int, reason: str = "completed", job: str = "j1", attempt: int = 1) -> Fact:
    return Fact(time, Event.ENDED, f"{job}-{attempt}-ended-{time}", job, attempt, EndReason(reason))


@dataclass
class Told:
    """A sink that adds up what it is told, by hour of UTC: all use, and the lost part."""

    alarms: list[Alarm] = field(default_factory=list)
    used: dict[tuple[int, str, int, Shape], int] = field(default_factory=dict)
    lost: dict[tuple[int, str, int, Shape], int] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)

    def span(self, span: Span) -> None:
        self.spans.append(span)
        for hour, seconds in Hours(ZoneInfo("UTC")).cut(span.start, span.end):
            key = (hour, span.job, span.attempt, span.shape)
            amount = span.sign * span.shape.milli * seconds
            for sums in (self.used, self.lost) if span.lost else (self.used,):
                sums[key] = sums.get(key, 0) + amount
                if not sums[key]:
                    del sums[key]

    def ended(self, ended: Ended) -> None:
        self.ends.append(ended)

    def alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)

    @property
    def total(self) -> int:
        return sum(self.used.values())

    @property
    def total_lost(self) -> int:
        return sum(self.lost.values())

    @property
    def codes(self) -> list[str]:
        return [alarm.code.value for alarm in self.alarms]


def metered(facts: Iterable[Fact], up_to: int = 0, seen: Seen | None = None, told: Told | None = None) -> Told:
    """All facts, sorted first, through a meter that is finished at `up_to`."""
    told = told or Told()
    meter = Meter(told)
    for second in facts_fresh(sorted(facts), seen or SeenInMemory()):
        meter.take(second)
    meter.finish(up_to)
    return told


def price(
    amount: str, name: str = "v1", sku: str = "A800-80GB", klass: str = "*", start: str = "01-01 00:00", end: str = ""
) -> Callable[[tzinfo], PriceVersion]:
    """A version, once the zone is known."""
    return lambda zone: PriceVersion(
        name, sku, klass, Money(Decimal(amount), CNY), at(start, zone), at(end, zone) if end else None
    )


def billed(
    facts: Iterable[Fact],
    *prices: Callable[[tzinfo], PriceVersion],
    period: str = "2026-11",
    zone: tzinfo = SHANGHAI,
    rules: Rules | None = None,
    tax: str = "0",
) -> Pipeline:
    """The whole pipeline on facts in any order."""
    book = PriceBook(version(zone) for version in prices)
    pipeline = Pipeline(Account("broker", zone, CNY, Decimal(tax)), month_period(period, zone), book, rules or Rules())
    pipeline.run(sorted(facts))
    return pipeline


def net(pipeline: Pipeline) -> str:
    return pipeline.totals().net.text()


def card_milli_seconds(pipeline: Pipeline) -> int:
    """All that the lines bill."""
    return sum(line.billed for line in pipeline.lines())
