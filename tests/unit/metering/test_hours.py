"""Clock hours and months in zones."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from millpond.domain.errors import InvalidInput
from millpond.metering.hours import Hours, month_period
from tests.unit.metering.builders import SHANGHAI, at


def test_hours_of_a_zone_begin_with_its_clock() -> None:
    kolkata = ZoneInfo("Asia/Kolkata")
    time = at("2026-11-10T10:45:00+00:00")
    begin, end = Hours(kolkata).around(time)
    assert Hours(kolkata).text(begin) == "2026-11-10T16:00:00+05:30"
    assert end - begin == 3600


def test_a_span_is_cut_at_hours() -> None:
    pieces = list(Hours(SHANGHAI).cut(at("11-10 10:50"), at("11-10 13:05")))
    assert [seconds for _, seconds in pieces] == [600, 3600, 3600, 300]
    assert list(Hours(SHANGHAI).cut(5, 5)) == []


def test_a_half_hour_change_of_the_clock_gives_short_hours() -> None:
    """Lord Howe Island puts its clock from 2:00 to 2:30 and back from 2:00 to 1:30."""
    island = ZoneInfo("Australia/Lord_Howe")
    hours = Hours(island)
    spring = list(hours.cut(at("2026-10-04T01:00:00", island), at("2026-10-04T04:00:00", island)))
    assert [seconds for _, seconds in spring] == [3600, 1800, 3600]
    autumn = list(hours.cut(at("2026-04-05T00:00:00", island), at("2026-04-05T04:00:00", island)))
    assert sum(seconds for _, seconds in autumn) == 4 * 3600 + 1800
    assert len({begin for begin, _ in autumn}) == len(autumn)
    for begin, _ in (*spring, *autumn):
        assert hours.around(begin)[0] == begin


def test_months() -> None:
    december = month_period("2026-12", UTC)
    assert (december.end - december.start) == 31 * 86_400
    for text in ("2026-13", "2026-1", "26-01", "November", "2026-00"):
        with pytest.raises(InvalidInput, match="2026-11"):
            month_period(text, UTC)
