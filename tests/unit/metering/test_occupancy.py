"""Cards over time: every second is allocated, idle or down, once."""

from __future__ import annotations

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from millpond.metering.conservation import CardUse, conservation
from millpond.metering.facts import MICRO
from millpond.metering.hours import days_of, instant
from millpond.metering.occupancy import Down, Part, Taken, occupancy, occupancy_sum

DAY = 86_400


def part(installed: dict[str, tuple[int, int]], taken: list[Taken], downs: list[Down], end: int = DAY) -> Part:
    sums = occupancy_sum(occupancy(installed, taken, downs, 0, end), dict.fromkeys("abc", "A800"), [0, end])
    return sums.get(("A800", 0), Part())


def test_invariant_9_of_one_day() -> None:
    """64 cards x 24 h = 1536 = 1100 allocated + 396 idle + 40 down."""
    names = [f"n{index}" for index in range(64)]
    installed = dict.fromkeys(names, (0, DAY))
    taken = [Taken(name, 0, 20 * 3600, MICRO) for name in names[:55]]
    downs = [Down(name, 0, 20 * 3600) for name in names[55:57]]
    stretches = list(occupancy(installed, taken, downs, 0, DAY))
    found = conservation(installed, stretches, 0, DAY)
    hour = 3600 * MICRO
    assert found.holds
    assert found.installed == 1536 * hour
    assert [found.by_use[use] // hour for use in (CardUse.ALLOCATED, CardUse.IDLE, CardUse.DOWN)] == [1100, 396, 40]


def test_parts_of_a_card_leave_the_rest_idle() -> None:
    found = part({"a": (0, DAY)}, [Taken("a", 0, 7200, MICRO // 4), Taken("a", 3600, 7200, MICRO // 2)], [])
    assert found.allocated == (7200 // 4 + 3600 // 2) * MICRO
    assert found.installed == DAY * MICRO


def test_use_outweighs_down_and_down_outweighs_idle() -> None:
    found = part({"a": (0, 100)}, [Taken("a", 0, 50, MICRO)], [Down("a", 40, 80)], 100)
    assert found == Part(50 * MICRO, 20 * MICRO, 30 * MICRO)


def test_two_whole_jobs_on_a_card_are_an_overlap_and_not_clamped() -> None:
    installed = {"a": (0, 100)}
    stretches = list(occupancy(installed, [Taken("a", 0, 50, MICRO), Taken("a", 40, 60, MICRO)], [], 0, 100))
    found = conservation(installed, stretches, 0, 100)
    assert [(alarm.code.value, alarm.time) for alarm in found.alarms] == [("OVERLAP", 40)]


def test_a_card_that_is_gone_was_there_while_it_was_used() -> None:
    assert part({}, [Taken("a", 10, 20, MICRO), Taken("a", 40, 50, MICRO)], [], 100) == Part(20 * MICRO, 20 * MICRO, 0)


def test_days_are_cut() -> None:
    stretches = occupancy({"a": (0, 2 * DAY)}, [Taken("a", DAY - 100, DAY + 200, MICRO)], [], 0, 2 * DAY)
    sums = occupancy_sum(stretches, {"a": "A800"}, [0, DAY, 2 * DAY])
    assert [sums["A800", low].allocated // MICRO for low in (0, DAY)] == [100, 200]


_SPAN = st.tuples(st.sampled_from("abc"), st.integers(0, 200), st.integers(0, 200))


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 100), st.integers(100, 200)), min_size=1),
    st.lists(_SPAN, max_size=8),
    st.lists(_SPAN, max_size=5),
)
def test_installed_is_allocated_idle_and_down_whatever_happens(
    installed: dict[str, tuple[int, int]], spans: list[tuple[str, int, int]], downs: list[tuple[str, int, int]]
) -> None:
    """Eighths of cards, so that all of them fit at a time."""
    inside = [
        Taken(c, max(s, installed[c][0]), min(e, installed[c][1]), MICRO // 8) for c, s, e in spans if c in installed
    ]
    stretches = list(occupancy(installed, inside, [Down(*span) for span in downs], 50, 150))
    found = conservation(installed, stretches, 50, 150)
    assert found.holds
    assert found.installed == sum(max(0, min(e, 150) - max(s, 50)) for s, e in installed.values()) * MICRO


def test_days_of_a_zone_are_as_long_as_they_are() -> None:
    """New York, 1 November 2026: 25 hours."""
    zone = ZoneInfo("America/New_York")
    begin = instant(datetime(2026, 11, 1, 12, tzinfo=zone))
    moments = days_of(begin, begin + DAY, zone)
    assert [after - before for before, after in itertools.pairwise(moments)] == [25 * 3600, DAY]
    assert moments[0] <= begin
    assert moments[-1] >= begin + DAY
