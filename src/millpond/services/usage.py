"""Card time that the meter has counted: sums, attempts of a job, and what the meter could not believe."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import IO
from weakref import finalize

from millpond.authz.actions import Action
from millpond.authz.actors import SYSTEM, Actor
from millpond.authz.policy import authorize, tenants_visible
from millpond.billing.money import decimal_round_text
from millpond.billing.rating import card_hours
from millpond.db.session import Tx
from millpond.db.stores import usage_sums as store
from millpond.db.stores.accounts import accounts_get
from millpond.db.stores.meter import meter_mark
from millpond.db.stores.tenants import tenant_get
from millpond.db.stores.usage import attempt_list
from millpond.domain.errors import InvalidInput
from millpond.domain.records import JobRecord, Page
from millpond.metering.attempts import AttemptUsage
from millpond.metering.hours import Hours, instant, moment_of, month_period
from millpond.metering.usage import USAGE_KEYS, AlarmRecord, UsageBy, UsageSpan, UsageSum
from millpond.services.cursors import cursor_read, cursor_write
from millpond.services.deps import Services
from millpond.services.jobs import JobRef, job_find
from millpond.zones import zone_find

HOUR_PLACES = 4
"""Decimals of card-hours as text."""

CSV_SUMS = ("card_hours", "lost_card_hours", "attempts", "measured", "milli_card_seconds", "lost_milli_card_seconds")
_CHUNK = 65_536
_IN_MEMORY = 1_048_576
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class UsageWish:
    """``month`` such as 2026-11, or times from ``start`` to ``end``; all empty: this month.

    A time without a zone is of ``zone``; that is the tenant's account's where it is empty, else UTC.  Without ``end``
    the time goes on until now.
    """

    tenant: str = ""
    month: str = ""
    start: str = ""
    end: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class UsagePage:
    """``counted``: running attempts are counted until then; ``None``: the meter has not run yet.

    ``total`` is of everything that was asked for, not of the page.  ``alarms``: how many there are about that time.
    """

    by: UsageBy
    span: UsageSpan
    counted: datetime | None
    total: UsageSum
    items: tuple[UsageSum, ...]
    alarms: int
    next: str


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What one job has used."""

    job: JobRecord
    attempts: tuple[AttemptUsage, ...]
    counted: datetime | None


class Pieces:
    """A whole file in pieces; it is gone as soon as nobody wants them any more, read or not."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        finalize(self, file.close)

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._file.read(_CHUNK):
            yield piece


def usage_page(deps: Services, actor: Actor, by: UsageBy, wish: UsageWish, cursor: str, limit: int) -> UsagePage:
    """A page of sums, in order of what they are summed by."""
    after = _after(by, cursor) if cursor else ()
    now = deps.clock()

    def work(tx: Tx) -> UsagePage:
        span = _span(tx, actor, wish, now)
        found = list(store.usage_sums(tx, actor, by, span, after, limit + 1))
        items = tuple(found[:limit])
        following = cursor_write(_texts(items[-1].keys)) if len(found) > limit else ""
        total, alarms = store.usage_total(tx, actor, span), store.alarm_count(tx, actor, span)
        return UsagePage(by, span, _counted(tx), total, items, alarms, following)

    return deps.database.run("usage_page", work, snapshot=True)


def usage_csv(deps: Services, actor: Actor, by: UsageBy, wish: UsageWish) -> Pieces:
    """All sums as CSV.  Read into a file of its own first, so that a slow reader holds no transaction."""
    now = deps.clock()

    def work(tx: Tx) -> IO[bytes]:
        span = _span(tx, actor, wish, now)
        file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  `Pieces` closes it
        for piece in _csv(by, store.usage_sums(tx, actor, by, span)):
            file.write(piece)
        file.seek(0)
        return file

    return Pieces(deps.database.run("usage_csv", work, snapshot=True))


def usage_attempts(deps: Services, actor: Actor, ref: JobRef) -> JobUsage:
    """Every attempt of a job that has started, with what it has used.  `Forbidden` where only one's own is open."""

    def work(tx: Tx) -> JobUsage:
        job = job_find(tx, actor, ref)
        authorize(actor, Action.USAGE_READ, job.tenant, owner=job.user)
        return JobUsage(job, tuple(attempt_list(tx, actor, job.tenant, job.id)), _counted(tx))

    return deps.database.run("usage_attempts", work, snapshot=True)


def usage_alarms(deps: Services, actor: Actor, wish: UsageWish, cursor: str, limit: int) -> Page[AlarmRecord]:
    """What the meter could not believe and did not bill, the last first."""
    before = _before(cursor) if cursor else None
    now = deps.clock()

    def work(tx: Tx) -> Page[AlarmRecord]:
        found = store.alarm_list(tx, actor, _span(tx, actor, wish, now), before, limit + 1)
        items = tuple(found[:limit])
        last = items[-1] if len(found) > limit else None
        return Page(items, cursor_write((last.time.isoformat(), last.id)) if last is not None else "")

    return deps.database.run("usage_alarms", work, snapshot=True)


