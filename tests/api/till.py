"""Accounts, prices and metered use in a line each, for tests of invoices on a real database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from millpond.authz.actors import SYSTEM
from millpond.billing.accounts import AccountRecord
from millpond.billing.currencies import currency_find
from millpond.db.session import Database, Tx
from millpond.db.stores.accounts import account_add, account_get
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.tables.usage import ATTEMPT_USAGES, METER_MARK, USAGE_BUCKETS
from millpond.domain.names import attempt_id
from millpond.metering.alarms import Alarm
from millpond.metering.facts import Event, Fact
from millpond.metering.hours import Hours
from millpond.metering.meter import Ended, Meter, Span
from millpond.metering.sealing import Booking, span_book
from millpond.metering.seen import SeenInMemory, facts_fresh

OPENED = datetime(2026, 10, 31, 16, tzinfo=UTC)
"""The first of November in Shanghai."""

KINDS = {Event.STARTED: "attempt.started", Event.ENDED: "attempt.ended", Event.CHECKPOINTED: "job.checkpointed"}


def moment(time: int) -> datetime:
    return datetime.fromtimestamp(time, UTC)


@dataclass
class Told:
    """A sink that keeps everything."""

    spans: list[Span] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)

    def span(self, span: Span) -> None:
        self.spans.append(span)

    def ended(self, ended: Ended) -> None:
        self.ends.append(ended)

    def alarm(self, alarm: Alarm) -> None:
        raise AssertionError(alarm)


@dataclass
class Till:
    """What the meter would have stored."""

    database: Database

    def account(self, tenant: str, **more: Any) -> AccountRecord:
        settings: dict[str, Any] = {
            "currency": currency_find("CNY"),
            "zone": "Asia/Shanghai",
            "opened_at": OPENED,
            "sealed_until": OPENED,
            "tax_rate": Decimal("0.06"),
            **more,
        }
        record = AccountRecord(tenant, **settings)
        self.database.run("account", lambda tx: account_add(tx, SYSTEM, record))
        return record

    def used(self, tenant: str, facts: Iterable[Fact], until: int = 0) -> None:
        """Facts of a tenant, in any order, counted by the real meter; the first time of each only."""
        told = Told()
        meter = Meter(told)
        kept = sorted(facts)
        for second in facts_fresh(kept, SeenInMemory()):
            meter.take(second)
        meter.finish(until or kept[-1].time)

        def work(tx: Tx) -> None:
            account = account_get(tx, SYSTEM, tenant)
            hours = Hours(ZoneInfo(account.zone))
            sealed = int(account.sealed_until.timestamp())
            bookings = [booking for span in told.spans for booking in span_book(span, hours, sealed)]
            self.bookings(tx, tenant, bookings)
            self._attempts(tx, tenant, told, kept)

        self.database.run("used", work)

    def bookings(self, tx: Tx, tenant: str, bookings: Iterable[Booking]) -> None:
        sums: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
        for one in bookings:
            shape = one.shape
            key = (one.booked, one.hour, one.job, one.attempt, shape.project, shape.user, shape.sku, shape.klass)
            sums[(*key, shape.service)][0] += one.milli_seconds
            sums[(*key, shape.service)][1] += one.lost_milli_seconds
        names = ("booked", "hour", "job", "attempt", "project", "username", "sku", "klass", "service")
        rows = [
            {
                **dict(zip(names, (moment(key[0]), moment(key[1]), *key[2:]), strict=True)),
                "tenant": tenant,
                "milli_seconds": used,
                "lost_milli_seconds": lost,
            }
            for key, (used, lost) in sums.items()
        ]
        if rows:
            tx.execute(USAGE_BUCKETS.insert(), rows)

    def _attempts(self, tx: Tx, tenant: str, told: Told, facts: list[Fact]) -> None:
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for fact in facts:
            name = attempt_id(fact.job, fact.attempt)
            event = NewEvent(KINDS[fact.event], moment(fact.time), "system", tenant, fact.job, name, {"id": fact.id})
            events_append(tx, "test", [event])
            sequence = tx.exec_driver_sql("SELECT max(sequence) FROM events").scalar_one()
            key = (fact.job, fact.attempt)
            if fact.shape is not None and fact.event is Event.STARTED:
                shape = fact.shape
                rows[key] = {
                    "tenant": tenant, "job": fact.job, "attempt": fact.attempt, "project": shape.project,
                    "username": shape.user, "sku": shape.sku, "klass": shape.klass, "service": shape.service,
                    "milli": shape.milli, "started_at": moment(fact.time), "start_event": sequence,
                    "ended_at": None, "reason": None, "end_event": None, "lost": False,
                }  # fmt: skip
            elif fact.event is Event.ENDED and key in rows:
                rows[key] |= {"ended_at": moment(fact.time), "reason": fact.reason, "end_event": sequence}
        for ended in told.ends:
            rows[ended.job, ended.attempt]["lost"] = ended.lost
        for key, row in rows.items():
            spans = [span for span in told.spans if (span.job, span.attempt) == key]
            amounts = [(span.sign * span.shape.milli * (span.end - span.start), span.lost) for span in spans]
            row["milli_seconds"] = sum(amount for amount, _ in amounts)
            row["lost_milli_seconds"] = sum(amount for amount, lost in amounts if lost)
            tx.execute(ATTEMPT_USAGES.insert(), row)

    def statement(self, text: str) -> None:
        """What somebody types who knows better."""
        self.database.run("statement", lambda tx: tx.exec_driver_sql(text))

    def settled(self, until: datetime) -> None:
        """The meter has booked everything before `until`."""

        def work(tx: Tx) -> None:
            tx.execute(METER_MARK.delete())
            tx.execute(METER_MARK.insert(), {"id": 1, "cursor": 0, "settled_until": until})

        self.database.run("settled", work)
