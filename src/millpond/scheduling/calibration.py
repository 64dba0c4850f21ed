"""What earlier promises teach about new ones (scheduling §7): intervals that would have held.

A miss is how far from the middle a start lay, in thousandths of the way from P50 to P90, or to P10 before it.  The
quantiles of past misses correct the next forecast (split-conformal prediction: Vovk et al., *Algorithmic Learning in a
Random World*, 2005, ch. 2), each horizon by its own past (Mondrian, ch. 4), since a start in five minutes and one
tomorrow are missed in different ways.  Who still waits has missed by at least so much already, and counts as that:
looking at starts alone would believe the quick.  Jobs behind one queue are early or late together, so of each hour only
a few promises count; else one crowded evening would teach everything (conformal prediction with groups: Dunn et al.,
*Distribution-Free Prediction Sets for Two-Layer Hierarchical Models*, 2022).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from millpond.scheduling.history import WHOLE, survival_points

HORIZON = 14 * 86_400
"""Nobody is told a start later than this many seconds from now."""

SCORES_MIN = 30
"""Promises of one kind that must have been kept or broken before they correct new ones."""

SCORES_MAX = 600
"""Of one kind the latest count, until so many of them have started."""

HOUR = 3_600
PER_HOUR = 8
"""So many promises of one hour count, spread over the near and the far: a hundred jobs behind one queue are early or
late together, and say no more than a few of them do."""

_CLASSES = (600, 1_800, 7_200, 28_800)
"""Seconds to the middle of a forecast that divide near from far."""

_WIDTH_MIN, _WIDTH_PART = 60, 4
"""Intervals are taken to be at least this wide, seconds and part of the way to the middle, when they are judged:
scenarios that happen to agree say little about how sure they are."""

_POINTS = (100, 500, 900)


@dataclass(frozen=True, slots=True)
class Eta:
    """Seconds of the snapshot's clock before which 10, 50 and 90 % of such jobs start; None: beyond the horizon."""

    p10: int | None
    p50: int | None
    p90: int | None


@dataclass(frozen=True, slots=True)
class Score:
    """A raw forecast and what came of it, all in seconds from the moment of the promise.

    ``started`` is false for a job that still waits, after ``start`` seconds.  ``made`` is the moment of the promise.
    """

    p10: int
    p50: int
    p90: int
    start: int
    started: bool = True
    made: int = 0


@dataclass(frozen=True, slots=True)
class Lesson:
    """Where 10, 50 and 90 % of past starts lay: thousandths of the way from P50 to P90 (above 0) or to P10 (below)."""

    low: int = -WHOLE
    middle: int = 0
    high: int = WHOLE

    def correct(self, raw: Eta, now: int) -> Eta:
        """The interval that would have held for 80 % of past promises."""
        if raw.p50 is None or raw.p10 is None:
            return raw
        p90 = raw.p90 if raw.p90 is not None else now + HORIZON
        below, above = _widths(raw.p10 - now, raw.p50 - now, p90 - now)
        points: list[int | None] = []
        for share in (self.low, self.middle, self.high):
            point = raw.p50 + share * (above if share > 0 else below) // WHOLE
            points.append(max(now, point) if point - now < HORIZON else None)
        return Eta(points[0], points[1], points[2])


@dataclass(frozen=True, slots=True)
class Calibration:
    """The lessons of each horizon, near to far; None where too few promises were judged, as all are without any."""

    lessons: tuple[Lesson | None, ...] = (None,) * (len(_CLASSES) + 1)

    def correct(self, raw: Eta, now: int) -> Eta:
        """The interval that would have held for 80 % of past promises as far ahead as this one."""
        lesson = None if raw.p50 is None else self.lessons[_class(raw.p50 - now)]
        return raw if lesson is None else lesson.correct(raw, now)


def calibration_make(scores: Iterable[Score]) -> Calibration:
    """What past promises teach; a horizon with too few of its own is taught by all together."""
    common, groups = _Misses(), [_Misses() for _ in range(len(_CLASSES) + 1)]
    for score in scores:
        common.put(score)
        groups[_class(score.p50)].put(score)
    return Calibration(tuple(group.lesson() or common.lesson() for group in groups))


class _Misses:
    """Misses of one kind of promises, by the hour."""

    def __init__(self) -> None:
        self._hours: dict[int, list[Score]] = {}

    def put(self, score: Score) -> None:
        self._hours.setdefault(score.made // HOUR, []).append(score)

    def lesson(self) -> Lesson | None:
        seen: list[tuple[int, bool]] = []
        started = 0
        for hour in sorted(self._hours, reverse=True):
            for score in _spread(self._hours[hour]):
                seen.append((_miss(score), score.started))
                started += score.started
            if started >= SCORES_MAX:
                break
        if started < SCORES_MIN:
            return None
        low, middle, high = survival_points(seen, _POINTS)
        return Lesson(low, middle, high)


def _spread(scores: list[Score]) -> list[Score]:
    """`PER_HOUR` of them, from the nearest to the farthest."""
    if len(scores) <= PER_HOUR:
        return scores
    ordered = sorted(scores, key=_place)
    return [ordered[(2 * number + 1) * len(ordered) // (2 * PER_HOUR)] for number in range(PER_HOUR)]


def _place(score: Score) -> tuple[int, int, bool]:
    return score.p50, score.start, score.started


def _class(ahead: int) -> int:
    return bisect_right(_CLASSES, ahead)


def _miss(score: Score) -> int:
    below, above = _widths(score.p10, score.p50, score.p90)
    late = score.start - score.p50
    return late * WHOLE // (above if late > 0 else below)


def _widths(p10: int, p50: int, p90: int) -> tuple[int, int]:
    """How far P10 and P90 are from P50, at least a little."""
    least = max(_WIDTH_MIN, p50 // _WIDTH_PART)
    return max(p50 - p10, least), max(p90 - p50, least)