def hours_text(milli_seconds: int) -> str:
    """Milli-card-seconds as card-hours."""
    return decimal_round_text(card_hours(milli_seconds), HOUR_PLACES)


def _span(tx: Tx, actor: Actor, wish: UsageWish, now: datetime) -> UsageSpan:
    if wish.tenant:
        authorize(actor, Action.USAGE_READ, wish.tenant)
        tenant_get(tx, SYSTEM, wish.tenant)
    name = wish.zone or _zone_known(tx, actor, wish.tenant)
    zone = zone_find(name)
    if wish.start or wish.end:
        start, end = _from_to(wish, zone, now)
        return UsageSpan(wish.tenant, start, end, name)
    period = month_period(wish.month or now.astimezone(zone).strftime("%Y-%m"), zone)
    return UsageSpan(wish.tenant, moment_of(period.start), moment_of(period.end), name)


def _zone_known(tx: Tx, actor: Actor, tenant: str) -> str:
    """The zone of the tenant's account, or the one that the accounts of all in sight share; else UTC."""
    visible = {tenant} if tenant else tenants_visible(actor, Action.USAGE_READ)
    if visible is None:
        return "UTC"
    zones = {account.zone for account in accounts_get(tx, SYSTEM, visible).values()}
    return zones.pop() if len(zones) == 1 else "UTC"


def _from_to(wish: UsageWish, zone: tzinfo, now: datetime) -> tuple[datetime, datetime]:
    if wish.month:
        raise InvalidInput("a month, and times from and to, do not go together", hint="give one of them")
    if not wish.start:
        raise InvalidInput("a time to is there, but none from", hint="add from, such as from=2026-11-01")
    hours = Hours(zone)
    start = _full_hour(wish.start, zone, hours)
    end = _full_hour(wish.end, zone, hours) if wish.end else moment_of(hours.around(instant(now))[1])
    if end <= start:
        raise InvalidInput(
            f"{hours.text(instant(end))} is not after {hours.text(instant(start))}", hint="to is exclusive"
        )
    return start, end


def _full_hour(text: str, zone: tzinfo, hours: Hours) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        time = (found if found.tzinfo is not None else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{text[:40]!r} is not a time", hint="write it like 2026-11-30, or 2026-11-30T18:00:00+08:00"
        ) from error
    begin = hours.around(instant(time))[0]
    if moment_of(begin) != time:
        raise InvalidInput(
            f"{text[:40]!r} is not a full clock hour of its zone",
            hint=f"use is counted by clock hours; write {hours.text(begin)}",
        )
    return time


def _counted(tx: Tx) -> datetime | None:
    until = meter_mark(tx, SYSTEM).settled_until
    return until if until.timestamp() > 0 else None


def _after(by: UsageBy, cursor: str) -> tuple[str | date, ...]:
    found = cursor_read(cursor)
    keys = USAGE_KEYS[by]
    if isinstance(found, list) and len(found) == len(keys) and all(isinstance(part, str) for part in found):
        return tuple(_key(name, part) for name, part in zip(keys, found, strict=True))
    raise _no_cursor()


def _key(name: str, text: str) -> str | date:
    if name != "day":
        return text
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise _no_cursor() from error


def _before(cursor: str) -> tuple[datetime, str]:
    found = cursor_read(cursor)
    if isinstance(found, list) and len(found) == 2 and all(isinstance(part, str) for part in found):
        try:
            time = datetime.fromisoformat(found[0])
        except ValueError as error:
            raise _no_cursor() from error
        if time.tzinfo is not None:
            return time, found[1]
    raise _no_cursor()


def _no_cursor() -> InvalidInput:
    return InvalidInput("this cursor is not one of ours", hint="use `next` of the page before, unchanged")


def _texts(keys: Iterable[str | date]) -> tuple[str, ...]:
    return tuple(key if isinstance(key, str) else key.isoformat() for key in keys)


def _csv(by: UsageBy, sums: Iterable[UsageSum]) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    named = by is UsageBy.JOB
    writer.writerow([*USAGE_KEYS[by], *(["name"] if named else []), *CSV_SUMS])
    for one in sums:
        texts = [_safe(text) for text in (*_texts(one.keys), *([one.name] if named else []))]
        used, lost = one.milli_seconds, one.lost_milli_seconds
        writer.writerow([*texts, hours_text(used), hours_text(lost), one.attempts, "", used, lost])
        if buffer.tell() >= _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def _safe(text: str) -> str:
    """A text that a spreadsheet would run as a formula, with an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
