"""When a budget will be used up: a straight line from daily use, at its median and at its ninetieth percentile.

Weekends would make the median of single days zero or too high, so rates are those of whole weeks: sums of every seven
days in a row.  Integers and fractions only.  Nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Final

WEEK: Final = 7
FARTHEST: Final = 3_660
"""Days; what lies beyond ten years is as good as never."""


@dataclass(frozen=True, slots=True)
class RunOut:
    """The first day that cannot be paid in full, at the usual (P50) and at a high (P90) rate; ``None``: not in sight.

    Rates are smallest units a day.
    """

    p50: date | None
    p90: date | None
    rate_p50: Fraction
    rate_p90: Fraction


def runout_forecast(left: int, daily: Sequence[int], today: date) -> RunOut:
    """``left``: smallest units that are neither used nor held.  ``daily``: use of whole days, oldest first."""
    width = min(WEEK, len(daily))
    sums = sorted(sum(daily[begin : begin + width]) for begin in range(len(daily) - width + 1)) if width else []
    usual, high = (Fraction(_quantile(sums, percent), max(width, 1)) for percent in (50, 90))
    return RunOut(_day(left, usual, today), _day(left, high, today), usual, high)


def _quantile(values: Sequence[int], percent: int) -> int:
    """The smallest value that at least `percent` of all do not exceed (nearest rank); 0 of nothing."""
    return values[-(-len(values) * percent // 100) - 1] if values else 0


def _day(left: int, rate: Fraction, today: date) -> date | None:
    if left <= 0:
        return today
    if rate <= 0:
        return None
    days = Fraction(left) / rate
    whole = days.numerator // days.denominator
    return today + timedelta(days=whole) if whole <= FARTHEST else None
