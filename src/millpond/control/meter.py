"""The meter's loop: new events of attempts into card time by the hour, each exactly once.

The event log is read in the order of its sequence, from a cursor.  What it leads to, what the meter remembers and the
cursor are stored in one fenced transaction: a crash at any moment repeats nothing and skips nothing.  A step costs what
is new and, once a minute, the attempts that run; never the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import structlog

from millpond.authz.actors import SYSTEM
from millpond.control.context import EVENT_SOURCE, Control
from millpond.db.leader import fence
from millpond.db.session import Tx
from millpond.db.stores.events import NewEvent, events_append
from millpond.db.stores.meter import (
    AttemptChange,
    Known,
    Mark,
    alarms_add,
    attempts_changed,
    attempts_known,
    attempts_started,
    meter_events,
    meter_mark,
    meter_mark_set,
    meter_state_read,
    meter_state_write,
    sealed_read,
    usage_add,
)
from millpond.domain.jobs import EndReason
from millpond.domain.names import attempt_split
from millpond.domain.records import EventRecord
from millpond.metering.alarms import Alarm, AlarmCode
from millpond.metering.attempts import AttemptUsage
from millpond.metering.facts import Event, Fact, Shape, fact_id
from millpond.metering.hours import Hours, instant, moment_of
from millpond.metering.meter import Ended, Meter, Span
from millpond.metering.sealing import span_book
from millpond.metering.state import state_read, state_rows
from millpond.zones import zone_find

log = structlog.get_logger("millpond.control.meter")

BATCH = 5_000
"""Events of one step."""

SETTLE = timedelta(seconds=60)
"""How often running attempts are counted."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENTS = {
    "attempt.started": Event.STARTED,
    "attempt.checkpointed": Event.CHECKPOINTED,
    "attempt.ended": Event.ENDED,
}

Bucket = tuple[str, str, int, str, str, str, str, bool, datetime, datetime]
"""Tenant, job, attempt, project, user, sku, class, service, booked, hour."""


@dataclass(slots=True)
class Told:
    """What the meter has told in one step."""

    spans: list[Span] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)

    def span(self, span: Span) -> None:
        self.spans.append(span)

    def ended(self, ended: Ended) -> None:
        self.ends.append(ended)

    def alarm(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)

    def clear(self) -> None:
        self.spans.clear()
        self.ends.clear()
        self.alarms.clear()


@dataclass(slots=True)
class MeterMemory:
    """The meter as it stands after the last stored step; empty: it is read from the database first."""

    meter: Meter | None = None
    told: Told = field(default_factory=Told)
    mark: Mark = field(default_factory=lambda: Mark(0, _EPOCH))
    rows: Mapping[str, Any] = field(default_factory=dict)

    def forget(self) -> None:
        self.meter = None


@dataclass(frozen=True, slots=True)
class MeterStep:
    """``more``: there are events left to read at once."""

    events: int
    more: bool
    open: int


def meter_run(control: Control, epoch: int, memory: MeterMemory) -> MeterStep:
    """Take the next events, count running attempts if a minute has passed, and store it all."""
    now = control.clock()
    step, after = control.database.run("meter", lambda tx: _step(tx, control, epoch, memory, now))
    memory.meter, memory.told, memory.mark, memory.rows = after.meter, after.told, after.mark, after.rows
    return step


def _step(tx: Tx, control: Control, epoch: int, memory: MeterMemory, now: datetime) -> tuple[MeterStep, MeterMemory]:
    fence(tx, epoch)
    ready = _ready(tx, memory)
    meter = ready.meter
    memory.forget()  # it takes now what may not be stored; if it is, it comes back
    events, cursor = meter_events(tx, SYSTEM, ready.mark.cursor, BATCH)
    settles = now - ready.mark.settled_until >= SETTLE and len(events) < BATCH
    mark = Mark(cursor, now if settles else ready.mark.settled_until)
    if events or settles:
        facts = facts_of(events, attempts_known(tx, SYSTEM, _unknown(events)))
        # In the order of the log, so that the sums do not depend on where a step ends: whoever gets a card comes after
        # whoever left it, also when a clock says otherwise.
        for _, second in groupby(facts, key=lambda fact: fact.time):
            meter.take(sorted(second))
        if settles:
            meter.settle(instant(now))
        ready.told.alarms += _nothing_known(facts)
        _store(tx, control, ready, facts, events, now)
    if mark != ready.mark:
        meter_mark_set(tx, SYSTEM, mark)
    more = len(events) == BATCH
    return MeterStep(len(events), more, meter.open), MeterMemory(meter, ready.told, mark, ready.rows)


