"""How long jobs run, from how long jobs like them ran (scheduling §7).

`RunTimes` holds quantiles of past runs by owner, name and size, and by wider groups where those are too few.  `Span` is
the run of one job as a function of a share: `at(u)` seconds are not exceeded by that part of its runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from millpond.scheduling.snapshot import Job, Settings

SHARES = (0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
"""The thousandths of runs whose seconds `RunTimes` knows."""

WHOLE = 1000
SHORTEST = 10
"""Seconds that an unknown run takes at least."""

Key = tuple[str, str, int]
"""Owner, name, milli-cards in all; an empty owner or name, or a size of -1, stands for any."""

ANY_SIZE = -1


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds of past runs at `SHARES`, by group.  Groups with too few runs are not in it."""

    groups: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)

    def of(self, job: Job) -> tuple[int, ...] | None:
        """The closest group that is known."""
        size = job.gpu.milli * job.nodes
        keys = ((job.user, job.name, size), (job.user, "", size), (job.user, "", ANY_SIZE), ("", "", size))
        for key in (*keys, ("", "", ANY_SIZE)):
            found = self.groups.get(key)
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds of one job's run at `SHARES`, never falling."""

    points: tuple[int, ...]

    def at(self, share: int) -> int:
        """Seconds that `share` thousandths of its runs do not exceed."""
        share = min(max(share, 0), WHOLE)
        index = min(share * (len(self.points) - 1) // WHOLE, len(self.points) - 2)
        low, high = SHARES[index], SHARES[index + 1]
        return self.points[index] + (self.points[index + 1] - self.points[index]) * (share - low) // (high - low)

    def share(self, seconds: int) -> int:
        """Thousandths of runs that have ended after `seconds`."""
        index = bisect_right(self.points, seconds)
        if index == 0:
            return 0
        if index == len(self.points):
            return WHOLE
        low, high = self.points[index - 1], self.points[index]
        return SHARES[index - 1] + (SHARES[index] - SHARES[index - 1]) * (seconds - low) // (high - low)

    def after(self, ran: int, share: int, limit: int | None) -> int:
        """Seconds of the whole run of a job that has run for `ran` already, at `share` of what is still possible.

        One that outran all it is compared with is taken to run on for as long again at most.
        """
        gone = self.share(ran)
        if gone < WHOLE:
            seconds = max(ran + 1, self.at(gone + (WHOLE - gone) * share // WHOLE))
        else:
            seconds = ran + max(1, ran * share // WHOLE)
        return seconds if limit is None else max(ran + 1, min(seconds, limit))


def span_of(job: Job, times: RunTimes, settings: Settings) -> Span | None:
    """What is known of a job's run; None if it does not end by itself (a service without a limit).

    Past runs of such jobs, cut at its own limit.  Without any, the limit is all that is known: the run is taken to end
    anywhere before it.  Without a limit either, its logarithm is: runs are as often from 10 s to 100 s as from 1 000 s
    to 10 000 s, up to the assumed limit.
    """
    limit = job.max_duration
    if job.service:
        return None if limit is None else Span((limit,) * len(SHARES))
    past = times.of(job)
    if past is not None:
        return Span(past if limit is None else tuple(min(seconds, limit) for seconds in past))
    if limit is not None:
        return Span(tuple(max(1, limit * share // WHOLE) for share in SHARES))
    return Span(_unknown(settings.assumed_limit))


def _unknown(limit: int) -> tuple[int, ...]:
    """Equal ratios from `SHORTEST` to `limit`."""
    first, parts = max(1, min(SHORTEST, limit)), len(SHARES) - 1
    return tuple(_root(first ** (parts - index) * max(1, limit) ** index, parts) for index in range(parts + 1))


def _root(value: int, degree: int) -> int:
    """The largest whole number whose power of that degree is at most `value`, by bisection."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle
    return low
