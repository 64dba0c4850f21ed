from __future__ import annotations

from datetime import date
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from millpond.billing.runout import FARTHEST, runout_forecast

TODAY = date(2026, 11, 16)


def test_weeks_not_days_set_the_rate() -> None:
    """Ten a working day, nothing at weekends: fifty a week, whatever the day."""
    daily = [10, 10, 10, 10, 10, 0, 0] * 2 + [10]
    found = runout_forecast(100, daily, TODAY)
    assert found.rate_p50 == found.rate_p90 == Fraction(50, 7)
    assert found.p50 == found.p90 == date(2026, 11, 30)


def test_p90_is_a_busy_week() -> None:
    """Of the 22 weeks that begin on different days, the twentieth from the quietest: two days at 10, five at 40."""
    daily = [10] * 21 + [40] * 7
    found = runout_forecast(280, daily, TODAY)
    assert (found.rate_p50, found.rate_p90) == (10, Fraction(220, 7))
    assert (found.p50, found.p90) == (date(2026, 12, 14), date(2026, 11, 24))


def test_little_is_known_in_the_first_week() -> None:
    assert runout_forecast(30, [10, 20], TODAY).p50 == date(2026, 11, 18)
    assert runout_forecast(30, [], TODAY).p50 is None
    assert runout_forecast(30, [0, 0], TODAY).p90 is None


def test_nothing_left_is_today() -> None:
    found = runout_forecast(0, [], TODAY)
    assert (found.p50, found.p90) == (TODAY, TODAY)
    assert runout_forecast(10 * FARTHEST * 10, [1], TODAY).p50 is None


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**9), max_size=60))
def test_a_busier_week_ends_no_later(left: int, daily: list[int]) -> None:
    found = runout_forecast(left, daily, TODAY)
    assert found.rate_p50 <= found.rate_p90
    assert found.p50 is None or (found.p90 is not None and TODAY <= found.p90 <= found.p50)
