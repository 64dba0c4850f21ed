"""How long jobs run, from how long jobs like them ran (scheduling §7).

`RunTimes` holds quantiles of runs by owner, name and size, and by wider groups where those are too few.  A run that has
not ended by itself (it is still going, or was evicted) is known to be at least so long, and counts as that: leaving
such runs out would make all runs look short, since the long ones are the last to end (Kaplan & Meier, *Nonparametric
Estimation from Incomplete Observations*, 1958).  `Span` is the run of one job as a function of a share: `at(u)` seconds
are not exceeded by that part of its runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from millpond.domain.records import RunRecord
from millpond.scheduling.snapshot import Job, Settings

SHARES = (0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
"""The thousandths of runs whose seconds `RunTimes` knows."""

WHOLE = 1000
SHORTEST = 10
"""Seconds that an unknown run takes at least."""

Key = tuple[str, str, int]
"""Owner, name, milli-cards in all; an empty owner or name, or a size of -1, stands for any."""

ANY_SIZE = -1

RUNS_MIN = 5
"""Ended runs that a group needs before it says anything."""

RUNS_MAX = 100
"""The latest runs of a group that count: what people run changes, and old runs would outvote the new ones."""

_ONE = 1_000_000_000
"""The whole, where shares are multiplied many times."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds of past runs at `SHARES`, by group.  Groups with too few runs are not in it."""

    groups: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)

    def of(self, job: Job) -> tuple[int, ...] | None:
        """The closest group that is known."""
        for key in keys_of(job.user, job.name, job.gpu.milli * job.nodes):
            found = self.groups.get(key)
            if found is not None:
                return found
        return None


def times_make(runs: Iterable[RunRecord]) -> RunTimes:
    """What the latest runs say of each group with `RUNS_MIN` of them that ended.

    `runs` by their start, the latest first: among those that began last, as many are still going as there should be.
    """
    members: dict[Key, list[tuple[int, bool]]] = {}
    for run in runs:
        seen = (max(1, run.seconds), run.ended)
        for key in keys_of(run.user, run.name, run.milli):
            found = members.setdefault(key, [])
            if len(found) < RUNS_MAX:
                found.append(seen)
    return RunTimes(
        {
            key: survival_points(found, SHARES)
            for key, found in members.items()
            if sum(1 for _, ended in found if ended) >= RUNS_MIN
        }
    )


def keys_of(user: str, name: str, size: int) -> tuple[Key, ...]:
    """The groups of a job, the closest first."""
    return ((user, name, size), (user, "", size), (user, "", ANY_SIZE), ("", "", size), ("", "", ANY_SIZE))


def survival_points(seen: Iterable[tuple[int, bool]], shares: Sequence[int]) -> tuple[int, ...]:
    """The values that `shares` (thousandths, rising) of all do not exceed; `seen` are pairs (value, exact).

    Where a value is not exact, the true one is larger (right-censored).  The product-limit estimate, in billionths; the
    largest value of all, exact or not, stands for what is beyond (Efron's tail).  `seen` must not be empty.
    """
    ordered = sorted((value, not exact) for value, exact in seen)  # of equal values the exact ones first
    total, left, found, wanted = len(ordered), _ONE, list[int](), list(shares)
    for place, (value, censored) in enumerate(ordered):
        if not censored:
            left = left * (total - place - 1) // (total - place)
            while wanted and (_ONE - left) * WHOLE >= wanted[0] * _ONE:
                found.append(value)
                del wanted[0]
    return (*found, *(ordered[-1][0] for _ in wanted))


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