@dataclass(slots=True)
class _Ready:
    """A meter with its memory, for one step."""

    meter: Meter
    told: Told
    mark: Mark
    rows: Mapping[str, Any]


def _ready(tx: Tx, memory: MeterMemory) -> _Ready:
    mark = meter_mark(tx, SYSTEM)
    if memory.meter is not None and mark == memory.mark:
        return _Ready(memory.meter, memory.told, mark, memory.rows)
    rows, told = meter_state_read(tx, SYSTEM), Told()
    return _Ready(Meter(told, state_read(rows)), told, mark, rows)


def _unknown(events: Iterable[EventRecord]) -> set[str]:
    """Attempts whose start does not say who pays."""
    return {event.attempt for event in events if event.kind == "attempt.started" and "usage" not in event.data}


def facts_of(events: Iterable[EventRecord], known: Mapping[str, Known]) -> list[Fact]:
    """What events of attempts say to the meter.  An end of what never ran says nothing."""
    facts: list[Fact] = []
    for event in events:
        job, number = attempt_split(event.attempt)
        kind, reason, shape = _EVENTS[event.kind], None, None
        if kind is Event.ENDED:
            failed = event.data["reason"] == EndReason.START_FAILED.value
            if not event.data.get("ran", not failed):
                continue
            reason = EndReason(str(event.data["reason"]))
        elif kind is Event.STARTED:
            shape = shape_of(event, known)
        name = fact_id(event.source, job, number, event.kind, event.source_sequence)
        facts.append(Fact(instant(event.time), kind, name, job, number, reason, shape))
    return facts


def _nothing_known(facts: Iterable[Fact]) -> Iterator[Alarm]:
    """Starts of which neither event nor rows say what they take: metered as nothing, which somebody must see."""
    for fact in facts:
        if fact.shape is not None and not fact.shape.milli and not fact.shape.klass:
            text = "nothing is known of what the attempt takes and who pays; it is not metered"
            yield Alarm(fact.time, AlarmCode.GAP, fact.job, fact.attempt, text, fact.id)


def shape_of(event: EventRecord, known: Mapping[str, Known]) -> Shape:
    """What an attempt takes and who pays, as its start says it, or as its rows do where it does not."""
    usage: Any = event.data.get("usage")
    if usage is not None:
        cards = tuple((str(name), int(share)) for name, share in usage["cards"])
        return Shape(
            int(usage["milli"]), usage["sku"], usage["class"], usage["project"], usage["user"], usage["service"], cards,
            event.tenant,
        )  # fmt: skip
    found = known.get(event.attempt)
    if found is None:
        return Shape(0, "", "", "", "", False, (), event.tenant)
    return Shape(found.milli, found.sku, found.klass, found.project, found.user, found.service, (), event.tenant)


def _store(
    tx: Tx, control: Control, ready: _Ready, facts: Sequence[Fact], events: Sequence[EventRecord], now: datetime
) -> None:
    told = ready.told
    attempts_started(tx, SYSTEM, _started(facts, events))
    buckets = _buckets(told.spans, sealed_read(tx, SYSTEM, {span.shape.tenant for span in told.spans}))
    usage_add(tx, SYSTEM, [(*key, used, lost) for key, (used, lost) in buckets.items()])
    attempts_changed(tx, SYSTEM, changes_of(told, facts, events))
    if told.alarms:
        tenants = {event.job: event.tenant for event in events}
        tenants.update((run.job, run.segments[-1][1].tenant) for run in ready.meter.state().runs)
        _alarms_store(tx, control, told.alarms, tenants, now)
    rows = state_rows(ready.meter.state())
    changed = {name: row for name, row in rows.items() if ready.rows.get(name) != row}
    meter_state_write(tx, SYSTEM, changed, ready.rows.keys() - rows.keys())
    ready.rows = rows
    told.clear()


