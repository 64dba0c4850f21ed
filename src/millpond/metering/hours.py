"""Clock hours and months of a zone, as half-open intervals of instants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from millpond.domain.errors import InvalidInput

HOUR: Final = 3_600
_STEP: Final = 900
"""No zone of today changes its clock at, or to, anything but a whole quarter of an hour."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MONTH = re.compile(r"(\d{4})-(\d\d)\Z", re.ASCII)
_KEPT = 100_000


def instant(time: datetime) -> int:
    """Whole seconds since 1970 UTC of an aware time; parts of a second are cut off."""
    return (time - _EPOCH) // _SECOND


def moment_of(time: int) -> datetime:
    """The aware time of an instant: the inverse of `instant` for whole seconds."""
    return datetime.fromtimestamp(time, UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """[start, end): a month in a zone."""

    name: str
    start: int
    end: int


def month_period(text: str, zone: tzinfo) -> Period:
    """``2026-11`` in `zone`, from its first midnight to that of the next month.  `InvalidInput` for other texts."""
    match = _MONTH.match(text.strip())
    if match is None or not 1 <= int(match.group(2)) <= 12 or not 1970 <= int(match.group(1)) <= 9998:
        raise InvalidInput(f"{text[:40]!r} is not a month", hint="write it like 2026-11")
    year, month = int(match.group(1)), int(match.group(2))
    start = instant(datetime(year, month, 1, tzinfo=zone))
    end = instant(datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone))
    return Period(text.strip(), start, end)


def days_of(start: int, end: int, zone: tzinfo) -> tuple[int, ...]:
    """Midnights of `zone` around [start, end): the first not after it begins, the last not before it ends."""
    day = datetime.fromtimestamp(start, zone).date()
    moments: list[int] = []
    while not moments or moments[-1] < end:
        moments.append(instant(datetime(day.year, day.month, day.day, tzinfo=zone)))
        day += timedelta(days=1)
    return tuple(moments)


class Hours:
    """The clock hours of a zone.  Where the clock is changed, an hour is as long as it is, or there are two."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[int, tuple[int, int]] = {}

    def around(self, time: int) -> tuple[int, int]:
        """[start, end) of the clock hour that `time` lies in."""
        step = time // _STEP
        found = self._known.get(step)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[step] = self._find(step * _STEP)
        return found

    def cut(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(start of the clock hour, seconds of it) for every clock hour that [start, end) touches."""
        while start < end:
            begin, until = self.around(start)
            until = min(until, end)
            yield begin, until - start
            start = until

    def text(self, time: int) -> str:
        """The instant as the zone's clocks show it: ``2026-11-30T14:00:00+08:00``."""
        return datetime.fromtimestamp(time, self._zone).isoformat()

    def _offset(self, time: int) -> int:
        offset = datetime.fromtimestamp(time, self._zone).utcoffset()
        return offset // _SECOND if offset is not None else 0

    def _find(self, time: int) -> tuple[int, int]:
        offset = self._offset(time)
        begin = (time + offset) // HOUR * HOUR - offset
        end = begin + HOUR
        for moment in range(time, begin - 1, -_STEP):
            if self._offset(moment) != offset:
                begin = moment + _STEP
                break
        for moment in range(time, end, _STEP):
            if self._offset(moment) != offset:
                end = moment
                break
        return begin, end