def _started(facts: Iterable[Fact], events: Iterable[EventRecord]) -> Iterator[AttemptUsage]:
    sequences = {event.attempt: event.sequence for event in events if event.kind == "attempt.started"}
    for fact in facts:
        if fact.shape is None:
            continue
        shape, start = fact.shape, moment_of(fact.time)
        yield AttemptUsage(
            shape.tenant, fact.job, fact.attempt, shape.project, shape.user, shape.sku, shape.klass, shape.service,
            shape.milli, start, None, None, False, False, 0, 0, sequences[f"{fact.job}-{fact.attempt}"], None,
        )  # fmt: skip


def _buckets(spans: Iterable[Span], sealed: Mapping[str, tuple[str, datetime | None]]) -> dict[Bucket, tuple[int, int]]:
    """Sums by clock hour of each account's zone; of what is sealed, in the first open hour."""
    hours: dict[str, Hours] = {}
    sums: dict[Bucket, tuple[int, int]] = {}
    for span in spans:
        shape = span.shape
        zone, until = sealed.get(shape.tenant, ("UTC", None))
        clock = hours.setdefault(zone, Hours(zone_find(zone)))
        for booking in span_book(span, clock, 0 if until is None else instant(until)):
            key = (
                shape.tenant, span.job, span.attempt, shape.project, shape.user, shape.sku, shape.klass, shape.service,
                moment_of(booking.booked), moment_of(booking.hour),
            )  # fmt: skip
            used, lost = sums.get(key, (0, 0))
            sums[key] = (used + booking.milli_seconds, lost + booking.lost_milli_seconds)
    return {key: found for key, found in sums.items() if found != (0, 0)}


def changes_of(told: Told, facts: Iterable[Fact], events: Iterable[EventRecord]) -> list[AttemptChange]:
    """What a step changes about attempts."""
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    for span in told.spans:
        amount = span.shape.milli * (span.end - span.start) * span.sign
        used, lost = sums.get((span.job, span.attempt), (0, 0))
        sums[span.job, span.attempt] = (used + amount, lost + (amount if span.lost else 0))
    sequences = {event.attempt: event.sequence for event in events if event.kind == "attempt.ended"}
    ends = {(fact.job, fact.attempt): fact for fact in facts if fact.event is Event.ENDED}
    lost_at = {(end.job, end.attempt): end.lost for end in told.ends if end.sign > 0}
    disputed = {
        key
        for alarm in told.alarms
        if alarm.code is AlarmCode.OVERLAP
        for key in ((alarm.job, alarm.attempt), *alarm.others)
    }
    changes: list[AttemptChange] = []
    for key in {*sums, *ends, *lost_at, *disputed}:
        job, number = key
        end = ends.get(key)
        used, lost = sums.get(key, (0, 0))
        changes.append(
            AttemptChange(
                job,
                number,
                used,
                lost,
                moment_of(end.time) if end is not None else None,
                end.reason if end is not None else None,
                sequences[f"{job}-{number}"] if end is not None else None,
                lost_at.get(key),
                key in disputed,
            )
        )
    return changes


def _alarms_store(tx: Tx, control: Control, alarms: Sequence[Alarm], tenants: Mapping[str, str], now: datetime) -> None:
    """Alarms are rows to look at, events that stay, and a counter to be called by."""
    named = [(tenants.get(alarm.job, ""), alarm) for alarm in alarms]
    alarms_add(tx, SYSTEM, named, now)
    events = [
        NewEvent(
            "meter.alarm", moment_of(alarm.time), "control", tenant, alarm.job, f"{alarm.job}-{alarm.attempt}",
            {"code": alarm.code.value, "text": alarm.text, "card": alarm.card},
        )
        for tenant, alarm in named
    ]  # fmt: skip
    events_append(tx, EVENT_SOURCE, events)
    for alarm in alarms:
        control.metrics.alarms.labels(f"meter.{alarm.code.value.lower()}").inc()
    log.error("the meter found contradictions", alarms=[alarm.text for alarm in alarms[:10]], count=len(alarms))
